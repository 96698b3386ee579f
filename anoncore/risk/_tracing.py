"""Traces of people in the difference of two releases: all variables together, each of which reveals little alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg

from anoncore.risk._checks import Floats

# Eighths of numbers; standard deviations that a number counts at most, lest one dominates; what is added to the
# covariance, lest directions without people count; a spread that is none; and how exactly equations are solved.
_CLASSES, _FARTHEST, _RIDGE, _STILL, _EXACT = 8, 4.0, 0.3, 1e-9, 1e-8


def trait_differences(columns: list[Floats], numeric: bool, scale: float) -> tuple[csr_array, Floats]:
    """Return what one variable says of people, and by how much two releases differ in it.

    Parameters
    ----------
    columns : (M₁,), (M₂,), (J,) and (L,) values of the earlier and the later release and of the people: numbers, or
        codes of levels; NaN where missing
    numeric : whether they are numbers
    scale : of the earlier release's sums

    Returns
    -------
    (J + L, w), sparse, and (w,)
        Whether each level, or eighth of a number, is held, or missing; and the number. Their sums over the later
        release less those over the earlier one.
    """
    people = np.concatenate(columns[2:])
    present = people[~np.isnan(people)]
    cut = numeric and len(present)
    known = np.unique(np.quantile(present, np.arange(1, _CLASSES) / _CLASSES) if cut else present)
    sides = [_classes(side, known, numeric) for side in (*columns[:2], people)]
    width = len(known) + 2
    earlier, released = (np.bincount(side, minlength=width) for side in sides[:2])
    n, difference = len(people), released - scale * earlier
    values, places, ends = np.ones((n, 1)), sides[2][:, None], np.arange(n + 1)
    if numeric and len(present):
        centre, spread = float(present.mean()), float(present.std()) or 1.0
        numbers = [
            np.nan_to_num(np.clip((side - centre) / spread, -_FARTHEST, _FARTHEST)) for side in (*columns[:2], people)
        ]
        values = np.column_stack([values, numbers[2]])
        places, ends = np.column_stack([places, np.full(n, width)]), 2 * ends
        difference = np.append(difference, numbers[1].sum() - scale * numbers[0].sum())
    return csr_array((values.ravel(), places.ravel(), ends), shape=(n, len(difference))), difference


def trace_scores(traits: csr_array, difference: Floats, records: float) -> Floats:
    """Return (P,) how much each person looks like those behind the difference of two releases.

    Parameters
    ----------
    traits : (P, w), sparse, of the people
    difference : (w,) of the releases' sums
    records : by how many records the later release is larger

    Notes
    -----
    (x − μ)ᵀ (Σ + 0.3 I)⁻¹ (d − records·μ), of traits in standard deviations, μ and Σ those of the people. Where all
    traits are sums kept exactly it is the likelihood ratio of normal sums, but for the ridge. Solved by conjugate
    gradients, since levels by the thousand would have a covariance of a gigabyte.

    Source: Dwork et al. 2015, "Robust traceability from trace amounts", *FOCS*, with the pooled covariance.
    """
    centre = np.asarray(traits.mean(axis=0))
    spread = np.sqrt(np.maximum(np.asarray(traits.power(2).mean(axis=0)) - centre**2, 0.0))
    varies = spread > _STILL
    if not varies.any():
        return np.zeros(traits.shape[0])
    held, mean, unit = traits[:, varies], centre[varies], spread[varies]

    def scores(weights: Floats) -> Floats:
        return np.asarray(held @ (weights / unit) - mean @ (weights / unit))

    def covariance(weights: Floats) -> Floats:
        each = scores(weights)
        return (held.T @ each - mean * each.sum()) / unit / len(each) + _RIDGE * weights

    width = int(varies.sum())
    moved = (difference - records * centre)[varies] / unit
    return scores(cg(LinearOperator((width, width), matvec=covariance, dtype=np.float64), moved, rtol=_EXACT)[0])


def _classes(values: Floats, known: Floats, numeric: bool) -> NDArray[np.intp]:
    """Return (N,) the place of each value among classes, the last but one for missing ones, the last for others."""
    places = np.searchsorted(known, values)
    if not numeric:
        others = (places == len(known)) | (known[np.minimum(places, len(known) - 1)] != values) if len(known) else True
        places = np.where(others, len(known) + 1, places)
        return np.where(np.isnan(values), len(known), places)
    # Numbers have one class more than cuts.
    return np.where(np.isnan(values), len(known) + 1, places)
