"""Variables by themselves: beside scipy and brute force, with weights, gaps and constants."""

import math
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.utility import variable_utility


def numbers(*columns, role="other"):
    frame = pd.DataFrame({f"x{j}": np.asarray(c, dtype=float) for j, c in enumerate(columns)})
    return Microdata(frame, Schema(Variable(name, "continuous") for name in frame))


def levels(values, kind="nominal", of=("a", "b", "c")):
    return Microdata(pd.DataFrame({"g": values}), Schema([Variable("g", kind, levels=of)]))


def weighted(values, w, name="x0"):
    frame = pd.DataFrame({name: np.asarray(values, dtype=float), "w": np.asarray(w, dtype=float)})
    return Microdata(frame, Schema([Variable(name, "continuous"), Variable("w", "continuous", role="weight")]))


def only(table):
    return table.variables[0].released_shift


def test_agrees_with_numpy_and_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=500).round(1), rng.normal(0.3, 2, size=300).round(1)
    row = variable_utility(numbers(a), numbers(b)).variables[0]
    shift = row.released_shift
    assert row.released.mean == pytest.approx(b.mean())
    assert row.original.variance == pytest.approx(a.var())
    assert shift.mean == pytest.approx(abs(a.mean() - b.mean()) / a.std())
    assert shift.variance == pytest.approx(abs(b.var() / a.var() - 1))
    assert shift.kolmogorov == pytest.approx(ks_2samp(a, b).statistic)
    probabilities = np.arange(1, 20) / 20
    moved = [np.quantile(s, probabilities, method="inverted_cdf") for s in (a, b)]
    assert shift.quantile == pytest.approx(np.abs(moved[0] - moved[1]).mean() / a.std())
    assert shift.distance == shift.kolmogorov
    assert shift.total_variation is None


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), spread=st.integers(1, 6))
def test_whole_weights_are_repeated_records(seed, spread):
    rng = np.random.default_rng(seed)
    sides, repeated = [], []
    for size in (20, 30, 25):
        x, w = rng.integers(0, spread, size).astype(float), rng.integers(0, 4, size)
        w[0] = 1
        sides.append(weighted(x, w))
        repeated.append(numbers(np.repeat(x, w)))
    found, brute = variable_utility(*sides), variable_utility(*repeated)
    for side in ("released_shift", "reference_shift"):
        ours, theirs = asdict(getattr(found.variables[0], side)), asdict(getattr(brute.variables[0], side))
        # How far chance moves a share depends on the number of records; values beyond the range are counted in records.
        for name in ("spike_error", "beyond"):
            del ours[name], theirs[name]
        for name, value in ours.items():
            assert (value is None) == (theirs[name] is None)
            assert value is None or value == pytest.approx(theirs[name], abs=1e-9), name
    # The weight variable itself is described without weights.
    plain = numbers(*[sides[0].frame["w"]])
    assert found.variables[1].original.mean == pytest.approx(variable_utility(plain, plain).variables[0].original.mean)


def test_a_common_value_that_moved_does_not_hide_a_rarer_one_that_was_lost():
    rest = np.random.default_rng(2).normal(5.0, 0.1, (2, 400))
    a = np.concatenate([np.zeros(400), np.full(48, 1.0), rest[0][:352]])
    b = np.concatenate([np.zeros(440), np.full(12, 1.0), rest[1][:348]])
    shift = only(variable_utility(numbers(a), numbers(b)))
    assert shift.spike == pytest.approx(0.045)
    assert 3 * shift.spike_error < shift.spike


@pytest.mark.parametrize("weight", [0.0, 1e-4])
def test_no_weight_hides_values_beyond_the_range(weight):
    a = weighted(np.linspace(10, 90, 1000), np.ones(1000))
    b = weighted(np.where(np.arange(1000) < 40, 5000, 50), np.where(np.arange(1000) < 40, weight, 1))
    nothing_counts = weighted([5000, np.nan], [0, 1])
    assert only(variable_utility(a, b)).beyond == 0.04
    assert only(variable_utility(a, nothing_counts)).beyond == 0.5


def test_the_extreme_itself_is_the_limit_where_five_units_hold_it():
    """Of a percentage with many at 100, 150 is beyond; of one person's 100, the limit is 200."""
    percent = np.concatenate([np.linspace(1, 99, 95), np.full(5, 100.0)])
    released = numbers(np.full(10, 150.0))
    assert only(variable_utility(numbers(percent), released)).beyond == 1
    source = numbers(percent).with_units(np.minimum(np.arange(100), 95))
    assert only(variable_utility(source, released)).beyond == 0
    assert only(variable_utility(numbers(percent), numbers(percent + 1e-12))).beyond == 0


def test_arrays_stand_for_a_weight_variable_and_can_switch_it_off():
    rng = np.random.default_rng(1)
    a, b = (
        weighted(rng.normal(size=50), rng.gamma(2, size=50)),
        weighted(rng.normal(size=40), rng.gamma(2, size=40)),
    )
    declared = variable_utility(a, b).variables[0]
    given_ = variable_utility(a, b, weights=(5 * a.frame["w"], b.frame["w"])).variables[0]
    assert declared.released_shift.mean == pytest.approx(given_.released_shift.mean)
    plain = variable_utility(a, b, weights=(None, None)).variables[0]
    assert plain.original.mean == pytest.approx(a.frame["x0"].mean())
    assert plain.original.mean != pytest.approx(declared.original.mean)


