"""Membership: how well an attacker can tell from the release who took part."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import nearest
from anoncore.risk._checks import Floats, between, matrix, vector
from anoncore.risk.prediction import PredictionMeasures
from anoncore.risk.verdicts import Verdict, three_way


@dataclass(frozen=True)
class MembershipAttack:
    """An attack's area under the ROC curve, members (A) against non-members (A*).

    Parameters
    ----------
    auc : probability that a member scores above a non-member, ties counting one half
    lower, upper : confidence interval
    n_members, n_nonmembers : records scored
    verdict : "pass" when ``lower`` is at most the gate
    baseline : the AUC of guessing
    gate, confidence : the bar set for ``lower``, and the interval's coverage
    """

    auc: float
    lower: float
    upper: float
    n_members: int
    n_nonmembers: int
    verdict: Verdict
    baseline: float = 0.5
    gate: float = 0.55
    confidence: float = 0.99


def membership_attack(
    member_scores: ArrayLike, nonmember_scores: ArrayLike, *, gate: float = 0.55, confidence: float = 0.99
) -> MembershipAttack:
    """Measure how well a score separates members from non-members.

    The AUC is the Mann–Whitney statistic and its variance DeLong's, S₁₀/m + S₀₁/n, from the placement of
    each record among the other group. With perfect separation that variance is zero and a single record
    would prove a leak; so for the interval each group is given two further records, one placed at 0 and
    one at 1 (the "plus two" rule), which also draws the centre towards ½ by 1/(m + 2) at most.

    Parameters
    ----------
    member_scores : (m,), larger for records that look like members, any unit
    nonmember_scores : (n,), same score
    gate : 0 … 1; the release passes while ``lower`` ≤ gate
    confidence : 0 … 1, two-sided

    Returns
    -------
    MembershipAttack

    Raises
    ------
    AnonymizationError
        When scores are missing or a parameter is out of range.

    Notes
    -----
    Source: DeLong, DeLong and Clarke-Pearson 1988, *Biometrics* 44, 837–845, eqs. 3–5, departing from it
    in the two added records (Agresti and Coull 1998). O(N log N).

    Examples
    --------
    >>> round(membership_attack([3.0, 2.0, 1.0], [2.0, 0.0]).auc, 3)
    0.75
    """
    between("gate", gate, 0, 1)
    members = vector("member_scores", member_scores)
    others = vector("nonmember_scores", nonmember_scores)
    z = float(norm.ppf(0.5 + between("confidence", confidence, 0, 1) / 2.0))
    above = _placements(members, others)
    sides = [_plus_two(above), _plus_two(1.0 - _placements(others, members))]
    centre = sum(float(side.mean()) for side in sides) / 2.0
    error = math.sqrt(sum(float(side.var(ddof=1)) / len(side) for side in sides))
    auc = float(above.mean())
    lower, upper = min(auc, max(0.0, centre - z * error)), max(auc, min(1.0, centre + z * error))
    return MembershipAttack(
        auc=auc,
        lower=lower,
        upper=upper,
        n_members=len(members),
        n_nonmembers=len(others),
        verdict=three_way(lower, upper, gate, passes_by="lower"),
        gate=gate,
        confidence=confidence,
    )


def nearest_distance_attack(
    original: ArrayLike,
    reference: ArrayLike,
    released: ArrayLike,
    *,
    measures: PredictionMeasures | None = None,
    strangers: ArrayLike | None = None,
    gate: float = 0.55,
    confidence: float = 0.99,
) -> MembershipAttack:
    """Attack membership with the distance to the nearest released record: the nearer, the more a member.

    Parameters
    ----------
    original : (N, n) members, encoded, in standard deviations
    reference : (L, n) non-members of the same population, same encoding
    released : (M, n), same encoding
    measures : those of the members, or of a sample of them, against ``released`` if they are known already
    strangers : (L,) distances of the non-members to their nearest released row, in the unit of `measures`, if
        they are known already
    gate, confidence : see :func:`membership_attack`

    Returns
    -------
    MembershipAttack

    Raises
    ------
    AnonymizationError
        When the tables do not fit together.

    Notes
    -----
    Members and non-members face one and the same release, so their numbers need not be equal.
    Source: docs/explanation/risk.md.

    Examples
    --------
    >>> members, others = np.zeros((40, 1)), np.ones((40, 1))
    >>> nearest_distance_attack(members, others, members).verdict
    'fail'
    """
    members = matrix("original", original)
    others = matrix("reference", reference, members.shape[1])
    points = matrix("released", released, members.shape[1])
    scale = math.sqrt(members.shape[1])
    if measures is None:
        far = nearest(members, points, 1)[0][:, 0] / scale
    else:
        people = {measures.n_original, measures.n_queries}
        if measures.n_released != len(points) or len(members) not in people:
            raise AnonymizationError(
                f"measures must be of {len(members)} people and {len(points)} released rows, "
                f"got {measures.n_queries} and {measures.n_released}"
            )
        far = measures.distance
    if strangers is None:
        theirs = nearest(others, points, 1)[0][:, 0] / scale
    else:
        theirs = vector("strangers", strangers, len(others))
    return membership_attack(-far, -theirs, gate=gate, confidence=confidence)


def moved_back(released: ArrayLike, others: ArrayLike, *, apart: float = 0.2) -> Floats | None:
    """Give a release the means and spreads of other people, as anybody can who knows the population.

    A release that is moved or stretched as a whole is near nobody, and every record of it is there. One that
    was only drawn together, as microaggregation does, is left: it is near everybody as it is.

    Parameters
    ----------
    released : (M, n), encoded, in standard deviations
    others : (L, n) people of the same population, same encoding
    apart : how far the means must be off, in standard deviations of ``others``, root mean square over the
        columns; or by how much the logarithms of standard deviations must exceed theirs

    Returns
    -------
    (M, n) array, or None
        Every column that varies with the mean and standard deviation of ``others``; None where the release is
        not apart. What moved less than that lies nearer than neighbours do, and needs no moving.

    Raises
    ------
    AnonymizationError
        When the tables do not fit together.

    Notes
    -----
    Source: docs/explanation/risk.md.

    Examples
    --------
    >>> people = np.random.default_rng(0).normal(size=(500, 2))
    >>> moved_back(people, -people) is None
    True
    >>> bool(np.allclose(moved_back(3 * people + [10, 0], people), people))
    True
    """
    points = matrix("released", released)
    people = matrix("others", others, points.shape[1])
    mean, their_mean = points.mean(axis=0), people.mean(axis=0)
    spread, their_spread = points.std(axis=0), people.std(axis=0)
    varies = (spread > 0.0) & (their_spread > 0.0)
    if not varies.any():
        return None
    ratio = spread[varies] / their_spread[varies]
    shift = (mean - their_mean)[varies] / their_spread[varies]
    stretch = np.maximum(np.log(ratio), 0.0)
    if max(np.mean(shift**2), np.mean(stretch**2)) <= apart**2:
        return None
    back = points.copy()
    back[:, varies] = (points[:, varies] - mean[varies]) / ratio + their_mean[varies]
    return back


def _placements(rows: Floats, others: Floats) -> Floats:
    """Return the share of ``others`` below each row, ties counting one half."""
    ordered = np.sort(others)
    below = np.searchsorted(ordered, rows, side="left") + np.searchsorted(ordered, rows, side="right")
    return below / (2.0 * len(others))


def _plus_two(placements: Floats) -> Floats:
    return np.concatenate([placements, [0.0, 1.0]])
