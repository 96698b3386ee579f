"""Masking in blocks: what is rare is rare in the table, not in a block of it."""

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pytest

from anoncore.edits.kinds import LinearEdit
from anoncore.edits.model import EditSet
from anoncore.kernels.streams import Stream
from anoncore.methods import MDAV, GroupAnonymity, RankSwapping, RareLevels, SpectralSwap
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.store import Serial
from anoncore.partitions.table import partitioned
from anoncore.recoding import Recoding
from tasks.common.errors import Refused
from tasks.common.partitions import StoredPartitions
from tasks.masking import partitions
from tasks.masking.anonymize import MaskReport
from tasks.masking.partitions import mask_part, mask_partitions, mask_records


@dataclass(frozen=True)
class _Whole:
    """A table in memory, as a reference to it."""

    data: Microdata

    def load(self) -> Microdata:
        return self.data


@dataclass(frozen=True)
class _Workspace:
    """Gives back what is stored in it."""

    def store_arrays(self, name: str, **arrays: np.ndarray) -> dict[str, np.ndarray]:
        assert name in ("confidential", "scores")
        return arrays

    def store(self, name: str, data: Microdata) -> _Whole:
        assert name in ("released", "step-input")
        return _Whole(data)


@dataclass(frozen=True)
class _Streams:
    workspace: _Workspace = field(default_factory=_Workspace)

    def rng(self, stream: str) -> np.random.Generator:
        return np.random.default_rng(len(stream))


def test_levels_that_are_rare_in_blocks_alone_are_kept(monkeypatch):
    monkeypatch.setattr(partitions, "BLOCK_ROWS", 300)
    rng, run = np.random.default_rng(1), Serial()
    region = np.repeat(["north", "south", "isle", "rock"], [1000, 960, 36, 4])
    frame = pd.DataFrame({"x": rng.normal(size=2000), "region": rng.permutation(region)})
    data = Microdata(frame, Schema([Variable("x", "continuous"), Variable("region", "nominal")]))
    stored = StoredPartitions(partitioned(run.store, "t", data, 700), run)
    steps = (RareLevels(k=20, action="redistribute"), SpectralSwap())
    masked = mask_partitions(_Streams(), stored, steps, EditSet())
    released = pd.concat([part.frame for part in masked.released.parts()])
    assert set(released["region"]) == {"north", "south", "isle"}
    assert (released["region"] == "isle").sum() in range(36, 41)
    assert [claim.kind for claim in masked.claims] == ["NoRareLevels", "NoFormalGuarantee"]
    assert all(claim.holds for claim in masked.claims)
    assert any("held by fewer than 20 records is replaced" in note for note in masked.notes)
    # Nothing but the source and the release is left in the store.
    assert {name.split("/")[0] for name, _ in run.store.chunks} == {"t", "released"}


@pytest.mark.parametrize("step", [MDAV(k=5), SpectralSwap()], ids=lambda step: step.method)
def test_a_large_table_is_masked_in_the_same_blocks_in_memory(monkeypatch, step):
    monkeypatch.setattr(partitions, "BLOCK_ROWS", 300)
    rng, run = np.random.default_rng(1), Serial()
    frame = pd.DataFrame({"x": rng.normal(size=1000), "y": rng.normal(size=1000).round(1)}, index=np.arange(1000) + 7)
    data = Microdata(frame, Schema([Variable("x", "continuous"), Variable("y", "continuous")]))
    stored = StoredPartitions(partitioned(run.store, "t", data, 400), run)
    apart = pd.concat([part.frame for part in mask_partitions(_Streams(), stored, (step,), EditSet()).released.parts()])
    masked = mask_records(_Streams(), _Whole(data), (step,), EditSet())
    together = masked.released.load().frame
    pd.testing.assert_frame_equal(together.reset_index(drop=True), apart.reset_index(drop=True))
    assert masked.keeps_records == (step.method == "mdav")
    if masked.keeps_records:
        assert sorted(together.index) == sorted(frame.index)
        assert together["x"].corr(frame["x"].loc[together.index]) > 0.9
    assert all(claim.holds for claim in masked.claims)


