"""A release of a table in partitions: the same flow, and nothing that can be read on the disk while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import frictionless
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
from tasks.record import ledger
from tasks.record.decision import Decision
from tasks.record.dossier import read_dossier
from tests.limits import with_any_loss

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]

CANARY, NUMBER, LEVEL = "CANARY4711", 9_151.62342, "LEVEL-OF-ONE-PERSON"
PLAN = """
anonflow: 1
name: people
engine: local
source: {{path: people{suffix}}}
variables:
  - {{name: id, kind: nominal, role: identifier}}
  - {{name: age, kind: continuous}}
  - {{name: wages, kind: continuous}}
  - {{name: total, kind: continuous}}
  - {{name: region, kind: nominal}}
edits:
  rules:
    - {{edit: linear, name: total, terms: {{wages: 1, total: -1}}, dependent: total}}
    - {{edit: bound, name: age, variable: age, lower: 18, upper: 80}}
reference: {{kind: {reference}}}
steps:
  - {{method: rare-levels, k: 5, action: redistribute}}
  - {step}
assessment: {{margin: 0.3}}
{more}
"""


def _plan(
    folder: Path,
    reference: str = "holdout",
    more: str = "",
    suffix: str = "",
    step: str = "{method: spectral-swap}",
) -> Path:
    rng, records = np.random.default_rng(5), 1600
    wages = np.round(rng.gamma(2.0, 900.0, records), 5)
    wages[17] = NUMBER
    region = rng.choice(["north", "east", "west"], records).astype(object)
    region[40] = LEVEL
    frame = pd.DataFrame(
        {
            "id": [f"{CANARY}-{number}" for number in range(records)],
            "age": rng.integers(18, 80, records),
            "wages": wages,
            "total": wages,
            "region": region,
        }
    )
    (folder / "people").mkdir()
    for number, part in enumerate((frame[:900], frame[900:])):
        part.to_parquet(folder / "people" / f"{number}.parquet", index=False)
    path = folder / "people.yaml"
    more = with_any_loss(more or "policy: {approval: person}")
    path.write_text(PLAN.format(reference=reference, more=more, suffix=suffix, step=step))
    return path


class _Watched(Direct):
    """Looks after every step before publication for what could be read on the disk: what a killed run leaves."""

    def __init__(self, home: Home) -> None:
        super().__init__()
        self.home = home
        self.watched: list[str] = []

    def call(self, label: str, function: Callable[..., Any], *args: Any, retry: bool) -> Any:
        result = super().call(label, function, *args, retry=retry)
        if "Write the candidate" not in self.seconds and label != "Write the candidate":
            self.watched.append(label)
            for path in self.home.path.rglob("*"):
                content = path.read_bytes() if path.is_file() else b""
                assert not any(one in content for one in _secrets()), f"{path.name} after: {label}"
                assert not content.startswith((b"PAR1", b"PK")), f"{path.name} is not encrypted after: {label}"
        return result


def _secrets() -> tuple[bytes, ...]:
    return CANARY.encode(), LEVEL.encode(), np.float64(NUMBER).tobytes()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions, blocks and sub-tables of a few hundred records."""
    monkeypatch.setattr(partitions, "ROWS", 500)
    monkeypatch.setattr(masking, "BLOCK_ROWS", 450)
    monkeypatch.setattr(split, "SUB_TABLE", 300)
    monkeypatch.setattr(full_release, "PEOPLE", 200)


def test_a_table_in_partitions_is_published_in_parts_and_never_lies_readably_on_the_disk(tmp_path, small):
    file, home = load_plan(_plan(tmp_path)), Home.locate(tmp_path / "home")
    runner = _Watched(home)
    outcome = carry_out(file, home, runner)
    assert "Measure the full release" in runner.watched
    assert outcome.status == "awaiting", outcome.reason
    outcome = decide(home, Decision(act="approve", release=outcome.release, by="A. Smith", reason="read the report"))
    assert outcome.status == "published"
    assert verify_release(outcome.folder) == []
    assert ledger.problems(home) == []
    assert not list(home.workspaces.iterdir())
    parts = sorted(outcome.folder.glob("data-*.parquet"))
    released = pd.concat(map(pd.read_parquet, parts))
    dossier = read_dossier(home, outcome.release)
    full = dossier.assessment.full_release
    assert len(parts) > 1
    held = {f.name: f.records for f in dossier.release.files if f.name.endswith(".parquet")}
    assert held == {part.name: len(pd.read_parquet(part)) for part in parts}
    package = frictionless.Package(str(outcome.folder / "datapackage.json"))
    assert len(package.get_resource("data-csv").read_rows()) == len(released)
    assert len(released) == dossier.release.records == full.records.released == 800
    assert dossier.assessment.records.original == 300
    assert (released["total"] == released["wages"]).all()
    assert set(released["region"]) == {"north", "east", "west"}
    assert {rule.checked for rule in dossier.edits.masked.rules if rule.name == "total"} == {len(released)}
    assert any(gate.name == "identical records, full release" for gate in dossier.verdict.gates)
    assert "sub-table" in (outcome.folder / "report.html").read_text()
    again = carry_out(replace(file, plan=file.plan.model_copy(update={"engine": "memory"})), home, Direct())
    assert (again.status, again.release) == ("unchanged", outcome.release)


