"""Periodised wavelet decomposition of short signals of counts, and the outliers of such signals."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import pywt
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from anoncore.errors import AnonymizationError
from anoncore.parameters import not_below

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Pad = Literal["refuse", "zero", "repeat"]

MODE = "periodization"
_FENCE = 1.5  # Tukey's inner fences


@dataclass(frozen=True, eq=False, repr=False)
class Decomposition:
    """A signal as one smooth part and one detail per level.

    Parameters
    ----------
    coefficients : (n / 2^level,) float
        Approximation coefficients.
    approximation : (n,) float
        Their reconstruction, in the signal's units.
    details : (level, n) float
        D_1 to D_level, finest first, in the signal's units.
    """

    coefficients: Floats
    approximation: Floats
    details: Floats

    @property
    def detail(self) -> Floats:
        """Sum (n,) of the details of all levels: the signal less its approximation."""
        return self.details.sum(axis=0)


def reconstruction_matrix(length: int, wavelet: str, level: int) -> Floats:
    """Matrix that turns approximation coefficients into the approximation.

    Parameters
    ----------
    length : int
        Number n of positions, a multiple of 2^level.
    wavelet : str
        Name of a discrete wavelet of PyWavelets.
    level : int
        Levels of decomposition, at least 1.

    Returns
    -------
    (n, n / 2^level) float
        Column j is the reconstruction of the j-th unit coefficient.

    Raises
    ------
    AnonymizationError
        When the length is no multiple of 2^level.

    Notes
    -----
    Claim: column sums are 2^(level/2), so the coefficients alone fix the signal's total.

    Source: Chertov & Tavrov (2010), equations (4) and (5).

    Examples
    --------
    >>> reconstruction_matrix(4, "haar", 1).round(3).tolist()
    [[0.707, 0.0], [0.707, 0.0], [0.0, 0.707], [0.0, 0.707]]
    """
    return sparse_reconstruction(length, wavelet, level).toarray()


def sparse_reconstruction(length: int, wavelet: str, level: int) -> csr_array[np.float64]:
    """Return `reconstruction_matrix` with only its nonzero entries, about a filter's length per row whatever n.

    Examples
    --------
    >>> sparse_reconstruction(4096, "db2", 2).nnz
    10240
    """
    _check_length(length, level)
    result = eye_array(length >> level, format="csr")
    for step in range(level, 0, -1):
        # Periodised filters are circulant: every column is the first one, shifted by two positions.
        width = length >> step
        first = pywt.idwt(np.arange(width) == 0, None, wavelet, MODE)
        at = np.flatnonzero(first)
        rows = (at[:, None] + 2 * np.arange(width)) % (2 * width)
        columns = np.broadcast_to(np.arange(width), rows.shape)
        values = np.repeat(first[at], width)
        result = csr_array((values, (rows.ravel(), columns.ravel())), shape=(2 * width, width)) @ result
    return csr_array(result)


def decompose(signal: Floats, wavelet: str, level: int) -> Decomposition:
    """Split a signal into an approximation and details that add up to it.

    Parameters
    ----------
    signal : (n,) float
        Counts or ratios in a stated order of positions; n is a multiple of 2^level (see `pad_signal`).
    wavelet : str
        Name of a discrete wavelet of PyWavelets.
    level : int
        Levels of decomposition, at least 1.

    Returns
    -------
    Decomposition

    Raises
    ------
    AnonymizationError
        When the length is no multiple of 2^level.

    Notes
    -----
    Claim: approximation and details add up to the signal. The details of every level add up to 0, except for
    the wavelets that are only approximately invertible (``dmey``).

    Source: Chertov & Tavrov (2010), equations (2) to (4). Their transform is the one with periodised borders.
    D_i is the difference of two successive approximations, which is their (4) for every wavelet that
    reconstructs exactly.

    Examples
    --------
    >>> parts = decompose(np.array([1.0, 3.0, 4.0, 8.0]), "haar", 1)
    >>> parts.approximation.round(9).tolist(), parts.detail.round(9).tolist()
    ([2.0, 2.0, 6.0, 6.0], [-1.0, 1.0, -2.0, 2.0])
    """
    signal = np.array(signal, dtype=float)  # PyWavelets refuses arrays that are read-only
    _check_length(len(signal), level)
    with warnings.catch_warnings():
        # Periodised, a filter longer than the signal is wrapped round and still inverts.
        warnings.filterwarnings("ignore", message="Level value of", category=UserWarning)
        smooth = [signal]
        for step in range(1, level + 1):
            coefficients = pywt.wavedec(signal, wavelet, mode=MODE, level=step)[0]
            smooth.append(sparse_reconstruction(len(signal), wavelet, step) @ coefficients)
    details = np.array([before - after for before, after in pairwise(smooth)])
    return Decomposition(coefficients, smooth[-1], details)


def pad_signal(signal: Floats, level: int, pad: Pad = "refuse") -> Floats:
    """Extend a signal to a multiple of 2^level positions.

    Parameters
    ----------
    signal : (m,) float
    level : int
    pad : {"refuse", "zero", "repeat"}
        What stands at the added positions: nothing is added and other lengths are an error; 0; or the last
        value. They are places for the transform only and never hold records.

    Returns
    -------
    (n,) float
        n is the least multiple of 2^level that is at least m; a copy.

    Raises
    ------
    AnonymizationError
        When m is no multiple of 2^level and ``pad`` is "refuse".

    Examples
    --------
    >>> pad_signal(np.array([5.0, 1.0, 2.0]), 2, "repeat").tolist()
    [5.0, 1.0, 2.0, 2.0]
    """
    signal = np.array(signal, dtype=float)
    if pad == "refuse":
        _check_length(len(signal), level)
    missing = -len(signal) % 2**level
    return np.concatenate([signal, np.full(missing, signal[-1] if pad == "repeat" else 0.0)])


def fences(signal: Floats) -> tuple[float, float]:
    """Return Tukey's inner fences of a signal (m,), beyond which its values count as outliers.

    They are the first quartile less 1.5 interquartile ranges and the third plus 1.5, by linear interpolation.

    Examples
    --------
    >>> fences(np.array([1.0, 2.0, 3.0, 4.0, 50.0]))
    (-1.0, 7.0)
    """
    lower, upper = np.percentile(signal, [25, 75])
    reach = _FENCE * (upper - lower)
    return float(lower - reach), float(upper + reach)


def outlier_positions(signal: Floats) -> Integers:
    """Return the positions (k,), ascending, whose values lie beyond the `fences` of their signal (m,).

    Examples
    --------
    >>> outlier_positions(np.array([1.0, 2.0, 3.0, 4.0, 50.0])).tolist()
    [4]
    """
    low, high = fences(signal)
    return np.flatnonzero((signal < low) | (signal > high))


def winsorise(signal: Floats) -> Floats:
    """Return a signal (m,) with the values beyond its `fences` pulled to the nearer fence.

    Examples
    --------
    >>> winsorise(np.array([1.0, 2.0, 3.0, 4.0, 50.0])).tolist()
    [1.0, 2.0, 3.0, 4.0, 7.0]
    """
    return np.clip(np.asarray(signal, dtype=float), *fences(signal))


def _check_length(length: int, level: int) -> None:
    step = 2**level
    not_below(1, level=level)
    if length < step or length % step:
        deepest = (length & -length).bit_length() - 1
        lengths = [n for n in (length // step * step, (length // step + 1) * step) if n]
        shallower = f", or choose level {deepest} or lower" if deepest else ""
        raise AnonymizationError(
            f"a signal of {length} positions cannot be decomposed to level {level}: the number of positions "
            f"must be a multiple of {step}, such as {' or '.join(map(str, lengths))}; pad it{shallower}"
        )