def test_what_is_published_of_blocks_is_of_all_of_them(monkeypatch):
    monkeypatch.setattr(partitions, "BLOCK_ROWS", 20)
    rng, run, reports = np.random.default_rng(1), Serial(), []
    frame = pd.DataFrame({"x": rng.normal(size=50), "y": rng.normal(size=50)})
    data = Microdata(frame, Schema([Variable("x", "continuous"), Variable("y", "continuous")]))
    stored = StoredPartitions(partitioned(run.store, "t", data, 50), run)
    one_block = partitions._Plan.report

    def recorded(plan, done):
        reports.append(one_block(plan, done))
        return reports[-1]

    monkeypatch.setattr(partitions._Plan, "report", recorded)
    masked = mask_partitions(_Streams(), stored, (MDAV(k=5),), EditSet())
    released = pd.concat([part.frame for part in masked.released.parts()])
    sizes = [one.records for one in reports]
    assert len(set(sizes)) > 1
    (claim,) = masked.claims
    count = len(released.drop_duplicates())
    smallest = min(one.whole.claims[0].figures["smallest_group"] for one in reports)
    assert (claim.records, dict(claim.figures)) == (50, {"smallest_group": smallest, "groups": count})
    every = f"{len(sizes)} of {len(sizes)} blocks of records"
    assert claim.observed == f"holds in {every}, smallest group {smallest}, groups {count}"
    assert f"the records were masked in {len(sizes)} random blocks, each as a table of its own" in masked.notes
    for name, value in masked.figures.items():
        assert value == pytest.approx(np.average([one.whole.figures[name] for one in reports], weights=sizes))
    assert masked.figures


def test_recodings_are_those_of_all_blocks():
    coarser = MaskReport(keeps_records=True, recodings=(Recoding("region", levels={"isle": "south"}),))
    assert partitions._recodings([coarser, coarser]) == coarser.recodings
    with pytest.raises(Refused, match="recoded differently"):
        partitions._recodings([coarser, replace(coarser, recodings=())])


AREAS = ("a", "b", "c", "d")
MEMBERS = (30, 12, 18, 200)


def _garrison() -> Microdata:
    """Return 2000 people of five areas, the group's counts in four of them known; their total is what edits compute."""
    rng, area = np.random.default_rng(1), np.arange(2000) % 5
    serves = np.zeros(2000, dtype=bool)
    for place, count in enumerate(MEMBERS):
        serves[rng.choice(np.flatnonzero(area == place), count, replace=False)] = True
    frame = pd.DataFrame(
        {
            "area": np.array([*AREAS, "elsewhere"])[area],
            "rent": rng.normal(9 + area, 1).round(2),
            "serves": np.where(serves, "yes", "no"),
            "wage": rng.normal(30, 5, 2000).round(2),
            "age": rng.integers(18, 80, 2000).astype(float),
        }
    ).assign(total=lambda f: (f["rent"] + f["wage"]).round(2))
    kinds = {"area": "nominal", "serves": "binary"}
    return Microdata(frame, Schema(Variable(name, kinds.get(name, "continuous")) for name in frame))


HIDING = GroupAnonymity(
    vital=({"serves": ("yes",)},),
    parameter="area",
    order=AREAS,
    wavelet="haar",
    level=1,
    caps={"d": 60},
    details="winsorised",
    follows=("rent",),
    match_on=("age",),
)
YOUNG = {"vital": ({"age": tuple(range(18, 30))},), "caps": {"a": 60}, "match_on": ("wage",)}
SUM = EditSet([LinearEdit(name="total", terms={"rent": 1.0, "wage": 1.0, "total": -1.0}, dependent="total")])


def _counted(frame: pd.DataFrame) -> pd.Series:
    return frame.loc[frame["serves"] == "yes", "area"].astype(str).value_counts().reindex(AREAS, fill_value=0)


@pytest.mark.parametrize(
    "steps",
    [
        (HIDING,),
        (RareLevels(k=5, action="redistribute"), HIDING),
        (HIDING, SpectralSwap()),
        (HIDING, replace(HIDING, **YOUNG, kept=HIDING.vital), RankSwapping()),
    ],
    ids=lambda steps: " ".join(step.method for step in steps),
)
def test_a_group_is_hidden_in_the_whole_table_whatever_the_partitions(monkeypatch, steps):
    monkeypatch.setattr(partitions, "BLOCK_ROWS", 700)
    data, made = _garrison(), []
    for rows in (2000, 700, 260):
        run = Serial()
        stored = StoredPartitions(partitioned(run.store, "t", data, rows), run)
        made.append(mask_partitions(_Streams(), stored, steps, SUM))
        assert {name.split("/")[0] for name, _ in run.store.chunks} == {"t", made[-1].released.table.name}
    frames = [pd.concat([part.frame for part in one.released.parts()], ignore_index=True) for one in made]
    whole = mask_records(_Streams(), _Whole(data), steps, SUM)
    frames.append(whole.released.load().frame.reset_index(drop=True))
    for frame, one in zip(frames, [*made, whole], strict=True):
        pd.testing.assert_frame_equal(frame, frames[0])
        assert (one.claims, one.notes, one.figures) == (made[0].claims, made[0].notes, made[0].figures)
        assert one.repair == made[0].repair
        assert set(one.confidential) == set(made[0].confidential)
    assert all(claim.holds for claim in whole.claims if claim.kind in ("GroupCounts", "NoRareLevels"))
    assert _counted(data.frame).tolist() == list(MEMBERS)
    after = next(value for name, value in whole.confidential.items() if name.endswith(".after"))
    assert _counted(frames[0]).tolist() == after.tolist()
    assert after[3] <= 60
    assert (frames[0]["rent"] + frames[0]["wage"] - frames[0]["total"]).abs().max() < 1e-9
    assert frames[0]["area"].value_counts().to_dict() == data.frame["area"].value_counts().to_dict()
    assert whole.records_unchanged == all(step.prepares for step in steps)
    assert {"area", "rent", "total"} <= set(whole.hidden_variables)
    assert any("moving members again" in note for note in whole.notes) == (steps[-1] is not HIDING)
    if whole.keeps_records:
        own = data.frame["wage"].loc[whole.released.load().frame.index].reset_index(drop=True)
        assert frames[0]["wage"].corr(own) > 0.9
        assert frames[0]["wage"].equals(own) == whole.records_unchanged


