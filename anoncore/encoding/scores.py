"""From scores of the encoded matrix to levels: calibrated to counts, or as probabilities."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anoncore.kernels.ranks import cut_by_counts
from anoncore.kernels.ties import order_with_ties
from anoncore.kernels.transport import assign_levels
from anoncore.microdata import Variable

Decoding = Literal["calibrated", "mode", "probabilities"]


def logistic_probabilities(scores: np.ndarray) -> np.ndarray:
    """Return the logistic of each score, normalised over the q levels of a nominal variable.

    Parameters
    ----------
    scores : (N, q) float64, masked columns of the {−1, +1} encoding

    Returns
    -------
    (N, q) float64, rows sum to 1

    Notes
    -----
    Source: Lasko and Vinterbo 2010, section III.

    Examples
    --------
    >>> logistic_probabilities(np.array([[-2.5, -1.5, 0.41]])).round(4)
    array([[0.0883, 0.2123, 0.6995]])
    """
    chances = 1.0 / (1.0 + np.exp(-scores))
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def probability_names(variable: Variable) -> list[str]:
    """Return the names of the columns that a variable becomes where levels are released as probabilities."""
    return [f"{variable.name}={level}" for level in variable.levels or ()]


def cut(scores: np.ndarray, counts: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Cut (N,) scores into levels in the proportions of ``counts``; groups stay on one side of a cut."""
    counts = _rescaled(counts, len(scores))
    if groups is None:
        return cut_by_counts(scores, counts)
    _, first, inverse, sizes = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    order = order_with_ties(scores[first])
    middle = np.empty(len(first))
    middle[order] = np.cumsum(sizes[order]) - sizes[order] / 2
    return np.searchsorted(np.cumsum(counts)[:-1], middle, side="right")[inverse]


def assign(scores: np.ndarray, counts: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Assign nominal levels in the proportions of ``counts``; a group takes its most frequent level."""
    codes = assign_levels(scores, _rescaled(counts, len(scores)))
    if groups is None:
        return codes
    inverse = np.unique(groups, return_inverse=True)[1]
    votes = np.zeros((inverse.max(initial=-1) + 1, scores.shape[1]))
    np.add.at(votes, (inverse, codes), 1.0)
    return votes.argmax(axis=1)[inverse]


def _rescaled(counts: np.ndarray, total: int) -> np.ndarray:
    """Return counts in the same proportions that sum to ``total``, by largest remainder."""
    if counts.sum() == total:
        return counts
    shares = counts * (total / counts.sum())
    whole = np.floor(shares).astype(np.int64)
    short = total - int(whole.sum())
    whole[np.argsort(-(shares - whole), kind="stable")[:short]] += 1
    return whole
