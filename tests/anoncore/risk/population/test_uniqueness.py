"""Population uniqueness where the population is known."""

from __future__ import annotations

import numpy as np
import pytest

from anoncore.errors import AnonymizationError
from anoncore.risk.population import population_uniqueness
from anoncore.risk.population.sizes import GroupSizes, PitmanEwens


def drawn_sizes(theta: float, alpha: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw group sizes from the Pitman–Ewens distribution by its sequential scheme."""
    groups: list[int] = []
    for i in range(n):
        at = rng.uniform(0, theta + i) - (theta + alpha * len(groups))
        if at < 0:
            groups.append(1)
            continue
        groups[
            int(np.searchsorted(np.cumsum(np.array(groups) - alpha), at, side="right").clip(0, len(groups) - 1))
        ] += 1
    return np.array(groups)


def test_pitman_finds_the_parameters_and_the_uniques_of_its_own_population() -> None:
    rng = np.random.default_rng(5)
    groups = drawn_sizes(40.0, 0.5, 6000, rng)
    people = np.repeat(np.arange(len(groups)), groups)
    unique = (np.bincount(people) == 1).sum() / len(people)
    sizes = np.bincount(rng.choice(people, 600, replace=False))
    found = population_uniqueness(sizes[sizes > 0], 6000)
    assert found.chosen == "pitman"
    assert found.pitman == pytest.approx(unique, rel=0.35)


def test_pitman_parameters_maximise_the_likelihood() -> None:
    value, count = np.array([1, 2, 3, 7]), np.array([50, 12, 5, 3])
    found = GroupSizes.of(np.repeat(value, count), 1e6)
    best = PitmanEwens.fitted(found)
    i, j = np.arange(1, found.groups), np.arange(1, found.records)
    likelihood = np.log(best.theta + i * best.alpha).sum() - np.log(best.theta + j).sum()
    likelihood += sum(n * np.log(np.arange(1, size) - best.alpha).sum() for size, n in zip(value, count, strict=True))
    assert best.log_likelihood(found) == pytest.approx(likelihood)
    for theta, alpha in ((1.01, 1.0), (0.99, 1.0), (1.0, 1.01), (1.0, 0.99)):
        assert PitmanEwens(best.theta * theta, best.alpha * alpha).log_likelihood(found) < likelihood


def test_the_negative_binomial_finds_the_uniques_of_its_own_population() -> None:
    rng = np.random.default_rng(6)
    people = np.repeat(np.arange(30_000), 1 + rng.negative_binomial(0.5, 0.2, 30_000))
    unique = (np.bincount(people) == 1).sum() / len(people)
    sizes = np.bincount(rng.choice(people, len(people) // 2, replace=False))
    found = population_uniqueness(sizes[sizes > 0], len(people))
    assert found.snb == pytest.approx(unique, rel=0.05)
    assert found.dankar == min(found.snb, found.zayatz)


def test_a_census_and_a_sample_without_uniques() -> None:
    assert population_uniqueness([2, 3], 50).dankar == 0.0
    assert population_uniqueness([1, 1, 2], 4).zayatz == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("sizes", "population", "message"), [([], 5, "at least 1"), ([1.5], 5, "at least 1"), ([3], 2, "at least the 3")]
)
def test_what_is_no_sample_is_refused(sizes, population, message) -> None:
    with pytest.raises(AnonymizationError, match=message):
        population_uniqueness(sizes, population)
