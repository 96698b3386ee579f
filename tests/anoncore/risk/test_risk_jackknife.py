"""The variance owed to the draw of the searched set: by definition, against simulation, and in use."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.risk import ComparisonSettings, PredictionMeasures, compare, compare_matched, prediction_measures
from anoncore.risk.bounds import Side
from anoncore.risk.jackknife import set_variance

MEASURES = ("distance", "ambiguity", "uncertainty")


def one_query(query, points, k):
    """The three measures by their definitions, from as many as k points; infinite if there are none."""
    if not len(points):
        return np.full(3, np.inf)
    far = np.sqrt(((points - query) ** 2).mean(axis=1))
    near = np.argsort(far, kind="stable")[:k]
    first, last = far[near[0]], far[near[-1]]
    return np.array([first, first / last if last > 0 else 1.0, points[near].var(axis=0).mean()])


def check_deletions(original, points, k, leave_one_out):
    """Every listed deletion against a search without it; and no other changes anything."""
    found = prediction_measures(original, None if leave_one_out else points, k, leave_one_out=leave_one_out)
    assert found.deletions is not None
    whole = found.deletions.n_draws == len(points)
    _, first, group = np.unique(points, axis=0, return_index=True, return_inverse=True)
    number = np.arange(len(points)) if whole else np.argsort(np.argsort(first))[group]
    assert found.deletions.n_draws == number.max() + 1
    for j, query in enumerate(original):
        others = np.arange(len(points)) != (j if leave_one_out else -1)
        plain = one_query(query, points[others], k)
        assert [getattr(found, name)[j] for name in MEASURES] == pytest.approx(plain, abs=1e-12)
        listed = list(found.deletions.draw[j])
        for draw in range(found.deletions.n_draws):
            without = one_query(query, points[others & (number != draw)], k)
            if draw in listed:
                at = listed.index(draw)
                given = [getattr(found.deletions, name)[j, at] for name in MEASURES]
                assert given == pytest.approx(without, abs=1e-12)
            else:
                assert without == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("columns", [2, 10])
def test_deletions_are_searches_without(columns, leave_one_out):
    rng = np.random.default_rng(columns)
    original = rng.normal(size=(40, columns))
    check_deletions(original, original if leave_one_out else rng.normal(size=(40, columns)), 3, leave_one_out)


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_deletions_where_records_coincide_by_chance(leave_one_out):
    rng = np.random.default_rng(0)
    tables = np.array([0.0, 1.0, 2.3])[rng.integers(0, 3, size=(2, 40, 3))] * [1.0, 1.7, 2.9]
    check_deletions(tables[0], tables[0] if leave_one_out else tables[1], 4, leave_one_out)


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize(("distinct", "copies"), [(10, 5), (10, 3), (10, 2), (3, 2), (2, 6), (1, 9)])
def test_groups_leave_together(distinct, copies, leave_one_out):
    rng = np.random.default_rng(distinct)
    points = np.repeat(rng.normal(size=(distinct, 3)), copies, axis=0)[rng.permutation(distinct * copies)]
    original = points if leave_one_out else rng.normal(size=(20, 3))
    check_deletions(original, points, 4, leave_one_out)


def test_copying_every_record_does_not_hide_the_draw():
    rng = np.random.default_rng(1)
    original, released = rng.normal(size=(300, 6)), rng.normal(size=(60, 6))
    alone, copied = (
        Side.of(prediction_measures(original, points), "distance")
        for points in (released, np.repeat(released, 5, axis=0))
    )
    grid = np.unique(alone.values)
    np.testing.assert_array_equal(alone.variance(grid), copied.variance(grid))
    assert alone.variance(grid).max() > 0


def by_definition(values, without, draw, n_draws, x):
    n = len(values)
    change = np.zeros((n_draws, n))
    for j in range(n):
        for i, value in zip(draw[j], without[j], strict=True):
            change[i, j] = float(value <= x) - float(values[j] <= x)
    sums = change.sum(axis=1)
    spread = (sums**2 - (change**2).sum(axis=1)).sum() - sums.sum() ** 2 / n_draws
    return min(max(spread * (n_draws - 1) / n_draws / n**2, 0.0), 0.25)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), n=st.integers(1, 25), n_draws=st.integers(2, 12), levels=st.integers(1, 8))
def test_variance_is_its_definition(seed, n, n_draws, levels):
    rng = np.random.default_rng(seed)
    depth = int(rng.integers(1, n_draws + 1))
    draw = np.array([rng.permutation(n_draws)[:depth] for _ in range(n)])
    values = rng.integers(0, levels, n).astype(float)
    without = rng.integers(0, levels + 1, (n, depth)).astype(float)
    without[without == levels] = np.inf
    grid = np.unique(np.append(values, levels / 2))
    found = set_variance(values, without, draw, n_draws, grid)
    expected = [by_definition(values, without, draw, n_draws, x) for x in grid]
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_variance_is_that_of_fresh_sets():
    """Fresh sets against many queries show the variance of G; the jackknife has one set and few queries."""
    rng = np.random.default_rng(1)
    n, queries, sets = 200, rng.normal(size=(1500, 28)), rng.normal(size=(100, 200, 28))
    many = [prediction_measures(queries, points) for points in sets]
    few = [prediction_measures(queries[10 * i : 10 * i + n], points) for i, points in enumerate(sets)]
    for name in ("distance", "uncertainty"):
        values = np.array([getattr(found, name) for found in many])
        grid = np.quantile(values, [0.3, 0.5, 0.7])
        curves = (values[:, :, None] <= grid).mean(axis=1)
        # A curve from 1500 queries varies by their sampling too.
        simulated = curves.var(axis=0, ddof=1) - (curves * (1 - curves)).mean(axis=0) / len(queries)
        estimated = np.mean([Side.of(found, name).variance(grid) for found in few], axis=0)
        assert 0.7 <= estimated.mean() / simulated.mean() <= 1.5  # known to about a fifth


def test_one_record_teaches_nothing():
    original = np.random.default_rng(4).normal(size=(50, 2))
    found = prediction_measures(original, np.zeros((50, 2)))
    np.testing.assert_array_equal(Side.of(found, "distance").variance(np.array([0.0, 9.0])), 0.25)


def test_memory():
    original, released = np.random.default_rng(5).normal(size=(2, 1000, 4))
    found = prediction_measures(original, released).deletions
    held = [found.draw, found.distance, found.ambiguity, found.uncertainty]
    assert sum(part.nbytes for part in held) <= 200 * 1000
    for part in held:
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 0


def test_the_sets_count_for_failing_and_not_for_passing():
    original, released, reference = np.random.default_rng(6).normal(size=(3, 400, 12))
    ours, theirs = prediction_measures(original, released), prediction_measures(original, reference)
    found = compare(ours, theirs)
    for part in found.measures:
        plain = compare(getattr(ours, part.name), getattr(theirs, part.name))
        assert part.upper == plain.upper
        assert part.lower < plain.lower if part.name == "uncertainty" else part.lower <= plain.lower
        assert (part.sup_excess, part.ks_p) == (plain.sup_excess, plain.ks_p)
    unknown = [PredictionMeasures(m.distance, m.ambiguity, m.uncertainty, 5, 400, 400, 400) for m in (ours, theirs)]
    assert compare(*unknown).distance.lower == compare(ours.distance, theirs.distance).lower


@pytest.mark.parametrize(("n", "columns"), [(300, 28), (800, 12), (2000, 28)])
def test_independent_samples_are_not_failed(n, columns):
    verdicts = []
    for seed in range(8):
        original, released, reference = np.random.default_rng([seed, n]).normal(size=(3, n, columns))
        baseline = prediction_measures(original, reference)
        verdicts.append(compare(prediction_measures(original, released), baseline).verdict)
    assert verdicts.count("fail") <= 1


def test_no_false_alarm_when_sizes_are_matched_or_records_left_out():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        original, released = rng.normal(size=(400, 20)), rng.normal(size=(900, 20))
        assert (
            compare_matched(original, released, None, settings=ComparisonSettings(draws=2), rng=rng).verdict != "fail"
        )
        other = prediction_measures(original, released[:400])
        alone = prediction_measures(original, None, leave_one_out=True)
        assert compare(other, alone).verdict != "fail"


def leaks(original, rng):
    """Releases that must not pass for harmless, by name."""
    independent = rng.normal(size=original.shape)
    tenth = len(original) // 10
    yield "original", original
    yield "noise 0.1", original + 0.1 * rng.normal(size=original.shape)
    yield "noise 0.5", original + 0.5 * rng.normal(size=original.shape)
    yield "10 % copied", np.concatenate([original[:tenth], independent[tenth:]])
    yield "20 % copied", np.concatenate([original[: 2 * tenth], independent[2 * tenth :]])


@pytest.mark.parametrize(("n", "columns"), [(300, 12), (800, 28), (2000, 5)])
def test_leaks_are_still_failed(n, columns):
    for seed in range(3):
        rng = np.random.default_rng([seed, n])
        original, reference = rng.normal(size=(2, n, columns))
        baseline = prediction_measures(original, reference)
        for name, released in leaks(original, rng):
            if (columns, name) != (5, "noise 0.5"):  # neighbours are that close anyway
                assert compare(prediction_measures(original, released), baseline).distance.verdict == "fail"


def test_discrete_original_is_failed():
    """Coinciding by chance is no reason to take the records of a cell for one draw."""
    rng = np.random.default_rng(7)
    cells = rng.normal(size=(2, 2000, 5)) + rng.normal(size=(2, 2000, 1))
    original, reference = np.digitize(cells, [-1, 0, 1]).astype(float)
    own, other = prediction_measures(original, original), prediction_measures(original, reference)
    assert own.deletions.n_draws == 2000
    assert compare(own, other).distance.verdict == "fail"


def test_more_noise_is_never_more_risk():
    original, reference, noise = np.random.default_rng(8).normal(size=(3, 600, 10))
    baseline = prediction_measures(original, reference)
    lower = [
        compare(prediction_measures(original, original + b * noise), baseline).distance.lower
        for b in (0.0, 0.05, 0.1, 0.3, 0.5, 0.8, 1.2)
    ]
    assert lower == sorted(lower, reverse=True)


def test_small_groups_of_real_people_are_failed(nhefs_halves):
    """Groups of three neighbours, in a wide table of 814 people, do not hide who took part."""
    import anoncore
    from anoncore import Encoder
    from anoncore.methods import SpectralRHS

    original, reference = nhefs_halves
    encoder = Encoder.fit(original)
    x = encoder.encode(original)
    baseline = prediction_measures(x, encoder.encode(reference))
    void = ("ambiguity", "uncertainty")
    verdicts = {}
    for k in (2, 3, 10):
        masked = anoncore.anonymize(original, SpectralRHS(k=k), rng=np.random.default_rng(0)).data
        ours = prediction_measures(x, encoder.encode(masked))
        assert ours.deletions.n_draws <= 814 / k
        verdicts[k] = compare(ours, baseline, by_design=void).verdict
    assert verdicts == {2: "fail", 3: "fail", 10: "pass"}