def test_a_part_of_the_table_is_masked_without_the_steps_that_hide_a_group():
    data = _garrison()
    alone = mask_part(_Streams(), _Whole(data), (HIDING,), SUM, _Whole(data))
    pd.testing.assert_frame_equal(alone.released.load().frame, data.frame)
    assert (alone.records_unchanged, alone.hidden_variables) == (True, ("area", "rent", "total"))
    both = mask_part(_Streams(), _Whole(data), (HIDING, SpectralSwap()), SUM, _Whole(data))
    swapped = mask_records(_Streams(), _Whole(data), (SpectralSwap(),), SUM)
    pd.testing.assert_frame_equal(both.released.load().frame, swapped.released.load().frame)
    assert (both.records_unchanged, both.hidden_variables) == (False, ("area", "rent", "total"))


def test_a_group_hidden_after_another_step_is_hidden_in_memory_as_a_whole(monkeypatch):
    monkeypatch.setattr(partitions, "BLOCK_ROWS", 700)
    steps = (RankSwapping(), HIDING)
    assert list(partitions.block_obstacles(steps, SUM, _garrison().schema)) == [
        "has no group-anonymity after rank-swapping, which masks blocks of records: put it before"
    ]
    needs_memory = replace(HIDING, weight="rent")
    assert not list(partitions.block_obstacles((needs_memory, HIDING), SUM, _garrison().schema))
    masked = mask_records(_Streams(), _Whole(_garrison()), steps, SUM)
    assert not any("blocks" in note for note in masked.notes)
    assert _counted(masked.released.load().frame)["d"] <= 60


def test_levels_that_follow_a_hidden_group_are_refused_in_blocks():
    schema = Schema(Variable("total", "ordinal") if v.name == "total" else v for v in _garrison().schema)
    (problem,) = partitions.block_obstacles((HIDING, SpectralSwap()), SUM, schema)
    assert problem == "has no levels that edits compute from what a hidden group exchanges: total"


def test_a_part_of_which_no_step_treats_single_records_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(partitions, "BLOCK_ROWS", 40)
    garrison = _garrison()
    masked = mask_part(_Streams(), _Whole(garrison), (HIDING,), EditSet(), _Whole(garrison))
    frames = (garrison.frame, masked.released.load().frame[list(garrison.frame)])
    own, released = (frame.sort_values(list(frame)).reset_index(drop=True) for frame in frames)
    pd.testing.assert_frame_equal(released, own, check_dtype=False)
    assert masked.hidden_variables


@pytest.mark.parametrize("rows", [2, 4])
def test_numbers_computed_again_have_the_unit_that_all_records_need(rows):
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.2], "y": [1.2, 2.0, 3.0, 4.2]})
    schema = Schema([*(Variable(n, "continuous") for n in "xy"), Variable("s", "continuous", precision=1)])
    data = Microdata(frame.assign(s=(frame.x + frame.y).round()), schema)
    edit = LinearEdit(name="s", terms={"x": 1.0, "y": 1.0, "s": -1.0}, dependent="s", tolerance=0.3)
    run = Serial()
    before, after = (partitioned(run.store, name, data, rows) for name in ("before", "after"))
    plan = partitions._Plan.of((), EditSet([edit]), 0, Stream.of(np.random.default_rng(0)), keeps_labels=False)
    table = partitions._computed_again(run, before, after, plan)
    values = np.concatenate([run.store.read(table.column("s"), part) for part in table.partitions()])
    assert values.tolist() == [2.2, 4.0, 6.0, 8.4]
    assert table.schema["s"].precision == 0.1
