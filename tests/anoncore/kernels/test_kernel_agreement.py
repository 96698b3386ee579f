"""Agreement with rows, over several tiles of them, is what a plain sum gives."""

import numpy as np

from anoncore.kernels.agreement import largest_agreement


def test_the_two_largest_agreements_are_those_of_a_plain_sum():
    draw = np.random.default_rng(0)
    rows = draw.integers(0, 9, size=(4, 5000)).astype(np.int32)
    lower = draw.integers(0, 9, size=(12, 4)).astype(np.int32)
    weights = draw.integers(0, 4, size=(12, 4)).astype(np.float32)
    best, second, place = largest_agreement(lower, lower + 2, weights, rows)
    agrees = (rows >= lower[:, :, None]) & (rows < lower[:, :, None] + 2)
    sums = (weights[:, :, None] * agrees).sum(axis=1)
    ordered = np.sort(sums, axis=1)
    assert np.array_equal(np.stack([second, best]), ordered[:, -2:].T)
    assert np.array_equal(place, sums.argmax(axis=1))
