"""Distances within the original: the level is kept, and copies are found whatever else a release does."""

import numpy as np
import pytest

from anoncore.risk.closeness import closeness
from anoncore.risk.within import EqualRecords

ROWS = np.arange(2000)


def numbers(seed: int, size: int = 2000) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(size, 5))


def levels(seed: int, size: int = 2000) -> np.ndarray:
    """Four associated variables of six levels: some records are held once, and most again and again."""
    draw = np.random.default_rng(seed)
    return np.floor(np.exp(0.7 * (draw.normal(size=(size, 4)) + draw.normal(size=(size, 1))))).clip(0, 5)


def p_values(original: np.ndarray, released: np.ndarray) -> dict[str, float]:
    rows = np.arange(len(original))
    close = closeness(original, released, None, 5, queries=rows, rng=np.random.default_rng(0))
    return {
        "tail": close.tail(0.1, 0.01).p,
        "isolated": close.isolated(0.1, 0.01).p,
        "identical": close.identical(0.01).p,
    }


@pytest.mark.parametrize("kind", [numbers, levels])
@pytest.mark.parametrize("size", [300, 600, 1500])
def test_other_samples_come_no_closer_than_the_level_says(kind, size):
    found = [p_values(kind(seed, 600), kind(1000 + seed, size)) for seed in range(60)]
    for name in found[0]:
        low = sum(one[name] < 0.05 for one in found)
        assert low <= 0.05 * 60 + 2 * np.sqrt(0.05 * 0.95 * 60), name


def test_equal_records_are_found_whatever_the_layout_of_the_tables():
    rows = numbers(1, 300)
    rows = np.hstack([rows, numbers(2, 300), numbers(3, 300)])
    found = EqualRecords.of(rows[:50], rows, np.asfortranarray(rows))
    assert (found.original == 1).all()
    assert (found.released == 1).all()


@pytest.mark.parametrize("times", [1, 5, 20])
def test_copies_are_found_however_often_each_is_repeated(times):
    original, released = numbers(1), numbers(2)
    released[: 40 * times] = np.repeat(original[:40], times, axis=0)
    found = p_values(original, released)
    assert found["identical"] < 0.001
    assert found["tail"] < 0.001


def test_copies_of_rare_records_are_found_where_those_that_repeat_are_left_out():
    original, released = levels(1), levels(2)
    held = np.unique(original, axis=0, return_inverse=True, return_counts=True)
    rare = np.flatnonzero(held[2][held[1].ravel()] == 1)
    assert len(rare) > 60
    released[: len(rare)] = original[rare]
    repeated = {tuple(row) for row in original[held[2][held[1].ravel()] == 2]}
    released = np.array([row for row in released if tuple(row) not in repeated])
    assert p_values(original, released)["identical"] < 0.001


def test_near_copies_of_isolated_people_are_found_where_a_group_is_left_out():
    original, released = numbers(1), numbers(2)
    apart = np.array([12.0, 0, 0, 0, 0])
    original[:60] = apart + 0.02 * numbers(3, 60)
    far = np.argsort(-np.linalg.norm(original[60:], axis=1))[:40] + 60
    released[:40] = original[far] + 1e-3
    assert p_values(original, released)["isolated"] < 0.005


@pytest.mark.parametrize(("rows", "verdict"), [(6, "inconclusive"), (200, "pass")])
def test_few_rows_of_a_release_prove_nothing(rows, verdict):
    original = numbers(1, 400)
    close = closeness(original, numbers(2, rows), None, 5, queries=np.arange(400), rng=np.random.default_rng(0))
    assert close.tail(0.1, 0.001).verdict == verdict
