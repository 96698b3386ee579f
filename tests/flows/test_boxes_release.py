"""Boxes from plan to published file: what a reader computes from it holds for the people who were masked."""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from anoncore import read_boxes
from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from tasks.assessment import full_release
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.intake import partitions as intake
from tasks.intake import split
from tasks.masking import partitions as masking
from tasks.publication.manifest import verify_release
from tests.limits import ANY_LOSS, UTILITY

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]

SEED = {"public": 12, "data_are_public": True}
# What is tested are ranges and their claims, not how many people it takes to prove a release harmless.
POLICY = (
    f"policy: {{by_design: [ambiguity, uncertainty], membership_auc: 0.9, {UTILITY}}}\n"
    "seed: {public: 12, data_are_public: true}"
)
STEP = (
    "{method: optimal-boxes, k: 8, l: 2, rare: fuzzy, limits: {age: [18, 99]}, statistics: "
    "[{statistic: mean, of: [net], accuracy: 100}, {statistic: correlation, of: [net, tax], probability: 2}]}"
)
MEANS = "{method: optimal-boxes, k: 40, release: means}"


class Watching(Direct):
    """A runner that keeps what was masked, which no release tells."""

    def call(self, label, function, *args, retry):
        result = super().call(label, function, *args, retry=retry)
        if label == "Mask the records":
            self.released = result.released.load()
            self.original = args[1].load().frame.loc[self.released.frame.index]
        return result


def carried_out(plan: Path, home: Path):
    runner = Watching()
    return carry_out(load_plan(plan), Home.locate(home), runner), runner


def true_value(frame, name, *of):
    values = frame[list(of)].dropna().to_numpy(dtype=float)
    if name == "correlation":
        return np.corrcoef(values.T)[0, 1]
    if name == "covariance":
        return np.cov(values.T, ddof=0)[0, 1]
    return {"mean": np.mean, "variance": np.var, "sd": np.std}[name](values[:, 0])


