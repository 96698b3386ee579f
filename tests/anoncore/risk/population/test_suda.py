"""Scores of special uniques."""

from __future__ import annotations

import numpy as np
import pytest

from anoncore.errors import AnonymizationError
from anoncore.risk.population import special_uniques


def test_scores_contributions_and_dis_by_hand() -> None:
    found = special_uniques([[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 0]], fraction=0.1)
    # The first is alone on the first and third variable together, the second on the third.
    assert found.score.tolist() == [1.0, 2.0, 0.0, 0.0]
    assert found.contributions == pytest.approx([1 / 3, 0.0, 1.0])
    # Two unique records, two in a pair: a match is correct with chance 0.2 / (0.2 + 1.8).
    power = np.array([1.0, 2.0]) ** 1.25
    assert found.dis[:2] == pytest.approx(1 / (1 + 2 * 9 / (power * (1 / power).sum())))
    assert not found.dis[2:].any()


def test_a_missing_value_is_a_level_or_in_no_unique() -> None:
    keys = [[-1, 0], [0, 0], [0, 0], [1, 1], [1, 1]]
    assert special_uniques(keys).score[0] == 1.0
    assert not special_uniques(keys, missing_is_level=False).score.any()


def test_small_sets_alone_are_searched() -> None:
    keys = np.random.default_rng(4).integers(0, 3, size=(60, 5))
    every, small = special_uniques(keys), special_uniques(keys, largest=3)
    assert small.minimal == every.minimal[:3]
    with pytest.raises(AnonymizationError, match="between 1 and the 5 variables"):
        special_uniques(keys, largest=6)


def test_without_uniques_nothing_is_scored() -> None:
    found = special_uniques([[0, 1]] * 3)
    assert not found.score.any()
    assert not found.contributions.any()
