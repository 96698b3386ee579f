import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog

from anoncore.kernels import transport
from anoncore.kernels.transport import assign_levels


def total(scores, levels):
    return scores[np.arange(len(scores)), levels].sum()


def best_total(scores, counts):
    """Brute force: one column per place, the Hungarian method."""
    places = np.repeat(np.arange(len(counts)), counts)
    rows, columns = linear_sum_assignment(scores[:, places], maximize=True)
    return scores[:, places][rows, columns].sum()


def draw_scores(kind, n_records, n_levels, rng):
    shape = (n_records, n_levels)
    if kind == "equal":
        return np.full(shape, 0.3)
    if kind == "signs":
        return rng.choice([-1.0, 1.0], shape)
    if kind == "integers":
        return rng.integers(0, 4, shape).astype(float)
    if kind == "twins":
        return np.repeat(rng.normal(size=(n_records, 1)), n_levels, axis=1) + (np.arange(n_levels) == 0)
    if kind == "nearly tied":
        return rng.choice([-1.0, 1.0], shape) + 1e-6 * rng.integers(0, 5, shape)
    if kind == "heavy":
        return rng.standard_t(1, shape)
    return rng.normal(size=shape)


def resolution(scores):
    """What rounding every score to 2^-32 of the largest difference may cost in total, and summation."""
    return len(scores) * 2.0**-31 * np.ptp(scores, axis=1).max(initial=0.0) + 1e-12 * (1.0 + np.abs(scores).sum())


KINDS = ["normal", "equal", "signs", "integers", "twins", "nearly tied", "heavy"]


@given(
    kind=st.sampled_from(KINDS),
    n_records=st.integers(1, 70),
    n_levels=st.integers(1, 7),
    concentration=st.sampled_from([0.2, 1.0, 20.0]),
    seed=st.integers(0, 9999),
)
@settings(max_examples=300, deadline=None)
def test_optimal_against_the_hungarian_method(kind, n_records, n_levels, concentration, seed):
    rng = np.random.default_rng(seed)
    scores = draw_scores(kind, n_records, n_levels, rng)
    counts = rng.multinomial(n_records, rng.dirichlet(np.full(n_levels, concentration)))
    levels = assign_levels(scores, counts)
    assert np.bincount(levels, minlength=n_levels).tolist() == counts.tolist()
    assert total(scores, levels) == pytest.approx(best_total(scores, counts), abs=resolution(scores))


@given(
    kind=st.sampled_from(KINDS),
    n_records=st.integers(6, 60),
    n_levels=st.integers(3, 6),
    seed=st.integers(0, 99),
)
@settings(max_examples=100, deadline=None)
def test_sampled_prices_and_short_lists_stay_optimal(kind, n_records, n_levels, seed):
    """Start the recursion and exhaust the lists on problems that brute force can solve."""
    rng = np.random.default_rng(seed)
    scores = draw_scores(kind, n_records, n_levels, rng)
    counts = rng.multinomial(n_records - n_levels, rng.dirichlet(np.ones(n_levels))) + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "_SMALL", 4)
        patch.setattr(transport, "_SPARE", 1)
        levels = assign_levels(scores, counts)
    assert np.bincount(levels, minlength=n_levels).tolist() == counts.tolist()
    assert total(scores, levels) == pytest.approx(best_total(scores, counts), abs=resolution(scores))


