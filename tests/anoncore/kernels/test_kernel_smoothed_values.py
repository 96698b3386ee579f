import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.stats import mannwhitneyu

from anoncore.kernels.smoothed_values import (
    END,
    read_near,
    recommended_reach,
    smoothed_order,
    smoothed_values,
    without_extremes,
)

columns = npst.arrays(np.float64, st.integers(1, 60), elements=st.integers(-5, 5).map(float))
reaches = st.integers(1, 80)


def test_recommended_reach_grows_with_columns_and_ends_at_an_eighth():
    sizes = ((800, 1), (8000, 4), (10**6, 9), (10**6, 100), (100, 9), (3, 1))
    assert [recommended_reach(n, m) for n, m in sizes] == [20, 40, 60, 60, 12, 1]


@given(columns, reaches)
def test_smoothed_order_is_ordered_and_gives_no_value_much_weight(values, reach):
    ordered = np.sort(values)
    found = smoothed_order(ordered, reach)
    assert (np.diff(found) >= 0).all()
    assert found[0] >= ordered[0] - 1e-9
    assert found[-1] <= ordered[-1] + 1e-9
    moved = ordered.copy()
    moved[-1] += 1.0
    width = 2 * min(END, reach, len(ordered) - 1) + 1
    assert (smoothed_order(moved, reach) - found).max() <= 2 / width + 1e-9 or width == 1


def test_smoothed_order_is_a_moving_average_inside_and_keeps_the_mean_nearly():
    ordered = np.sort(np.random.default_rng(0).standard_t(4, size=2000))
    found = smoothed_order(ordered, 20)
    assert found[1000] == pytest.approx(ordered[980:1021].mean())
    assert found.mean() == pytest.approx(ordered.mean(), abs=0.002)
    assert found.std() == pytest.approx(ordered.std(), rel=0.02)


@given(columns, reaches, st.integers(0, 99))
def test_values_are_read_within_reach(values, reach, seed):
    ordered, rank, last = np.sort(values), np.arange(len(values)), len(values) - 1
    found = read_near(ordered, reach, rng=np.random.default_rng(seed))
    assert (found >= ordered[np.maximum(rank - reach, 0)] - 1e-9).all()
    assert (found <= ordered[np.minimum(rank + reach, last)] + 1e-9).all()


@given(columns, reaches, st.integers(2, 8), st.one_of(st.none(), st.integers(0, 9).map(np.random.default_rng)))
def test_spikes_stay_where_they_are_and_others_between_them(values, reach, k, rng):
    ordered = np.sort(values)
    levels, held = np.unique(ordered, return_counts=True)
    spikes = levels[held >= max(k, reach)]
    found = smoothed_values(ordered, reach, k=k, rng=rng)
    kept = np.isin(ordered, spikes)
    np.testing.assert_array_equal(found[kept], ordered[kept])
    for spike in spikes if (~kept).sum() > k else ():
        assert (np.sign(found - spike) * np.sign(ordered - spike) >= 0).all()


def test_few_single_values_take_the_nearest_spike_or_are_missing():
    found = smoothed_values(np.array([0.0, 0, 0, 1, 5, 6, 6, 6, 90]), 2, k=3)
    assert found.tolist() == [0, 0, 0, 0, 6, 6, 6, 6, 6]
    assert np.isnan(smoothed_values(np.array([1.0, 2, 6]), 2, k=3)).all()


def test_no_single_value_is_computed_from_spikes_around_it():
    """One value between two spikes: an average over the ranks around would give it away."""
    rng = np.random.default_rng(0)
    others = np.sort(rng.uniform(100, 200, 40))
    released = []
    for secret in (3.0, 7.0):
        ordered = np.concatenate([np.zeros(50), [secret], np.full(50, 10.0), others])
        released.append(smoothed_values(ordered, 10, k=5))
    assert released[0][50] == released[1][50] == 10.0


@given(columns, reaches, st.integers(0, 99))
def test_units_of_one_record_each_change_nothing(values, reach, seed):
    ordered, units = np.sort(values), np.random.default_rng(seed).permutation(len(values))
    rngs = [np.random.default_rng(seed) for _ in range(4)]
    np.testing.assert_array_equal(smoothed_order(ordered, reach, units=units), smoothed_order(ordered, reach))
    np.testing.assert_array_equal(
        read_near(ordered, reach, rng=rngs[0], units=units), read_near(ordered, reach, rng=rngs[1])
    )
    np.testing.assert_array_equal(
        smoothed_values(ordered, reach, k=3, rng=rngs[2], units=units),
        smoothed_values(ordered, reach, k=3, rng=rngs[3]),
    )


