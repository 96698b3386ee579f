"""With whom people are compared: others of the original, or of a reference, as many as the release has."""

import numpy as np
import pytest

from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import nearest
from anoncore.microdata import ComparedUnits
from anoncore.risk.closeness import Closeness, closeness, compared_with


def test_without_a_reference_the_own_distances_are_those_of_the_nearest_others():
    people = np.random.default_rng(0).normal(size=(120, 3))
    asked = np.arange(0, 120, 2)
    close = closeness(people, people, None, 5, queries=asked, rng=np.random.default_rng(1))
    far = nearest(people[asked], people, 1, skip_self=asked)[0] / np.sqrt(3)
    assert np.allclose(close.own, far[:, 0])
    assert close.released.distance.max() == 0.0
    # Who is in the release is met by it, and nobody by the mirrored distance.
    assert (close.chance > 1e5 * close.own).all()


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
    met = nearest(levels(4000, 1), levels(4000, 2), 1)[0][:, 0] == 0
    # Of the rows as many as the reference has were compared, and all counted.
    assert (test.p > 0.05, test.verdict, test.n_released) == (True, "pass", met.sum())
    assert found.released.n_released == (3999 if others == 400 else 1000) + (others == 400)


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
    assert harmless.within
    assert (harmless.kept, harmless.reference.n_released) == (1.0, 799)
    assert harmless.tail(0.1, 0.001).verdict == harmless.isolated(0.1, 0.001).verdict == "pass"
    assert (copied.tail(0.1, 0.001).verdict, copied.identical(0.001).n_released) == ("fail", 0)
    # Pairs of people with people of the reference are sought nevertheless.
    assert copied.pairs(0.1).n_people == 800 + others


def few_variables(seed: int, size: int = 4000) -> np.ndarray:
    """Two variables, one with outliers and one of three levels: who is isolated is so along one direction."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.standard_t(3, size), rng.integers(3, size=size)])


@pytest.mark.parametrize("reference", [None, few_variables(2, 300)])
def test_isolated_people_of_few_variables_are_not_met_too_often_without_other_people(reference):
    rows, failed = np.arange(4000), 0
    for seed in range(20):
        people, released = few_variables(10 + seed), few_variables(100 + seed)
        close = closeness(people, released, reference, 5, queries=rows, rng=np.random.default_rng(seed))
        failed += close.isolated(0.1, 0.01).p < 0.05
    assert failed <= 3


def test_isolated_people_are_found_without_other_people():
    people, released = few_variables(1), few_variables(2)
    far = np.argsort(-nearest(people, people, 1, skip_self=np.arange(4000))[0][:, 0])[:40]
    released[:40] = people[far] + 1e-4
    close = closeness(people, released, None, 5, queries=np.arange(4000), rng=np.random.default_rng(0))
    assert close.isolated(0.1, 0.001).verdict == "fail"


@pytest.mark.parametrize(("rows", "units"), [(1, None), (4, np.zeros(4, dtype=int))])
def test_a_reference_of_one_person_is_refused(rows, units):
    rng = np.random.default_rng(0)
    of_both = ComparedUnits(None, units)
    people, released, others = (rng.normal(size=(size, 3)) for size in (50, 50, rows))
    with pytest.raises(AnonymizationError, match="at least two people"):
        closeness(people, released, others, 5, queries=np.arange(50), rng=rng, units=of_both)


@pytest.mark.parametrize(("others", "few"), [(199, True), (200, False), (800, False)])
def test_a_reference_of_a_quarter_of_release_and_original_is_enough(others, few):
    rows, sizes = list(range(others)), (range(800), range(2000))
    for one, other in (sizes, sizes[::-1]):
        assert compared_with(one, other, rows) is (None if few else rows)
