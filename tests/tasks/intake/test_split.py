"""The reference sample: who is on which side, and how it is known that nobody is on both."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest
from pydantic import ValidationError

from anoncore.edits.model import EditSet
from anoncore.microdata import Microdata, Variable
from expectations.report import validate
from expectations.suite import Suite
from tasks.assessment.assess import AssessmentSection, assess
from tasks.common.errors import Refused, sanitise_errors
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.intake.ingest import ingest
from tasks.intake.source import SourceSection
from tasks.intake.split import ReferenceSection, Split, split
from tasks.intake.units import Declared
from tasks.intake.validate import Checked, EditsSection, validate_raw
from tasks.masking.anonymize import Masked
from tasks.policy.assessment import Records
from tasks.policy.section import PolicySection

CANARY = "CANARY4711"
VARIABLES = (
    Variable("id", "nominal", role="identifier"),
    Variable("age", "continuous"),
    Variable("land", "nominal", missing=("?",)),
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.locate(tmp_path / "home")


def table(records: int, first: int = 0) -> pd.DataFrame:
    rows = range(first, first + records)
    return pd.DataFrame(
        {
            "id": [f"{CANARY}-{i}" for i in rows],
            "age": [float(i % 97) + 0.5 for i in rows],
            "land": [("x", "y", "z")[i % 3] for i in rows],
        }
    )


@dataclass(frozen=True)
class Given:
    """A run whose source was read and checked."""

    run: Run
    checked: Checked
    unit: tuple[str, ...] = ()

    @property
    def base(self) -> Path:
        return self.run.home.path.parent

    @property
    def source(self) -> Microdata:
        return self.checked.data.load()

    def split(self, section: ReferenceSection, variables: tuple[Variable, ...] = VARIABLES) -> Split:
        """Split in a workspace of its own, so that one source can be split in many ways."""
        run = replace(self.run, workspace=self.run.workspace.branch(f"split-{time.monotonic_ns()}"))
        return sanitise_errors(split)(run, self.checked, section, Declared(variables, self.unit), self.base)


def started(
    home: Home,
    source: pd.DataFrame,
    variables: tuple[Variable, ...] = VARIABLES,
    seed: int | None = None,
    unit: tuple[str, ...] = (),
) -> Given:
    run = Run.start(home, SeedSection(public=seed, data_are_public=True))
    source.to_csv(home.path.parent / "source.csv", index=False)
    ingested = ingest(run, SourceSection(path="source.csv"), variables, home.path.parent, unit)
    return Given(run, validate_raw(run, ingested, EditsSection()), unit)


def by_file(
    given: Given,
    reference: pd.DataFrame,
    variables: tuple[Variable, ...] = VARIABLES,
    name: str = "other.csv",
    **section: Any,
) -> Split:
    if name.endswith("csv"):
        reference.to_csv(given.base / name, index=False)
    else:
        reference.to_parquet(given.base / name, index=False)
    return given.split(ReferenceSection(kind="file", source=SourceSection(path=name), **section), variables)


def holdout(given: Given, variables: tuple[Variable, ...] = VARIABLES) -> Split:
    return given.split(ReferenceSection(), variables)


def both(done: Split) -> tuple[Microdata, Microdata]:
    assert done.reference is not None
    return done.original.load(), done.reference.load()


def sides(done: Split) -> tuple[list[int], list[int]]:
    original, reference = both(done)
    return original.frame.index.tolist(), reference.frame.index.tolist()


# Holdout


@pytest.mark.parametrize("records", [4, 5, 100, 101])
def test_holdout_sides_are_equal_disjoint_and_cover(home: Home, records: int) -> None:
    done = holdout(started(home, table(records)))
    original, reference = sides(done)
    assert done.summary.original == done.summary.reference == len(original) == len(reference) == records // 2
    assert done.summary.unused == records % 2
    assert not set(original) & set(reference)
    assert set(original) | set(reference) <= set(range(records))
    assert len(set(original) | set(reference)) == records - records % 2


def test_sides_hold_the_same_share_of_every_stratum(home: Home) -> None:
    frame = table(101).assign(region=["a"] * 60 + ["b"] * 30 + ["c"] * 10 + ["d"])
    variables = (*VARIABLES, Variable("region", "nominal", role="stratum"))
    given = started(home, frame, variables)
    original, reference = both(holdout(given, variables))
    counts = [side.frame["region"].value_counts() for side in (original, reference)]
    assert all(abs(int(counts[0][level]) - int(counts[1][level])) <= 1 for level in "abc")
    assert len(original) == len(reference) == 50
    once, again = (sides(holdout(given, variables)) for _ in range(2))
    assert once == again


def test_holdout_keeps_each_record_whole(home: Home) -> None:
    given = started(home, table(50))
    for side in both(holdout(given)):
        assert side.frame.equals(given.source.frame.loc[side.frame.index])
        assert side.schema == given.source.schema


def test_holdout_is_the_same_again_with_a_stated_seed_and_another_with_another(home: Home) -> None:
    first, again, other = (started(home, table(200), seed=seed) for seed in (1, 1, 2))
    once = sides(holdout(first))
    assert sides(holdout(first)) == once == sides(holdout(again))
    assert sides(holdout(other)) != once


def held_in(done: Split) -> set[float]:
    return set(done.original.load().frame["age"])


@pytest.mark.parametrize("identified", [True, False])
def test_a_home_always_sets_the_same_people_apart(home: Home, tmp_path: Path, identified: bool) -> None:
    """Also in another order, and when some have left and others have come."""
    frame = table(400).assign(age=[i + 0.5 for i in range(400)])
    left = frame.sample(frac=0.9, random_state=1)
    come = table(40, first=900).assign(age=[i + 0.5 for i in range(900, 940)])
    splits = []
    for where, given in (
        (home, frame),
        (home, pd.concat([left, come])),
        (Home.locate(tmp_path / "b"), frame),
    ):
        known = given if identified else given.assign(id="")
        splits.append(holdout(started(where, known)))
    first, second, elsewhere = map(held_in, splits)
    there = set(left["age"])
    # The cut moves a little with the number of people; nobody changes places at random.
    assert len((first & there) ^ (second & there)) <= 20
    assert len(first ^ elsewhere) > 100


def without(done: Split, of: Literal["utility", "risk"]) -> set[float]:
    rows = done.left_out_rows(of)
    assert rows is not None
    return set(done.original.load().frame["age"][rows])


@pytest.mark.parametrize(("of", "one_in"), [("utility", 10), ("risk", 4)])
@pytest.mark.parametrize("kind", ["holdout", "cross", "leave-one-out"])
def test_published_figures_leave_out_half_of_these_units_in_every_run_and_half_by_the_table(
    home: Home, kind: Any, of: Literal["utility", "risk"], one_in: int
) -> None:
    frame = table(1000).assign(age=[i + 0.5 for i in range(1000)])
    later = pd.concat([frame[5:], table(5, first=1000).assign(age=[i + 0.5 for i in range(1000, 1005)])])
    section = ReferenceSection(kind=kind)
    drawn = []
    for month, one in (("first", frame), ("first", frame), ("second", later)):
        given = started(home, one)
        drawn.append(without(replace(given, run=given.run.bound_to(month)).split(section), of))
    first, again, second = drawn
    each = (500 if kind == "holdout" else 1000) // one_in
    assert first == again
    assert len(first) == len(second) == 2 * each
    # Of the others some are drawn again by chance: as large a share as is drawn of those that are left.
    again_by_chance = each / (one_in - 1)
    assert abs(len(first & second) - each - again_by_chance) <= 5 + 3 * again_by_chance**0.5


def test_a_sub_table_leaves_out_of_published_figures_what_all_units_do_not_lack(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = started(home, table(1000).assign(age=[i + 0.5 for i in range(1000)]))
    for size, utility, risk in ((495, 198, 494), (300, 0, 300), (250, None, None)):
        monkeypatch.setattr("tasks.intake.split.SUB_TABLE", size)
        run = replace(given.run, workspace=given.run.workspace.branch(f"sub-{size}"))
        section, declared = ReferenceSection(kind="cross"), Declared(VARIABLES)
        done = split(run, given.checked, section, declared, given.base, 500)
        assert done.left_out is None
        drawn = [done.sub_table.left_out_rows(of) for of in ("utility", "risk")]
        assert [None if rows is None else int(rows.sum()) for rows in drawn] == [utility, risk]


def test_equal_records_are_told_apart_and_fall_on_both_sides(home: Home) -> None:
    frame = pd.concat([table(3).assign(id="")] * 40, ignore_index=True)
    done = holdout(started(home, frame)).summary
    assert done.original == done.reference == 60
    assert done.coinciding > 0


def test_holdout_is_random_and_no_slice_of_the_source(home: Home) -> None:
    counts = [0] * 20
    checked = started(home, table(20)).checked
    for seed in range(60):
        run = Run.start(home, SeedSection(public=seed, data_are_public=True))
        for row in sides(holdout(Given(run, checked)))[0]:
            counts[row] += 1
    assert all(15 <= count <= 45 for count in counts)


@pytest.mark.parametrize("records", [1, 2, 3])
def test_too_few_records_for_a_holdout_are_refused(home: Home, records: int) -> None:
    with pytest.raises(Refused, match=f"needs at least 4 statistical units, the source has {records}"):
        holdout(started(home, table(records)))


def test_coinciding_values_are_counted_and_are_no_overlap(home: Home) -> None:
    frame = table(40).assign(age=1.5, land="x")
    done = holdout(started(home, frame)).summary
    assert (done.original, done.coinciding) == (20, 20)
    assert holdout(started(home, table(40))).summary.coinciding == 0
    pairs = table(40).assign(age=[float(i // 2) for i in range(40)], land="x")
    done = holdout(started(home, pairs, seed=3))
    original, reference = map(set, sides(done))
    apart = sum(row ^ 1 in reference for row in original)
    assert 0 < done.summary.coinciding == apart < 20


def test_gaps_coincide_with_gaps(home: Home) -> None:
    frame = table(40).assign(age=None, land="?")
    assert holdout(started(home, frame)).summary.coinciding == 20


HOUSEHOLDS = (*VARIABLES, Variable("home", "nominal", role="household"))


def test_the_records_of_a_person_stand_on_one_side(home: Home) -> None:
    frame = table(90).assign(id=[f"{CANARY}-{i // 3}" for i in range(90)])
    done = holdout(started(home, frame, seed=1))
    original, reference = map(set, sides(done))
    assert not {row // 3 for row in original} & {row // 3 for row in reference}
    assert original | reference == set(range(90))
    assert abs(len(original) - len(reference)) <= 3
    summary = done.summary
    assert (summary.original, summary.reference, summary.unused) == (len(original), len(reference), 0)
    assert summary.disjoint == "no id of the source is on both sides"


def test_who_has_no_identifier_is_a_person_of_its_own(home: Home) -> None:
    frame = table(40).assign(id=["", "", *[f"{CANARY}-{i // 2}" for i in range(38)]])
    together = set()
    for seed in range(8):
        together.add(len({0, 1} & set(sides(holdout(started(home, frame, seed=seed)))[0])))
    assert together >= {1}


def test_a_household_stands_on_one_side(home: Home) -> None:
    frame = table(60).assign(home=[f"h{i % 12}" for i in range(60)])
    done = holdout(started(home, frame, HOUSEHOLDS, seed=1), HOUSEHOLDS)
    original, reference = sides(done)
    assert not {row % 12 for row in original} & {row % 12 for row in reference}
    assert (len(original), len(reference)) == (30, 30)
    assert done.summary.disjoint == "no home or id of the source is on both sides"


def test_one_person_alone_cannot_be_held_out(home: Home) -> None:
    with pytest.raises(Refused, match="unit: id joins more than half of the records"):
        started(home, table(20).assign(id=CANARY))


TWO = (Variable("number", "nominal", role="identifier"), *VARIABLES)


@pytest.mark.parametrize(
    "wrong", [list(range(90)), [None] * 90, [n // 3 for n in range(90)]], ids=["own", "none", "id"]
)
def test_another_identifier_does_not_part_the_records_of_a_person(home: Home, wrong: list[Any]) -> None:
    """Identifiers are taken one by one: a number of the record does not make each record a person."""
    frame = table(90).assign(id=[f"{CANARY}-{i % 30}" for i in range(90)])
    done = holdout(started(home, with_number(frame, wrong), TWO, seed=1), TWO)
    original, reference = map(set, sides(done))
    assert original | reference == set(range(90))
    people = {row % 30 for row in original}, {row % 30 for row in reference}
    if wrong == [n // 3 for n in range(90)]:
        # Persons 0, 1 and 2 share a number, so do 3, 4, 5: ten units of three people.
        assert done.summary.original_units == done.summary.reference_units == 5
        people = {person // 3 for person in people[0]}, {person // 3 for person in people[1]}
    else:
        assert done.summary.original_units == done.summary.reference_units == 15
    assert not people[0] & people[1]


def test_the_holdout_halves_the_units_and_not_the_records(home: Home) -> None:
    sizes = [1] * 20 + [7] * 20
    ids = [f"{CANARY}-{unit}" for unit, size in enumerate(sizes) for _ in range(size)]
    done = holdout(started(home, table(160).assign(id=ids), seed=2)).summary
    assert done.original_units == done.reference_units == 20
    assert done.original + done.reference == 160


def test_the_plan_names_a_unit_of_several_columns(home: Home) -> None:
    frame = with_number(table(60), [i % 3 for i in range(60)]).assign(id=[f"{CANARY}-{i // 6}" for i in range(60)])
    with pytest.raises(Refused, match="unit: number, id together join more than half"):
        started(home, frame, TWO)
    done = holdout(started(home, frame, TWO, seed=1, unit=("id", "number")), TWO)
    assert (done.summary.original_units, done.summary.reference_units) == (15, 15)
    original, reference = map(set, sides(done))
    assert not {(row // 6, row % 3) for row in original} & {(row // 6, row % 3) for row in reference}
    assert done.summary.disjoint == "no id and number of the source is on both sides"


def test_a_person_stays_on_one_side_when_records_come(home: Home) -> None:
    frame = table(120).assign(id=[f"{CANARY}-{i % 40}" for i in range(120)])
    splits = []
    for records in (80, 120):
        numbered = with_number(frame, [5000 - i for i in range(120)])[:records]
        splits.append({row % 40 for row in sides(holdout(started(home, numbered, TWO), TWO))[0]})
    assert splits[0] == splits[1]


# Leave-one-out


def test_leave_one_out_releases_everybody(home: Home) -> None:
    given = started(home, table(11))
    done = given.split(ReferenceSection(kind="leave-one-out"))
    summary = done.summary
    assert (summary.original, summary.reference, summary.unused, summary.coinciding) == (11, 10, 0, 0)
    assert done.original.load().frame.equals(given.source.frame)
    assert done.reference is None


# A file


def test_a_file_of_other_people_is_accepted(home: Home) -> None:
    done = by_file(started(home, table(30)), table(30, first=1000))
    assert (done.summary.original, done.summary.reference) == (30, 30)
    assert done.summary.disjoint == "no id of the source occurs in the reference file"
    assert both(done)[1].schema.names == ("age", "land")
    assert CANARY not in str(done)


@pytest.mark.parametrize("name", ["other.csv", "other.parquet"])
def test_people_who_are_in_both_are_refused_with_their_number(home: Home, name: str) -> None:
    given = started(home, table(30))
    with pytest.raises(Refused) as raised:
        by_file(given, pd.concat([table(4, first=3), table(20, first=500)]), name=name)
    assert str(raised.value) == "reference: 4 record(s) of the file are of units of the source, too; remove them"
    folder = given.run.workspace.folder
    assert not [*folder.rglob("reference.parquet"), *folder.rglob("copy-*")]


@pytest.mark.parametrize(
    "identifiers",
    [
        [3, 1000, 1001],
        [3.0, 1000.0, None],
        ["003", "1000", "1001"],
        [" 3", "1000", "1001"],
        ["3.0", "x", "y"],
    ],
    ids=str,
)
def test_an_identifier_is_recognised_however_the_file_writes_it(home: Home, identifiers: list[Any]) -> None:
    given = started(home, table(30).assign(id=range(30)))
    with pytest.raises(
        Refused, match=r"1 record\(s\) of (the file are of units of the source|source and file have no)"
    ):
        by_file(given, table(3, first=1000).assign(id=identifiers), name="other.parquet")


def with_number(frame: pd.DataFrame, numbers: list[Any]) -> pd.DataFrame:
    return frame.assign(number=numbers)[["number", "id", "age", "land"]]


def test_one_of_two_identifiers_is_enough(home: Home) -> None:
    given = started(home, with_number(table(10), [i // 2 for i in range(10)]), TWO)
    with pytest.raises(Refused, match=r"1 record\(s\) of the file are of units of the source"):
        by_file(given, with_number(table(3, first=100), [50, 4, None]), TWO)
    done = by_file(given, with_number(table(3, first=100), [50, 51, None]), TWO)
    assert done.summary.reference == done.summary.reference_units == 3
    assert done.summary.disjoint == "no number or id of the source occurs in the reference file"


def test_columns_of_the_unit_count_only_together(home: Home) -> None:
    frame = with_number(table(10), [1] * 5 + [2] * 5).assign(id=[1, 2, 3, 4, 5] * 2)
    given = started(home, frame, TWO, unit=("number", "id"))
    other = with_number(table(3, first=100), [1, 2, 3]).assign(id=[9, 8, 1])
    assert by_file(given, other, TWO).summary.disjoint.startswith("no number and id of the source occurs")
    with pytest.raises(Refused, match=r"1 record\(s\) of the file are of units of the source"):
        by_file(given, with_number(table(3, first=100), [1, 2, 3]).assign(id=[9, 5, 1]), TWO)


@pytest.mark.parametrize("side", ["source", "file"])
def test_people_without_an_identifier_cannot_be_told_apart(home: Home, side: str) -> None:
    frames = {"source": table(20), "file": table(20, first=100)}
    frames[side].loc[[2, 5], "id"] = ["", " "]
    given = started(home, frames["source"])
    with pytest.raises(Refused, match=r"2 record\(s\) of source and file have no identifier"):
        by_file(given, frames["file"])
    assert by_file(given, frames["file"], disjoint_by="custodian").summary.reference == 20


def test_without_a_declared_identifier_somebody_must_vouch(home: Home) -> None:
    given = started(home, table(20)[["age", "land"]], VARIABLES[1:])
    other = table(20, first=100)[["age", "land"]]
    with pytest.raises(Refused, match="no identifier is declared"):
        by_file(given, other, VARIABLES[1:])
    done = by_file(given, other, VARIABLES[1:], disjoint_by="custodian")
    assert done.summary.disjoint == "vouched for by the custodian; not proven"


def test_who_vouches_is_believed_and_the_coincidences_are_counted(home: Home) -> None:
    given = started(home, table(30))
    assert by_file(given, table(30), disjoint_by="custodian").summary.coinciding == 30


def test_a_larger_file_is_subsampled(home: Home) -> None:
    given = started(home, table(30), seed=4)
    big = table(300, first=1000)
    done = by_file(given, big)
    chosen = sides(done)[1]
    assert (done.summary.original, done.summary.reference) == (30, 30)
    assert len(set(chosen)) == 30
    assert chosen != list(range(30))
    assert sides(by_file(given, big))[1] == chosen


def test_a_smaller_file_serves_as_it_is_and_risk_is_measured_on_equal_sizes(home: Home) -> None:
    given = started(home, table(120))
    done = by_file(given, table(40, first=1000))
    assert (done.summary.original, done.summary.reference) == (120, 40)
    masked = Masked(released=done.original, keeps_records=False)
    figures = assess(given.run, done, masked, AssessmentSection(), PolicySection()).assessment
    assert figures.records == Records(120, 120, 40)
    assert (figures.risk.comparison.n_released, figures.risk.comparison.n_reference) == (40, 40)
    assert figures.risk.comparison.draws > 1


def test_a_file_of_other_columns_or_values_is_refused_as_a_source_is(home: Home) -> None:
    given = started(home, table(30))
    with pytest.raises(Refused, match=r"^reference: declared variables are not in the data: land"):
        by_file(given, table(5, first=100).drop(columns="land"))
    with pytest.raises(Refused, match=r"'age' is declared continuous but 5 record\(s\)") as raised:
        by_file(given, table(5, first=100).assign(age=CANARY))
    assert CANARY not in str(raised.value)
    with pytest.raises(Refused, match=r"^reference: variable 'land': 2 record\(s\) hold a value") as raised:
        by_file(given, table(5, first=100).assign(land=["x", CANARY, "y", "w", "z"]))
    assert CANARY not in str(raised.value)
    with pytest.raises(Refused, match=r"^reference: no values of age, although the original has some"):
        by_file(given, table(5, first=100).assign(age=float("nan")))
    with pytest.raises(Refused, match=r"there is no file gone\.csv"):
        given.split(ReferenceSection(kind="file", source=SourceSection(path="gone.csv")))


def test_a_reference_from_a_query_works_too(home: Home) -> None:
    import sqlite3

    given = started(home, table(30))
    with sqlite3.connect(home.path.parent / "other.db") as connection:
        table(25, first=100).to_sql("people", connection, index=False)
    connection.close()
    source = SourceSection(sql="SELECT * FROM people", url="sqlite:///other.db")
    done = given.split(ReferenceSection(kind="file", source=source))
    assert done.summary.reference == 25


def test_nhefs_splits_in_two_halves_of_814(home: Home, nhefs: Microdata) -> None:
    run = Run.start(home, SeedSection())
    source = run.workspace.store("source", nhefs)
    report = validate(nhefs.frame, Suite.of(nhefs.schema, EditSet()))
    done = holdout(Given(run, Checked(source, None, 0, report))).summary
    assert (done.original, done.reference, done.unused, done.coinciding) == (814, 814, 1, 0)


def test_the_halves_of_a_cross_share_no_unit_and_hold_every_record(home: Home) -> None:
    given = started(home, table(51))
    done = given.split(ReferenceSection(kind="cross"))
    assert done.reference is None
    assert (done.summary.original, done.summary.unused) == (51, 0)
    one, other = done.halves
    assert (one.original, one.reference) == (other.reference, other.original)
    first, second = (set(side.original.load().frame.index) for side in done.halves)
    assert not first & second
    assert first | second == set(done.original.load().frame.index)
    assert abs(len(first) - len(second)) == 1


def test_a_holdout_sets_the_stated_share_apart(home: Home) -> None:
    done = started(home, table(50)).split(ReferenceSection(share=0.2)).summary
    assert (done.original, done.reference, done.unused) == (40, 10, 0)


def test_a_cross_is_tried_on_one_half() -> None:
    assert ReferenceSection(kind="cross").of_one_half == ReferenceSection(kind="holdout")
    assert ReferenceSection(kind="leave-one-out").of_one_half.kind == "leave-one-out"


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "file"},
        {"kind": "holdout", "source": {"path": "x.csv"}},
        {"kind": "half"},
        {"kind": "cross", "share": 0.3},
        {"share": 1.0},
    ],
    ids=str,
)
def test_an_impossible_reference_is_refused_with_the_plan(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ReferenceSection(**given)