def text_of(report: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", report.read_text()))


def published(folder: Path, frame: pd.DataFrame, variables: list[dict], step: dict, asked: list[tuple]):
    """Publish a table as boxes for all of ``asked``; check ranges, claims and codebook of both files."""
    frame.to_csv(folder / "people.csv", index=False)
    step = {"method": "optimal-boxes", **step}
    step["statistics"] = [{"statistic": name, "of": list(of)} for name, *of in asked]
    plan = {
        "anonflow": 1,
        "name": "people",
        "source": {"path": "people.csv"},
        "variables": variables,
        "steps": [step],
        "assessment": {"margin": 0.2},
        "policy": {"by_design": ["ambiguity", "uncertainty"], "utility": ANY_LOSS},
        "seed": SEED,
    }
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
    outcome, runner = carried_out(folder / "plan.yaml", folder / "home")
    assert outcome.status in ("published", "awaiting"), outcome.reason
    at = outcome.folder or next((folder / "home").rglob("data.csv")).parent
    columns = json.loads((at / "codebook.json").read_text())["variables"]
    files = [pd.read_parquet(at / "data.parquet"), pd.read_csv(at / "data.csv")]
    for file in files:
        assert file.columns.tolist() == [v["name"] for v in columns]
        assert file.groupby(list(file.columns), dropna=False).size().min() >= step["k"]
    assert all(v["description"] for v in columns if v["name"].endswith(("_lo", "_hi", "_distinct")))
    for kind in ("parquet", "csv"):
        read = read_boxes(at / f"data.{kind}")
        assert read.check(step["k"], step.get("l")).passed
        for name, *of in asked:
            found = read.estimate(name, *of)
            low, high = found.guaranteed
            true = true_value(runner.original, name, *of)
            assert low <= true <= high, (name, of)
            assert found.linearised[0] <= found.value <= found.linearised[1]
    return outcome, runner, files[0]


# ---------------------------------------------------------------- a small office with edits


OFFICE = f"""
anonflow: 1
name: office
source: {{path: people.csv}}
variables:
  - {{name: person, kind: nominal, role: identifier}}
  - {{name: gross, kind: continuous, role: sensitive}}
  - {{name: tax, kind: continuous, role: sensitive}}
  - {{name: net, kind: continuous, role: sensitive, description: what is left}}
  - {{name: age, kind: continuous, role: quasi-identifier}}
  - {{name: sex, kind: binary, role: quasi-identifier, levels: [f, m]}}
  - {{name: children, kind: ordinal, levels: [0, 1, 2, 3]}}
  - {{name: region, kind: nominal, role: quasi-identifier}}
  - {{name: births, kind: continuous}}
edits:
  rules:
    - {{edit: linear, name: sum, terms: {{net: 1, tax: 1, gross: -1}}, dependent: gross}}
    - {{edit: bound, name: taxes, variable: tax, lower: 0, upper: 20000}}
assessment: {{margin: 0.2}}
steps:
  - {STEP}
{POLICY}
"""


@pytest.fixture(scope="module")
def ranges(tmp_path_factory, people):
    folder = tmp_path_factory.mktemp("ranges")
    people(1200).to_csv(folder / "people.csv", index=False)
    (folder / "office.yaml").write_text(OFFICE)
    return carried_out(folder / "office.yaml", folder / "home")


def test_a_release_of_ranges_is_published_whole(ranges):
    outcome, _ = ranges
    assert outcome.status == "published", outcome.reason
    assert verify_release(outcome.folder) == []
    file = pd.read_csv(outcome.folder / "data.csv")
    for name in ("gross", "tax", "net", "age", "births"):
        assert {f"{name}_lo", f"{name}_hi", f"{name}_distinct"} <= set(file)
        assert name not in file
    assert {"box", "weight", "sex", "children", "region"} <= set(file)
    assert "person" not in file
    # From the step, and from an edit.
    assert (file["age_lo"].min(), file["age_hi"].max()) == (18, 99)
    assert file["tax_lo"].min() == 0
    assert file["tax_hi"].max() <= 20_000


def test_the_reader_gets_ranges_that_hold_for_the_people_masked(ranges):
    outcome, runner = ranges
    for kind in ("parquet", "csv"):
        read = read_boxes(outcome.folder / f"data.{kind}")
        for name, *of in [
            ("mean", "net"), ("variance", "tax"), ("sd", "age"), ("covariance", "net", "tax"),
            ("correlation", "net", "tax"), ("mean", "births"), ("correlation", "age", "births"),
        ]:  # fmt: skip
            low, high = read.estimate(name, *of).guaranteed
            assert low <= true_value(runner.original, name, *of) <= high


def test_claims_hold_and_are_gates(ranges):
    outcome, _ = ranges
    verdicts = {g.name: g.verdict for g in outcome.gates}
    assert verdicts["8-anonymity on all released variables"] == "pass"
    assert verdicts["at least 2 values of gross, tax, net, age, births in each box"] == "pass"
    assert "membership by boxes" in verdicts
    assert read_boxes(outcome.folder / "data.csv").check(8, 2).passed


def test_the_report_tells_both_estimates_and_the_bias(ranges):
    outcome, _ = ranges
    read = read_boxes(outcome.folder / "data.parquet")
    told = text_of(outcome.folder / "report.html")
    assert "biased for the population" in told
    assert "Boxes for chosen statistics" in told
    for weights in (False, True):
        value = str(read.estimate("mean", "net", weights=weights)).split(",")[0]
        assert value.removeprefix("weighted ")[1:] in told
    assert "weighted mean(net) = " in told


def test_ranges_leave_no_more_than_the_sum_does(ranges):
    outcome, _ = ranges
    file = pd.read_parquet(outcome.folder / "data.parquet").drop_duplicates("box")
    low, high = ({n: file[f"{n}_{end}"].to_numpy() for n in ("net", "tax", "gross")} for end in ("lo", "hi"))
    # An end lies less than a unit beyond the last possible value.
    assert (high["gross"] <= high["net"] + high["tax"] + 1).all()
    assert (low["gross"] >= low["net"] + low["tax"] - 1).all()
    assert (high["net"] <= high["gross"] - low["tax"] + 2).all()
    assert (low["tax"] >= low["gross"] - high["net"] - 2).all()
    assert "anges were narrowed to what the edits sum leave" in text_of(outcome.folder / "report.html")


@pytest.mark.parametrize("kind", ["holdout", "leave-one-out", "file"])
def test_boxes_beside_every_kind_of_reference(kind, office, people, tmp_path):
    reference = f"reference:\n  kind: {kind}\n"
    if kind == "file":
        others = people(900, seed=2)
        others.assign(person=others["person"] + "b").to_csv(tmp_path / "others.csv", index=False)
        reference += "  source: {path: others.csv}\n"
    step = "{method: optimal-boxes, k: 8}"
    plan = office(people(900), step=step, more=reference + POLICY, margin=0.2)
    outcome, _ = carried_out(plan, tmp_path / "home")
    assert outcome.status in ("published", "awaiting", "rejected"), outcome.reason
    told = json.loads(next((tmp_path / "home").rglob("dossier.json")).read_text())["assessment"]["risk"]["boxes"]
    assert told["original"]["inside"] == 1.0
    assert (told["reference"] is None) == (told["membership"] is None) == (kind == "leave-one-out")
    if kind != "leave-one-out":
        assert 0.5 < told["reference"]["inside"] <= 1.0
    report = next((tmp_path / "home").rglob("report.html"))
    assert "Largest re-identification" in text_of(report)


def test_after_another_step_the_report_says_whose_values_are_enclosed(ranges, office, people, tmp_path):
    step = "{method: extreme-records}\n  - {method: optimal-boxes, k: 8}"
    carried_out(office(people(900), step=step, more=POLICY, margin=0.2), tmp_path / "home")
    report = text_of(next((tmp_path / "home").rglob("report.html")))
    assert "hold for the values after step 1, not of the source's" in report
    assert "hold for the values after" not in text_of(ranges[0].folder / "report.html")


def test_rows_are_in_no_order_of_the_source(ranges):
    outcome, runner = ranges
    boxes = pd.read_parquet(outcome.folder / "data.parquet")["box"].to_numpy(dtype=float)
    assert not np.array_equal(boxes, runner.released.frame["box"].to_numpy())
    assert abs(np.corrcoef(np.arange(len(boxes)), boxes)[0, 1]) < 0.2


def test_figures_of_the_boxes_are_published_and_tracked(ranges):
    outcome, _ = ranges
    figures = json.loads((outcome.folder / "assessment.json").read_text())["assessment"]
    assert figures["risk"]["boxes"]["original"]["inside"] == 1.0
    assert figures["risk"]["boxes"]["original"]["largest_reidentification"] <= 1 / 8
    assert figures["method_figures"]["step1.smallest_box"] >= 8
    assert figures["method_figures"]["step1.mean_net.guaranteed"] > 0


def test_means_keep_sums_and_schema(office, people, tmp_path):
    step = "{method: optimal-boxes, k: 40, release: means}"
    outcome, _ = carried_out(office(people(1200), step=step, more=POLICY, margin=0.2), tmp_path / "home")
    assert outcome.status == "published", outcome.reason
    file = pd.read_parquet(outcome.folder / "data.parquet")
    assert (file["net"] + file["tax"] == file["gross"]).all()
    assert file["births"].isna()[file["sex"] == "m"].all()
    assert file.groupby(list(file.columns), dropna=False).size().min() >= 40
    assert not any(n.endswith(("_lo", "_hi")) for n in file)


def test_steps_before_the_boxes_are_told_in_their_levels(office, people, tmp_path):
    frame = people(1200)
    frame.loc[:9, "region"] = "west"
    steps = (
        "{method: rare-levels, k: 30, label: elsewhere}\n  - {method: extreme-records}\n"
        "  - {method: optimal-boxes, k: 8, categorical: constant}"
    )
    outcome, runner = carried_out(office(frame, step=steps, more=POLICY, margin=0.2), tmp_path / "home")
    assert "west" not in set(runner.released.frame["region"])
    told = json.loads(next((tmp_path / "home").rglob("dossier.json")).read_text())["assessment"]["risk"]["boxes"]
    # Boxes of one place and different levels are told apart, so that a person is in one of them.
    assert told["original"]["reidentification"] > 0.05
    assert outcome.status != "published" or "west" not in (outcome.folder / "data.csv").read_text()


def test_an_extreme_value_is_nowhere_in_the_home(office, people, tmp_path):
    frame = people(400)
    secret = 918273645
    frame.loc[5, ["net", "gross"]] = secret - frame.loc[5, "tax"], secret
    for number, more in enumerate(("", ", rare: fuzzy, bounds: grid", ", release: means")):
        home = tmp_path / f"home{number}"
        step = f"{{method: optimal-boxes, k: 8, l: 2{more}}}"
        carried_out(office(frame, step=step, more=POLICY, margin=0.2), home)
        written = [p for p in home.rglob("*") if p.is_file()]
        assert len(written) > 3
        for path in written:
            content = path.read_bytes()
            assert str(secret).encode() not in content
            assert np.float64(secret).tobytes() not in content
            assert np.int64(secret).tobytes() not in content


# ---------------------------------------------------------------- plans that cannot be


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("{method: optimal-boxes, k: 1}", "k must be at least 2, got 1"),
        ("{method: optimal-boxes, limits: {sex: [0, 1]}}", "limits: sex is no continuous variable"),
        (
            "{method: optimal-boxes, statistics: [{statistic: mean, of: [net, tax]}]}",
            "of must name one variable, got net, tax",
        ),
        ("{method: optimal-boxes, statistics: [{statistic: mode, of: [net]}]}", "statistics.1.statistic"),
        (
            "{method: optimal-boxes}\n  - {method: rare-levels}",
            "releases ranges, which no later step can read",
        ),
    ],
)
def test_steps_that_cannot_be_are_refused_with_the_plan(office, step, said):
    with pytest.raises(Refused, match=re.escape(said)):
        load_plan(office(step=step, more=POLICY))