@given(st.integers(6, 40), st.integers(1, 80), st.integers(1, 30), st.integers(0, 99))
def test_no_unit_has_much_weight_however_many_records_it_has(units, repeated, reach, seed):
    rng = np.random.default_rng(seed)
    unit = np.concatenate([np.arange(units), np.zeros(repeated, int), rng.integers(0, units, 10)])
    means = rng.normal(size=units)
    values = means[unit] + 0.01 * rng.normal(size=len(unit))
    order = np.argsort(values)
    found = smoothed_order(values[order], reach, units=unit[order])
    assert (np.diff(found) >= 0).all()
    # The unit's values move up together to just below the next of another unit, so that the order stays.
    ordered, own = values[order], unit[order] == 0
    above = np.searchsorted(ordered[~own], ordered[own])
    ceiling = np.append(ordered[~own], ordered[-1] + 1.0)[above]
    moved = ordered.copy()
    moved[own] = ceiling
    most = (smoothed_order(moved, reach, units=unit[order]) - found).max()
    assert most <= 2 / (2 * min(END, reach) + 1) * (ceiling - ordered[own]).max() + 1e-9


@pytest.mark.parametrize("at", [0, 60, 120])
def test_many_equal_values_of_one_unit_are_averaged_with_those_of_others(at):
    ordered = np.insert(np.arange(120.0) ** 2, at, np.full(40, float(at) ** 2 - 0.5))
    units = np.insert(np.arange(120), at, np.full(40, 500))
    own = units == 500
    for rng in (None, np.random.default_rng(0)):
        found = smoothed_values(ordered, 10, k=5, rng=rng, units=units)
        assert not np.isin(found, ordered[own]).any()
        assert np.ptp(found[own]) > 0.5 or at != 60  # at the ends all take the mean of others
    assert np.isin(smoothed_values(ordered, 10, k=5), ordered[own]).sum() >= 40


def test_values_of_a_few_units_are_missing():
    ordered, units = np.arange(12.0), np.repeat([0, 1, 2], 4)
    assert np.isnan(smoothed_values(ordered, 2, k=3, units=units)).all()
    assert (smoothed_order(ordered, 2, units=np.zeros(12, int)) == 5.5).all()


@pytest.mark.parametrize("held", [1, 4])
def test_a_unit_that_dominates_an_end_is_not_told_by_averages(held):
    rng = np.random.default_rng(7)
    rest = np.exp(10 + rng.normal(size=900))
    values = np.concatenate([rest, np.full(held, 6e7)])
    units = np.concatenate([np.arange(900), np.full(held, 900)])
    order = np.argsort(values, kind="stable")
    pool = smoothed_values(values[order], 20, k=5, rng=rng, units=units[order])
    # Known constants of the window turn the largest average into the largest value where nothing else contributes.
    assert pool.max() < rest.max()
    mirrored = smoothed_values(-values[order][::-1], 20, k=5, rng=rng, units=units[order][::-1])
    assert mirrored.min() > -rest.max()
    assert 0.97 < without_extremes(np.sort(rest)).mean() / rest.mean() < 1.0


