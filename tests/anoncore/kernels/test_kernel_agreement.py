"""Agreement with rows, over several tiles of them, is what a plain sum gives."""

import numpy as np
import pytest

from anoncore.kernels.agreement import largest_agreement, log_mean_evidence


def intervals(width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of 5000 rows, and 12 records' half-open intervals of so many codes, with which of them each row lies in."""
    draw = np.random.default_rng(0)
    rows = draw.integers(0, 9, size=(4, 5000)).astype(np.int32)
    lower = draw.integers(0, 9, size=(12, 4)).astype(np.int32)
    return rows, lower, (rows >= lower[:, :, None]) & (rows < lower[:, :, None] + width)


@pytest.mark.parametrize("width", [1, 2])
def test_the_two_largest_agreements_are_those_of_a_plain_sum(width):
    rows, lower, agrees = intervals(width)
    weights = np.random.default_rng(1).integers(0, 4, size=(12, 4)).astype(np.float32)
    best, second, place = largest_agreement(lower, lower + np.int32(width), weights, rows)
    sums = (weights[:, :, None] * agrees).sum(axis=1)
    ordered = np.sort(sums, axis=1)
    assert np.array_equal(np.stack([second, best]), ordered[:, -2:].T)
    assert np.array_equal(place, sums.argmax(axis=1))


@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0])
@pytest.mark.parametrize("width", [1, 2])
def test_mean_evidence_and_its_parts_are_those_of_plain_sums(width, scale):
    rows, lower, agrees = intervals(width)
    weights = (scale * np.random.default_rng(2).normal(size=(12, 4))).astype(np.float32)
    upper = lower + np.int32(width)
    mean, inside = log_mean_evidence(lower, upper, weights, np.arange(4), rows, parts=True)
    sums = (weights.astype(float)[:, :, None] * agrees).sum(axis=1)
    terms = np.exp(sums - sums.max(axis=1, keepdims=True))
    np.testing.assert_allclose(mean, sums.max(axis=1) + np.log(terms.mean(axis=1)), rtol=1e-6, atol=1e-6)
    shares = (terms[:, None] * agrees).sum(axis=2) / terms.sum(axis=1)[:, None]
    np.testing.assert_allclose(inside, shares, rtol=1e-5, atol=1e-5)
