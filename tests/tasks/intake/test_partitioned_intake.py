"""A source read into partitions: the same table, units, sides and counts as in memory, however it is cut."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anoncore.edits.kinds import BoundEdit, LinearEdit
from anoncore.edits.model import EditSet
from anoncore.methods import RankSwapping, SpectralSwap, ValueCoding
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.store import Serial
from anoncore.partitions.table import partitioned
from anoncore.recoding import Recoding
from tasks.assessment import full_release
from tasks.assessment.assess import AssessmentSection, MaskedSides
from tasks.common import hashes
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.common.partitions import StoredPartitions, recoded_partitions
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.intake import members, partitions
from tasks.intake import split as splitting
from tasks.intake.ingest import Ingested, ingest
from tasks.intake.members import recognise
from tasks.intake.partitions import ingest_partitions
from tasks.intake.source import SourceSection
from tasks.intake.split import ReferenceSection, Split, split
from tasks.intake.units import Declared
from tasks.intake.validate import Checked, EditsSection, validate_masked, validate_raw
from tasks.masking import partitions as masking
from tasks.masking.anonymize import Masked, mask
from tasks.masking.partitions import mask_partitions, mask_records
from tasks.policy.gates import dominance
from tasks.policy.gates.full_release import GATE
from tasks.policy.section import PolicySection
from tests.tasks.policy.sample import assessment

VARIABLES = (
    Variable("id", "nominal", role="identifier"),
    Variable("age", "continuous", missing=(-9,)),
    Variable("wages", "continuous"),
    Variable("total", "continuous"),
    Variable("region", "nominal"),
    Variable("grade", "ordinal"),
)
EDITS = EditsSection(
    on_violation="set-aside",
    rules=(
        LinearEdit(name="total", terms={"wages": 1.0, "total": -1.0}, dependent="total"),
        BoundEdit(name="age", variable="age", lower=0),
    ),
)
STEPS = (SpectralSwap(),)


def table(records: int = 900) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    wages = np.round(rng.gamma(2.0, 900.0, records), 1)
    frame = pd.DataFrame(
        {
            "id": [f"P{number}" for number in range(records)],
            "age": rng.integers(18, 80, records),
            "wages": wages,
            "total": wages,
            "region": rng.choice(["north", "east", "west"], records),
            "grade": rng.integers(1, 6, records),
        }
    )
    # Levels and violations that only one part of the file holds, values that repeat, and units without a key.
    frame.loc[5, ["age", "region"]] = -9, "south"
    frame.loc[880:884, "total"] += 1.0
    frame.loc[600:640, ["age", "wages", "total", "region", "grade"]] = 40, 100.5, 100.5, "north", 3
    frame.loc[600:620, "id"] = None
    return frame


@dataclass(frozen=True)
class Taken:
    """A table after the first steps."""

    run: Run
    ingested: Ingested
    checked: Checked
    split: Split


def taken(
    folder: Path,
    rows: int | None,
    reference: str = "holdout",
    patch: pytest.MonkeyPatch | None = None,
    path: str = "people",
    most: int | None = None,
) -> Taken:
    run = Run.start(Home.locate(folder / "home"), SeedSection(public=7, data_are_public=True))
    source = folder / "people"
    if not source.exists():
        source.mkdir()
        for name, part in (("a", table()[:350]), ("b", table()[350:])):
            part.to_parquet(source / f"{name}.parquet", index=False)
        table().to_csv(folder / "people.csv.gz", index=False, sep=";", decimal=",")
    if rows is not None:
        assert patch is not None
        patch.setattr(partitions, "ROWS", rows)
        patch.setattr(hashes, "AT_ONCE", 200)
        run = replace(run, executor=Serial())
    read = ingest if rows is None else ingest_partitions
    ingested = read(run, SourceSection(path=path, delimiter=";", decimal=","), VARIABLES, folder)
    checked = validate_raw(run, ingested, EDITS)
    given = (run, checked, ReferenceSection(kind=reference), Declared(VARIABLES), folder)
    return Taken(run, ingested, checked, split(*given, most))


def both_sides(given: Taken, masked: Masked, steps=STEPS) -> tuple[MaskedSides, MaskedSides]:
    """Return the whole table with its release, and the sub-table with its own."""
    sub, own = given.split.sub_table, given.run.branch(os.urandom(4).hex(), "sub-table")
    return MaskedSides(given.split, masked), MaskedSides(sub, mask_records(own, sub.original, steps, EDITS.edit_set()))


def whole(stored) -> pd.DataFrame:
    return pd.concat([part.frame for part in stored.parts()]).reset_index(drop=True)


@pytest.mark.parametrize("path", ["people", "people.csv.gz"])
def test_what_is_read_checked_and_set_apart_is_as_in_memory(tmp_path, monkeypatch, path):
    memory, cut = taken(tmp_path, None, path=path), taken(tmp_path, 333, patch=monkeypatch, path=path)
    assert cut.ingested.summary == memory.ingested.summary
    assert cut.checked.report == memory.checked.report
    assert (cut.checked.set_aside, memory.checked.set_aside) == (5, 5)
    assert cut.split.summary == replace(memory.split.summary, disjoint=cut.split.summary.disjoint)
    for mine, theirs in ((cut.split.original, memory.split.original), (cut.split.reference, memory.split.reference)):
        assert mine.schema == theirs.load().schema
        pd.testing.assert_frame_equal(whole(mine), theirs.load().frame.reset_index(drop=True))
    monkeypatch.setattr(members, "AT_ONCE", 150)
    units = [recognise(one.run, one.checked, one.split) for one in (cut, memory)]
    assert [len(list(one.identities())) for one in units] == [3, 1]
    for one in units:
        one.keep(memory.run.home, f"{one.whole}")
    mine, theirs = (memory.run.home.members_of(f"{one.whole}").read_bytes() for one in units)
    assert mine == theirs, "the same units are kept alike"


def test_figures_of_groups_are_found_as_in_memory_also_where_a_dropped_column_names_the_groups(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"firm": np.repeat(np.arange(40), 20), "wage": rng.integers(900, 9000, 800)})
    frame["top"] = frame.groupby("firm")["wage"].transform("max")
    frame.sample(frac=1.0, random_state=2).to_csv(tmp_path / "employees.csv", index=False)
    variables = (
        Variable("firm", "nominal", role="excluded"),
        Variable("wage", "continuous"),
        Variable("top", "continuous"),
    )
    monkeypatch.setattr(partitions, "ROWS", 300)
    run = Run.start(Home.locate(tmp_path / "home"), SeedSection(public=7, data_are_public=True))
    source = SourceSection(path="employees.csv")
    memory = ingest(run, source, variables, tmp_path)
    cut = ingest_partitions(replace(run, executor=Serial()), source, variables, tmp_path)
    assert [(one.variable, one.kind) for one in memory.figures] == [("top", "greatest")]
    assert cut.figures == memory.figures


def test_the_sub_table_is_of_both_sides_and_of_the_same_units_every_time(tmp_path, monkeypatch):
    monkeypatch.setattr(splitting, "SUB_TABLE", 60)
    both = [taken(tmp_path, rows, "cross", monkeypatch).split for rows in (300, 900)]
    first, second = (one.sub_table for one in both)
    assert len(first.original.load()) == 120
    halves = [half.original.load() for half in first.halves]
    assert not set(halves[0].frame.index) & set(halves[1].frame.index)
    pd.testing.assert_frame_equal(first.original.load().frame, second.original.load().frame)
    for reference in ("cross", "holdout", "leave-one-out"):
        memory = taken(tmp_path, None, reference, most=400).split.sub_table
        cut = taken(tmp_path, 300, reference, monkeypatch).split.sub_table
        assert whole(memory.original).equals(whole(cut.original))
        assert len(memory.halves) == len(cut.halves)
    assert taken(tmp_path, None, most=900).split.sub_table is None
    # One that would hold all masked records is none.
    monkeypatch.setattr(splitting, "SUB_TABLE", 450)
    for reference in ("cross", "leave-one-out", "holdout"):
        drawn = taken(tmp_path, None, reference, most=400).split.sub_table
        assert (drawn is None) == (reference != "leave-one-out")


@pytest.mark.parametrize("reference", ["holdout", "leave-one-out"])
def test_all_records_in_memory_are_measured_as_those_in_partitions(tmp_path, monkeypatch, reference):
    monkeypatch.setattr(splitting, "SUB_TABLE", 200)
    monkeypatch.setattr(full_release, "IN_MEMORY", 170)
    measured, sub_table = [], assessment()
    for given in (taken(tmp_path, None, reference, most=300), taken(tmp_path, 300, reference, monkeypatch)):
        masked = mask_records(given.run, given.split.original, STEPS, EDITS.edit_set())
        asked = (given.run, *both_sides(given, masked), sub_table, AssessmentSection(), PolicySection())
        measured.append(full_release.with_full_release(*asked))
    assert measured[0].full_release == measured[1].full_release
    assert measured[0].risk.dominance == measured[1].risk.dominance
    assert measured[0].claims == measured[1].claims


def test_masking_does_not_depend_on_the_partitions_and_one_block_is_masked_as_in_memory(tmp_path, monkeypatch):
    edits = EDITS.edit_set()
    memory = taken(tmp_path, None)
    expected = whole(mask(memory.run, memory.split.original, STEPS, edits).released)
    one = taken(tmp_path, 500, patch=monkeypatch)
    pd.testing.assert_frame_equal(whole(mask_partitions(one.run, one.split.original, STEPS, edits).released), expected)
    monkeypatch.setattr(masking, "BLOCK_ROWS", 150)
    made: list[Masked] = []
    for rows in (200, 900):
        given = taken(tmp_path, rows, patch=monkeypatch)
        made.append(mask_partitions(given.run, given.split.original, STEPS, edits))
        validated = validate_masked(made[-1], EDITS, given.split.original)
        assert validated.report.success
        assert {rule.checked for rule in validated.report.rules if rule.kind == "linear"} == {len(expected)}
    pd.testing.assert_frame_equal(whole(made[0].released), whole(made[1].released))
    assert made[0].notes[0] == "the records were masked in 4 random blocks, each as a table of its own"
    assert made[0].claims[0].records == len(expected)


def test_copies_are_found_in_the_full_release_that_no_sub_table_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(splitting, "SUB_TABLE", 200)
    given = taken(tmp_path, 200, patch=monkeypatch)
    original: StoredPartitions = given.split.original
    masked = mask_partitions(given.run, original, STEPS, EDITS.edit_set())

    def results(released: Masked) -> dict[str, str]:
        asked = (given.run, *both_sides(given, released), assessment(), AssessmentSection(), PolicySection())
        return {one.name: one.verdict for one in GATE.evaluate(full_release.with_full_release(*asked), PolicySection())}

    assert results(masked)["identical records, full release"] == "pass"
    assert results(masked)["membership, full release"] != "fail"
    close = [f"{one} records, full release" for one in ("unusually close", "isolated", "extreme")]
    assert [results(masked)[name] for name in close] == ["pass"] * 3
    measured = full_release.with_full_release(
        given.run, *both_sides(given, masked), assessment(), AssessmentSection(), PolicySection()
    )
    assert {"full/tail/p", "full/isolated/n_released", "full/extreme/n_matched"} <= GATE.metrics(measured).keys()
    leaking = replace(masked, released=_with_copies(masked.released, original, 0.2))
    failed = {name for name, verdict in results(leaking).items() if verdict == "fail"}
    assert {"identical records, full release", "membership, full release", close[0]} <= failed


def test_records_that_are_only_coded_are_compared_in_the_codes_of_the_release(tmp_path, monkeypatch):
    monkeypatch.setattr(splitting, "SUB_TABLE", 200)
    given, steps = taken(tmp_path, 200, patch=monkeypatch), (ValueCoding(base={"wages": 7.0}),)
    masked = mask_partitions(given.run, given.split.original, steps, EditSet([]))
    asked = (given.run, *both_sides(given, masked, steps), assessment(), AssessmentSection(), PolicySection())
    measured = full_release.with_full_release(*asked).full_release
    assert measured.identical.verdict == "fail"
    assert measured.identical.n_released == len(given.split.original)
    shifts = {one.variable: one.distance for one in measured.shifts}
    assert shifts["wages"] > 0 == shifts["age"]


@pytest.mark.parametrize(("people", "found"), [(2, {"age", "region", "grade"}), (20, set())])
def test_values_that_one_or_two_people_lack_together_are_found_in_the_full_release(
    tmp_path, monkeypatch, people, found
):
    monkeypatch.setattr(splitting, "SUB_TABLE", 600)
    frame = table().astype({"age": "Int64", "grade": "Int64"})
    frame["region"] = frame["region"].replace("south", "north")
    lacking = [["age"], ["region"], ["grade"], ["age", "region"], ["age", "grade"], ["region", "grade"]]
    for names, rows in zip(lacking, np.random.default_rng(0).permutation(850).reshape(-1, 85), strict=False):
        frame.loc[rows[: 85 if len(names) == 1 else people], names] = None
    (tmp_path / "people").mkdir()
    frame.to_parquet(tmp_path / "people" / "a.parquet", index=False)
    given = taken(tmp_path, 200, "leave-one-out", patch=monkeypatch)
    steps = (RankSwapping(),)
    masked = mask_partitions(given.run, given.split.original, steps, EDITS.edit_set())
    asked = (given.run, *both_sides(given, masked, steps), assessment(), AssessmentSection(), PolicySection())
    assert set(full_release.with_full_release(*asked).source_levels) == found


def test_a_large_reference_does_not_hide_copies_in_a_small_release(tmp_path):
    run, serial = Run.start(Home.locate(tmp_path), SeedSection(public=7, data_are_public=True)), Serial()
    rng = np.random.default_rng(1)
    schema = Schema([Variable("x", "continuous")])

    def stored(name: str, values: np.ndarray) -> StoredPartitions:
        data = Microdata(pd.DataFrame({"x": values.astype(float)}), schema)
        return StoredPartitions(partitioned(serial.store, name, data, 500), serial)

    people, others, masked = (rng.integers(4000, size=n) for n in (400, 3600, 400))
    copied = np.append(people[:80], masked[80:])
    original, reference = stored("original", people), stored("reference", others)
    for name, values, verdict in (("masked", masked, "pass"), ("copied", copied, "fail")):
        same = full_release._identical(run, original, stored(name, values), reference, ["x"], 0.01)
        assert same.verdict == verdict


def test_one_person_outside_the_sub_table_dominates_the_full_release_and_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(splitting, "SUB_TABLE", 60)
    given = taken(tmp_path, 200, patch=monkeypatch)
    original: StoredPartitions = given.split.original
    store, name = original.executor.store, original.table.column("wages")
    inside = set(given.split.sub_table.original.load().frame.index)
    place = next(row for row in range(original.table.rows[0]) if row not in inside)
    values = store.read(name, 0).copy()
    values[place] = 123456789.0
    store.write(name, 0, values)

    def result(released: StoredPartitions) -> tuple[str, tuple[str, ...], int]:
        asked = (
            given.run,
            *both_sides(given, replace(made, released=released)),
            assessment(),
            AssessmentSection(),
            PolicySection(),
        )
        (one,) = dominance.GATE.evaluate(full_release.with_full_release(*asked), PolicySection())
        return one.verdict, one.variables, one.records

    made = mask_partitions(given.run, original, STEPS, EDITS.edit_set())
    assert result(_with_copies(made.released, original, 1.0)) == ("fail", ("wages",), len(original))
    column = made.released.table.column("wages")
    for partition in made.released.table.partitions():
        store.write(column, partition, np.minimum(store.read(column, partition), 1_000.0))
    assert result(made.released)[0] == "pass"


def _with_copies(released: StoredPartitions, original: StoredPartitions, share: float) -> StoredPartitions:
    """Return a release of which a share of the records are the original's."""
    store, copied = original.executor.store, replace(released.table, name="leaking", schema=original.schema)
    for partition, rows in enumerate(copied.rows):
        own = released.table.load(store, partition)
        for variable in copied.schema:
            column = own.frame[variable.name].copy()
            source = whole(original)[variable.name].iloc[: int(share * rows)]
            column.iloc[: int(share * rows)] = source.to_numpy()
            data = Microdata(pd.DataFrame({variable.name: column}), copied.schema.select([variable.name]))
            chunk = data.frame[variable.name]
            values = chunk.to_numpy(np.float64) if variable.kind == "continuous" else chunk.cat.codes.to_numpy()
            store.write(copied.column(variable.name), partition, values)
    return StoredPartitions(copied, released.executor)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.assign(id="same"), "records share a value of id"),
        (lambda f: f.assign(wages=f["wages"].astype(str)), "columns of different types: wages"),
        (lambda f: f.drop(columns="grade"), "do not have the same columns"),
        (lambda f: f.assign(region=0), "columns of different types: region"),
    ],
)
def test_what_partitions_cannot_hold_is_refused(tmp_path, monkeypatch, change, message):
    (tmp_path / "people").mkdir()
    table()[:350].to_parquet(tmp_path / "people" / "a.parquet", index=False)
    change(table()[350:]).to_parquet(tmp_path / "people" / "b.parquet", index=False)
    with pytest.raises(Refused, match=message):
        taken(tmp_path, 500, patch=monkeypatch)


def test_levels_of_few_people_are_looked_for_as_the_release_is_recoded(tmp_path, monkeypatch):
    monkeypatch.setattr(splitting, "SUB_TABLE", 600)
    given = taken(tmp_path, 200, "leave-one-out", patch=monkeypatch)
    original = given.split.original
    # One person lives in the south.
    recodings = (Recoding("region", {level: str(level)[0] for level in original.schema["region"].levels or ()}),)
    masked = mask_partitions(given.run, original, (), EDITS.edit_set())
    coarse = recoded_partitions(masked.released, recodings, "coarse")
    full, tested = both_sides(given, replace(masked, released=coarse, recodings=recodings), ())
    asked = (given.run, full, tested, assessment(), AssessmentSection(), PolicySection())
    measured = full_release.with_full_release(*asked)
    assert "region" in measured.source_levels
    # The sub-table is not recoded.
    assert measured.full_release.coarser == ("region",)
