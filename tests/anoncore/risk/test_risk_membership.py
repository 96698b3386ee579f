"""Membership: the AUC by pair counting, DeLong's interval, the anchors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.errors import AnonymizationError
from anoncore.risk import matched_quantiles, membership_attack, nearest_distance_attack


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), m=st.integers(1, 30), n=st.integers(1, 30), levels=st.integers(1, 40))
def test_auc_by_counting_pairs(seed, m, n, levels):
    rng = np.random.default_rng(seed)
    members, others = (rng.integers(0, levels, size).astype(float) for size in (m, n))
    gap = members[:, None] - others[None]
    found = membership_attack(members, others)
    assert found.auc == pytest.approx((gap > 0).mean() + (gap == 0).mean() / 2)
    assert 0 <= found.lower <= found.auc <= found.upper <= 1
    flipped = membership_attack(-members, -others)
    assert (flipped.auc, flipped.lower) == pytest.approx((1 - found.auc, 1 - found.upper))
    assert membership_attack(rng.permutation(members), others).auc == pytest.approx(found.auc)


def test_interval_is_delongs_at_size():
    rng = np.random.default_rng(0)
    members, others = rng.normal(0.3, 1, 3000), rng.normal(0, 1, 2000)
    above = (members[:, None] > others).mean(axis=1)
    below = (members[:, None] > others).mean(axis=0)
    error = np.sqrt(above.var(ddof=1) / 3000 + below.var(ddof=1) / 2000)
    found = membership_attack(members, others)
    assert found.lower == pytest.approx(found.auc - 2.575829 * error, abs=2e-4)
    assert found.upper == pytest.approx(found.auc + 2.575829 * error, abs=2e-4)


def test_interval_covers():
    rng = np.random.default_rng(1)
    runs = [membership_attack(*rng.normal(size=(2, 60))) for _ in range(400)]
    assert 0.97 <= np.mean([run.lower <= 0.5 <= run.upper for run in runs]) <= 0.9999
    runs = [membership_attack(*rng.normal(size=(2, 60)), confidence=0.95) for _ in range(400)]
    assert 0.92 <= np.mean([run.lower <= 0.5 <= run.upper for run in runs]) <= 0.99
    assert np.mean([run.verdict == "fail" for run in runs]) < 0.02


def test_perfect_separation_of_one_record_proves_nothing():
    single = membership_attack([1.0], [0.0])
    assert (single.auc, single.verdict) == (1.0, "inconclusive")
    assert single.lower < 0.2
    assert membership_attack(np.ones(40), np.zeros(40)).verdict == "fail"
    constant = membership_attack(np.ones(5), np.ones(7))
    assert (constant.auc, constant.baseline, constant.n_members, constant.n_nonmembers) == (0.5, 0.5, 5, 7)


@pytest.mark.parametrize("columns", [3, 12])
def test_anchors(columns):
    original, reference, other = np.random.default_rng(2).normal(size=(3, 800, columns))
    copied = nearest_distance_attack(original, reference, original)
    assert (copied.auc, copied.verdict) == (1.0, "fail")
    independent = nearest_distance_attack(original, reference, other)
    assert independent.verdict == "pass"
    assert independent.auc == pytest.approx(0.5, abs=0.06)
    reverse = nearest_distance_attack(original, reference, reference)
    assert (reverse.auc, reverse.verdict) == (0.0, "pass")


def test_gate_and_confidence():
    members, others = np.random.default_rng(3).normal([[0.3], [0.0]], 1, size=(2, 300))
    wide, narrow = (membership_attack(members, others, confidence=c) for c in (0.99, 0.5))
    assert wide.lower < narrow.lower < narrow.upper < wide.upper
    assert membership_attack(members, others, gate=wide.upper + 0.01).verdict == "pass"
    assert membership_attack(members, others, gate=narrow.auc + 0.01).verdict == "inconclusive"


def test_errors():
    with pytest.raises(AnonymizationError, match="member_scores must hold one value per record"):
        membership_attack([], [1.0])
    with pytest.raises(AnonymizationError, match="nonmember_scores must be finite, got 1"):
        membership_attack([1.0], [np.inf])
    with pytest.raises(AnonymizationError, match="gate must be between 0 and 1"):
        membership_attack([1.0], [1.0], gate=1)
    with pytest.raises(AnonymizationError, match="confidence must be between 0 and 1"):
        membership_attack([1.0], [1.0], confidence=0)
    with pytest.raises(AnonymizationError, match="reference must have 2 columns"):
        nearest_distance_attack(np.ones((3, 2)), np.ones((3, 1)), np.ones((3, 2)))


# --- distributions matched


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), power=st.floats(0.5, 3.0), shift=st.floats(5.0, 100.0))
def test_an_increasing_transformation_of_a_column_is_undone_up_to_sampling(seed, power, shift):
    rng = np.random.default_rng(seed)
    people, others = rng.standard_t(5, size=(2, 400, 3))
    others[:, :2] = rng.permutation(people[:, :2])
    release = people.copy()
    release[:, 0] = np.sign(people[:, 0]) * np.abs(people[:, 0]) ** power + shift
    back = matched_quantiles(release, others)
    assert back is not None
    assert np.median(np.abs(back[:, 0] - people[:, 0])) < 0.02
    np.testing.assert_array_equal(back[:, 1:], release[:, 1:])
    assert matched_quantiles(people, people) is None


def test_chance_changes_nothing_and_constant_columns_are_left():
    rng = np.random.default_rng(4)
    calls = [matched_quantiles(rng.normal(size=(2000, 6)), rng.normal(size=(2000, 6))) for _ in range(50)]
    assert all(back is None for back in calls)
    flat = np.column_stack([np.ones(2000), rng.normal(size=2000)])
    other = np.column_stack([np.zeros(2000), rng.normal(size=2000)])
    assert matched_quantiles(flat, other) is None


def test_a_transformed_copy_is_near_nobody_and_is_found_once_its_distributions_are_matched():
    rng = np.random.default_rng(5)
    people, others = rng.normal(size=(2, 500, 5))
    moved = np.exp(people) + 10.0
    assert nearest_distance_attack(people, others, moved).auc < 0.6
    assert nearest_distance_attack(people, others, matched_quantiles(moved, others)).auc > 0.95
