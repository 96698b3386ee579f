"""Indicators of levels: what is found holds of every row, and one row to the contrary is enough."""

from __future__ import annotations

import numpy as np
import pytest

from anoncore.kernels.indicators import indicators

SIZES = (3, 7, 5)
COLUMNS = [[1, 2, 3], [5, 6, 7, 8, 9, 10, 11], [12, 13, 14, 15, 16]]


def table(rows: int, seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """A number, indicators, a binary variable after the first of them."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, q, rows) for q in SIZES]
    blocks = [np.where(code[:, None] == np.arange(q), 1.0, -1.0) for code, q in zip(codes, SIZES, strict=True)]
    blocks.insert(1, np.where(rng.random((rows, 1)) < 0.5, 1.0, -1.0))
    return np.hstack([rng.normal(size=(rows, 1)), *blocks]), codes


def test_groups_codes_and_distances():
    (one, codes), (other, others) = table(400, 1), table(3000, 2)
    found = indicators(one, other)
    assert [group.tolist() for group in found.groups] == COLUMNS
    np.testing.assert_array_equal(found.codes(one), codes)
    columns = found.columns
    apart = ((one[:50, None, columns] - other[None, :60, columns]) ** 2).sum(axis=2)
    differing = sum(a[:50, None] != b[None, :60] for a, b in zip(codes, others, strict=True))
    np.testing.assert_allclose(apart, 2 * found.gap**2 * differing)


@pytest.mark.parametrize("value", [-1.0, 0.5])
def test_one_row_without_a_level_is_enough(value):
    rows, _ = table(40_000, 3)
    rows[39_001, 5:12] = value
    assert [group.tolist() for group in indicators(rows).groups] == [COLUMNS[0], COLUMNS[2]]


def test_numbers_and_constants_have_no_groups():
    assert not indicators(np.random.default_rng(4).normal(size=(50, 4))).groups
    assert not indicators(np.ones((50, 4))).groups