def test_whose_largest_value_it_is_does_not_show_in_the_largest_released_one():
    draw = np.random.default_rng(7)
    people = np.sort(np.exp(draw.normal(size=1600)))
    areas = []
    for rng in (None, draw):
        largest = np.empty((2, 400))
        for release in range(800):
            present = draw.permutation(1599)[:800]
            # The holder of the largest value takes part in every other release.
            present[0] = 1599 if release % 2 else present[0]
            largest[release % 2, release // 2] = smoothed_values(people[np.sort(present)], 20, k=5, rng=rng).max()
        areas.append(mannwhitneyu(largest[1], largest[0]).statistic / 400**2)
    known, drawn = areas
    assert known > 0.62
    assert drawn < 0.60


def test_an_average_of_zeros_is_zero_beside_large_values():
    ordered = np.sort(np.concatenate([np.zeros(60), np.random.default_rng(0).lognormal(0, 2, 900)]))
    assert (smoothed_order(ordered, 20)[:40] == 0).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_heavy_tail_keeps_its_part_of_the_total(sign: int) -> None:
    """Cut tails lost 5 % of lognormal totals of 2000 units (σ = 1.5), and a third of the spread."""
    rng = np.random.default_rng(0)
    kept, spread, plain = [], [], []
    for _ in range(40):
        amounts = np.sort(sign * np.exp(1.5 * rng.normal(size=2000)))
        limits = (0.0, 2 * amounts[-1]) if sign > 0 else (2 * amounts[0], 0.0)
        found = smoothed_values(amounts, 40, k=5, rng=rng, limits=limits)
        assert limits[0] <= found.min()
        assert found.max() <= limits[1]
        kept.append(found.sum() / amounts.sum())
        spread.append(found.std() / amounts.std())
        plain.append(smoothed_values(amounts, 40, k=5, rng=rng).sum() / amounts.sum())
    assert 0.98 < np.mean(kept) < 1.05
    assert np.mean(plain) < 0.96
    assert 0.85 < np.median(spread) < 1.15


@pytest.mark.parametrize(("large", "at_most"), [(0.0, 1.2), (0.1, 1.17)])
def test_a_tail_lighter_than_lognormal_is_hardly_overstated(large: float, at_most: float) -> None:
    """A lognormal law alone made 1.25 of gamma totals, and 1.21 where a tenth of the amounts are large."""
    kept = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        mixed = np.exp(np.where(rng.random(1000) < large, 5.0, 0.0) + 0.5 * rng.normal(size=1000))
        amounts = np.sort(mixed if large else rng.gamma(0.1, size=1000))
        found = smoothed_values(amounts, 40, k=5, rng=rng, limits=(0.0, 1.5 * amounts[-1]))
        kept.append(found.sum() / amounts.sum())
    assert 0.97 < np.mean(kept) < at_most


@pytest.mark.parametrize("seed", [1, 9])
def test_no_single_unit_decides_between_the_laws_of_a_tail(seed: int) -> None:
    """Where the better law was taken, one unit less could double the largest number."""
    amounts = np.sort(np.random.default_rng(seed).weibull(0.5, size=400))
    fewer = [np.delete(amounts, at) for at in range(380, 400)]
    ends = [smoothed_values(one, 20, k=5, limits=(0.0, 1e9)).max() for one in fewer]
    assert max(ends) < 1.4 * min(ends)


def test_a_tail_follows_no_unit_that_dominates_it() -> None:
    """The largest of 500 amounts, ten times or a thousand times the second, changes no released number."""
    rest = np.sort(np.exp(np.random.default_rng(0).normal(size=499)))
    ordered = [np.append(rest, factor * rest[-1]) for factor in (20.0, 2000.0)]
    released = [smoothed_values(one, 20, k=5, limits=(0.0, 4 * one[-1])) for one in ordered]
    np.testing.assert_array_equal(*released)
    assert released[0].max() <= rest[-1]


def test_the_second_unit_is_not_the_end_of_a_tail_that_another_dominates() -> None:
    """Its number, a little larger or smaller, changes no released one."""
    body, ends = np.sort(np.exp(1.5 * np.random.default_rng(4).normal(size=493))), []
    for second in (33.0, 34.0):
        ordered = np.concatenate([body[body < 30], [30.0, 30.5, 31.0, 31.5, 32.0, second, 9000.0]])
        ends.append(smoothed_values(ordered, 20, k=5, limits=(0.0, 1e5)))
    np.testing.assert_array_equal(*ends)


def test_whether_the_second_unit_is_there_hardly_changes_a_tail_that_another_dominates() -> None:
    """The mean area by the largest five numbers was 0.71 where tails ended at its number; 0.5 is guessing."""
    areas = []
    for seed in range(12):
        draw = np.random.default_rng(seed)
        present = np.sort(np.exp(2.0 * draw.normal(size=1000)))
        present = np.append(present, present[-1] + 12 * (present[-1] - present[-5]))
        absent = np.sort(np.append(np.delete(present, -2), draw.choice(present[:500])))
        given = {"limits": (0.0, 1e9), "k": 5, "rng": draw}
        tables = [present] * 40, [absent] * 40
        found = [[np.sort(smoothed_values(one, 60, **given))[-5:].mean() for one in side] for side in tables]
        area = mannwhitneyu(*found).statistic / 40**2
        areas.append(max(area, 1 - area))
    assert np.mean(areas) < 0.69


def test_a_tail_that_holds_little_of_the_total_is_not_continued() -> None:
    ages = np.sort(50 + 10 * np.random.default_rng(0).normal(size=2000))
    plain, given = (smoothed_values(ages, 20, k=5, limits=limits) for limits in (None, (0.0, 200.0)))
    np.testing.assert_array_equal(plain, given)
