"""Totals that one contribution dominates, beside a count of every group by itself."""

from __future__ import annotations

import numpy as np
import pytest

from anoncore.kernels.dominated import OPEN, Contributions


def tables(seed: int) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, int]:
    rng = np.random.default_rng(seed)
    records = int(rng.integers(6, 60))
    amounts = np.where(rng.random(records) < 0.1, rng.integers(1, 9, records) * 100.0, 0.0)
    deviations = amounts + (seed % 3 == 0) * rng.normal(size=records)
    units = None if seed % 2 else rng.integers(0, records // 2 + 1, records)
    groups = np.unique(rng.integers(0, max(1, records // 5), records), return_inverse=True)[1]
    return deviations, units, groups, int(rng.integers(2, 5))


def expected(deviations: np.ndarray, units: np.ndarray | None, groups: np.ndarray, k: int) -> list[bool]:
    units = np.arange(len(deviations)) if units is None else units
    everybody = [deviations[units == unit].sum() for unit in np.unique(units)]
    median, found = np.median(np.abs(everybody)), []
    for group in range(groups.max() + 1):
        inside = groups == group
        parts = [deviations[inside & (units == unit)].sum() for unit in np.unique(units[inside])]
        largest, *others = sorted(parts, key=abs, reverse=True)
        left = max(sum(map(abs, others[1:])), (len(parts) - 2) * median)
        near = sum(abs(one - largest) <= left for one in everybody)
        found.append(len(parts) > 2 and largest != 0 and left <= OPEN * abs(largest) and near < k)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_every_group_by_itself_gives_the_same(seed: int) -> None:
    deviations, units, groups, k = tables(seed)
    assert Contributions(deviations, units, k).dominate(groups).tolist() == expected(deviations, units, groups, k)


@pytest.mark.parametrize("seed", range(60))
def test_pools_are_whole_groups_of_which_none_is_dominated(seed: int) -> None:
    deviations, units, groups, k = tables(seed)
    parts, means = Contributions(deviations, units, k), np.bincount(groups, deviations) / np.bincount(groups)
    pools = parts.pools(groups, means[:, None], means)
    assert not parts.dominate(pools[groups]).any() or pools.max() == 0
    if not parts.dominate(groups).any():
        assert pools.tolist() == list(range(len(means)))


def test_a_heap_is_nobodys() -> None:
    cost = np.array([*np.zeros(27), 700.0, 700.0, 700.0])
    groups = np.repeat([0, 1, 2], 10)[np.argsort(np.r_[0:9, 27, 9:18, 28, 18:27, 29])]
    assert Contributions(cost, None, 4).dominate(groups).all()
    assert not Contributions(cost, None, 3).dominate(groups).any()


def test_ordinary_numbers_are_dominated_in_no_group() -> None:
    rng = np.random.default_rng(1)
    for numbers in (rng.normal(size=2000), rng.lognormal(size=2000), rng.exponential(size=2000)):
        deviations, groups = np.sort(numbers) - np.median(numbers), np.repeat(np.arange(400), 5)
        assert not Contributions(deviations, None, 5).dominate(groups).any()
