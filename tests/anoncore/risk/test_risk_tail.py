"""Tail, isolated and extreme records: planted leaks are caught, chance is not."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import KDTree
from scipy.stats import binomtest

from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import nearest
from anoncore.risk import (
    extreme_records,
    identical_records,
    isolated_test,
    prediction_measures,
    tail_test,
)

ONES = np.ones(100)


def test_by_hand():
    released = np.where(np.arange(100) < 9, 0.05, 1.0)
    reference = np.where((np.arange(100) >= 8) & (np.arange(100) < 10), 0.05, 1.0)
    found = tail_test(released, reference, ONES)
    assert (found.n_released, found.n_reference, found.only_released, found.only_reference) == (9, 2, 8, 1)
    assert found.p == pytest.approx((9 + 1) / 2**9)  # P(Bin(9, ½) ≥ 8)
    assert found.verdict == "pass"
    assert (found.n, found.n_duplicates, found.baseline) == (100, 0, 0.02)
    assert tail_test(released, ONES, ONES).verdict == "fail"  # 2⁻⁹


def test_three_sets_by_hand():
    # Five records singled out by the release, one by A*, one by a neighbour in A, one met by two sets alike.
    released = np.where(np.arange(100) < 5, 0.05, 1.0)
    reference = np.where(np.arange(100) == 5, 0.05, 1.0)
    own = np.where(np.arange(100) == 6, 0.05, 1.0)
    released[7] = reference[7] = 0.01
    found = tail_test(released, reference, own, apart=True)
    assert (found.n_singled, found.singled_released) == (7, 5)
    assert (found.only_released, found.only_reference, found.n_released) == (5, 1, 6)
    three = sum(comb(7, i) * 2 ** (7 - i) for i in (5, 6, 7)) / 3**7
    assert found.p == pytest.approx(2 * min(three, 7 / 2**6))
    alone = tail_test(released, reference, own)
    assert (alone.p, alone.n_singled) == (pytest.approx(7 / 2**6), 0)


def test_twins_in_the_original_are_no_baseline():
    own = np.where(np.arange(100) < 50, 0.0, 1.0)
    found = tail_test(np.where(np.arange(100) >= 94, 0.01, 1.0), ONES, own, apart=True)
    assert (found.n_singled, found.singled_released, found.verdict) == (6, 6, "fail")


def test_near_twins_in_the_original_do_not_hide_copies():
    released = np.where(np.arange(400) < 12, 0.01, 1.0)
    own = np.where(np.arange(400) >= 300, 0.01, 1.0)
    found = tail_test(released, np.ones(400), own, apart=True)
    assert found.n_singled == 112
    assert found.p == 2 / 2**12


def test_closeness_is_strict():
    assert tail_test(0.1 * ONES, ONES, ONES).n_released == 0
    assert tail_test(0.0999 * ONES, ONES, ONES).n_released == 100


def test_duplicates_are_in_no_tail():
    own = np.where(np.arange(100) < 60, 0.0, 1.0)
    found = tail_test(0 * ONES, ONES, own)
    assert (found.n_duplicates, found.n_released) == (60, 40)
    nothing = tail_test(0 * ONES, ONES, 0 * ONES)
    assert (nothing.n_released, nothing.p, nothing.verdict) == (0, 1.0, "inconclusive")


@pytest.mark.parametrize(("n", "verdict"), [(1, "inconclusive"), (6, "inconclusive"), (7, "fail")])
def test_all_copied_in_tiny_tables(n, verdict):
    assert tail_test(np.zeros(n), np.ones(n), np.ones(n)).verdict == verdict


@pytest.mark.parametrize(("n", "verdict"), [(1, "inconclusive"), (7, "inconclusive"), (8, "fail")])
def test_all_copied_in_tiny_tables_with_three_sets(n, verdict):
    assert tail_test(np.zeros(n), np.ones(n), np.ones(n), apart=True).verdict == verdict


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**31), n=st.integers(1, 80))
def test_exact_p_and_permutation_invariance(seed, n):
    rng = np.random.default_rng(seed)
    released, reference, own = rng.exponential(size=(3, n)) * [[0.1], [0.2], [1.0]]
    found = tail_test(released, reference, own)
    discordant = found.only_released + found.only_reference
    if discordant:
        expected = binomtest(found.only_released, discordant, alternative="greater").pvalue
        assert found.p == pytest.approx(expected)
    shuffle = rng.permutation(n)
    assert tail_test(released[shuffle], reference[shuffle], own[shuffle]) == found
    assert isolated_test(released[shuffle], reference[shuffle], own[shuffle]) == isolated_test(
        released, reference, own
    )
    assert tail_test(7 * released, 7 * reference, 7 * own) == found
    three = tail_test(released, reference, own, apart=True)
    assert tail_test(released[shuffle], reference[shuffle], own[shuffle], apart=True) == three
    assert 0 <= three.singled_released <= three.n_singled <= n
    assert three.p <= min(1.0, 2 * found.p)


@pytest.mark.parametrize("kind", ["1 column", "2 columns", "rounded"])
def test_three_sets_ring_as_seldom_as_they_say(kind):
    rung = 0
    for seed in range(300):
        rng = np.random.default_rng([seed, len(kind)])
        rows = rng.normal(size=(3, 400, {"1 column": 1, "2 columns": 2, "rounded": 4}[kind]))
        original, reference, released = rows.round(1) if kind == "rounded" else rows
        tree = KDTree(original)
        own = tree.query(original, 2)[0][:, 1]
        near, other = (KDTree(side).query(original)[0] for side in (released, reference))
        rung += tail_test(near, other, own, apart=True, level=0.05).verdict == "fail"
    # 5 % of 300 are 15, and 23 are exceeded with a chance of 2 %.
    assert rung <= 23


def test_copies_among_close_neighbours_are_caught_more_often_with_three_sets():
    caught = dict.fromkeys((False, True), 0)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        original, reference, released = rng.normal(size=(3, 1000, 3))
        released[:8] = original[:8] + 0.01 * rng.normal(size=(8, 3))
        own = KDTree(original).query(original, 2)[0][:, 1]
        near, other = (KDTree(side).query(original)[0] for side in (released, reference))
        for apart in caught:
            caught[apart] += tail_test(near, other, own, apart=apart).verdict == "fail"
    assert caught[True] >= caught[False] + 3


def test_planted_copies_are_caught_and_chance_is_not():
    caught = false_alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        original, reference, released = rng.normal(size=(3, 2000, 10))
        baseline = prediction_measures(original, reference)
        own = prediction_measures(original, None, leave_one_out=True)
        false_alarms += tail_test(prediction_measures(original, released), baseline, own).verdict == "fail"
        if seed < 10:
            released[:20] = original[:20] + 0.01 * rng.normal(size=(20, 10))
            caught += tail_test(prediction_measures(original, released), baseline, own).verdict == "fail"
    assert (caught, false_alarms) == (10, 0)


def test_isolated_looks_at_the_loneliest():
    own = np.arange(1000.0)
    released = np.where(own >= 990, 0.01, 1e3)
    found = isolated_test(released, 1e3 * np.ones(1000), own)
    assert (found.n, found.n_released, found.verdict) == (10, 10, "fail")
    assert isolated_test(released, released, own, share=0.05).n == 50
    assert isolated_test(ONES, ONES, ONES).n == 100  # all tie with the last


def test_extreme_record_recreated():
    rng = np.random.default_rng(1)
    original, reference, released = rng.normal(size=(3, 1000, 6))
    original[7] = 50.0
    own = prediction_measures(original, None, leave_one_out=True)
    baseline = prediction_measures(original, reference)
    clean = extreme_records(prediction_measures(original, released), baseline, own)
    assert (clean.n, clean.n_extreme, clean.n_matched, clean.verdict) == (1000, 1, 0, "pass")
    released[3] = 50.0 * 1.05
    leaked = extreme_records(prediction_measures(original, released), baseline, own)
    assert (leaked.n_extreme, leaked.n_matched, leaked.baseline, leaked.verdict) == (1, 1, 0, "fail")


def test_extreme_records_where_duplicates_are_the_rule():
    own = np.zeros(2000)
    own[:3] = [1.0, 1.0, 40.0]
    found = extreme_records(np.zeros(2000), np.ones(2000), own, factor=1.01)
    assert found.n_extreme <= 1
    none = extreme_records(np.zeros(50), np.zeros(50), np.zeros(50))
    assert (none.n_extreme, none.verdict) == (0, "pass")


@pytest.mark.parametrize("n", [1, 2])
def test_tiny_tables_do_not_crash(n):
    for test in (tail_test, isolated_test, extreme_records):
        assert test(np.zeros(n), np.ones(n), np.ones(n)).n >= 1


def test_errors():
    original = np.random.default_rng(2).normal(size=(60, 2))
    whole, half = (prediction_measures(original, original[:size]) for size in (60, 30))
    sampled = prediction_measures(original, None, leave_one_out=True, queries=np.arange(10))
    with pytest.raises(AnonymizationError, match="n_released must be equal"):
        tail_test(half, whole, whole)
    with pytest.raises(AnonymizationError, match="own must measure all 60 records, got 10"):
        extreme_records(sampled, sampled, sampled)
    with pytest.raises(AnonymizationError, match="own must hold 100 values"):
        tail_test(ONES, ONES, ONES[1:])
    with pytest.raises(AnonymizationError, match="tau must be between 0 and 1, got 1"):
        tail_test(ONES, ONES, ONES, tau=1)
    with pytest.raises(AnonymizationError, match="level must be between 0 and 1"):
        tail_test(ONES, ONES, ONES, level=0)
    with pytest.raises(AnonymizationError, match="share must be between 0 and 1"):
        isolated_test(ONES, ONES, ONES, share=0)
    with pytest.raises(AnonymizationError, match="factor must be above 1"):
        extreme_records(ONES, ONES, ONES, factor=1)


def test_people_alike_of_few_discrete_values_raise_no_alarm():
    alarms, sizes = [0, 0], (7, 2, 4, 3, 4)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        original, reference, released = (
            np.column_stack([rng.integers(0, size, 1500) for size in sizes]).astype(float) for _ in range(3)
        )
        near, other = (nearest(original, side, 1)[0][:, 0] for side in (released, reference))
        own = nearest(original, original, 1, skip_self=True)[0][:, 0]
        alarms[0] += tail_test(near, other, own, apart=True).verdict == "fail"
        alarms[1] += identical_records(near, other, own, records=original).verdict == "fail"
    assert max(alarms) <= 3