def test_levels_by_hand():
    a, b = levels(list("aabbc") + [None] * 5), levels(["a", "b", "b", "b", "b", None])
    row = variable_utility(a, b).variables[0]
    assert row.original.shares == pytest.approx((0.4, 0.4, 0.2))
    assert row.released_shift.total_variation == pytest.approx(0.4)
    assert row.released_shift.missing == pytest.approx(0.5 - 1 / 6)
    assert row.released_shift.distance == pytest.approx(0.4)
    assert row.released_shift.kolmogorov is None
    steps = variable_utility(levels(list("aac"), "ordinal"), levels(list("ccc"), "ordinal")).variables[0]
    assert steps.released_shift.kolmogorov == pytest.approx(2 / 3)


def test_levels_that_only_the_release_has_and_probabilities():
    recoded = levels(["a", "a", "other"], of=("a", "other"))
    row = variable_utility(levels(list("abc")), recoded).variables[0]
    assert row.levels == ("a", "b", "c", "other")
    assert row.released_shift.total_variation == pytest.approx(2 / 3)
    chances = Microdata(
        pd.DataFrame({"g=a": [0.5, 0.5], "g=b": [0.5, 0.25], "g=c": [0.0, 0.25]}),
        Schema(Variable(f"g={level}", "continuous") for level in "abc"),
    )
    row = variable_utility(levels(list("aabc")), chances).variables[0]
    assert row.released.shares == pytest.approx((0.5, 0.375, 0.125))


def test_the_original_is_perfect_and_the_worst_is_named():
    rng = np.random.default_rng(2)
    a = numbers(*rng.normal(size=(3, 200)))
    same = variable_utility(a, a, a)
    assert all(worst.released == 0 and worst.reference == 0 for worst in same.worst)
    moved = a.frame.copy()
    moved["x1"] += 1
    found = variable_utility(a, Microdata(moved, a.schema), a)
    by_name = {worst.figure: worst for worst in found.worst}
    assert by_name["mean"].variable == by_name["distance"].variable == "x1"
    assert by_name["mean"].released == pytest.approx(1 / a.frame["x1"].std(ddof=0))
    assert by_name["mean"].reference == 0
    assert all(worst.meaning.endswith(".") for worst in found.worst)


def test_more_noise_is_farther_and_an_independent_sample_is_like_the_reference():
    rng = np.random.default_rng(3)
    x, noise = rng.normal(size=3000), rng.normal(size=3000)
    apart = [only(variable_utility(numbers(x), numbers(x + s * noise))) for s in (0, 0.3, 1, 3)]
    for name in ("distance", "variance", "kolmogorov", "quantile"):
        assert (np.diff([getattr(shift, name) for shift in apart]) > 0).all(), name
    row = variable_utility(numbers(x), numbers(rng.normal(size=3000)), numbers(rng.normal(size=3000))).variables[0]
    for shift in (row.released_shift, row.reference_shift):
        assert 0 < shift.distance < 0.05


EMPTY = [math.nan] * 4


@pytest.mark.parametrize(
    ("original", "released", "distance"),
    [
        (EMPTY, EMPTY, 0),
        (EMPTY, [1, 2, 3, 4], 1),
        ([1, 2, 3, 4], EMPTY, 1),
        ([5, 5, 5], [5, 5, 5], 0),
        ([5, 5, 5], [4, 4, 4], 1),
        ([5, 5, 5], [4, 5, 6], 1 / 3),
        ([7], [7], 0),
    ],
)
def test_empty_and_constant_columns_are_defined(original, released, distance):
    found = variable_utility(numbers(original), numbers(released), numbers(original))
    assert only(found).distance == pytest.approx(distance)
    values = [v for row in found.variables for v in asdict(row.released_shift).values() if v is not None]
    assert np.isfinite(values).all()
    if original == [5, 5, 5] and released == [4, 4, 4]:
        assert only(found).mean == 1  # undivided


def test_constants_vary_by_exactly_zero_with_weights():
    a, b = weighted([0.1] * 7, np.arange(1, 8)), weighted([0.1] * 5, [3, 1, 2, 7, 0.1])
    found = variable_utility(a, b).variables[0]
    assert found.original.variance == 0
    assert found.released_shift.mean == found.released_shift.variance == 0


def test_single_level_and_absent_variables():
    found = variable_utility(levels(["a", "a"], of=("a",)), levels(["a"], of=("a",)))
    assert only(found).distance == 0
    a = numbers([1, 2], [3, 4])
    found = variable_utility(a, a.select(["x0"]))
    assert (found.absent, len(found.variables)) == (("x1",), 1)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (([1, 2], None), "weights of original must hold 3"),
        (([1, -2, 1], None), "not negative"),
        (([0, 0, 0], None), "some of them positive"),
    ],
)
def test_weights_that_do_not_fit(weights, message):
    with pytest.raises(AnonymizationError, match=message):
        variable_utility(numbers([1, 2, 3]), numbers([1, 2, 3]), weights=weights)


def test_weights_that_masking_made_impossible_count_as_zero():
    a = weighted([1, 2, 3], [1, 1, 1])
    b = weighted([1, 2, 30], [1, 1, -2])
    assert variable_utility(a, b).variables[0].released.mean == pytest.approx(1.5)
    none = weighted([1, 2, 3], [math.nan] * 3)
    assert variable_utility(a, none).variables[0].released.mean == pytest.approx(2)


def test_a_table_without_records_is_refused():
    with pytest.raises(AnonymizationError, match="needs records"):
        variable_utility(numbers([1, 2]), numbers([]))