def test_ranges_cannot_be_repaired(office):
    step, policy = "{{method: optimal-boxes, release: {}}}", POLICY
    with pytest.raises(Refused, match="ranges are not repaired; choose set-aside or refuse"):
        load_plan(office(step=step.format("intervals"), on_violation="repair", more=policy))
    for release, done in (("intervals", "set-aside"), ("means", "repair")):
        assert load_plan(office(step=step.format(release), on_violation=done, more=policy)).plan.steps


def test_void_measures_must_be_acknowledged(office):
    with pytest.raises(Refused, match="by_design"):
        load_plan(office(step=STEP))


def test_values_beyond_the_limits_end_the_run_without_telling_them(office, tmp_path):
    step = "{method: optimal-boxes, limits: {age: [18, 60]}}"
    with pytest.raises(Refused, match="limits: values of age lie beyond") as refused:
        carried_out(office(step=step, more=POLICY), tmp_path / "home")
    assert not re.search(r"8\d", str(refused.value))


# ---------------------------------------------------------------- real data


def test_nhefs(nhefs_frame, nhefs_plan, tmp_path):
    names = ["sbp", "dbp", "wt71", "wt82", "age"]
    kept = [v for v in nhefs_plan["variables"] if v["name"] in [*names, "seqn", "sex"]]
    asked = [
        ("mean", "wt82"), ("variance", "sbp"), ("sd", "age"), ("covariance", "wt71", "wt82"),
        ("correlation", "sbp", "dbp"), ("correlation", "age", "sbp"),
    ]  # fmt: skip
    step = {"k": 5, "l": 2, "limits": {"age": [25, 74]}, "rare": "crisp"}
    _, runner, file = published(tmp_path, nhefs_frame[[v["name"] for v in kept]], kept, step, asked)
    # Some pressures and weights are missing: those records form boxes of their own.
    assert file["sbp_lo"].isna().sum() > 0
    assert len(runner.original) > 780


