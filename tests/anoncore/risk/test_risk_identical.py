"""Records that are released as they are: all, and those of rare values first."""

from __future__ import annotations

import numpy as np
import pytest

from anoncore.microdata import ComparedUnits
from anoncore.risk.closeness import Closeness, closeness
from anoncore.risk.identical import Coincidences


def people(rng: np.random.Generator, records: int = 2000) -> np.ndarray:
    """Draw records of whom a fifth has few values, which repeat, and others numbers that hardly ever do."""
    values = rng.integers(300, size=(records, 4)).astype(float)
    values[rng.random(records) < 0.2, 1:] = 0.0
    return values


def compared(seed: int, copied: int) -> Closeness:
    rng = np.random.default_rng(seed)
    members, released, others = (people(rng) for _ in range(3))
    members[:copied] += 1000.0
    released[:copied] = members[:copied]
    return closeness(members, released, others, 5, queries=np.arange(2000), rng=rng)


def test_few_copies_of_rare_records_stand_out_among_many_that_chance_repeats() -> None:
    for seed in range(5):
        close = compared(seed, 10)
        found = close.identical(0.01)
        forms = dict(found.forms)
        assert found.only_released + found.only_reference > 60
        assert forms["rarest first"] < 1e-4 < forms["all"]
        assert found.verdict == "fail"


def test_by_chance_the_rarest_records_are_any_samples() -> None:
    p = np.array([dict(compared(seed, 0).identical(0.01).forms)["rarest first"] for seed in range(100)])
    assert (p < 0.1).sum() <= 18
    assert (p < 0.01).sum() <= 4
    assert np.median(p) > 0.2


def test_where_all_are_copied_there_is_nobody_to_count_values_among() -> None:
    rows = people(np.random.default_rng(0), 300)
    assert Coincidences.of(np.unique(rows, axis=0), rows[:0], rows, share=1 / 3).rarest_first() < 1e-9
    assert Coincidences.of(rows[:0], rows, rows, share=1 / 3).rarest_first() == 1.0


@pytest.mark.parametrize("of_units", [True, False])
def test_columns_of_one_variable_and_records_of_one_unit_count_once(of_units: bool) -> None:
    rng = np.random.default_rng(1)
    levels = np.eye(3)[rng.integers(3, size=400)]
    rows = np.column_stack([levels, rng.integers(40, size=400)])
    copied, by_chance = np.unique(rows[:8], axis=0), np.unique(rows[200:212], axis=0)
    given = {"share": 1 / 3, "units": np.arange(400) // 4 if of_units else None}
    by_variable = Coincidences.of(copied, by_chance, rows, variables=np.array([0, 0, 0, 1]), **given).rarest_first()
    coded = np.column_stack([levels.argmax(axis=1), rows[:, 3]])
    as_coded = [np.column_stack([one[:, :3].argmax(axis=1), one[:, 3]]) for one in (copied, by_chance)]
    assert by_variable == Coincidences.of(*as_coded, coded, **given).rarest_first()


def test_units_without_others_are_no_error() -> None:
    rng = np.random.default_rng(0)
    members, released, others = (people(rng, 400) for _ in range(3))
    units = ComparedUnits(np.arange(400) // 2, np.arange(400) // 2)
    close = closeness(members, released, others, 5, queries=np.arange(400), rng=rng, units=units)
    assert 0.0 < close.identical(0.01).p <= 1.0


def test_a_small_group_that_is_copied_stands_out_among_many_that_chance_repeats() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(6, size=(900, 4)).astype(float)
    kinds = np.unique(rows, axis=0)
    others = kinds[(kinds[:, 0] != 2) | (kinds[:, 1] != 3)]
    group = kinds[(kinds[:, 0] == 2) & (kinds[:, 1] == 3)]
    kept = rng.permutation(len(others))
    copied, by_chance = np.concatenate([group, others[kept[:100]]]), others[kept[100:300]]
    planted = Coincidences.of(copied, by_chance, rows, share=1 / 3)
    assert len(group) >= 14
    assert planted.in_one_group() < 0.0005 < planted.rarest_first()
    assert Coincidences.of(others[kept[:100]], by_chance, rows, share=1 / 3).in_one_group() > 0.05
    assert Coincidences.of(group[:3], group[3:6], rows, share=1 / 3).in_one_group() == 1.0
