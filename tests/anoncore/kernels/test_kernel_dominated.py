"""Totals that one contribution dominates, beside a count of every group by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from anoncore.kernels.dominated import OPEN, Contributions, unexplained


def tables(seed: int) -> tuple[Contributions, np.ndarray, np.ndarray, list[bool]]:
    """Contributions, deviations and groups, and which groups are dominated by a count of each by itself."""
    rng = np.random.default_rng(seed)
    records = int(rng.integers(6, 60))
    amounts = np.where(rng.random(records) < 0.1, rng.integers(1, 9, records) * 100.0, 0.0)
    deviations = amounts + (seed % 3 == 0) * rng.normal(size=records)
    open_ = np.abs(deviations) * rng.uniform(0.3, 1.0, records)
    units = None if seed % 2 else rng.integers(0, records // 2 + 1, records)
    groups = np.unique(rng.integers(0, max(1, records // 5), records), return_inverse=True)[1]
    k = int(rng.integers(2, 5))
    parts = Contributions(deviations, units, k, open_)
    return (
        parts,
        deviations,
        groups,
        expected(deviations, open_, np.arange(records) if units is None else units, groups, k),
    )


def expected(deviations: np.ndarray, open_: np.ndarray, units: np.ndarray, groups: np.ndarray, k: int) -> list[bool]:
    everybody = [deviations[units == unit].mean() for unit in np.unique(units)]
    found = []
    for group in range(groups.max() + 1):
        inside = groups == group
        members = [inside & (units == unit) for unit in np.unique(units[inside])]
        members.sort(key=lambda of: abs(deviations[of].sum()), reverse=True)
        largest, *others = members
        missed = sum(open_[of].sum() ** 2 for of in others[1:])
        typical = sum(of.sum() for of in others[1:]) * np.median(open_) ** 2
        top, left = deviations[largest].sum(), math.sqrt(max(missed, typical))
        near = sum(abs(one - top / largest.sum()) <= left / largest.sum() for one in everybody)
        found.append(len(members) > 2 and top != 0 and left <= OPEN * abs(top) and near < k)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_every_group_by_itself_gives_the_same(seed: int) -> None:
    parts, _, groups, dominated = tables(seed)
    assert parts.dominate(groups).tolist() == dominated


@pytest.mark.parametrize("seed", range(60))
def test_pools_are_whole_groups_of_which_none_is_dominated(seed: int) -> None:
    parts, deviations, groups, _ = tables(seed)
    means = np.bincount(groups, deviations) / np.bincount(groups)
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


@pytest.mark.parametrize("size", [10, 40])
def test_errors_that_cancel_hide_no_giant(size: int) -> None:
    """Who takes the others for ordinary is off by the root of their number, and not by the sum of their deviations."""
    rng = np.random.default_rng(size)
    deviations, groups = rng.normal(size=20 * size), np.repeat(np.arange(20), size)
    deviations[::size] = 100.0 + 20.0 * np.arange(20)
    assert Contributions(deviations, None, 5).dominate(groups).all()


def test_what_other_variables_predict_hides_no_giant() -> None:
    rng = np.random.default_rng(0)
    staff, groups = rng.normal(size=200), np.repeat(np.arange(20), 10)
    energy = 10.0 * staff + 0.5 * rng.normal(size=200)
    energy[[0, 10]] = 150.0, 200.0
    assert not Contributions(energy, None, 5).dominate(groups).any()
    assert Contributions(energy, None, 5, unexplained(energy, staff[:, None])).dominate(groups)[:2].all()


def test_a_unit_with_many_records_counts_by_those_in_the_group() -> None:
    """Twelve months of a firm lie in twelve groups: its sum over all of them hides nothing in one."""
    rng = np.random.default_rng(1)
    deviations, units, groups = rng.normal(size=2400), np.repeat(np.arange(200), 12), np.arange(2400) % 240
    deviations[units == 0] = 80.0
    assert Contributions(deviations, units, 5).dominate(groups)[groups[units == 0]].all()