def test_rand_health_insurance(tmp_path):
    path = resources.files("statsmodels") / "datasets" / "randhie" / "randhie.csv"
    frame = pd.read_csv(str(path)).sample(8000, random_state=1)
    numbers = ["mdvis", "lpi", "fmde", "physlm", "disea"]
    levels = ["idp", "hlthg", "hlthf", "hlthp"]
    variables = [{"name": n, "kind": "continuous"} for n in numbers]
    variables += [{"name": n, "kind": "binary", "levels": [0, 1]} for n in levels]
    asked = [
        ("mean", "mdvis"),
        ("sd", "disea"),
        ("covariance", "mdvis", "disea"),
        ("correlation", "lpi", "fmde"),
    ]
    step = {"k": 10, "bounds": "grid", "grid": {"mdvis": 1}, "categorical": "constant"}
    _, runner, file = published(tmp_path, frame[[*numbers, *levels]], variables, step, asked)
    assert set(file["hlthp"]) <= {0, 1}
    assert len(runner.original) > 0.99 * 4000
    boxes = json.loads((next((tmp_path / "home").rglob("assessment.json"))).read_text())["assessment"]["risk"]["boxes"]
    assert boxes["original"]["largest_reidentification"] <= 0.1


# ---------------------------------------------------------------- a large table