def test_a_table_without_numbers_is_released_in_partitions_and_leaves_units_out_of_utility(tmp_path, small):
    path = _plan(tmp_path, reference="cross")
    text = path.read_text().replace("kind: continuous}", "kind: continuous, role: excluded}")
    path.write_text(text[: text.index("edits:")] + text[text.index("reference:") :])
    source, draw = tmp_path / "people", np.random.default_rng(6)
    for part in source.iterdir():
        frame = pd.read_parquet(part)[:150]
        frame.assign(region=draw.choice(["north", "east", "west"], len(frame))).to_parquet(part, index=False)
    home = Home.locate(tmp_path / "home")
    outcome = carry_out(load_plan(path), home, Direct())
    assert outcome.status in ("awaiting", "rejected"), outcome.reason
    assert read_dossier(home, outcome.release).assessment.utility.units_left_out == 60


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"reference": "file, source: {path: people}"}, "has no reference of kind file"),
        ({"suffix": ".sav"}, "reads Parquet and CSV files"),
        ({"step": "{method: extreme-records}"}, "has no extreme-records, since .* optimal-boxes"),
        ({"step": "{method: spectral-synthesis, records: 9}"}, "has no spectral-synthesis with records, since"),
        ({"step": "{method: mdav, k: 3, within: [region]}"}, "has no mdav with within, .* do not: (?!.*mdav)"),
        ({"more": "series: {kind: register}"}, "has no series"),
        ({"more": "publication: {formats: [spss]}"}, "publishes parquet or csv files, and not spss"),
    ],
)
def test_plans_that_need_the_table_in_memory_are_refused_before_it_is_read(tmp_path, plan, message):
    with pytest.raises(Refused, match=message):
        load_plan(_plan(tmp_path, **plan))


@pytest.mark.parametrize(
    ("plan", "by_sub_table"),
    [
        ({"more": "policy: {approval: person}"}, True),
        ({"more": "publication: {formats: [spss]}"}, True),
        ({"reference": "leave-one-out"}, True),
        ({"step": "{method: rare-levels, k: 5, action: suppress}"}, False),
        ({"more": "series: {kind: register}"}, False),
    ],
)
def test_large_tables_in_memory_are_judged_by_a_sub_table_where_partitions_would_be(tmp_path, plan, by_sub_table):
    from flows.plan.engine import judged_by_sub_table, obstacles

    path = _plan(tmp_path, **plan)
    path.write_text(path.read_text().replace("engine: local", "engine: memory"))
    given = load_plan(path).plan
    assert judged_by_sub_table(given) is by_sub_table
    every = given.assessment.model_copy(update={"exhaustive": True})
    assert not judged_by_sub_table(given.model_copy(update={"assessment": every}))
    (problem,) = set(obstacles(given.model_copy(update={"assessment": every}))) - set(obstacles(given))
    assert problem == "compares no record with every other (assessment: exhaustive)"


def test_auto_chooses_partitions_by_the_size_that_the_files_state(tmp_path, monkeypatch):
    from flows.plan import engine

    file = load_plan(_plan(tmp_path)).with_engine("auto")
    assert not engine.beyond_memory(file.plan, file.base)
    monkeypatch.setattr(engine, "MOST_IN_MEMORY", 1600 * 5 - 1)
    assert engine.beyond_memory(file.plan, file.base)
    (tmp_path / "people.csv").write_bytes(b"1234," * 8000)
    as_csv = file.plan.model_copy(update={"source": file.plan.source.model_copy(update={"path": "people.csv"})})
    assert engine.beyond_memory(as_csv, file.base)
    assert not engine.beyond_memory(file.with_engine("memory").plan, file.base)
    with pytest.raises(Refused, match="--engine must be one of memory, local, dask, auto"):
        file.with_engine("spark")
