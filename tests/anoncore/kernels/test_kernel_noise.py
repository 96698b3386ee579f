import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.errors import InfeasibleError
from anoncore.kernels import rows
from anoncore.kernels.noise import add_noise, strip_noise
from anoncore.kernels.principal_axes import basis
from tests.anoncore.tables import dependent_table, table

CORRECTIONS = ("corrected", "exact", "none")
AXES = ("original", "spectral")


def noisy(x, seed=1, **options):
    return add_noise(x, rng=np.random.default_rng(seed), **({"b": 0.1} | options))


# -- the formulas, from the uncorrected records of the same draw


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("b", [0.02, 0.1, 3.0])
def test_corrected_is_the_formula_of_kim_and_of_tendick_and_matloff(axes, b):
    x = table(400, 6, offset=2.0)
    y = noisy(x, b=b, correction="none", axes=axes)
    y = y - (y - x).mean(axis=0)
    c = 1 / np.sqrt(1 + b)
    np.testing.assert_allclose(noisy(x, b=b, axes=axes), c * y + (1 - c) * x.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("b", [0.02, 0.1, 3.0])
def test_exact_is_the_formula_with_two_cholesky_factors(b):
    x = table(400, 6, offset=2.0)
    y = noisy(x, b=b, correction="none")
    of_x, of_y = (np.linalg.cholesky(np.cov(values.T)) for values in (x, y))
    expected = x.mean(axis=0) + (y - y.mean(axis=0)) @ np.linalg.inv(of_y).T @ of_x.T
    np.testing.assert_allclose(noisy(x, b=b, correction="exact"), expected, atol=1e-10)


def root_of(matrix, power):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**power) @ vectors.T


def test_noise_is_drawn_with_the_symmetric_root_of_the_covariance():
    x = table(400, 6)
    drawn = np.random.default_rng(1).standard_normal(x.shape)
    added = drawn @ root_of(np.cov(x.T), 0.5) * np.sqrt(0.1)
    np.testing.assert_allclose(noisy(x, correction="none") - x, added, atol=1e-12)


def test_exact_along_spectral_axes_whitens_symmetrically():
    x = table(400, 6)
    loadings, lengths = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2].T, basis(x).singular_values
    y = noisy(x, correction="none", axes="spectral")
    white = (y - y.mean(axis=0)) @ loadings / lengths * np.sqrt(399)
    expected = white @ root_of(np.cov(white.T), -0.5) * lengths / np.sqrt(399) @ loadings.T + x.mean(axis=0)
    np.testing.assert_allclose(noisy(x, correction="exact", axes="spectral"), expected, atol=1e-10)


def test_constant_columns_are_no_axes():
    """A column that is constant but for rounding is no direction of its own, wherever it stands."""
    x = np.column_stack([np.full(200, 0.1), table(200, 3), np.full(200, 0.1)])
    masked = noisy(x, correction="exact")
    np.testing.assert_allclose(np.cov(masked.T), np.cov(x.T), atol=1e-12)


# -- moments


@given(
    st.integers(2, 40),
    st.integers(1, 8),
    st.floats(0.01, 5),
    st.sampled_from(AXES),
    st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_means_are_exact_but_for_none(n_records, n_columns, b, axes, seed):
    x = table(n_records, n_columns, seed, offset=1.0)
    masked = noisy(x, seed, b=b, axes=axes)
    np.testing.assert_allclose(masked.mean(axis=0), x.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize(
    "x",
    [table(60, 40), table(5000, 7, offset=100.0), dependent_table(300), table(12, 20)],
    ids=["narrow", "long", "singular", "wide"],
)
def test_exact_keeps_means_and_covariances_of_any_rank(x, axes):
    masked = noisy(x, correction="exact", axes=axes)
    scale = np.maximum(x.std(axis=0), 0.01)
    np.testing.assert_allclose((masked - x).mean(axis=0) / scale, 0, atol=1e-10)
    difference = np.cov(masked.T) - np.cov(x.T)
    np.testing.assert_allclose(difference / np.outer(scale, scale), 0, atol=1e-10)
    assert np.abs(masked - x).max() > 0.01


@pytest.mark.parametrize(("correction", "factor"), [("corrected", 1.0), ("none", 1.25)])
@pytest.mark.parametrize("axes", AXES)
def test_covariances_are_right_on_average(correction, factor, axes):
    x = table(30, 3)
    rng = np.random.default_rng(5)
    found = [np.cov(add_noise(x, b=0.25, rng=rng, correction=correction, axes=axes).T) for _ in range(4000)]
    sd = x.std(axis=0, ddof=1)
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - factor * np.cov(x.T)) < 4.5 * error).all()
    assert (error / np.outer(sd, sd)).max() < 0.01