LARGE = """
anonflow: 1
name: people
engine: {engine}
source: {{path: people}}
variables:
  - {{name: person, kind: nominal, role: identifier}}
  - {{name: gross, kind: continuous}}
  - {{name: tax, kind: continuous}}
  - {{name: net, kind: continuous}}
  - {{name: age, kind: continuous}}
  - {{name: sex, kind: binary, levels: [f, m]}}
  - {{name: children, kind: ordinal, levels: [0, 1, 2, 3]}}
  - {{name: region, kind: nominal}}
  - {{name: births, kind: continuous}}
edits:
  rules:
    - {{edit: linear, name: sum, terms: {{net: 1, tax: 1, gross: -1}}, dependent: gross}}
    - {{edit: bound, name: taxes, variable: tax, lower: 0, upper: 20000}}
reference: {{kind: {reference}}}
steps:
  - {step}
assessment: {{margin: 0.3, sample_above: 1000}}
{policy}
"""


@pytest.fixture
def large(monkeypatch, tmp_path, people):
    """Partitions, blocks and sub-tables of a few hundred of 2400 people; return what writes a plan."""
    monkeypatch.setattr(intake, "ROWS", 700)
    monkeypatch.setattr(masking, "BLOCK_ROWS", 500)
    monkeypatch.setattr(split, "SUB_TABLE", 400)
    monkeypatch.setattr(full_release, "PEOPLE", 200)
    frame = people(2400)
    (tmp_path / "people").mkdir()
    for number, part in enumerate(np.array_split(np.arange(2400), 2)):
        frame.iloc[part].to_parquet(tmp_path / "people" / f"{number}.parquet", index=False)

    def written(engine: str, step: str, reference: str) -> Path:
        path = tmp_path / f"{engine}.yaml"
        path.write_text(LARGE.format(engine=engine, step=step, reference=reference, policy=POLICY))
        return path

    return written


@pytest.mark.parametrize(("step", "reference"), [(STEP, "holdout"), (STEP, "cross"), (MEANS, "holdout")])
def test_boxes_of_a_table_in_partitions_are_published_as_those_in_memory(large, tmp_path, step, reference):
    dossiers, tables = [], []
    for engine in ("local", "memory"):
        home = Home.locate(tmp_path / engine)
        outcome = carry_out(load_plan(large(engine, step, reference)), home, Direct())
        assert outcome.status == "published", outcome.reason
        assert verify_release(outcome.folder) == []
        files = sorted(outcome.folder.glob("data*.csv"))
        assert (len(files) > 1) == (engine == "local")
        tables.append(pd.concat(map(pd.read_csv, files), ignore_index=True))
        parquet = pd.concat(map(pd.read_parquet, sorted(outcome.folder.glob("data*.parquet"))), ignore_index=True)
        pd.testing.assert_frame_equal(
            parquet.astype(object).where(parquet.notna(), None),
            tables[-1].astype(object).where(tables[-1].notna(), None),
            check_dtype=False,
        )
        dossiers.append(json.loads((outcome.folder / "assessment.json").read_text()))
        assert not list(home.workspaces.iterdir())
    one, other = (table.sort_values(list(table.columns), ignore_index=True) for table in tables)
    pd.testing.assert_frame_equal(one, other)
    assert dossiers[0]["assessment"] == dossiers[1]["assessment"]
    decided, again = ([(g["name"], g["verdict"], g["figure"]) for g in d["verdict"]["gates"]] for d in dossiers)
    assert decided == again
    assert {"full_release", "claims"} <= dossiers[0]["assessment"].keys()
    assert one.groupby(list(one.columns), dropna=False).size().min() >= 8
    if step == STEP:
        read = read_boxes(tables[0])
        assert read.check(8, 2).passed
        assert dossiers[0]["assessment"]["method_figures"]["step1.boxes"] == read.boxes
        assert "net" not in one
        for value in (str(read.estimate("mean(net)")), str(read.estimate("mean(net)", weights=True))):
            assert value.split(" (")[0][1:] in text_of(outcome.folder / "report.html")


def test_boxes_in_blocks_are_all_compared_where_the_plan_asks_for_it(large, tmp_path):
    path = large("memory", STEP, "holdout")
    path.write_text(path.read_text().replace("sample_above: 1000", "exhaustive: true"))
    outcome, runner = carried_out(path, tmp_path / "home")
    assert outcome.status == "published", outcome.reason
    figures = json.loads((outcome.folder / "assessment.json").read_text())["assessment"]
    assert figures["records"]["released"] == len(runner.released) == 1200
    located = figures["risk"]["boxes"]["original"]
    assert (located["inside"], located["records"]) == (1.0, 1200)
    assert located["largest_reidentification"] <= 1 / 8
    assert read_boxes(outcome.folder / "data.csv").boxes == figures["method_figures"]["step1.boxes"]
