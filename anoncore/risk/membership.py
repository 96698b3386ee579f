"""Membership: how well an attacker infers from the release who took part."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import nearest
from anoncore.microdata import EACH_RECORD, ComparedUnits
from anoncore.parameters import between
from anoncore.risk._checks import Floats, matrix, vector
from anoncore.risk.prediction import PredictionMeasures
from anoncore.risk.verdicts import Verdict, three_way

# A release passes when no attack is shown to do better than this; 0.55 asks for 1190 people on each side.
PASSES_WITHIN = 0.6


@dataclass(frozen=True)
class MembershipAttack:
    """An attack's area under the ROC curve, members (A) against non-members (A*).

    Parameters
    ----------
    auc : probability that a member scores above a non-member, ties counting one half
    lower, upper : confidence bounds; the lower one holds for all ``tests`` attacks together
    n_members, n_nonmembers : statistical units scored
    verdict : "fail" when ``lower`` is above the gate, "pass" when ``upper`` is at most 0.6 (or the gate, if larger)
    baseline : the AUC of guessing
    gate, confidence : the bar set for ``lower``, and the coverage of the bounds
    tests : attacks that are made on the same release, this one included
    error_ratio : standard error of the mean of this area and that of the other half of a cross, as a share of that of
        independent errors; see `anoncore.risk.halves`
    """

    # No field: what concerns one person is neither stored, shown nor compared.
    placements: ClassVar[tuple[Floats, Floats] | None] = None

    auc: float
    lower: float
    upper: float
    n_members: int
    n_nonmembers: int
    verdict: Verdict
    baseline: float = 0.5
    gate: float = 0.55
    confidence: float = 0.99
    tests: int = 1
    error_ratio: float = 1.0

    def with_upper(self, upper: float) -> MembershipAttack:
        """Return the attack with another upper bound."""
        verdict = three_way(self.lower, upper, max(self.gate, PASSES_WITHIN), fails_above=self.gate)
        changed = replace(self, upper=upper, verdict=verdict)
        object.__setattr__(changed, "placements", self.placements)
        return changed

    def __getstate__(self) -> dict[str, object]:
        """Return what is pickled: the fields alone."""
        return {name: value for name, value in vars(self).items() if name != "placements"}


def membership_attack(
    member_scores: ArrayLike,
    nonmember_scores: ArrayLike,
    *,
    gate: float = 0.55,
    confidence: float = 0.99,
    tests: int = 1,
    units: ComparedUnits = EACH_RECORD,
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
    gate : 0 … 1; the release fails when ``lower`` is above it
    confidence : 0 … 1, two-sided
    tests : attacks made on the same release; the level of the lower bound is divided by it (Bonferroni), so that
        the largest of all may be read. A release passes when every upper bound is within the limit, and that is
        proved at the level of each (an intersection–union test, Berger 1982), so that they need no correction.
    units : of the records scored, which are not independent: a unit scores the mean of its records, and once more the
        largest; the worse form is returned, with the larger upper bound

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
    between("confidence", confidence, 0, 1)
    forms = units.forms(vector("member_scores", member_scores), vector("nonmember_scores", nonmember_scores))
    areas = [_area(*sides, 1.0 - confidence, tests * len(forms)) for sides in forms]
    auc, lower, _, placements = max(areas, key=lambda one: one[1])
    upper = max(one[2] for one in areas)
    attack = MembershipAttack(
        auc=auc,
        lower=lower,
        upper=upper,
        n_members=len(forms[0][0]),
        n_nonmembers=len(forms[0][1]),
        verdict=three_way(lower, upper, max(gate, PASSES_WITHIN), fails_above=gate),
        gate=gate,
        confidence=confidence,
        tests=tests,
    )
    object.__setattr__(attack, "placements", placements)
    return attack


def _area(
    members: Floats, others: Floats, error_rate: float, tests: int
) -> tuple[float, float, float, tuple[Floats, Floats]]:
    """Return the area with its bounds, the lower one over all tests together, and what each person adds to it."""
    z, single = float(norm.isf(error_rate / 2.0 / tests)), float(norm.isf(error_rate / 2.0))
    above, below = _placements(members, others), 1.0 - _placements(others, members)
    sides = [_plus_two(above), _plus_two(below)]
    centre = sum(float(side.mean()) for side in sides) / 2.0
    error = math.sqrt(sum(float(side.var(ddof=1)) / len(side) for side in sides))
    auc = float(above.mean())
    return auc, min(auc, max(0.0, centre - z * error)), max(auc, min(1.0, centre + single * error)), (above, below)


def nearest_distance_attack(
    original: ArrayLike,
    reference: ArrayLike,
    released: ArrayLike,
    *,
    measures: PredictionMeasures | None = None,
    nonmembers: ArrayLike | None = None,
    gate: float = 0.55,
    confidence: float = 0.99,
    tests: int = 1,
    units: ComparedUnits = EACH_RECORD,
) -> MembershipAttack:
    """Attack membership with the distance to the nearest released record: the nearer, the more a member.

    Parameters
    ----------
    original : (N, n) members, encoded, in standard deviations
    reference : (L, n) non-members of the same population, same encoding
    released : (M, n), same encoding
    measures : those of the members, or of a sample of them, against ``released`` if they are known already
    nonmembers : (L,) distances of the non-members to their nearest released row, in the unit of `measures`, if
        they are known already
    gate, confidence, tests, units : see :func:`membership_attack`

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
    if nonmembers is None:
        others_distance = nearest(others, points, 1)[0][:, 0] / scale
    else:
        others_distance = vector("nonmembers", nonmembers, len(others))
    return membership_attack(-far, -others_distance, gate=gate, confidence=confidence, tests=tests, units=units)