def test_uncorrected_noise_inflates_variances():
    x = table(20_000, 4)
    np.testing.assert_allclose(noisy(x, b=0.5, correction="none").var(0) / x.var(0), 1.5, atol=0.05)


@pytest.mark.parametrize("axes", AXES)
def test_noise_has_the_covariance_of_the_data_and_no_correlation_with_them(axes):
    x = table(50_000, 4)
    added = noisy(x, b=0.3, correction="none", axes=axes) - x
    sd = x.std(axis=0)
    np.testing.assert_allclose((np.cov(added.T) / 0.3 - np.cov(x.T)) / np.outer(sd, sd), 0, atol=0.03)
    np.testing.assert_allclose(np.corrcoef(added.T, x.T)[:4, 4:], 0, atol=0.02)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_linear_relations_survive(correction, axes):
    masked = noisy(dependent_table(200), correction=correction, axes=axes)
    np.testing.assert_allclose(masked[:, 2], masked[:, 0] + masked[:, 1], atol=1e-12)
    np.testing.assert_allclose(masked[:, 3], masked[:, 4], atol=1e-12)
    np.testing.assert_allclose(masked[:, 5], 0.1, atol=1e-12)


# -- the rest


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_next_to_no_noise_is_next_to_the_identity(correction, axes):
    x = table(100, 5)
    np.testing.assert_allclose(noisy(x, b=1e-16, correction=correction, axes=axes), x, atol=1e-6)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_blocks_change_nothing(correction, axes, monkeypatch):
    x = table(100, 5)
    whole = noisy(x, correction=correction, axes=axes)
    monkeypatch.setattr(rows, "BLOCK_ROWS", 7)
    np.testing.assert_allclose(noisy(x, correction=correction, axes=axes), whole, atol=1e-12)


def test_same_seed_same_noise_and_another_seed_another():
    x = table(50, 3)
    assert np.array_equal(noisy(x, 1), noisy(x, 1))
    assert not np.allclose(noisy(x, 1), noisy(x, 2))


@pytest.mark.parametrize("axes", ["original", "spectral"])
def test_dependent_columns_leave_nothing_to_rounding(axes):
    """One column per level, a sum and a constant: little noise stays little, in whatever order rows come."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(300, 4))
    x = np.hstack([np.eye(3)[rng.integers(0, 3, 300)], values, values[:, :1] + values[:, 1:2], np.ones((300, 1))])
    noisy = add_noise(x, b=1e-6, rng=np.random.default_rng(1), correction="exact", axes=axes)
    assert np.sqrt(((noisy - x) ** 2).mean()) < 2e-3
    np.testing.assert_allclose(np.cov(noisy.T), np.cov(x.T), atol=1e-12)
    # Scaled columns have other rounding and the same result.
    scale = 2.0 ** rng.integers(-9, 9, x.shape[1])
    again = add_noise(x * scale, b=1e-6, rng=np.random.default_rng(1), correction="exact", axes="original")
    if axes == "original":
        assert np.sqrt(((again / scale - x) ** 2).mean()) < 1e-2


def test_a_constant_table_comes_back():
    x = np.full((10, 2), 3.0)
    for correction in CORRECTIONS:
        np.testing.assert_allclose(noisy(x, correction=correction), x, atol=1e-12)


def test_collinear_noisy_records_are_refused():
    class Undoing:
        """Noise that takes every record back to the mean."""

        def standard_normal(self, shape):
            return np.array([[1.0], [-1.0]]) * np.sqrt(0.5 / 0.1)

    with pytest.raises(InfeasibleError, match="not collinear"):
        add_noise(np.array([[0.0], [2.0]]), b=0.1, rng=Undoing(), correction="exact")


def test_stripping_is_the_best_linear_estimate_and_gains_nothing_on_noise_of_the_datas_covariance():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3000, 2)) @ rng.normal(size=(2, 5)) + 0.1 * rng.normal(size=(3000, 5))
    sigma = np.cov(x, rowvar=False)
    left = {}
    for name, noise_covariance in (("alike", 0.1 * sigma), ("independent", 0.1 * np.diag(np.diag(sigma)))):
        noisy = x + rng.multivariate_normal(np.zeros(5), noise_covariance, size=len(x))
        stripped = strip_noise(noisy, noise_covariance)
        # The regression on the records themselves, which the attacker does not have.
        best, *_ = np.linalg.lstsq(noisy - noisy.mean(axis=0), x - x.mean(axis=0), rcond=None)
        optimum = np.square((noisy - noisy.mean(axis=0)) @ best + x.mean(axis=0) - x).mean()
        assert np.square(stripped - x).mean() == pytest.approx(optimum, rel=0.05)
        left[name] = np.sqrt(np.square(stripped - x).mean() / np.square(noisy - x).mean())
    assert left["alike"] == pytest.approx(1.1**-0.5, abs=0.02)
    assert left["independent"] < 0.75
