"""Boxes of a large table: the same in memory and in partitions, and true of the whole release."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anoncore import read_boxes
from anoncore.boxes.statistics import Statistic
from anoncore.claims import DistinctValues, KAnonymity
from anoncore.edits.kinds import LinearEdit
from anoncore.edits.model import EditSet
from anoncore.methods import MDAV, OptimalBoxes
from anoncore.methods.optimal_boxes.output import BoxFacts
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.store import Serial
from anoncore.partitions.table import partitioned
from tasks.common.errors import Refused
from tasks.common.partitions import StoredPartitions
from tasks.common.workspace import RECORD
from tasks.intake.validate import EditsSection, validate_masked
from tasks.masking import partitions
from tasks.masking.joined import union
from tasks.masking.partitions import mask_partitions, mask_records

NUMBERS = ("age", "wage")
SCHEMA = Schema(
    [
        Variable("age", "continuous", precision=1),
        Variable("wage", "continuous"),
        Variable("sex", "binary", levels=("f", "m")),
        Variable("region", "nominal", levels=("isle", "north", "south")),
        Variable("country", "ordinal", levels=(1, 2)),
    ]
)
STATED = (
    Statistic(statistic="mean", of=("wage",), accuracy=50.0),
    Statistic(statistic="correlation", of=("age", "wage")),
    Statistic(statistic="mean", of=("wage",), within={"sex": "f"}),
)
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "statistics": {"statistics": STATED},
    "fuzzy": {"rare": "fuzzy", "statistics": STATED, "A": 100.0},
    "crisp": {"rare": "crisp", "categorical": "constant"},
    "dropped": {"rare": "dropped", "statistics": STATED, "A": 100.0},
    "grid": {"bounds": "grid", "grid": {"age": 5.0}, "limits": {"age": (0.0, 120.0)}},
    "diverse": {"l": 2, "epsilon": {"wage": 10.0}, "categorical": "constant"},
    "means": {"release": "means"},
    "diverse means": {"release": "means", "l": 2},
}


@dataclass(frozen=True)
class _Stored:
    """A table in memory, as a reference to it."""

    data: Microdata

    def load(self) -> Microdata:
        return self.data

    def parts(self):
        yield self.data


@dataclass(frozen=True)
class _Workspace:
    def store(self, name: str, data: Microdata) -> _Stored:
        return _Stored(data)


@dataclass(frozen=True)
class _Streams:
    workspace: _Workspace = field(default_factory=_Workspace)

    def rng(self, stream: str) -> np.random.Generator:
        return np.random.default_rng(len(stream))


def table(records: int = 1500, seed: int = 1) -> Microdata:
    """People, some without a wage, few on the isle, all in one country."""
    rng = np.random.default_rng(seed)
    wage = np.round(rng.gamma(2.0, 900.0, records), 2)
    wage[rng.random(records) < 0.1] = np.nan
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, records).astype(float),
            "wage": wage,
            "sex": rng.choice(["f", "m", None], records, p=[0.5, 0.45, 0.05]),
            "region": rng.choice(["north", "south", "isle"], records, p=[0.6, 0.38, 0.02]),
            "country": 1,
        },
        index=np.arange(records) + 7,
    )
    return Microdata(frame, SCHEMA)


def in_parts(data: Microdata, rows: int) -> StoredPartitions:
    run = Serial()
    return StoredPartitions(partitioned(run.store, "t", data, rows), run)


def whole(stored: StoredPartitions) -> Microdata:
    frame = pd.concat([part.frame for part in stored.parts()])
    return Microdata.trusted(frame, stored.schema)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "BLOCK_ROWS", 400)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_boxes_are_the_same_in_memory_and_in_partitions(options):
    data, step = table(), OptimalBoxes(k=5, **options)
    memory = mask_records(_Streams(), _Stored(data), (step,), EditSet())
    for rows in (300, 2000):
        stored = in_parts(data, rows)
        apart = mask_partitions(_Streams(), stored, (step,), EditSet())
        pd.testing.assert_frame_equal(whole(apart.released).frame, memory.released.load().frame.reset_index(drop=True))
        assert apart.released.schema == memory.released.load().schema
        assert (apart.notes, apart.figures, apart.claims) == (memory.notes, memory.figures, memory.claims)
        assert (apart.points is None) == (memory.points is None) == (step.release == "means")
        if apart.points is not None:
            frame = memory.points.load().frame.reset_index(drop=True)
            pd.testing.assert_frame_equal(whole(apart.points).frame, frame)
        kept = {"t", "released"} | ({"points"} if apart.points is not None else set())
        assert {name.split("/")[0] for name, _ in stored.executor.store.chunks} == kept


@pytest.mark.parametrize("options", [o for n, o in OPTIONS.items() if "means" not in n])
def test_ranges_of_the_whole_release_are_true_and_numbered_once(options):
    data, step = table(), OptimalBoxes(k=5, **options)
    masked = mask_records(_Streams(), _Stored(data), (step,), EditSet())
    released, points = masked.released.load(), masked.points.load()
    source = data.frame.loc[released.frame.index]
    read = read_boxes(released.frame)
    boxes = released.frame.groupby("box", dropna=False)
    assert len(released.frame.drop_duplicates()) == read.boxes, "records of one box are identical"
    assert sorted(released.frame["box"].unique()) == list(range(read.boxes))
    assert (read.boxes, read.k) == (masked.figures["step1.boxes"], masked.figures["step1.smallest_box"])
    assert boxes.size().max() == masked.figures["step1.largest_box"]
    assert len(data) - len(released) == masked.figures["step1.left_out"]
    for name in NUMBERS:
        low, high, value = released.frame[f"{name}_lo"], released.frame[f"{name}_hi"], source[name]
        assert ((low <= value) & (value <= high) | (low.isna() & value.isna())).all()
        middle = (low + high) / 2
        np.testing.assert_allclose(points.frame[name], middle.round(0 if name == "age" else 2), atol=0.51)
    for name in ("sex", "region", "country"):
        words = source[name].astype("object").map(str, na_action="ignore").fillna("missing")
        texts = released.frame[name].astype("object").map(str, na_action="ignore").fillna("missing")
        assert all(word in text.split("|") for word, text in zip(words, texts, strict=True))
    promised = [KAnonymity(k=5), *([DistinctValues(l=2, columns=("age_distinct", "wage_distinct"))] if step.l else [])]
    for check, claim in zip(masked.claims, promised, strict=True):
        own = claim.check(released)
        assert check.holds
        assert own.holds
        assert {name: own.figures[name] for name in check.figures} == dict(check.figures)


@pytest.mark.parametrize("name", ["statistics", "fuzzy", "dropped", "plain"])
def test_statistics_are_reported_as_the_reader_of_the_whole_file_computes_them(name):
    step = OptimalBoxes(k=5, **OPTIONS[name])
    masked = mask_partitions(_Streams(), in_parts(table(), 500), (step,), EditSet())
    read = read_boxes(whole(masked.released).frame)
    asked = step.statistics or tuple(Statistic(statistic="mean", of=(n,)) for n in NUMBERS)
    for one in asked:
        found = read.estimate(one.statistic, *one.of, within=one.within)
        said = str(found).split(" (to first order")[0]
        assert any(note.startswith(said) for note in masked.notes), said
        if step.weighs:
            weighted = str(read.estimate(one.statistic, *one.of, weights=True, within=one.within))
            assert any(weighted.split(" (to first order")[0] in note for note in masked.notes)
        if one.accuracy is not None:
            low, high = found.guaranteed
            assert masked.figures["step1.mean_wage.guaranteed"] == pytest.approx((high - low) / 2 / one.accuracy)
    (sizes,) = [note for note in masked.notes if "records were put into" in note]
    assert sizes.startswith(f"records were put into {read.boxes} boxes, those of one block disjoint, of {read.k} to ")
    left_out = [note for note in masked.notes if "left out" in note]
    assert len(left_out) == (name == "dropped")
    assert sum("biased for the population" in note for note in masked.notes) == step.weighs


def test_boxes_are_numbered_in_no_order_of_the_blocks():
    masked = mask_partitions(_Streams(), in_parts(table(), 500), (OptimalBoxes(k=5),), EditSet())
    numbers = whole(masked.released).frame["box"].to_numpy()
    assert abs(np.corrcoef(np.arange(len(numbers)), numbers)[0, 1]) < 0.15


def test_records_that_are_left_out_leave_the_labels_of_the_others():
    data, step = table(), OptimalBoxes(k=5, **OPTIONS["dropped"])
    memory = mask_records(_Streams(), _Stored(data), (step,), EditSet())
    stored = in_parts(data, 500).with_column(RECORD, data.frame.index.to_numpy())
    apart = mask_partitions(_Streams(), stored, (step,), EditSet())
    assert len(apart.released) == len(memory.released.load()) < len(data)
    assert apart.released.whole(RECORD).tolist() == memory.released.load().frame.index.tolist()


def test_a_variable_that_one_box_per_level_holds_is_a_set_in_every_block():
    data = table()
    masked = mask_partitions(_Streams(), in_parts(data, 500), (OptimalBoxes(k=5),), EditSet())
    assert (masked.released.schema["country"].kind, masked.released.schema["country"].levels) == ("nominal", ("1",))
    constant = mask_partitions(_Streams(), in_parts(data, 500), (OptimalBoxes(k=5, categorical="constant"),), EditSet())
    assert constant.released.schema["country"] == Variable("country", "ordinal", levels=(1,))


def test_steps_before_boxes_are_reported_beside_them():
    masked = mask_partitions(_Streams(), in_parts(table(), 500), (MDAV(k=3), OptimalBoxes(k=6)), EditSet())
    before = "ranges and guaranteed bounds hold for the values after step 1, not of the source's"
    assert masked.notes.count(before) == 1
    assert {"step1", "step2"} == {name.split(".")[0] for name in masked.figures}
    assert masked.figures["step2.boxes"] == read_boxes(whole(masked.released).frame).boxes


def test_edits_are_checked_on_the_ranges_of_every_partition():
    data = table()
    frame = data.frame.assign(tax=data.frame["wage"] / 4, net=data.frame["wage"] * 0.75)
    schema = Schema([*data.schema, Variable("tax", "continuous"), Variable("net", "continuous")])
    section = EditsSection(rules=(LinearEdit(name="sum", terms={"tax": 1.0, "net": 1.0, "wage": -1.0}),))
    stored = in_parts(Microdata(frame, schema), 400)
    masked = mask_partitions(_Streams(), stored, (OptimalBoxes(k=5),), section.edit_set())
    assert "ranges were narrowed to what the edits sum leave of them, as any reader could" in masked.notes
    checked = validate_masked(masked, section, stored)
    assert checked.report.success
    assert {r.checked + r.missing for r in checked.report.rules if r.name.startswith("sum")} == {len(data)}


def test_a_block_without_enough_distinct_values_refuses_the_run():
    data = table()
    schema = Schema([*data.schema, Variable("children", "continuous")])
    few = np.where(np.arange(len(data)) < 2, 3.0, 2.0)
    stored = in_parts(Microdata(data.frame.assign(children=few), schema), 500)
    with pytest.raises(Refused, match=r"released without children_distinct, which others have"):
        mask_partitions(_Streams(), stored, (OptimalBoxes(k=5, l=2),), EditSet())
    exempt = OptimalBoxes(k=5, l=2, epsilon={"children": 5.0})
    masked = mask_partitions(_Streams(), stored, (exempt,), EditSet())
    assert any(note.startswith("no distinct values are promised of children, which has fewer") for note in masked.notes)


def test_columns_that_mean_different_things_are_not_joined():
    one, other = (Schema([Variable("s", "nominal", description=f"parted by {mark}")]) for mark in "|;")
    with pytest.raises(Refused, match="its values mean something else"):
        union([one, other], one)


def test_what_holds_of_some_blocks_is_said_of_these():
    one = BoxFacts(k=5, l=2, ranges=True, overlapping=True, boxes=3, smallest=5, largest=9, left_out=1, dropped=2)
    blocks = [replace(one, binding=("sum", "tax"), exempt=("age",)), replace(one, binding=("sum",), followed=("wage",))]
    whole = BoxFacts.of_blocks([*blocks, replace(blocks[1], smallest=6, largest=11, left_out=0, dropped=0)])
    assert whole.figures == {"boxes": 9, "smallest_box": 5, "largest_box": 11, "left_out": 6}
    sizes, left_out, exempt, dropped, followed, binding, partly = whole.notes
    assert sizes.startswith("records were put into 9 boxes, which overlap, of 5 to 11 records")
    assert left_out.startswith("2 record(s) were left out: those with whom fewer than 5 share")
    assert exempt == "no distinct values are promised of age, which has fewer than 2 in a block of records"
    assert dropped.startswith("4 further record(s)")
    assert followed.startswith("the outermost bounds of wage follow the extreme values of their block")
    assert binding == "ranges were narrowed to what the edits sum leave of them, as any reader could"
    assert partly == "those of some blocks were narrowed to what the edits tax leave of them, too"
