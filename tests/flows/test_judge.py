"""Judging files that another tool has made: what leaks fails, the rest does not, nothing is left behind."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from flows.cli import app
from flows.external import Files, judge
from tasks.common.errors import ExitCode, Refused
from tasks.common.home import Home
from tasks.policy.assessment import Assessment
from tasks.policy.disclosure_control import published
from tasks.policy.gates import linkage


def people(seed: int, n: int = 1500) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    return pd.DataFrame(
        {
            "age": age,
            "income": np.exp(rng.normal(9, 0.6, n) + age / 100).round(),
            "height": rng.normal(170, 9, n).round(1),
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(list("nesw"), n),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judge")
    original, rng = people(0), np.random.default_rng(9)
    noisy = original.assign(income=(original.income + rng.normal(0, 100, len(original))).round())
    tables = {"original": original, "reference": people(1), "independent": people(2), "noisy": noisy}
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    tables["independent"].drop(columns="region").assign(extra=1).to_parquet(folder / "fewer.parquet")
    return folder


def judged(files, released, home, **options):
    aligned, identifiers = options.pop("aligned", False), options.pop("identifiers", ())
    given = Files(files / released, files / "original.csv", files / "reference.csv", aligned, identifiers)
    return judge(Home.locate(home), given, **options)


def test_an_independent_sample_never_fails_and_leaves_nothing_behind(files, tmp_path):
    found = judged(files, "independent.csv", tmp_path / "home")
    assert found.exit_code in (ExitCode.PUBLISHED, ExitCode.AWAITING)
    assert not any(g.verdict == "fail" for g in found.verdict.gates)
    assert not list((tmp_path / "home" / "workspace").iterdir())
    assert 0.4 < found.assessment.risk.score_coincidence.attack.auc < 0.6
    assert found.assessment.risk.linkage is None
    (row,) = linkage.GATE.attacks(published(found.assessment))
    assert "rows are in the order of the original’s; `--aligned` states it" in row.reason
    assert found.assessment.risk.disclosure.reference is not None
    assert found.assessment.risk.inference.verdict != "fail"
    assert "columns not measured" not in {gate.name for gate in found.verdict.gates}


@pytest.mark.parametrize("names", [dict(zip("nesw", "esnw", strict=True)), dict(zip("nesw", "1234", strict=True))])
def test_records_under_other_labels_are_never_published(tmp_path, names):
    """Exchanged and new names of levels: no attack can compare them, so a person has to."""

    def table(seed):
        rng = np.random.default_rng(seed)
        share = [[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]]
        group = rng.integers(0, 2, 1500)
        return pd.DataFrame({f"v{j}": [rng.choice(list("nesw"), p=share[g]) for g in group] for j in range(5)})

    tables = {"original": table(0), "reference": table(1)}
    tables["released"] = tables["original"].replace(names)
    for name, frame in tables.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    found = judged(tmp_path, "released.csv", tmp_path / "home")
    assert found.exit_code is not ExitCode.PUBLISHED
    verdicts = {gate.name: gate.verdict for gate in found.verdict.gates}
    assert verdicts["levels of the original"] == "not tested"


@pytest.mark.parametrize("released", ["original.csv", "noisy.csv"])
def test_what_leaks_fails(files, tmp_path, released):
    found = judged(files, released, tmp_path / "home", aligned=True)
    assert found.exit_code is ExitCode.REJECTED
    failed = {g.name for g in found.verdict.gates if g.verdict == "fail"}
    assert {"prediction distance", "identical records", "unusually close records", "membership"} <= failed
    assert found.assessment.records.released == 1500
    linked = found.assessment.risk.linkage
    assert linked.rate.value > 0.9 > linked.guess
    assert found.assessment.risk.score_coincidence.attack.auc > 0.8
    assert found.assessment.utility.propensity.released.pmse < 0.01


def test_a_release_that_is_moved_as_a_whole_fails(files, tmp_path):
    original = pd.read_csv(files / "original.csv")
    numbers = original.select_dtypes("number").columns
    original[numbers] = original[numbers] * 1.5 + 10 * original[numbers].std()
    original.to_csv(tmp_path / "moved.csv", index=False)
    found = judged(files, tmp_path / "moved.csv", tmp_path / "home")
    assert found.exit_code is ExitCode.REJECTED
    assert gate(found, "membership").verdict == "pass"
    assert gate(found, "membership once rescaled").verdict == "fail"
    assert found.assessment.risk.membership_rescaled.auc > 0.7


def test_columns_that_only_one_file_has_are_told(files, tmp_path):
    found = judged(files, "fewer.parquet", tmp_path / "home")
    assert found.left_out == ("region",)
    assert found.unknown == ("extra",)
    assert found.assessment.risk.columns == 4


def gate(found, name):
    (one,) = [g for g in found.verdict.gates if g.name == name]
    return one


def test_columns_that_nobody_measured_ask_a_person(files, tmp_path):
    known = files / "independent.csv"
    more = pd.read_csv(known).assign(social_security=range(1500), extra=0)
    more.to_csv(tmp_path / "more.csv", index=False)
    found = judged(files, tmp_path / "more.csv", tmp_path / "home")
    asked = gate(found, "columns not measured")
    assert (asked.verdict, asked.figure, asked.records) == ("inconclusive", "2", 1500)
    assert found.exit_code is ExitCode.AWAITING
    assert asked.name in found.verdict.reason


@pytest.fixture(scope="module")
def numbered(files):
    """Return a folder whose tables carry a number for each person; the reference has numbers of its own."""
    folder = files / "numbered"
    folder.mkdir()
    for name, first in (("original", 50_000), ("reference", 90_000)):
        table = pd.read_csv(files / f"{name}.csv")
        table.insert(0, "patient_id", np.random.default_rng(3).permutation(len(table)) + first)
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder


def test_identifiers_of_the_original_fail_a_release(files, numbered, tmp_path):
    ids = pd.read_csv(numbered / "original.csv").patient_id
    released = pd.read_csv(files / "independent.csv")
    released.assign(patient_id=ids).to_csv(tmp_path / "named.csv", index=False)
    found = judged(numbered, tmp_path / "named.csv", tmp_path / "home", identifiers=("patient_id",))
    assert found.exit_code is ExitCode.REJECTED
    assert (gate(found, "identifiers of the original").figure, found.unknown) == ("at most 1500", ("patient_id",))
    released.assign(patient_id=ids + 10_000).to_csv(tmp_path / "renamed.csv", index=False)
    found = judged(numbered, tmp_path / "renamed.csv", tmp_path / "home", identifiers=("patient_id",))
    assert "identifiers of the original" not in {g.name for g in found.verdict.gates}
    assert gate(found, "columns not measured").verdict == "inconclusive"


def test_identifiers_that_are_a_guess_are_compared_with_the_reference(files, numbered, tmp_path):
    ids = pd.read_csv(numbered / "original.csv").patient_id
    released = pd.read_csv(files / "independent.csv")
    name = "possible identifier patient_id"
    # Duplicates within the release are no further matches.
    released.assign(patient_id=np.repeat(ids[:750], 2).to_numpy()).to_csv(tmp_path / "same.csv", index=False)
    found = judged(numbered, tmp_path / "same.csv", tmp_path / "home")
    asked = gate(found, name)
    assert (asked.verdict, asked.records, found.exit_code) == ("inconclusive", 750, ExitCode.AWAITING)
    assert asked.figure.startswith("100")
    assert asked.baseline.startswith("0.0")
    # Row numbers repeat in every file, so that in the release they are nobody's.
    for file in ("original", "reference", "independent"):
        table = pd.read_csv(files / f"{file}.csv")
        table.assign(record_id=range(len(table))).to_csv(tmp_path / f"{file}.csv", index=False)
    found = judged(tmp_path, "independent.csv", tmp_path / "home")
    assert gate(found, "possible identifier record_id").verdict == "pass"
    assert not {g.name for g in found.verdict.gates if g.verdict == "fail"}


def test_an_identifier_that_the_original_lacks_is_refused(files, tmp_path):
    with pytest.raises(Refused, match="--identifier: the original has no column patient"):
        judged(files, "independent.csv", tmp_path / "home", identifiers=("patient",))


def test_whole_numbers_of_nearly_every_record_are_measured(tmp_path):
    """Amounts of independent people fail nothing, though hardly two people share one; copied amounts do."""
    for name, seed in (("original", 0), ("reference", 1), ("independent", 2)):
        turnover = np.random.default_rng(seed + 50).lognormal(15, 1, 600).round().astype(int)
        people(seed, 600).assign(turnover=turnover, region=1).to_csv(tmp_path / f"{name}.csv", index=False)
    found = judged(tmp_path, "independent.csv", tmp_path / "home")
    assert found.assessment.records.original == 600
    assert not found.unknown
    assert not {g.name for g in found.verdict.gates if g.verdict == "fail"}
    copied = pd.read_csv(tmp_path / "independent.csv").assign(turnover=pd.read_csv(tmp_path / "original.csv").turnover)
    copied.to_csv(tmp_path / "copied.csv", index=False)
    assert gate(judged(tmp_path, "copied.csv", tmp_path / "home"), "value presence").verdict == "fail"


@pytest.mark.parametrize("wider", ["reference", "independent"])
def test_levels_that_only_one_file_has_are_no_reason_to_refuse(files, tmp_path, wider):
    """A variable of two levels in the original has three in another file."""
    for name in ("original", "reference", "independent"):
        table = pd.read_csv(files / f"{name}.csv")[:600]
        table["smoker"] = np.random.default_rng(len(name)).integers(0, 3 if name == wider else 2, 600)
        table["sex"] = table["sex"].where((table.index % 7 > 0) | (name != wider), "x")
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    found = judged(tmp_path, "independent.csv", tmp_path / "home")
    assert found.assessment.records.reference == 600
    assert not found.left_out


def test_identifiers_that_are_blanked_are_nobodys(files, numbered, tmp_path):
    original = pd.read_csv(numbered / "original.csv").astype({"patient_id": "Int64"})
    original.loc[7, "patient_id"] = pd.NA
    original.to_csv(tmp_path / "original.csv", index=False)
    pd.read_csv(files / "independent.csv").assign(patient_id="").to_csv(tmp_path / "blank.csv", index=False)
    found = judge(
        Home.locate(tmp_path / "home"),
        Files(tmp_path / "blank.csv", tmp_path / "original.csv", files / "reference.csv"),
    )
    assert "identifiers of the original" not in {g.name for g in found.verdict.gates}


def test_a_reference_with_identifiers_of_the_original_asks_a_person(files, numbered, tmp_path):
    ids = pd.read_csv(numbered / "original.csv").patient_id
    people(7).assign(patient_id=ids).to_csv(tmp_path / "reference.csv", index=False)
    original = numbered / "original.csv"
    found = judge(
        Home.locate(tmp_path / "home"),
        Files(files / "independent.csv", original, tmp_path / "reference.csv", identifiers=("patient_id",)),
    )
    assert found.exit_code is ExitCode.AWAITING
    assert gate(found, "reference of other people").figure == "at most 1500"


def test_a_reference_of_members_who_were_changed_a_little_asks_a_person(files, tmp_path):
    changed = pd.read_csv(files / "original.csv")
    changed["income"] += 1
    changed.to_csv(tmp_path / "reference.csv", index=False)
    found = judge(
        Home.locate(tmp_path / "home"),
        Files(files / "noisy.csv", files / "original.csv", tmp_path / "reference.csv"),
    )
    asked = gate(found, "reference of other people")
    assert (asked.verdict, asked.baseline) == ("inconclusive", "at most half")
    assert found.exit_code in (ExitCode.AWAITING, ExitCode.REJECTED)


def with_members(files, tmp_path, members, others):
    """Return the outcome of a reference with so many people of the original, and so many others."""
    reference = pd.concat([pd.read_csv(files / "original.csv")[:members], people(1, others)])
    reference.to_csv(tmp_path / "reference.csv", index=False)
    return judge(
        Home.locate(tmp_path / "home"),
        Files(files / "independent.csv", files / "original.csv", tmp_path / "reference.csv"),
    )


@pytest.mark.parametrize(("members", "others"), [(1500, 0), (60, 3000)])
def test_a_reference_of_members_asks_a_person(files, tmp_path, members, others):
    found = with_members(files, tmp_path, members, others)
    asked = gate(found, "reference of other people")
    assert asked.verdict == "inconclusive"
    # Of a larger reference a sample of the original's size is compared.
    met = members * min(1, 1500 / (members + others))
    assert 0.7 * met <= int(asked.figure.split(",")[0].removeprefix("at most ")) < met + 10
    assert found.exit_code in (ExitCode.AWAITING, ExitCode.REJECTED)


@pytest.mark.parametrize("others", [300, 6000])
def test_other_people_are_not_taken_for_members(files, tmp_path, others):
    assert "reference of other people" not in {g.name for g in with_members(files, tmp_path, 0, others).verdict.gates}


def test_few_levels_repeat_by_chance_and_that_is_no_membership(tmp_path):
    """With 60 combinations nearly everybody has a twin, in either file, whatever their sizes."""
    for name, seed, n in (("original", 0, 800), ("released", 1, 800), ("small", 2, 250), ("large", 3, 2500)):
        rng = np.random.default_rng(seed)
        table = {c: rng.integers(0, k, n) for c, k in (("a", 3), ("b", 4), ("c", 5))}
        pd.DataFrame(table).to_csv(tmp_path / f"{name}.csv", index=False)
    for reference in ("small", "large"):
        found = judge(
            Home.locate(tmp_path / "home"),
            Files(*(tmp_path / f"{n}.csv" for n in ("released", "original", reference))),
        )
        assert "reference of other people" not in {g.name for g in found.verdict.gates}
        assert found.assessment.overlap.p > 0.3


def test_households_of_an_independent_sample_do_not_fail(tmp_path):
    for number, name in enumerate(("original", "reference", "released")):
        people(number, 600).assign(household_id=[1000 * number + i // 3 for i in range(600)]).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    found = judged(tmp_path, "released.csv", tmp_path / "home")
    assert not any(g.verdict == "fail" for g in found.verdict.gates)


def test_files_that_share_no_column_are_refused_without_a_value(files, tmp_path):
    pd.DataFrame({"other": [1, 2, 3], "names": [4, 5, 6]}).to_csv(tmp_path / "odd.csv", index=False)
    with pytest.raises(Refused, match="none of the 5 variables of the original is among the 2 columns"):
        judge(Home.locate(tmp_path / "home"), Files(tmp_path / "odd.csv", files / "original.csv"))


def test_files_that_cannot_be_compared_are_refused_by_their_side(files, tmp_path):
    with pytest.raises(Refused, match=r"^reference: there is no file gone\.csv; check the path"):
        judge(Home.locate(tmp_path), Files(files / "noisy.csv", files / "original.csv", files / "gone.csv"))
    people(1).assign(income=np.nan).to_csv(tmp_path / "empty.csv", index=False)
    with pytest.raises(Refused, match=r"^reference: no values of income, although the original has some"):
        judge(Home.locate(tmp_path), Files(files / "noisy.csv", files / "original.csv", tmp_path / "empty.csv"))
    people(2, 1).to_csv(tmp_path / "one.csv", index=False)
    with pytest.raises(Refused, match=r"^release: too few records to be measured, .* the 5 nearest"):
        judged(files, tmp_path / "one.csv", tmp_path)


def test_rows_that_correspond_must_be_as_many(files, tmp_path):
    people(3, 100).to_csv(tmp_path / "short.csv", index=False)
    with pytest.raises(Refused, match="rows that correspond must be as many"):
        judge(Home.locate(tmp_path / "home"), Files(tmp_path / "short.csv", files / "original.csv", aligned=True))


def test_the_command_exits_by_verdict_and_prints_every_figure(files, tmp_path):
    command = ["assess", str(files / "noisy.csv"), "--original", str(files / "original.csv")]
    command += ["--reference", str(files / "reference.csv"), "--home", str(tmp_path / "home"), "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 3
    told = json.loads(result.stdout)
    assert {"verdict", "assessment", "left_out", "unknown"} == set(told)
    assert told["assessment"]["risk"]["membership"]["baseline"] == 0.5
    assert all(gate["baseline"] for gate in told["verdict"]["gates"])


def odd(seed: int, n: int = 120) -> pd.DataFrame:
    """A table with whatever breaks a formula: nothing there, one value, one level, ties, a few who know."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "value": rng.normal(0, 1, n).round(2),
            "absent": np.full(n, np.nan),
            "constant": 7.0,
            "one_level": "x",
            "tied": rng.integers(0, 2, n).astype(float) * 3.0,
            "rarely": np.where(rng.random(n) < 0.02, 1.0, np.nan),
            "group": rng.choice(["a", "b"], n),
        }
    )


