"""A part of a table by which a release is judged: what is decided by counts is decided by the whole table."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest

from anoncore.edits.lookup import LookupEdit
from anoncore.edits.model import EditSet
from anoncore.method import Method
from anoncore.methods import PRAM, GlobalRecoding, LocalSuppression, RareLevels, SpectralSwap
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.store import Threads
from anoncore.partitions.table import partitioned
from anoncore.recoding import Rows
from tasks.common.partitions import StoredPartitions
from tasks.masking.partitions import for_parts, mask_part, mask_records

LEVELS = [f"{area}{number}" for area in "ab" for number in range(10)]
HIERARCHY = Rows(tuple((level, level[0], "*") for level in LEVELS))
FINE = {"keys": ("place",), "hierarchies": {"place": HIERARCHY}, "suppression": 0.0}


@dataclass(frozen=True)
class _Stored:
    data: Microdata

    def load(self) -> Microdata:
        return self.data


@dataclass(frozen=True)
class _Workspace:
    def store(self, name: str, data: Microdata) -> _Stored:
        return _Stored(data)

    def store_arrays(self, name: str, **arrays: np.ndarray) -> dict[str, np.ndarray]:
        return arrays


@dataclass(frozen=True)
class _Run:
    workspace: _Workspace = field(default_factory=_Workspace)
    executor: None = None

    def rng(self, stream: str) -> np.random.Generator:
        return np.random.default_rng(len(stream))


def table() -> Microdata:
    """Return 20 levels that 12 people hold each."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"place": np.repeat(LEVELS, 12), "x": rng.normal(size=240).round(2)})
    return Microdata(
        frame, Schema([Variable("place", "nominal", role="quasi-identifier"), Variable("x", "continuous")])
    )


def half(data: Microdata) -> Microdata:
    return data.take(np.arange(0, len(data), 2))


def both(steps: tuple[Method, ...], edits: EditSet | None = None, data: Microdata | None = None):
    """Return what is released of all records, and of a half that stands for them."""
    data = data or table()
    all_ = mask_records(_Run(), _Stored(data), steps, edits or EditSet())
    return all_, mask_part(_Run(), _Stored(half(data)), steps, edits or EditSet(), _Stored(data))


@pytest.mark.parametrize(
    "first",
    [
        GlobalRecoding(k=10, **FINE),
        RareLevels(k=10),
        RareLevels(k=10, action="suppress"),
        RareLevels(k=10, action="redistribute"),
        LocalSuppression(k=10),
    ],
    ids=lambda step: f"{step.method} {getattr(step, 'action', '')}",
)
@pytest.mark.parametrize("last", [(), (SpectralSwap(),)], ids=["alone", "swap"])
def test_what_all_people_hold_often_enough_is_released_of_a_part_as_well(first, last):
    all_, part = both((first, *last))
    released = part.released.load()
    assert set(all_.released.load().frame["place"]) == set(LEVELS)
    assert set(released.frame["place"]) == set(LEVELS)
    assert part.recodings == all_.recodings
    assert len(released) == 120
    assert not part.decided_alone


def test_a_part_is_recoded_as_the_table_is():
    all_, part = both((GlobalRecoding(k=20, **FINE), SpectralSwap()))
    assert part.recodings == all_.recodings
    assert len(part.recodings) == 1
    assert set(part.released.load().frame["place"]) == {"a", "b"}


def test_a_step_after_one_that_masks_counts_as_few_units_as_are_in_the_part():
    steps = PRAM(variables=("place",), keep=0.9), RareLevels(k=10)
    part = both(steps)[1]
    assert part.decided_alone
    # Counts of a part vary, so that a few levels are rare there; all would be with k = 10.
    assert len(set(part.released.load().frame["place"])) > 10


def test_a_sub_table_keeps_the_levels_of_the_large_table_and_is_the_same_in_memory_as_in_partitions():
    steps = RareLevels(k=10, action="redistribute"), SpectralSwap()
    threads, data = Threads(), table()
    stored = StoredPartitions(partitioned(threads.store, "original", data, 50), threads)
    released = []
    for whole in (_Stored(data), stored):
        decided = for_parts(_Run(), whole, steps)
        assert decided[1:] == steps[1:]
        sub = mask_part(_Run(), _Stored(half(data)), decided, EditSet())
        assert not sub.decided_alone
        half_of_it = mask_part(_Run(), _Stored(half(half(data))), decided, EditSet(), _Stored(half(data)))
        released += [[one.released.load().frame for one in (sub, half_of_it)]]
        assert [set(one["place"]) for one in released[-1]] == [set(LEVELS)] * 2
    for one, other in zip(*released, strict=True):
        pd.testing.assert_frame_equal(one, other)
    alone = mask_part(_Run(), _Stored(half(data)), steps, EditSet())
    assert len(set(alone.released.load().frame["place"])) < len(LEVELS)


def test_steps_that_do_not_decide_by_counts_are_the_same_for_parts():
    assert for_parts(_Run(), _Stored(table()), (SpectralSwap(),)) == (SpectralSwap(),)
    assert for_parts(_Run(), _Stored(table()), ()) == ()


def test_edits_look_up_in_a_part_what_the_table_holds():
    frame = table().frame.assign(code=lambda one: "c" + one["place"].astype(str))
    schema = Schema([*table().schema, Variable("code", "nominal")])
    edits = EditSet([LookupEdit(name="code", dependent="code", of=("place",))])
    _, part = both((RareLevels(k=10, action="redistribute"), SpectralSwap()), edits, Microdata(frame, schema))
    assert not part.released.load().frame["code"].isna().any()
