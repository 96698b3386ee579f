"""Risk measures for boxes, against one person and one box at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore import AnonymizationError
from anoncore.risk import box_density_attack, box_measures
from anoncore.risk import boxes as module


def scene(seed, people=30, boxes=12, columns=3, gaps=0.2, levels=2, wide=1.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(people, columns)).round(1)
    x[rng.random(x.shape) < gaps] = np.nan
    low = rng.normal(size=(boxes, columns)).round(1)
    high = (low + rng.exponential(wide, size=low.shape)).round(1)
    gone = rng.random(low.shape) < gaps
    low[gone] = high[gone] = np.nan
    codes = rng.integers(-2, 3, size=(people, levels))
    held = [rng.random((boxes, 4)) < 0.5 for _ in range(levels)]
    return x, low, high, rng.integers(2, 9, boxes), codes, held


def by_hand(person, low, high, codes, held):
    """Return the distance of one person to one box, coordinate by coordinate."""
    total = 0.0
    for value, a, b in zip(person, low, high, strict=True):
        if np.isnan(value) and np.isnan(a):
            continue
        if np.isnan(value) or np.isnan(a):
            total += 4.0
        elif value < a:
            total += (a - value) ** 2
        elif value > b:
            total += (value - b) ** 2
    for code, sets in zip(codes, held, strict=True):
        if code != -2 and not sets[code]:
            total += 4.0
    return np.sqrt(total / (len(person) + len(held)))


@given(
    seed=st.integers(0, 10**6),
    gaps=st.sampled_from([0.0, 0.3]),
    levels=st.integers(0, 2),
    wide=st.sampled_from([0.5, 5.0]),
)
@settings(max_examples=30, deadline=None)
def test_measures_against_one_person_and_box_at_a_time(seed, gaps, levels, wide):
    """Narrow boxes leave most people outside, wide ones overlap."""
    x, low, high, size, codes, held = scene(seed, gaps=gaps, levels=levels, wide=wide)
    found = box_measures(x, low, high, size, levels=codes, held=held)
    width = np.nan_to_num(high - low)
    spare = (width**2 / 12).mean(axis=1)
    volume = np.log(np.maximum(width, 1e-9)).mean(axis=1)
    for i in range(len(x)):
        distances = np.array([by_hand(x[i], low[b], high[b], codes[i], [h[b] for h in held]) for b in range(len(low))])
        near = np.flatnonzero(np.isclose(distances, distances.min(), rtol=0, atol=1e-12))
        assert found.distance[i] == pytest.approx(distances.min(), abs=1e-12)
        assert found.box[i] in near
        # Equal distances outside may differ in the last digit, and then count as one box or several.
        if distances.min() == 0.0 or len(near) == 1:
            assert found.size[i] == size[near].sum()
            assert found.reidentification[i] == 1.0 / size[near].sum()
            weights = size[near] / size[near].sum()
            assert found.uncertainty[i] == pytest.approx(weights @ spare[near])
            assert found.log_volume[i] == pytest.approx(weights @ volume[near])


def test_blocks_make_no_difference(monkeypatch):
    x, low, high, size, codes, held = scene(3, people=50)
    whole = box_measures(x, low, high, size, levels=codes, held=held)
    monkeypatch.setattr(module, "_PEOPLE", 7)
    parts = box_measures(x, low, high, size, levels=codes, held=held)
    for name in ("box", "distance", "size"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    for name in ("uncertainty", "log_volume"):
        np.testing.assert_allclose(getattr(whole, name), getattr(parts, name))


def test_levels_tell_boxes_of_one_place_apart():
    low, high, size = np.zeros((2, 1)), np.ones((2, 1)), np.array([4, 6])
    people = np.array([[0.5], [0.5], [0.5]])
    alone = box_measures(people, low, high, size)
    assert alone.size.tolist() == [10, 10, 10]
    held = (np.array([[True, False, False], [False, True, False]]),)
    told = box_measures(people, low, high, size, levels=np.array([[0], [1], [-2]]), held=held)
    assert told.size.tolist() == [4, 6, 10]
    assert told.distance.tolist() == [0.0, 0.0, 0.0]
    gap = box_measures(people[:1], low, high, size, levels=np.array([[-1]]), held=held)
    assert gap.distance.tolist() == [pytest.approx(np.sqrt(2.0))]


def test_release_of_the_records_themselves_scores_worst():
    rng = np.random.default_rng(0)
    members, others = rng.normal(size=(2, 60, 2))
    size = np.ones(60, dtype=int)
    found = box_measures(members, members, members, size)
    assert found.reidentification.tolist() == [1.0] * 60
    assert found.uncertainty.max() == 0.0
    nonmember = box_measures(others, members, members, size)
    assert box_density_attack(found, nonmember).verdict == "fail"
    assert box_density_attack(found, found).auc == 0.5


def test_one_box_for_all_tells_nobody():
    rng = np.random.default_rng(0)
    members, others = rng.normal(size=(2, 60, 2))
    low, high = np.full((1, 2), -9.0), np.full((1, 2), 9.0)
    found = [box_measures(side, low, high, np.array([60])) for side in (members, others)]
    assert box_density_attack(*found).auc == 0.5
    assert found[0].reidentification.tolist() == [1 / 60] * 60
    assert found[0].uncertainty.tolist() == [27.0] * 60


def test_who_is_in_no_box_did_not_take_part():
    """Where all boxes are alike, the share of non-members outside is all that an attacker has."""
    low, high, size = np.array([[0.0]]), np.array([[1.0]]), np.array([50])
    members = box_measures(np.linspace(0.0, 1.0, 50)[:, None], low, high, size)
    nonmembers = box_measures(np.linspace(0.0, 2.0, 101)[:, None], low, high, size)
    outside = float((nonmembers.distance > 0).mean())
    assert box_density_attack(members, nonmembers).auc == pytest.approx(0.5 + outside / 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: (a[0][:, :1], *a[1:]), "do not fit"),
        (lambda a: (a[0], a[1][:3], *a[2:]), "do not fit"),
        (lambda a: (a[0], a[2] + 1.0, a[2], a[3]), "boxes end before they begin"),
        (lambda a: (a[0], a[1][:0], a[2][:0], a[3][:0]), "do not fit"),
    ],
)
def test_what_does_not_fit_is_refused(change, said):
    x, low, high, size, *_ = scene(1)
    with pytest.raises(AnonymizationError, match=said):
        box_measures(*change((x, low, high, size)))


def test_levels_without_sets_are_refused():
    x, low, high, size, codes, held = scene(1)
    with pytest.raises(AnonymizationError, match="sets of 1 variables do not fit"):
        box_measures(x, low, high, size, levels=codes, held=held[:1])
