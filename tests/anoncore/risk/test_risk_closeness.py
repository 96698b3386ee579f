"""With whom people are compared: others of the original, or of a reference, as many as the release has."""

import numpy as np
import pytest
from scipy.stats import binom

from anoncore.kernels.neighbors import nearest
from anoncore.risk.closeness import Closeness, closeness, compared_with, is_too_small


def test_without_a_reference_the_own_distances_are_those_of_the_two_nearest_others():
    people = np.random.default_rng(0).normal(size=(120, 3))
    asked = np.arange(0, 120, 2)
    close = closeness(people, people, None, 5, queries=asked, rng=np.random.default_rng(1))
    far = nearest(people[asked], people, 2, skip_self=asked)[0] / np.sqrt(3)
    assert np.allclose(close.own, far[:, 0])
    assert np.allclose(close.chance, far[:, 0] ** 2 / far[:, 1])


def levels(size: int, seed: int) -> np.ndarray:
    """Records of six associated variables of five levels, of which one in three is held once."""
    draw = np.random.default_rng(seed)
    return np.floor(np.exp(0.6 * (draw.normal(size=(size, 6)) + draw.normal(size=(size, 1))))).clip(0, 4)


def beside_few_others(released: np.ndarray, others: int) -> Closeness:
    rows, rng = np.arange(4000), np.random.default_rng(4)
    return closeness(levels(4000, 1), released, levels(others, 3), 5, queries=rows, rng=rng)


@pytest.mark.parametrize("others", [400, 1000])
def test_records_of_few_levels_are_not_identical_too_often_where_the_release_is_larger_than_the_reference(others):
    found = beside_few_others(levels(4000, 2), others)
    test = found.identical(0.01)
    # Of what one set alone holds nearly all is the release's.
    assert binom.sf(test.only_released - 1, test.only_released + test.only_reference, found.share) < 0.005
    assert (test.p > 0.05, test.verdict) == (True, "pass")


def test_copies_of_rare_records_are_found_where_the_release_is_larger_than_the_reference():
    people, released = levels(4000, 1), levels(4000, 2)
    rare = np.flatnonzero(nearest(people, people, 1, skip_self=np.arange(4000))[0][:, 0] > 0)
    released[: len(rare)] = people[rare]
    assert beside_few_others(released, 400).identical(0.001).verdict == "fail"


@pytest.mark.parametrize("others", [20, 60, 150])
def test_a_twentieth_of_copies_is_found_beside_a_reference_of_few(others):
    rng = np.random.default_rng(others)
    people, released, few = rng.normal(size=(800, 5)), rng.normal(size=(800, 5)), rng.normal(size=(others, 5))
    harmless = closeness(people, released, few, 5, queries=np.arange(800), rng=rng)
    released[:40] = people[:40] + 0.001
    copied = closeness(people, released, few, 5, queries=np.arange(800), rng=rng)
    assert harmless.few_others
    assert (harmless.kept, harmless.reference.n_released) == (1.0, 799)
    assert harmless.tail(0.1, 0.001).verdict == harmless.isolated(0.1, 0.001).verdict == "pass"
    assert (copied.tail(0.1, 0.001).verdict, copied.identical(0.001).n_released) == ("fail", 0)
    # Pairs of people with people of the reference are sought nevertheless.
    assert copied.pairs(0.1).n_people == 800 + others


@pytest.mark.parametrize(("others", "few"), [(199, True), (200, False), (800, False)])
def test_a_reference_of_a_quarter_of_release_and_original_is_enough(others, few):
    assert is_too_small(others, 800, 2000) is is_too_small(others, 2000, 800) is few
    rows = list(range(others))
    assert compared_with(range(800), range(2000), rows) is (None if few else rows)