CASES = {
    "all": list(odd(0)),
    "nothing varies": ["constant", "one_level"],
    "nothing is there": ["absent", "one_level"],
    "one column": ["tied"],
    "levels alone": ["group", "one_level"],
}


@pytest.mark.parametrize(("which", "aligned"), [("original", True), ("other", False), ("shuffled", True)])
@pytest.mark.parametrize("case", CASES)
def test_odd_columns_have_defined_results(tmp_path, case, which, aligned):
    names = CASES[case]
    tables = {"original": odd(0)[names], "reference": odd(1)[names], "other": odd(2)[names]}
    tables["shuffled"] = tables["original"].sample(frac=1.0, random_state=1)
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    try:
        found = judged(tmp_path, f"{which}.csv", tmp_path / "home", aligned=aligned)
    except Refused:
        # Where no column holds anything there is nothing to read.
        assert case == "nothing is there"
        return
    stored = json.loads(json.dumps(found.assessment.to_json(), allow_nan=False))
    assert Assessment.from_json(stored).to_json() == stored
    verdicts = {g.name: g.verdict for g in found.verdict.gates}
    assert all(v in ("pass", "fail", "inconclusive") for v in verdicts.values())
    if case == "all" and which == "original":
        assert verdicts["membership"] == verdicts["identical records"] == "fail"
    if case in ("nothing varies", "nothing is there"):
        assert found.assessment.risk.columns == 0
        assert verdicts["membership"] == verdicts["identical records"] == "pass"
        assert found.assessment.utility.figure("mean") is None


