"""Minimal sample uniques against exhaustive search."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from anoncore.errors import AnonymizationError
from anoncore.kernels.minimal_uniques import minimal_uniques


def by_search(codes: np.ndarray, largest: int) -> set[tuple[int, int]]:
    found = set()
    for row in codes:
        own: list[tuple[int, ...]] = []
        for size in range(1, largest + 1):
            for some in combinations(range(codes.shape[1]), size):
                smaller = any(set(one) <= set(some) for one in own)
                if not smaller and (row[list(some)] >= 0).all():
                    own += [some] if (codes[:, some] == row[list(some)]).all(axis=1).sum() == 1 else []
        found |= {(int(np.flatnonzero((codes == row).all(axis=1))[0]), sum(1 << j for j in one)) for one in own}
    return found


@pytest.mark.parametrize(("lowest", "largest"), [(0, 5), (-1, 5), (0, 2)])
def test_equal_to_exhaustive_search(lowest: int, largest: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(8):
        codes = np.unique(rng.integers(lowest, 4, size=(20, 5)), axis=0)
        rows, sets = minimal_uniques(codes, np.ones(len(codes), dtype=bool), largest)
        pairs = list(zip(rows.tolist(), sets.tolist(), strict=True))
        assert len(pairs) == len(set(pairs))
        assert set(pairs) == by_search(codes, largest)


def test_records_that_are_not_alone_are_not_found_and_still_compared() -> None:
    codes = np.array([[0, 0], [0, 1], [1, 1]])
    rows, sets = minimal_uniques(codes, np.array([True, False, False]), 2)
    assert (rows.tolist(), sets.tolist()) == ([0], [2])
    assert not len(minimal_uniques(codes[:0], np.ones(0, dtype=bool), 2)[0])


def test_more_variables_than_a_mask_holds_are_refused() -> None:
    with pytest.raises(AnonymizationError, match="at most 62 variables"):
        minimal_uniques(np.zeros((1, 63), dtype=int), np.ones(1, dtype=bool), 2)
