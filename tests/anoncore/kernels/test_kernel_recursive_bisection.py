import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from anoncore.kernels.groups import group_means, group_medoids
from anoncore.kernels.recursive_bisection import recursive_bisection

tables = npst.arrays(
    np.float64, st.tuples(st.integers(1, 60), st.integers(1, 4)), elements=st.integers(-4, 4).map(float)
)
sizes = st.integers(1, 6)


def cut(values):
    """Return which of a group's values lie above its median, or make up its tied top."""
    median = np.sort(values)[(len(values) - 1) // 2]
    above = values > median
    return above if above.any() else values >= median if (values < median).any() else above


def by_recursion(x, k, small):
    """The same groups, one record list at a time."""
    order = np.argsort(-np.ptp(x, axis=0), kind="stable")
    least = k if small == "join" else 1
    waiting, done = [np.arange(len(x))], []
    while waiting:
        rows = waiting.pop()
        if len(rows) < 2 * k:
            done.append(rows)
            continue
        above = {row: [cut(x[rows, j])[place] for j in order] for place, row in enumerate(rows)}
        parts = [rows.tolist()]
        for at in range(len(order)):
            refined = []
            for part in parts:
                lower, upper = ([r for r in part if above[r][at] == side] for side in (False, True))
                refined += [lower, upper] if min(len(lower), len(upper)) >= least else [part]
            parts = refined
        if len(parts) == 1:
            done.append(rows)
        else:
            waiting += [np.array(part) for part in parts]
    return {frozenset(rows.tolist()) for rows in done}


def as_sets(labels):
    return {frozenset(np.flatnonzero(labels == g).tolist()) for g in range(labels.max() + 1)}


@given(tables, sizes, st.sampled_from(["join", "keep"]))
@settings(max_examples=150, deadline=None)
def test_groups_are_those_of_the_recursion(x, k, small):
    x.setflags(write=False)
    assert as_sets(recursive_bisection(x, k, small=small)) == by_recursion(x, k, small)


@given(tables, sizes)
@settings(deadline=None)
def test_joined_groups_hold_k_and_are_cut_while_a_median_can(x, k):
    labels = recursive_bisection(x, k)
    counts = np.bincount(labels)
    assert counts.min() >= min(k, len(x))
    for group in np.flatnonzero(counts >= 2 * k):
        for values in x[labels == group].T:
            above = cut(values).sum()
            assert min(above, len(values) - above) < k


@given(tables, sizes)
@settings(deadline=None)
def test_kept_groups_hold_1_to_2k_less_1_unless_identical(x, k):
    labels = recursive_bisection(x, k, small="keep")
    for group, count in enumerate(np.bincount(labels)):
        assert count >= 1
        if count >= 2 * k:
            assert (np.ptp(x[labels == group], axis=0) == 0).all()


def test_continuous_groups_hold_k_to_2k_less_1():
    x = np.random.default_rng(0).normal(size=(3000, 5))
    counts = np.bincount(recursive_bisection(x, 5))
    assert counts.min() >= 5
    assert counts.max() <= 9


def test_28_dimensions_leave_every_record_alone():
    """Lasko and Vinterbo 2010, section IV-E: all but two of 2000 records had a cell of their own."""
    x = np.random.default_rng(0).normal(size=(2000, 28))
    assert np.bincount(recursive_bisection(x, 5, small="keep")).max() == 1


@given(tables, st.integers(2, 6), st.sampled_from(["mean", "medoid"]))
@settings(deadline=None)
def test_masked_records_are_k_anonymous(x, k, representative):
    labels = recursive_bisection(x, k)
    masked = (group_means(x, labels) if representative == "mean" else x[group_medoids(x, labels)])[labels]
    _, counts = np.unique(masked, axis=0, return_counts=True)
    assert counts.min() >= min(k, len(x))
    if representative == "mean":
        np.testing.assert_allclose(masked.mean(axis=0), x.mean(axis=0), atol=1e-12)
    else:
        assert {tuple(row) for row in masked} <= {tuple(row) for row in x}
    assert labels[0] == 0
    assert (np.diff(np.unique(labels, return_index=True)[1]) > 0).all()


@pytest.mark.parametrize("small", ["join", "keep"])
def test_identical_records_stay_together(small):
    x = np.repeat(np.random.default_rng(0).integers(0, 3, (20, 3)).astype(float), 7, axis=0)
    labels = recursive_bisection(x, 5, small=small)
    _, of_value = np.unique(x, axis=0, return_inverse=True)
    for value in range(of_value.max() + 1):
        assert len(set(labels[of_value == value])) == 1