@pytest.mark.parametrize("records", [2, 3, 5, 6])
def test_very_few_records_are_refused_or_judged(tmp_path, records):
    for name, seed in (("original", 0), ("reference", 1), ("released", 2)):
        odd(seed, records)[["value", "group"]].to_csv(tmp_path / f"{name}.csv", index=False)
    if records < 5:
        # With fewer than k records there are no k nearest ones.
        with pytest.raises(Refused):
            judged(tmp_path, "released.csv", tmp_path / "home")
        return
    found = judged(tmp_path, "released.csv", tmp_path / "home")
    assert found.exit_code in (ExitCode.REJECTED, ExitCode.AWAITING)


def test_records_with_a_stated_identifier_are_judged_as_one_unit(files, tmp_path):
    for name, first in (("original", 0), ("reference", 9000)):
        table = pd.read_csv(files / f"{name}.csv").iloc[:300]
        table.assign(patient_id=[first + i // 3 for i in range(300)]).to_csv(tmp_path / f"{name}.csv", index=False)
    pd.read_csv(files / "independent.csv").iloc[:300].to_csv(tmp_path / "released.csv", index=False)
    given = Files(
        tmp_path / "released.csv", tmp_path / "original.csv", tmp_path / "reference.csv", identifiers=("patient_id",)
    )
    membership = judge(Home.locate(tmp_path / "home"), given).assessment.risk.membership
    assert (membership.n_members, membership.n_nonmembers) == (100, 100)


def test_a_level_that_many_rows_of_few_people_hold_is_not_named(files, tmp_path):
    for name, first in (("original", 0), ("reference", 9000)):
        table = pd.read_csv(files / f"{name}.csv").iloc[:600]
        table["region"] = table["region"].where(table.index >= 10, "rare")
        table.assign(patient_id=[first + i // 10 for i in range(600)]).to_csv(tmp_path / f"{name}.csv", index=False)
    original = tmp_path / "original.csv"
    pd.read_csv(original).drop(columns="patient_id").to_csv(tmp_path / "released.csv", index=False)
    given = Files(tmp_path / "released.csv", original, tmp_path / "reference.csv", True, ("patient_id",))
    found = judge(Home.locate(tmp_path / "home"), given).assessment.utility
    assert next(one for one in found.variables.variables if one.name == "region").levels == ("e", "n", "s", "w")


@pytest.mark.parametrize(("computed", "verdict"), [(False, "not tested"), (True, None)])
def test_records_that_look_like_several_of_a_person_ask(tmp_path, computed, verdict):
    rng = np.random.default_rng(3)
    cost = rng.normal(100, 20, 1500).round(1)
    if computed:
        table = pd.DataFrame(rng.integers(0, 30, (1500, 2)), columns=["read", "written"]).assign(cost=cost)
        table["both"] = table["read"] + table["written"]
    else:
        table = people(0, 300).loc[lambda f: f.index.repeat(5)].assign(cost=cost)
    for name, part in {"original": table, "released": table[::-1], "reference": table.assign(cost=cost[::-1])}.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    files = Files(*(tmp_path / f"{name}.csv" for name in ("released", "original", "reference")))
    gates = {gate.name: gate.verdict for gate in judge(Home.locate(tmp_path / "home"), files).verdict.gates}
    assert gates.get("several records of a unit") == verdict
