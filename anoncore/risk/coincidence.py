"""Membership by principal scores that coincide: what swapping along principal axes leaves as it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from anoncore.errors import AnonymizationError
from anoncore.kernels.principal_axes import basis
from anoncore.kernels.threads import in_threads, one_blas_thread
from anoncore.risk._checks import Floats, matrix
from anoncore.risk.membership import MembershipAttack, membership_attack

_AROUND = 10  # released scores on either side that say how far apart scores lie there
_NULL = 1e-8  # axes shorter than this, relative to the longest, hold rounding noise
_SAME = 1e-9  # of an axis's standard deviation; closer scores are one


@dataclass(frozen=True)
class ScoreCoincidence:
    """The attack's success, and what it was given.

    Parameters
    ----------
    attack : members told from non-members
    n_axes : axes on which scores were compared
    n_released : rows of the release
    loadings_known : whether the attacker had the loadings, or took axes from the release
    """

    meaning: ClassVar[str] = (
        "How well somebody who took part is told from a stranger by principal scores that recur in the "
        "release; 0.5 is guessing."
    )

    attack: MembershipAttack
    n_axes: int
    n_released: int
    loadings_known: bool


def score_coincidence_attack(
    original: ArrayLike,
    reference: ArrayLike,
    released: ArrayLike,
    *,
    loadings: ArrayLike | None = None,
    gate: float = 0.55,
    confidence: float = 0.99,
) -> ScoreCoincidence:
    """Attack membership by how closely a person's principal scores coincide with released ones.

    The attacker takes principal axes from the release, or from published loadings. On each axis a, g is the
    gap between the person's score and the nearest released one, w the mean spacing of the 20 released scores
    around it. A person scores −mean_a log((g + δ)/(w + δ)), with δ a billionth of the axis's standard
    deviation: spacings as at random give about the same to everybody, a recurring score very much more.

    Parameters
    ----------
    original : (N, n) members, encoded, in standard deviations
    reference : (L, n) non-members of the same population, same encoding
    released : (M, n) same encoding
    loadings : (n, p) axes known to the attacker, one per column; by default those of the release
    gate, confidence : see :func:`membership_attack`

    Returns
    -------
    ScoreCoincidence

    Raises
    ------
    AnonymizationError
        When the tables or loadings do not fit together.

    Notes
    -----
    Spectral swapping permutes every score and changes none, so the attack succeeds fully with the true
    loadings, which are therefore never published. A release without any variation has no axis: AUC 0.5.
    O((N + L + M)·(n² + n·log M)); nothing is sampled. Source: docs/explanation/risk.md.

    Examples
    --------
    >>> members, others = np.random.default_rng(1).normal(size=(2, 100, 3))
    >>> score_coincidence_attack(members, others, members).attack.auc
    1.0
    """
    members = matrix("original", original)
    others = matrix("reference", reference, members.shape[1])
    points = matrix("released", released, members.shape[1])
    with one_blas_thread():
        axes = basis(points).loadings if loadings is None else _known(loadings, members.shape[1])
        centre = points.mean(axis=0)
        spread = np.sqrt((((points - centre) @ axes) ** 2).mean(axis=0))
        kept = np.flatnonzero(spread > _NULL * max(float(spread.max()), np.finfo(float).tiny))
        sides = [axes[:, kept].T @ (rows - centre).T for rows in (members, others, points)]

    def on_axis(at: int) -> list[Floats]:
        there, same = np.sort(sides[2][at]), _SAME * float(spread[kept[at]])
        return [_log_gap(side[at], there, same) / len(kept) for side in sides[:2]]

    scores = np.zeros(len(members)), np.zeros(len(others))
    for gaps in in_threads(on_axis, range(len(kept))):
        for score, gap in zip(scores, gaps, strict=True):
            score -= gap
    return ScoreCoincidence(
        attack=membership_attack(*scores, gate=gate, confidence=confidence),
        n_axes=len(kept),
        n_released=len(points),
        loadings_known=loadings is not None,
    )


def _known(loadings: ArrayLike, columns: int) -> Floats:
    axes = matrix("loadings", loadings)
    if len(axes) != columns:
        raise AnonymizationError(f"loadings must have {columns} rows, one per column, got {len(axes)}; transpose them")
    return axes


def _log_gap(asked: Floats, there: Floats, same: float) -> Floats:
    """Return (q,) log of the gap to the nearest of the sorted scores, in units of their spacing there."""
    last = len(there) - 1
    order = np.argsort(asked)
    at = np.empty_like(order)
    at[order] = np.searchsorted(there, asked[order])  # ascending, what is looked at stays in the cache
    below, above = np.clip(at - 1, 0, last), np.clip(at, 0, last)
    gap = np.minimum(np.abs(asked - there[below]), np.abs(asked - there[above]))
    low, high = np.clip(at - _AROUND, 0, last), np.clip(at + _AROUND - 1, 0, last)
    spacing = (there[high] - there[low]) / np.maximum(high - low, 1)
    return np.log((gap + same) / (spacing + same))
