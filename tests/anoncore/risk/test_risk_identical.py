"""Records that two of three sets have in common: the rarest first, and those of one group."""

from __future__ import annotations

import numpy as np
import pytest

from anoncore.microdata import ComparedUnits
from anoncore.risk.closeness import closeness
from anoncore.risk.identical import RecordsOfTwoSets, identical_records


def people(rng: np.random.Generator, records: int = 2000) -> np.ndarray:
    """Draw records of whom a fifth has few values, which repeat, and others numbers that hardly ever do."""
    values = rng.integers(300, size=(records, 4)).astype(float)
    values[rng.random(records) < 0.2, 1:] = 0.0
    return values


def test_few_copies_of_rare_records_stand_out_among_many_that_chance_repeats() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        members, released, others = (people(rng) for _ in range(3))
        members[:10] += 1000.0
        released[:10] = members[:10]
        close = closeness(members, released, others, 5, queries=np.arange(2000), rng=rng)
        assert close.identical(0.01).p > 1e-4
        assert RecordsOfTwoSets.of(members, released, others).rarest_first() < 1e-4


@pytest.mark.parametrize("sizes", [(1000, 1000, 1000), (1000, 1000, 300), (1000, 300, 1000), (400, 1500, 900)])
def test_by_chance_records_are_any_samples_whatever_the_sizes(sizes: tuple[int, int, int]) -> None:
    shares, p = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        levels = rng.choice(8, size=(sum(sizes), 3), p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.05, 0.03, 0.02]).astype(float)
        found = RecordsOfTwoSets.of(*np.split(levels, np.cumsum(sizes)[:-1]))
        shares.append((found.copied, found.records))
        p += [found.rarest_first(), found.in_one_group()]
    copied, records = np.sum(shares, axis=0)
    assert copied / records == pytest.approx(found.share, abs=3.5 * np.sqrt(0.25 / records))
    assert np.mean(np.array(p) < 0.01) <= 0.04


def test_a_small_group_that_is_copied_stands_out_among_many_that_chance_repeats() -> None:
    rng = np.random.default_rng(1)
    members, released, others = rng.integers(9, size=(3, 900, 4)).astype(float)
    harmless = RecordsOfTwoSets.of(members, released, others)
    group = (members[:, 0] == 2) & (members[:, 1] == 3)
    kept = ~((released[:, 0] == 2) & (released[:, 1] == 3))
    planted = RecordsOfTwoSets.of(members, np.concatenate([released[kept], members[group]]), others)
    assert 5 <= group.sum() <= 30
    assert planted.in_one_group() < 0.01 < harmless.in_one_group()
    assert RecordsOfTwoSets.of(members[:30], released[:30], others[:30]).in_one_group() == 1.0


def test_where_all_are_copied_there_is_nobody_to_count_values_among() -> None:
    rng = np.random.default_rng(0)
    rows, others = people(rng, 300), people(rng, 300)
    assert RecordsOfTwoSets.of(rows, rows, others).rarest_first() < 1e-6
    assert RecordsOfTwoSets.of(rows, others + 5000.0, others - 5000.0).rarest_first() == 1.0


def test_without_columns_nothing_is_in_common() -> None:
    none = RecordsOfTwoSets.of(*np.empty((3, 5, 0)), variables=np.empty(0, dtype=np.intp))
    assert (none.copied, none.records, none.rarest_first(), none.in_one_group()) == (0, 0, 1.0, 1.0)


def test_columns_of_one_variable_count_once() -> None:
    rng = np.random.default_rng(1)
    levels, numbers = rng.integers(3, size=(3, 300)), rng.integers(60, size=(3, 300))
    wide = [np.column_stack([np.eye(3)[level], number]) for level, number in zip(levels, numbers, strict=True)]
    coded = [np.column_stack([level, number]).astype(float) for level, number in zip(levels, numbers, strict=True)]
    one, other = RecordsOfTwoSets.of(*wide, variables=np.array([0, 0, 0, 1])), RecordsOfTwoSets.of(*coded)
    assert (one.copied, one.records, one.coded.shape) == (other.copied, other.records, other.coded.shape)
    assert one.rarest_first() == other.rarest_first()


def test_records_of_one_unit_count_once() -> None:
    rng = np.random.default_rng(0)
    members, released, others = (people(rng, 400) for _ in range(3))
    members[:8] += 1000.0
    released[:8] = members[:8]
    units = ComparedUnits(np.arange(400) // 8, np.arange(400) // 8)
    assert RecordsOfTwoSets.of(members, released, others).rarest_first() < 0.01
    assert RecordsOfTwoSets.of(members, released, others, units=units).rarest_first() > 0.01


def test_records_that_one_set_alone_holds_are_counted_once_where_they_are_given() -> None:
    near, far = np.where(np.arange(6) < 3, 0.0, 1.0), np.ones(6)
    rows = np.array([[1.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    assert identical_records(near, far, far).only_released == 3
    assert identical_records(near, far, far, records=rows).only_released == 2
