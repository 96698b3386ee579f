"""The paired non-inferiority test: known answers, anchors, small samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.errors import AnonymizationError
from anoncore.risk import ComparisonSettings, compare, compare_matched, compare_measures, prediction_measures

Z = 1.6448536269514722  # normal quantile at 0.95
SOMEWHERE = 2.4477468306808161  # √(2·ln 20)


def brute(released, reference):
    """The bounds at every jump, one at a time."""
    n = len(released)
    excess, upper, lower = [], [], []
    for x in np.concatenate([released, reference]):
        b = int(((released <= x) & (reference > x)).sum())
        c = int(((reference <= x) & (released > x)).sum())
        e = (b - c) / (n + 2)
        se = math.sqrt(((b + c + 2) / (n + 2) - e * e) / (n + 2))
        excess.append((b - c) / n)
        upper.append(e + Z * se)
        lower.append(e - SOMEWHERE * se)
    return max(excess), max(upper), max(lower)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), n=st.integers(1, 60), levels=st.integers(1, 30))
def test_agrees_with_one_jump_at_a_time(seed, n, levels):
    rng = np.random.default_rng(seed)
    released, reference = rng.integers(0, levels, size=(2, n)).astype(float)
    found = compare(released, reference)
    assert (found.sup_excess, found.upper, found.lower) == pytest.approx(brute(released, reference))
    assert found.lower <= found.upper
    shuffle = rng.permutation(n)
    assert compare(released[shuffle], reference[shuffle]) == found
    assert compare(np.exp(released), np.exp(reference)).upper == pytest.approx(found.upper)


def test_kolmogorov_smirnov_by_hand():
    reference = np.arange(100.0)
    found = compare(reference - 20, reference)  # F_released runs 0.20 ahead
    assert found.sup_excess == pytest.approx(0.20)
    assert found.ks_p == pytest.approx(math.exp(-100 * 0.15**2))
    assert compare(reference + 20, reference).ks_p == 1.0
    assert compare(reference - 5, reference).ks_p == pytest.approx(1.0)


def test_equal_values_pass_once_there_are_enough():
    assert compare(np.ones(21), np.ones(21)).verdict == "inconclusive"
    assert compare(np.ones(22), np.ones(22)).verdict == "pass"


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_few_records_prove_nothing(n):
    for released in (np.zeros(n), np.ones(n), np.full(n, 2.0)):
        found = compare(released, np.ones(n))
        assert found.verdict == "inconclusive"
        assert np.isfinite([found.upper, found.lower, found.ks_p]).all()
    assert compare(np.zeros(5), np.ones(5)).verdict == "fail"


def test_farther_than_the_reference_passes_at_small_size():
    reference = np.random.default_rng(0).uniform(1, 2, 60)
    assert compare(reference + 0.01, reference).verdict == "pass"


def test_size_and_power_of_the_paired_test():
    rng = np.random.default_rng(1)
    verdicts = [compare(*rng.exponential(size=(2, 10_000))).verdict for _ in range(20)]
    assert "fail" not in verdicts
    assert verdicts.count("pass") >= 18
    shifted = [compare(0.7 * (x := rng.exponential(size=(2, 10_000)))[0], x[1]).verdict for _ in range(10)]
    assert set(shifted) == {"fail"}


@pytest.mark.parametrize("columns", [3, 12])
def test_anchors(columns):
    rng = np.random.default_rng(2)
    verdicts = []
    for _ in range(8):
        original, reference, other = rng.normal(size=(3, 1500, columns))
        baseline = prediction_measures(original, reference)
        copied = compare(prediction_measures(original, original), baseline)
        assert copied.verdict == copied.distance.verdict == copied.ambiguity.verdict == "fail"
        independent = compare(prediction_measures(original, other), baseline)
        verdicts.append(independent.verdict)
    assert "fail" not in verdicts


def test_small_tables_are_inconclusive():
    original, reference, other = np.random.default_rng(3).normal(size=(3, 40, 4))
    baseline = prediction_measures(original, reference)
    assert compare(prediction_measures(original, other), baseline).verdict == "inconclusive"


def test_leave_one_out_serves_as_reference():
    original, other = np.random.default_rng(4).normal(size=(2, 3000, 4))
    baseline = prediction_measures(original, None, leave_one_out=True)
    found = compare(prediction_measures(original, other), baseline)
    assert found.verdict in ("pass", "inconclusive")
    assert (found.n_queries, found.n_released, found.n_reference) == (3000, 3000, 2999)


def test_measures_void_by_design_do_not_count():
    rng = np.random.default_rng(5)
    original, reference = rng.normal(size=(2, 2000, 2))
    far = original[rng.permutation(2000)] + 8  # nowhere near, in groups of five
    groups = prediction_measures(original, np.repeat(far[::5], 5, axis=0))
    baseline = prediction_measures(original, reference)
    plain = compare(groups, baseline)
    assert plain.verdict == plain.uncertainty.verdict == "fail"
    excused = compare(groups, baseline, by_design=("uncertainty",))
    assert excused.uncertainty.verdict == "by design"
    assert excused.uncertainty.upper == plain.uncertainty.upper
    assert excused.verdict == "pass"
    assert [part.name for part in excused.measures] == ["distance", "ambiguity", "uncertainty"]


def test_unequal_sizes_are_refused_with_the_mend():
    original = np.random.default_rng(6).normal(size=(100, 2))
    whole, half = (prediction_measures(original, original[:size]) for size in (100, 50))
    with pytest.raises(AnonymizationError, match="use compare_matched"):
        compare(half, whole)


def test_matching_removes_the_effect_of_size():
    # A leak-free release four times the reference's size would look riskier.
    rng = np.random.default_rng(7)
    original, reference = rng.normal(size=(2, 2000, 4))
    released = rng.normal(size=(8000, 4))
    ours, theirs = prediction_measures(original, released), prediction_measures(original, reference)
    assert compare(ours.distance, theirs.distance).verdict == "fail"
    found = compare_matched(original, released, reference, rng=rng)
    assert found.verdict != "fail"
    assert abs(found.distance.sup_excess) < 0.05
    assert (found.n_released, found.n_reference, found.draws) == (2000, 2000, 5)


def test_matching_subsamples_the_reference_too():
    rng = np.random.default_rng(8)
    original = rng.normal(size=(600, 4))
    released = rng.normal(size=(300, 4))
    for reference in (rng.normal(size=(1200, 4)), None):
        found = compare_matched(original, released, reference, settings=ComparisonSettings(draws=3), rng=rng)
        assert found.distance.verdict != "fail"
        assert found.draws == 3
        assert found.n_released == 300
        assert found.n_reference == (299 if reference is None else 300)
    assert compare_matched(original, original[:300], None, rng=rng).verdict == "fail"


def test_matching_equal_sizes_is_plain_comparison():
    rng = np.random.default_rng(9)
    original, reference, other = rng.normal(size=(3, 200, 3))
    state = rng.bit_generator.state
    found = compare_matched(original, other, reference, rng=rng)
    assert rng.bit_generator.state == state
    assert found == compare(prediction_measures(original, other), prediction_measures(original, reference))
    alone = compare_matched(original, other, None, queries=np.arange(0, 200, 2), rng=rng)
    assert (alone.n_queries, alone.draws) == (100, 1)


def test_pooled_bounds_lie_between_those_of_the_draws():
    rng = np.random.default_rng(10)
    original, reference = rng.normal(size=(2, 150, 2))
    released = rng.normal(size=(600, 2))
    first = compare_matched(
        original, released, reference, settings=ComparisonSettings(draws=1), rng=np.random.default_rng(1)
    )
    pooled = compare_matched(
        original, released, reference, settings=ComparisonSettings(draws=8), rng=np.random.default_rng(1)
    )
    assert pooled == compare_matched(
        original, released, reference, settings=ComparisonSettings(draws=8), rng=np.random.default_rng(1)
    )
    assert pooled.distance.upper != first.distance.upper
    assert -1 <= pooled.distance.sup_excess <= pooled.distance.upper <= 1.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 0}, "margin must be between 0 and 1, got 0"),
        ({"alpha": 0.5}, "alpha must be between 0 and 0.5, got 0.5"),
        ({"by_design": ("distance",)}, "by_design must list 'ambiguity' and/or 'uncertainty'"),
        ({"by_design": "uncertainty"}, "by_design must list"),
    ],
)
def test_option_errors(options, message):
    original = np.random.default_rng(11).normal(size=(20, 2))
    found = prediction_measures(original, original)
    with pytest.raises(AnonymizationError, match=message):
        compare(found, found, **options)


def test_mismatched_sides():
    rng = np.random.default_rng(12)
    original = rng.normal(size=(20, 2))
    found = prediction_measures(original, original)
    with pytest.raises(AnonymizationError, match="k must be equal on both sides"):
        compare(found, prediction_measures(original, original, 3))
    with pytest.raises(AnonymizationError, match="both sides must measure the same records"):
        compare(found, prediction_measures(original, original, queries=[1, 2]))
    with pytest.raises(AnonymizationError, match="both be PredictionMeasures or both arrays"):
        compare(found, found.distance)
    with pytest.raises(AnonymizationError, match="reference must hold 20 values"):
        compare(found.distance, found.distance[1:])
    with pytest.raises(AnonymizationError, match="by_design must be empty"):
        compare(found.distance, found.distance, by_design=["uncertainty"])
    with pytest.raises(AnonymizationError, match="draws must be at least 1, got 0"):
        compare_matched(original, original, None, settings=ComparisonSettings(draws=0), rng=rng)


def test_a_measure_may_have_a_smaller_margin_of_its_own():
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(400, 3)), rng.normal(size=(400, 3))
    released, reference = prediction_measures(a, a + rng.normal(size=a.shape)), prediction_measures(a, b)
    usual, strict = (
        compare_measures(released, reference, ComparisonSettings(margin=0.9, margins=margins))
        for margins in ({}, {"distance": 1e-3})
    )
    assert [part.margin for part in strict.measures] == [1e-3, 0.9, 0.9]
    assert [part.verdict for part in usual.measures] == ["pass"] * 3
    assert [part.verdict for part in strict.measures] == ["fail", "pass", "pass"]
    assert usual.distance.sup_excess == strict.distance.sup_excess


@pytest.mark.parametrize(
    ("margins", "said"),
    [({"speed": 0.01}, "speed is no measure"), ({"distance": 0.06}, "at most margin = 0.05, not so for distance")],
)
def test_margins_of_measures_can_only_be_smaller(margins, said):
    with pytest.raises(AnonymizationError, match=said):
        ComparisonSettings(margins=margins)
