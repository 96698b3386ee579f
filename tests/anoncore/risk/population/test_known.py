"""Risk where the population is known."""

from __future__ import annotations

import numpy as np
import pytest

from anoncore.errors import AnonymizationError
from anoncore.risk.population import known_population_risk


def test_equal_to_counting_record_by_record() -> None:
    rng = np.random.default_rng(11)
    people = rng.integers(-1, 3, size=(400, 3))
    records = people[rng.choice(400, 90, replace=False)]
    found = known_population_risk(records, people)
    there = [(people == record).all(axis=1).sum() for record in records]
    assert found.traced == pytest.approx(sum(1 / count for count in there))
    assert found.k_map == min(there)
    shares = [
        (records == one).all(axis=1).sum() / (people == one).all(axis=1).sum() for one in np.unique(people, axis=0)
    ]
    assert (found.presence_lower, found.presence_upper) == (min(shares), max(shares))


def test_records_are_part_of_their_population() -> None:
    with pytest.raises(AnonymizationError, match=r"1 key\(s\) occur more often"):
        known_population_risk([[0], [0]], [[0], [1]])
    with pytest.raises(AnonymizationError, match="the same columns"):
        known_population_risk([[0, 1]], [[0]])