def matched_quantiles(released: ArrayLike, others: ArrayLike, *, apart: float = 0.1) -> Floats | None:
    """Give every column of a release the distribution of other people, as anybody can who knows the population.

    A release that is moved, stretched or transformed column by column is near nobody, and every record of it is
    there: ranks survive any increasing transformation.

    Parameters
    ----------
    released : (M, n), encoded
    others : (L, n) people of the same population, same encoding
    apart : largest distance of the distribution functions of a column (Kolmogorov's) that is left as it is, where
        chance does not explain more

    Returns
    -------
    (M, n) array, or None
        Columns that are apart hold the quantiles of ``others`` at their mid-ranks; None where no column is apart.

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
    >>> matched_quantiles(people, people) is None
    True
    >>> bool(np.allclose(matched_quantiles(np.exp(people), people), people, atol=0.5))
    True
    """
    points = matrix("released", released)
    people = matrix("others", others, points.shape[1])
    matched = None
    chance = 2.0 * math.sqrt(1.0 / len(points) + 1.0 / len(people))
    for j, column in enumerate(points.T):
        ordered, known = np.sort(column), np.sort(people[:, j])
        values = np.concatenate([_distinct(ordered), _distinct(known)])
        distance = np.abs(_up_to(ordered, values) - _up_to(known, values)).max()
        if distance > max(apart, chance) and known[0] < known[-1]:
            matched = points.copy() if matched is None else matched
            rank = (_up_to(ordered, column) + _up_to(ordered, column, "left")) / 2.0
            matched[:, j] = np.quantile(known, rank)
    return matched


def _distinct(ordered: Floats) -> Floats:
    return ordered[np.append(True, ordered[1:] != ordered[:-1])]


def _up_to(ordered: Floats, values: Floats, side: Literal["left", "right"] = "right") -> Floats:
    """Return the share of ordered values up to each value, on the left side without itself."""
    return np.asarray(np.searchsorted(ordered, values, side=side) / len(ordered))


def _placements(rows: Floats, others: Floats) -> Floats:
    """Return the share of ``others`` below each row, ties counting one half."""
    ordered = np.sort(others)
    below = np.searchsorted(ordered, rows, side="left") + np.searchsorted(ordered, rows, side="right")
    return below / (2.0 * len(others))


def _plus_two(placements: Floats) -> Floats:
    return np.concatenate([placements, [0.0, 1.0]])
