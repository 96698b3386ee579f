import warnings

import numpy as np
import pytest
import pywt
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from anoncore.errors import AnonymizationError
from anoncore.kernels.wavelet.decomposition import (
    decompose,
    fences,
    outlier_positions,
    pad_signal,
    reconstruction_matrix,
    sparse_reconstruction,
    winsorise,
)

WAVELETS = ["haar", "db2", "db3", "db7", "sym4", "sym8", "coif2", "bior2.2", "rbio3.1"]
SHAPES = [(2, 1), (4, 2), (6, 1), (16, 2), (16, 4), (20, 2), (96, 5)]


@pytest.fixture(autouse=True)
def _levels_above_the_usual():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Level value of")
        yield


@pytest.mark.parametrize("wavelet", WAVELETS)
@pytest.mark.parametrize(("length", "level"), SHAPES)
def test_matrix_is_the_inverse_transform_of_the_approximation(wavelet, length, level):
    a = np.random.default_rng(length).normal(size=length >> level)
    none = [np.zeros(length >> step) for step in range(level, 0, -1)]
    expected = pywt.waverec([a, *none], wavelet, mode="periodization")
    M = reconstruction_matrix(length, wavelet, level)
    assert M.shape == (length, length >> level)
    np.testing.assert_allclose(M @ a, expected, atol=1e-12)
    np.testing.assert_allclose(M.sum(axis=0), 2 ** (level / 2), atol=1e-12)


@pytest.mark.parametrize("wavelet", WAVELETS)
@pytest.mark.parametrize(("length", "level"), SHAPES)
def test_parts_add_up_and_are_those_of_pywavelets(wavelet, length, level):
    signal = np.random.default_rng(length).normal(size=length)
    signal.setflags(write=False)
    parts = decompose(signal, wavelet, level)
    np.testing.assert_allclose(parts.approximation + parts.details.sum(axis=0), signal, atol=1e-12)
    np.testing.assert_allclose(parts.detail.sum(), 0, atol=1e-9)
    theirs = pywt.wavedec(signal.copy(), wavelet, mode="periodization", level=level)
    np.testing.assert_allclose(parts.coefficients, theirs[0], atol=1e-12)
    for step in range(1, level + 1):
        only = [c if i == level - step + 1 else np.zeros_like(c) for i, c in enumerate(theirs)]
        expected = pywt.waverec(only, wavelet, mode="periodization")
        np.testing.assert_allclose(parts.details[step - 1], expected, atol=1e-9)


def test_the_only_approximately_invertible_wavelet_still_adds_up():
    signal = np.random.default_rng(0).normal(size=16)
    parts = decompose(signal, "dmey", 2)
    np.testing.assert_allclose(parts.approximation + parts.detail, signal, atol=1e-12)


def test_details_do_not_depend_on_the_coefficients():
    rng = np.random.default_rng(0)
    signal, a = rng.normal(size=32), rng.normal(size=8)
    changed = signal + reconstruction_matrix(32, "db3", 2) @ a
    np.testing.assert_allclose(decompose(changed, "db3", 2).details, decompose(signal, "db3", 2).details, atol=1e-12)


def test_a_sparse_matrix_of_many_positions():
    M = sparse_reconstruction(2**17, "db2", 3)
    assert M.nnz < 16 * 2**17
    np.testing.assert_allclose(M.sum(axis=0), 2**1.5, atol=1e-12)


@pytest.mark.parametrize(
    ("length", "level", "said"),
    [
        (10, 2, "10 positions.*multiple of 4, such as 8 or 12.*level 1 or lower"),
        (3, 2, "such as 4"),
        (7, 1, "such as 6 or 8; pad it$"),
        (4, 3, "such as 8.*level 2 or lower"),
        (8, 0, "level must be at least 1, got 0"),
    ],
)
def test_other_lengths_are_refused(length, level, said):
    for call in (
        lambda: reconstruction_matrix(length, "db2", level),
        lambda: decompose(np.ones(length), "db2", level),
        lambda: pad_signal(np.ones(length), level),
    ):
        with pytest.raises(AnonymizationError, match=said):
            call()


@pytest.mark.parametrize(("pad", "last"), [("zero", 0.0), ("repeat", 3.0)])
def test_padding(pad, last):
    signal = np.array([1.0, 5.0, 2.0, 7.0, 3.0])
    signal.setflags(write=False)
    padded = pad_signal(signal, 2, pad)
    assert padded.tolist() == [*signal, last, last, last]
    assert pad_signal(padded, 2, pad).tolist() == padded.tolist()
    assert pad_signal(padded, 2).tolist() == padded.tolist()


signals = npst.arrays(np.float64, st.integers(1, 40), elements=st.integers(0, 1000).map(float))


@settings(max_examples=50)
@given(signals)
def test_winsorised_signals_differ_at_outliers_only(signal):
    low, high = fences(signal)
    found, at = winsorise(signal), outlier_positions(signal)
    assert ((found >= low) & (found <= high)).all()
    changed = np.flatnonzero(found != signal)
    assert changed.tolist() == at.tolist()
    assert np.isin(found[at], [low, high]).all()


def test_fences_are_those_of_a_box_plot():
    signal = np.array([19, 12, 153, 71, 13, 79, 7, 33, 16, 270, 812, 135, 241, 14, 60, 4337])
    from matplotlib.cbook import boxplot_stats

    assert sorted(signal[outlier_positions(signal)]) == sorted(boxplot_stats(signal)[0]["fliers"])