@pytest.mark.parametrize("kind", KINDS)
def test_optimal_against_linear_programming(kind):
    rng = np.random.default_rng(5)
    n_records, n_levels = 400, 5
    scores = draw_scores(kind, n_records, n_levels, rng)
    counts = rng.multinomial(n_records, [0.5, 0.3, 0.1, 0.05, 0.05])
    rows = np.kron(np.eye(n_records), np.ones(n_levels))
    columns = np.kron(np.ones(n_records), np.eye(n_levels))
    found = linprog(
        -scores.ravel(),
        A_eq=np.vstack([rows, columns]),
        b_eq=np.concatenate([np.ones(n_records), counts]),
        method="highs",
    )
    assert total(scores, assign_levels(scores, counts)) == pytest.approx(-found.fun, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", [*KINDS, "sorted", "periodic"])
@pytest.mark.parametrize(("n_records", "n_levels"), [(30_000, 3), (20_000, 10)])
def test_certificate_at_a_larger_size(kind, n_records, n_levels):
    """No record would rather be elsewhere at the prices found, and the counts are met: optimal."""
    rng = np.random.default_rng(7)
    if kind == "sorted":
        scores = np.sort(rng.normal(size=(n_records, n_levels)), axis=0)
    elif kind == "periodic":
        scores = np.tile(np.eye(n_levels), (n_records // n_levels + 1, 1))[:n_records]
        scores = scores + 0.01 * rng.normal(size=scores.shape)
    else:
        scores = draw_scores(kind, n_records, n_levels, rng)
    counts = rng.multinomial(n_records - n_levels, rng.dirichlet(np.full(n_levels, 0.5))) + 1
    integers = transport._as_integers(scores)
    levels, prices = transport._solve(integers, counts)
    net = integers - prices[:, None]
    assert np.bincount(levels, minlength=n_levels).tolist() == counts.tolist()
    assert (net[levels, np.arange(n_records)] == net.max(axis=0)).all()
    np.testing.assert_array_equal(assign_levels(scores, counts), levels)


def test_equal_scores_at_scale():
    counts = np.array([1, 0, 120_000, 79_998, 1])
    levels = assign_levels(np.zeros((200_000, 5)), counts)
    assert np.bincount(levels, minlength=5).tolist() == counts.tolist()


def test_unconstrained_optimum_is_returned_when_counts_allow_it():
    scores = np.random.default_rng(0).normal(size=(5000, 4))
    wanted = scores.argmax(axis=1)
    np.testing.assert_array_equal(assign_levels(scores, np.bincount(wanted)), wanted)


def test_adding_a_constant_to_a_record_or_a_level_changes_nothing():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(500, 4))
    counts = np.array([200, 150, 100, 50])
    shifted = scores + rng.normal(size=(500, 1)) + np.array([0.5, -0.3, 0.0, 2.0])
    np.testing.assert_array_equal(assign_levels(shifted, counts), assign_levels(scores, counts))


def test_two_levels_are_a_cut_of_the_difference():
    scores = np.random.default_rng(0).normal(size=(1000, 2))
    levels = assign_levels(scores, np.array([300, 700]))
    preference = scores[:, 1] - scores[:, 0]
    assert preference[levels == 0].max() < preference[levels == 1].min()


def test_empty_levels_and_empty_tables():
    scores = np.array([[0.0, 9.0, 1.0], [0.0, 9.0, 2.0]])
    assert assign_levels(scores, np.array([1, 0, 1])).tolist() == [0, 2]
    assert assign_levels(scores, np.array([0, 2, 0])).tolist() == [1, 1]
    assert assign_levels(np.empty((0, 3)), np.zeros(3, dtype=int)).tolist() == []


def test_many_levels():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, 100))
    counts = rng.multinomial(300, np.full(100, 0.01))
    levels = assign_levels(scores, counts)
    assert np.bincount(levels, minlength=100).tolist() == counts.tolist()
    assert total(scores, levels) == pytest.approx(best_total(scores, counts), abs=1e-9)


def test_deterministic_and_input_untouched():
    scores = np.random.default_rng(0).integers(0, 2, (3000, 4)).astype(float)
    counts = np.array([1000, 1500, 300, 200])
    scores.setflags(write=False)
    counts.setflags(write=False)
    np.testing.assert_array_equal(assign_levels(scores, counts), assign_levels(scores.copy(), counts))


@pytest.mark.parametrize(
    ("records", "levels", "length", "most"), [(50, 3, 4, 5), (400, 4, 200, 9), (900, 6, 30, 10**9)]
)
def test_those_are_listed_who_lose_least_and_of_equal_losses_the_first(records, levels, length, most):
    rng = np.random.default_rng(records)
    scores, at = -rng.integers(0, most, (levels, records)), rng.integers(0, levels, records)
    wanted, ceilings = transport._shortlist(scores, at, length)
    expected = set()
    for a, b in itertools.permutations(range(levels), 2):
        members = np.flatnonzero(at == a)
        loss = scores[a, members] - scores[b, members]
        order = np.argsort(loss, kind="stable")[:length]
        expected |= set(members[order].tolist())
        assert ceilings[a, b] == (loss[order[-1]] if len(members) > length else transport._FAR)
    assert set(wanted.tolist()) == expected
