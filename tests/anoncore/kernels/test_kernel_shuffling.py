import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import stats

from anoncore.kernels import rows
from anoncore.kernels.shuffling import (
    average_ranks,
    conditional_normal,
    nearest_correlation,
    normal_correlation,
    rank_correlation,
    shuffling_scores,
)
from anoncore.kernels.ties import order_with_ties

tables = npst.arrays(
    np.float64, st.tuples(st.integers(2, 30), st.integers(1, 4)), elements=st.integers(-3, 3).map(float)
)


def lognormal_table(n_records, seed=0):
    """Correlated, skewed, continuous columns."""
    rng = np.random.default_rng(seed)
    x = np.exp(rng.normal(size=(n_records, 4)) @ rng.normal(size=(4, 4)) / 2)
    x.setflags(write=False)
    return x


def shuffle(x, *, rng, drawn=None):
    """Fill the drawn columns by the ranks of their scores; the others stay."""
    drawn = np.arange(x.shape[1]) if drawn is None else drawn
    scores, result = shuffling_scores(x, drawn=drawn, rng=rng), x.copy()
    for place, column in enumerate(drawn):
        result[order_with_ties(scores[:, place]), column] = np.sort(x[:, column])
    return result


def random_correlation(n_columns, rng):
    root = rng.normal(size=(n_columns, n_columns))
    covariance = root @ root.T
    sd = np.sqrt(np.diag(covariance))
    return covariance / np.outer(sd, sd)


# -- ranks and their correlations


@given(tables)
def test_ranks_are_those_of_scipy(x):
    np.testing.assert_array_equal(average_ranks(x), stats.rankdata(x, axis=0))


@given(tables)
@example(np.array([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]))
@example(np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]))
def test_rank_correlation_is_spearmans(x):
    found = rank_correlation(average_ranks(x))
    for i in range(x.shape[1]):
        for j in range(i):
            constant = np.ptp(x[:, i]) == 0 or np.ptp(x[:, j]) == 0
            expected = 0.0 if constant else stats.spearmanr(x[:, i], x[:, j]).statistic
            assert found[i, j] == pytest.approx(expected, abs=1e-12)
            assert found[j, i] == found[i, j]
    assert (np.diag(found) == 1).all()


# -- correlation matrices


def test_the_nearest_correlation_matrix_of_higham():
    """Higham 2002, section 4."""
    given_matrix = np.array([[2, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 2]], dtype=float)
    found = nearest_correlation(given_matrix)
    expected = np.array(
        [
            [1.0, -0.8084, 0.1916, 0.1068],
            [-0.8084, 1.0, -0.6562, 0.1916],
            [0.1916, -0.6562, 1.0, -0.8084],
            [0.1068, 0.1916, -0.8084, 1.0],
        ]
    )
    np.testing.assert_allclose(found, expected, atol=5e-4)


@given(st.integers(2, 12), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_repair_gives_a_correlation_matrix_that_none_is_nearer(n_columns, seed):
    rng = np.random.default_rng(seed)
    wanted = np.clip(random_correlation(n_columns, rng) + rng.normal(0, 0.4, (n_columns, n_columns)), -1, 1)
    wanted = (wanted + wanted.T) / 2
    np.fill_diagonal(wanted, 1.0)
    found = nearest_correlation(wanted)
    assert np.linalg.eigvalsh(found).min() > -1e-12
    np.testing.assert_array_equal(np.diag(found), 1.0)
    np.testing.assert_allclose(found, found.T, atol=1e-15)
    # A convex set: nearest if and only if no other member lies in the direction of what is wanted.
    for _ in range(20):
        other = random_correlation(n_columns, rng)
        assert ((wanted - found) * (other - found)).sum() < 5e-3


def test_a_correlation_matrix_is_left_as_it_is():
    matrix = random_correlation(5, np.random.default_rng(0))
    np.fill_diagonal(matrix, 1.0)
    np.testing.assert_array_equal(nearest_correlation(matrix), matrix)


def test_the_sine_undoes_what_normal_ranks_do():
    """The rank correlation of a normal pair is (6 / pi) asin(rho / 2)."""
    rho = np.array([[1.0, 0.7, -0.3], [0.7, 1.0, 0.1], [-0.3, 0.1, 1.0]])
    ranks = 6 / np.pi * np.arcsin(rho / 2)
    np.testing.assert_allclose(normal_correlation(ranks), rho, atol=1e-12)


def test_the_loss_between_columns_halved_at_their_medians():
    rng = np.random.default_rng(0)
    z = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 100_000)
    x = np.sign(z)
    r = np.corrcoef(x.T)[0, 1]
    released = shuffle(x, rng=rng)
    expected = 2 / np.pi * np.arcsin(2 * np.sin(np.pi * r / 6))
    assert np.corrcoef(released.T)[0, 1] == pytest.approx(expected, abs=0.015)
    assert expected < 0.72 * r


