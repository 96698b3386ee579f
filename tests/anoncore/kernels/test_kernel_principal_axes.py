from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.kernels import rows
from anoncore.kernels.principal_axes import basis, canonical_axes, principal_scores, symmetric_root
from tests.anoncore.tables import dependent_table, table


@pytest.mark.parametrize("shape", [(500, 6), (1, 3), (2, 5), (4, 9), (50, 1)])
@pytest.mark.parametrize("block_rows", [7, 32_768])
def test_basis_agrees_with_a_full_decomposition(shape, block_rows, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_ROWS", block_rows)
    x = table(*shape, offset=3.0)
    frame = basis(x)
    expected = np.zeros(shape[1])
    values = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)
    expected[: values.size] = values
    np.testing.assert_allclose(frame.center, x.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(frame.singular_values, expected, atol=1e-13 * max(1.0, values[0]))
    np.testing.assert_allclose(frame.loadings.T @ frame.loadings, np.eye(shape[1]), atol=1e-13)
    back = frame.center + principal_scores(x, frame) @ frame.loadings.T
    np.testing.assert_allclose(back, x, atol=1e-13 * np.abs(x).max())


def test_basis_of_dependent_columns_has_exact_null_axes():
    frame = basis(dependent_table(3000))
    assert (frame.singular_values[4:] < 1e-13 * frame.singular_values[0]).all()
    assert (frame.singular_values[:4] > 0.1 * frame.singular_values[0]).all()
    assert (np.diff(frame.singular_values) <= 0).all()


def test_basis_does_not_show_its_loadings():
    assert "0." not in repr(basis(table(50, 3)))


def test_signs_do_not_depend_on_the_decomposition():
    x = table(400, 5)
    frame, mirrored = basis(x), basis(-x)
    np.testing.assert_allclose(frame.loadings, mirrored.loadings, atol=1e-12)
    peaks = np.abs(frame.loadings).argmax(axis=0)
    assert (frame.loadings[peaks, np.arange(5)] > 0).all()


def test_memory_layout_does_not_matter():
    x = table(400, 5)
    frame = basis(x)
    np.testing.assert_array_equal(principal_scores(x, frame), principal_scores(x, frame, order="F"))


# -- nothing is arbitrary


def rotation(size, rng):
    return np.linalg.qr(rng.normal(size=(size, size)))[0]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_equally_long_axes_get_the_same_basis_whatever_was_computed(multiplicities, seed):
    rng = np.random.default_rng(seed)
    size = sum(multiplicities)
    axes = rotation(size, rng)
    lengths = np.repeat(2.0 ** -np.arange(len(multiplicities)), multiplicities)
    ends = np.cumsum([0, *multiplicities])
    turned = np.hstack([axes[:, a:b] @ rotation(b - a, rng) for a, b in pairwise(ends)])
    first, again = (canonical_axes(lengths * (1 + 1e-15 * rng.normal(size=size)), a)[1] for a in (axes, turned))
    np.testing.assert_allclose(first, again, atol=1e-12)
    np.testing.assert_allclose(first.T @ first, np.eye(size), atol=1e-13)
    for a, b in pairwise(ends):
        np.testing.assert_allclose(first[:, a:b] @ first[:, a:b].T, axes[:, a:b] @ axes[:, a:b].T, atol=1e-13)


def test_axes_of_different_lengths_keep_their_direction():
    axes = rotation(5, np.random.default_rng(0))
    lengths, fixed = canonical_axes(np.array([5.0, 4.0, 3.0, 3.0 - 1e-9, 1e-14]), axes)
    np.testing.assert_allclose(np.abs((fixed * axes).sum(axis=0)), 1.0, atol=1e-14)
    np.testing.assert_array_equal(fixed[:, 4], axes[:, 4])
    assert lengths[2] > lengths[3]


def test_the_larger_of_nearly_equal_entries_does_not_fix_the_sign():
    for noise in (1e-15, -1e-15):
        axis = np.array([[-0.5], [0.5 + noise], [0.5], [-0.5]])
        assert canonical_axes(np.ones(1), axis)[1][0, 0] > 0


def test_axes_of_a_full_factorial_table_are_its_columns():
    x = np.array(np.meshgrid(*[[-1.0, 1.0]] * 4)).reshape(4, -1).T
    np.testing.assert_allclose(basis(x).loadings, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(basis(x).singular_values, 4.0)


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_symmetric_root(rank):
    half = np.random.default_rng(0).normal(size=(6, rank))
    root = symmetric_root(half @ half.T)
    np.testing.assert_allclose(root @ root, half @ half.T, atol=1e-12)
    np.testing.assert_allclose(root, root.T, atol=1e-12)
    assert np.linalg.eigvalsh(root).min() > -1e-12
    if rank == 6:
        np.testing.assert_allclose(symmetric_root(half @ half.T, inverse=True) @ root, np.eye(6), atol=1e-9)
