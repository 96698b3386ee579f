"""Records traced in populations that are known: the interval covers them."""

from __future__ import annotations

import numpy as np
import pytest

from anoncore.risk.population import expected_reidentifications, groups_of


def made_population(people: int, rng: np.random.Generator) -> np.ndarray:
    """Return the keys of a population: five skewed variables that depend on one of eight hidden kinds of people."""
    kind = rng.integers(8, size=people)
    columns = []
    for levels in (60, 12, 8, 6, 2):
        shares = rng.dirichlet(1.0 / np.arange(1, levels + 1), size=8)
        columns.append((rng.random(people)[:, None] > np.cumsum(shares, axis=1)[kind]).sum(axis=1).clip(0, levels - 1))
    return groups_of(np.stack(columns, axis=1))


@pytest.mark.parametrize("fraction", [0.02, 0.1])
def test_the_interval_covers_the_known_number(fraction: float) -> None:
    """As tests/benchmarks/test_bench_population_risk.py with 200 samples each, in short."""
    rng = np.random.default_rng(7)
    people = made_population(30_000, rng)
    size, covered = np.bincount(people), 0
    for _ in range(20):
        sample = rng.choice(people, round(fraction * len(people)), replace=False)
        counts = np.bincount(sample)
        found = expected_reidentifications(counts[counts > 0], len(people))
        covered += found.lower <= (1.0 / size[sample]).sum() <= found.upper
    assert covered >= 18


def test_limits() -> None:
    census = expected_reidentifications([1, 2, 3], 6)
    assert (census.lower, census.expected, census.upper) == (3.0, 3.0, 3.0)
    every_unique = expected_reidentifications([1] * 50, 5000)
    assert every_unique.upper == 50.0
    one_group = expected_reidentifications([40], 4000)
    assert one_group.expected == pytest.approx(0.01)
    large = expected_reidentifications([1] * 500 + [2] * 100 + [300_000], 3e7)
    assert 0 < large.lower <= large.expected <= large.upper < 601
    narrow, wide = (expected_reidentifications([1] * 9 + [4] * 9, 900, confidence=c) for c in (0.5, 0.99))
    assert wide.lower <= narrow.lower < narrow.upper < wide.upper
