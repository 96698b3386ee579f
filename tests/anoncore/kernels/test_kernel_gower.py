"""Groups by Gower's distance: against comparing all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from anoncore.kernels.gower import ONE, gower_groups, group_medians, group_modes


def distance(x, number, point):
    """Return Gower's distances of all records from a point, one after the other."""
    total = np.zeros(len(x), dtype=np.int64)
    for v, value in enumerate(point):
        for i, own in enumerate(x[:, v]):
            if number[v] and own >= 0 and value >= 0:
                total[i] += abs(int(own) - int(value))
            else:
                total[i] += ONE * (own != value)
    return total


def centre(x, number):
    point = []
    for v, column in enumerate(x.T):
        if not number[v]:
            point.append(min(set(column), key=lambda value, own=column: (-(own == value).sum(), value)))
        elif 2 * (column < 0).sum() > len(column):
            point.append(-1)
        else:
            point.append(int(column[column >= 0].astype(np.int64).sum()) // int((column >= 0).sum()))
    return point


def plain_groups(x, number, k):
    """MDAV-generic as it is described."""
    labels, left, label = np.zeros(len(x), dtype=int), np.arange(len(x)), 0
    while len(left) >= 2 * k:
        at = left[distance(x[left], number, centre(x[left], number)).argmax()]
        for _ in range(2 if len(left) >= 3 * k else 1):
            away = distance(x[left], number, x[at])
            away[left == at] = -1
            near = left[away.argsort(kind="stable")[:k]]
            labels[near], label = label, label + 1
            keep = ~np.isin(left, near)
            left, away = left[keep], away[keep]
            at = left[away.argmax()]
    labels[left] = label
    return labels


@pytest.mark.parametrize(("k", "n"), [(2, 61), (3, 60), (5, 64), (4, 7)])
def test_groups_are_those_of_comparing_all_records(k, n):
    rng = np.random.default_rng(k)
    number = np.array([True, False, True, False])
    x = np.column_stack([rng.integers(0, 5, n) * (ONE // 4), rng.integers(0, 3, n), *rng.integers(0, 4, (2, n))])
    x = np.where(rng.random(x.shape) < 0.1, -1, x).astype(np.int32)
    labels = gower_groups(x, number, k)
    assert labels.tolist() == plain_groups(x, number, k).tolist()
    assert np.bincount(labels).min() >= k
    assert np.bincount(labels).max() < 2 * k


def test_medians_and_modes_are_those_of_each_group():
    rng = np.random.default_rng(0)
    labels = np.append(np.arange(20), rng.integers(0, 20, 180))
    values = np.where(rng.random(200) < 0.2, np.nan, rng.integers(0, 9, 200).astype(float))
    for label, median, mode in zip(range(20), group_medians(values, labels), _modes(values, labels), strict=True):
        own = values[labels == label]
        assert median == np.nanmedian(own)
        codes, counts = np.unique(np.nan_to_num(own, nan=-1), return_counts=True)
        assert mode == codes[counts.argmax()]
    assert np.isnan(group_medians(np.array([np.nan]), np.array([0]))).all()


def _modes(values, labels):
    return group_modes(np.nan_to_num(values, nan=-1).astype(int), labels)