# -- the conditional distribution


@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_conditional_density_is_joint_over_marginal(n_known, n_drawn, seed):
    rng = np.random.default_rng(seed)
    total = n_known + n_drawn
    correlation = 0.9 * random_correlation(total, rng) + 0.1 * np.eye(total)
    order = rng.permutation(total)
    known, drawn = order[:n_known], order[n_known:]
    weights, covariance = conditional_normal(correlation, known, drawn)
    for point in rng.normal(size=(5, total)):
        joint = stats.multivariate_normal(cov=correlation).logpdf(point)
        marginal = stats.multivariate_normal(cov=correlation[np.ix_(known, known)]).logpdf(point[known])
        found = stats.multivariate_normal(point[known] @ weights, covariance).logpdf(point[drawn])
        assert found == pytest.approx(joint - marginal, abs=1e-8)


def test_nothing_known_leaves_the_marginal():
    correlation = random_correlation(3, np.random.default_rng(0))
    weights, covariance = conditional_normal(correlation, np.empty(0, dtype=int), np.arange(3))
    assert weights.shape == (0, 3)
    np.testing.assert_allclose(covariance, correlation)


def test_a_column_known_twice_counts_once():
    correlation = np.array([[1.0, 1.0, 0.6], [1.0, 1.0, 0.6], [0.6, 0.6, 1.0]])
    weights, covariance = conditional_normal(correlation, np.array([0, 1]), np.array([2]))
    np.testing.assert_allclose(weights.ravel(), [0.3, 0.3], atol=1e-12)
    np.testing.assert_allclose(covariance, [[0.64]], atol=1e-12)


# -- shuffling


@given(tables, st.integers(0, 99), st.data())
def test_columns_are_permuted_and_the_others_stay(x, seed, data):
    drawn = np.array(sorted(data.draw(st.sets(st.integers(0, x.shape[1] - 1)))), dtype=int)
    x.setflags(write=False)
    released = shuffle(x, rng=np.random.default_rng(seed), drawn=drawn)
    np.testing.assert_array_equal(np.sort(released, axis=0), np.sort(x, axis=0))
    others = np.setdiff1d(np.arange(x.shape[1]), drawn)
    np.testing.assert_array_equal(released[:, others], x[:, others])


@pytest.mark.parametrize("drawn", [[0, 1, 2, 3], [1, 3], [2]])
def test_rank_correlations_of_continuous_columns_are_kept(drawn):
    x = lognormal_table(40_000)
    released = shuffle(x, rng=np.random.default_rng(1), drawn=np.array(drawn))
    found, expected = (stats.spearmanr(values).statistic for values in (released, x))
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_a_released_row_has_no_tie_to_its_record_when_all_columns_are_drawn():
    x = lognormal_table(20_000)
    released = shuffle(x, rng=np.random.default_rng(1))
    between = stats.spearmanr(x, released).statistic[:4, 4:]
    np.testing.assert_allclose(between, 0, atol=0.03)


def test_given_the_known_columns_a_drawn_one_has_no_tie_to_its_own():
    """Residuals of the normal scores, given the known columns, are uncorrelated before and after."""
    rng = np.random.default_rng(0)
    known = rng.normal(size=20_000)
    x = np.column_stack([known, known + rng.normal(size=20_000)])
    released = shuffle(x, rng=np.random.default_rng(1), drawn=np.array([1]))
    before, after = x[:, 1] - known, released[:, 1] - known
    assert abs(np.corrcoef(before, after)[0, 1]) < 0.03
    assert np.corrcoef(x[:, 1], released[:, 1])[0, 1] == pytest.approx(0.5, abs=0.03)


def test_almost_dependent_known_columns_do_not_blow_scores_up():
    """Ties make P_SS indefinite; after repair it is singular where the known scores are not."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, 12, 600)
    one_hot = np.where(level[:, None] == np.arange(12), 1.0, -1.0)
    x = np.column_stack([one_hot, level + rng.normal(size=600), rng.normal(size=600)])
    x = np.column_stack([x, x[:, 12] > 6, x[:, 12] > 3])
    scores = shuffling_scores(x, drawn=np.array([12, 13]), rng=rng)
    assert scores.std(axis=0).min() > 0.4
    assert scores.std(axis=0).max() < 1.6


def test_blocks_change_nothing(monkeypatch):
    x = lognormal_table(300)
    whole = shuffling_scores(x, drawn=np.array([0, 2]), rng=np.random.default_rng(1))
    monkeypatch.setattr(rows, "BLOCK_ROWS", 7)
    blocked = shuffling_scores(x, drawn=np.array([0, 2]), rng=np.random.default_rng(1))
    np.testing.assert_allclose(blocked, whole, atol=1e-6)


def test_same_seed_same_order_and_another_seed_another():
    x = lognormal_table(100)
    one, again, other = (shuffle(x, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
