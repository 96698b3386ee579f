"""A group hidden in a table in partitions: the same plan, release, verdict and custodian's page as in memory."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from tasks.assessment import full_release
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.decision.approval import decide
from tasks.intake import partitions, split
from tasks.masking import partitions as masking
from tasks.publication.manifest import verify_release
from tasks.record.decision import Decision
from tests.limits import UTILITY

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]

AREAS = list("abcdefgh")
MEMBERS = [61, 23, 131, 37, 29, 83, 17, 313]
ALONE = f"{{{UTILITY}, individual_protection: none, individual_protection_reason: invented people}}"
SWAPPED = f"{{{UTILITY}, approval: person}}"
PLAN = """
anonflow: 1
name: garrison
engine: ENGINE
source: {path: people}
variables:
  - {name: id, kind: nominal, role: identifier}
  - {name: area, kind: nominal, role: area, levels: [a, b, c, d, e, f, g, h, elsewhere]}
  - {name: service, kind: ordinal, role: sensitive, levels: [0, 1, 2, 3]}
  - {name: age, kind: continuous, role: quasi-identifier, precision: 1}
  - {name: sex, kind: binary, role: quasi-identifier, levels: [f, m]}
  - {name: income, kind: continuous, role: sensitive}
  - {name: tax, kind: continuous, role: sensitive}
  - {name: net, kind: continuous, role: sensitive}
edits: {rules: [{edit: linear, name: net, terms: {income: 1, tax: -1, net: -1}, dependent: net}]}
reference: {kind: REFERENCE}
assessment: {margin: 0.3, sample_above: 1000}
steps:
  - method: group-anonymity
    vital: [{service: [2, 3]}]
    parameter: area
    order: [a, b, c, d, e, f, g, h]
    caps: {h: 100}
    details: winsorised
    match_on: [age, sex]
  MORE
policy: POLICY
seed: {public: 5, data_are_public: true}
"""


def people(records: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    area = rng.integers(0, 9, records)
    serves = np.zeros(records, dtype=bool)
    for place, count in enumerate(MEMBERS):
        serves[rng.choice(np.flatnonzero(area == place), count, replace=False)] = True
    income, tax = (rng.gamma(4.0, scale, records).round(2) for scale in (700, 200))
    return pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(records)],
            "area": np.array([*AREAS, "elsewhere"])[area],
            "service": np.where(serves, rng.choice([2, 3], records), rng.choice([0, 1], records)),
            "age": rng.integers(18, 80, records),
            "sex": rng.choice(["f", "m"], records),
            "income": income,
            "tax": tax,
            "net": (income - tax).round(2),
        }
    )


def write(folder: Path, engine: str, reference: str, step: str = "") -> Path:
    source = folder / "people"
    if not source.exists():
        source.mkdir()
        for number, part in enumerate((people()[:1900], people()[1900:])):
            part.to_parquet(source / f"{number}.parquet", index=False)
    text = PLAN.replace("ENGINE", engine).replace("REFERENCE", reference)
    text = text.replace("MORE", f"- {step}" if step else "").replace("POLICY", SWAPPED if step else ALONE)
    path = folder / f"{engine}.yaml"
    path.write_text(text)
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions, blocks and sub-tables of a few hundred records."""
    monkeypatch.setattr(partitions, "ROWS", 900)
    monkeypatch.setattr(masking, "BLOCK_ROWS", 800)
    monkeypatch.setattr(split, "SUB_TABLE", 400)
    monkeypatch.setattr(full_release, "PEOPLE", 200)


def counts(frame: pd.DataFrame) -> list[int]:
    member = frame["service"].isin([2, 3])
    return frame.loc[member, "area"].astype(str).value_counts().reindex(AREAS, fill_value=0).tolist()


@pytest.mark.parametrize(
    ("step", "reference"),
    [("", "leave-one-out"), ("{method: spectral-swap}", "leave-one-out"), ("{method: spectral-swap}", "cross")],
)
def test_a_group_is_hidden_in_partitions_as_in_memory(tmp_path, small, step, reference):
    releases, verdicts, told = [], [], []
    for engine in ("memory", "local"):
        home = Home.locate(tmp_path / f"home-{engine}")
        outcome = carry_out(load_plan(write(tmp_path, engine, reference, step)), home, Direct())
        verdicts.append([(gate.name, gate.verdict, gate.figure) for gate in outcome.gates])
        kept = home.path / "assessments" / outcome.release
        told.append(json.loads((kept / "dossier.json").read_text())["assessment"])
        assert outcome.status == "awaiting", outcome.reason
        (page,) = kept.glob("custodian-step1.html")
        shown = re.sub(r"<[^>]+>", " ", page.read_text())
        assert all(f" {n} " in shown for n in MEMBERS)
        done = decide(home, Decision(act="approve", release=outcome.release, by="A. Smith", reason="fine"))
        assert verify_release(done.folder) == []
        parts = sorted(done.folder.glob("data*.parquet"))
        assert (len(parts) > 1) == (engine == "local")
        frame = pd.concat(map(pd.read_parquet, parts))
        releases.append(frame.sort_values(list(frame), ignore_index=True))
        for path in done.folder.iterdir():
            if path.suffix in (".md", ".json", ".html"):
                text = re.sub(r'"[0-9a-f]{16,}"|base64,[A-Za-z0-9+/=]+', "", path.read_text())
                assert not re.search(r"\b(313|131)\b", text), path.name
    pd.testing.assert_frame_equal(*releases, check_dtype=False, check_categorical=False)
    assert verdicts[0] == verdicts[1]
    assert told[0]["claims"] == told[1]["claims"]
    assert told[0]["method_figures"] == told[1]["method_figures"]
    released, source = releases[1], people()
    assert counts(source) == MEMBERS
    assert counts(released)[7] <= 100
    assert sum(counts(released)) == sum(MEMBERS)
    assert (released["income"] - released["tax"] - released["net"]).abs().max() < 1e-6
    assert released["area"].astype(str).value_counts().to_dict() == source["area"].value_counts().to_dict()
    waived = {name for name, verdict, _ in verdicts[1] if verdict == "waived"}
    assert ("identical records, full release" in waived) == (not step)
    assert {claim["kind"]: claim["holds"] for claim in told[1]["claims"]}["GroupCounts"]


def test_a_group_hidden_after_blocks_were_masked_is_refused_in_partitions(tmp_path):
    path = write(tmp_path, "local", "leave-one-out", "{method: spectral-swap}")
    text = path.read_text()
    steps = text[text.index("  - method") : text.index("policy")]
    first, second = steps.split("  - {method: spectral-swap}")
    path.write_text(text.replace(steps, "  - {method: spectral-swap}\n" + first.rstrip() + second))
    with pytest.raises(Refused, match=r"has no group-anonymity after spectral-swap, .*: put it before"):
        load_plan(path)
    path.write_text(path.read_text().replace("engine: local", "engine: memory"))
    assert [step.method for step in load_plan(path).plan.steps] == ["spectral-swap", "group-anonymity"]


def test_weights_are_refused_in_partitions(tmp_path):
    path = write(tmp_path, "local", "leave-one-out")
    path.write_text(path.read_text().replace("    match_on", "    weight: income\n    match_on"))
    with pytest.raises(Refused, match="has no group-anonymity with weight"):
        load_plan(path)
