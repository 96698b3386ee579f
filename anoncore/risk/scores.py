"""Attack scores of members and non-members: the area under the curve, and the highest scores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, binom, norm

from anoncore.microdata import EACH_RECORD, ComparedUnits
from anoncore.parameters import between
from anoncore.risk._checks import Floats, vector
from anoncore.risk.membership import MembershipAttack, membership_attack
from anoncore.risk.pairs import beginning_p

_RANKS = (5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 2000, 5000, 10_000)
# The rank where a tenth of the records is less than the first one.
_FEW = 10
# The area that gates accept, and the standard deviations by which normal scores of members then exceed the others'.
ACCEPTED_AREA = 0.55
_ACCEPTED = float(np.sqrt(2.0) * norm.ppf(ACCEPTED_AREA))


@dataclass(frozen=True)
class TopScores:
    """The highest scores of an attack: how many of them are members'.

    An area under the curve does not see a leak that concerns one record in a hundred; the highest scores do.

    Parameters
    ----------
    n : records among the highest scores, of all or of one group; of all, ties are taken whole
    members : those of them that are members
    precision, lower : share of members among them, and its lower confidence bound over all ranks, or groups, looked at
    p : probability of members as over-represented by chance, at any rank; and 1 where no rank has more than an attack
        has that is accepted
    accepted_p : the same, were the attack one that is accepted: with an area of 0.55, and normal scores
    baseline : share of members among all records scored
    """

    n: int
    members: int
    precision: float
    lower: float
    p: float
    accepted_p: float
    baseline: float


@dataclass(frozen=True)
class ScoreAttack:
    """How well a score distinguishes members from non-members, over all records and among the highest scores.

    Parameters
    ----------
    area : area under the ROC curve with its interval
    top : the rank at which members are most over-represented
    """

    area: MembershipAttack
    top: TopScores

    def among(self, tests: int) -> ScoreAttack:
        """Return the attack with p-values of the highest scores for so many tests."""
        p, accepted_p = (min(1.0, one * tests) for one in (self.top.p, self.top.accepted_p))
        return replace(self, top=replace(self.top, p=p, accepted_p=accepted_p))


@dataclass(frozen=True)
class NamedAttack:
    """One form of an attack: what the attacker knows or does, and what comes of it."""

    name: str
    attack: ScoreAttack


@dataclass(frozen=True)
class AttackFamily:
    """All forms of one attack on membership, at a confidence that holds for all of them together.

    Parameters
    ----------
    attacks : every form that was tried
    n_members, n_nonmembers : statistical units scored; of many a sample
    """

    attacks: tuple[NamedAttack, ...]
    n_members: int
    n_nonmembers: int

    @property
    def n_tests(self) -> int:
        """Return the number of forms."""
        return len(self.attacks)

    @property
    def worst(self) -> NamedAttack:
        """Return the form that is shown to do best; where none is shown to do anything, that may yet do most."""
        return max(self.attacks, key=lambda one: (max(one.attack.area.lower, 0.5), one.attack.area.upper))

    @property
    def upper(self) -> float:
        """Return the largest upper bound of an area."""
        return max(one.attack.area.upper for one in self.attacks)

    @property
    def worst_top(self) -> NamedAttack:
        """Return the form whose highest scores are least explained by chance."""
        return min(self.attacks, key=lambda one: one.attack.top.p)

    @property
    def top_p(self) -> tuple[tuple[str, float], ...]:
        """Return the p-value of the highest scores of each form, with its name."""
        return tuple((one.name, one.attack.top.p) for one in self.attacks)

    @property
    def accepted_p(self) -> tuple[tuple[str, float], ...]:
        """Return the p-value of the highest scores of each form, were its area one that is accepted, with its name."""
        return tuple((one.name, one.attack.top.accepted_p) for one in self.attacks)

    @property
    def p(self) -> float:
        """Return the p-value of the highest scores, for all forms together."""
        return min(self.worst_top.attack.top.p * self.n_tests, 1.0)


@dataclass(frozen=True)
class Certainty:
    """How sure bounds are.

    Parameters
    ----------
    confidence : 0 … 1
    tests : attacks on the same release, over which lower bounds are simultaneous; see
        :func:`anoncore.risk.membership_attack`
    units : of the records compared, whose mean and best scores count: records of one unit do not add to the certainty
    """

    confidence: float = 0.99
    tests: int = 1
    units: ComparedUnits = field(default=EACH_RECORD, compare=False)

    def over(self, tests: int) -> Certainty:
        """Return the certainty where each of the attacks has so many forms."""
        return replace(self, tests=self.tests * tests)


SINGLE = Certainty()


def score_attack(members: ArrayLike, nonmembers: ArrayLike, *, certainty: Certainty = SINGLE) -> ScoreAttack:
    """Judge a score by which members (records of the original) and non-members (of the reference) are compared.

    Parameters
    ----------
    members : (m,), larger for records that look like members, any unit
    nonmembers : (n,), same score
    certainty : two-sided for the area; one-sided, and simultaneous over the ranks, for the top

    Returns
    -------
    ScoreAttack

    Raises
    ------
    AnonymizationError
        When a score is missing or the confidence is out of range.

    Examples
    --------
    >>> attack = score_attack([9.0, 8.0, 7.0, 0.0], [1.0, 2.0, 3.0, 0.0])
    >>> (attack.top.members, attack.top.n)
    (4, 8)
    """
    sure, tests = certainty.confidence, certainty.tests
    forms = certainty.units.forms(vector("members", members), vector("nonmembers", nonmembers))
    tops = [top_scores(*sides, confidence=1.0 - (1.0 - sure) / tests / len(forms)) for sides in forms]
    p, accepted_p = (
        min(1.0, min(each) * len(forms)) for each in zip(*((t.p, t.accepted_p) for t in tops), strict=True)
    )
    return ScoreAttack(
        membership_attack(members, nonmembers, confidence=sure, tests=tests, units=certainty.units),
        replace(min(tops, key=lambda one: one.p), p=p, accepted_p=accepted_p),
    )


def top_scores(members: ArrayLike, nonmembers: ArrayLike, *, confidence: float = 0.99) -> TopScores:
    """Count the members among the highest scores, at the rank where chance explains their number least.

    The ranks are 5, 6, 8, 10, 12, … up to a tenth of the records, each enlarged by ties. Going down the ranks,
    records are members' or not as if drawn, when scores do not depend on membership; p is that of the most striking
    rank of such draws (`anoncore.risk.pairs.striking_beginning`), and the bound of the share is Clopper and
    Pearson's at the level divided by the number of ranks. Only ranks count that hold more members than an attack
    with an area of 0.55 shows, whose scores are normal: among thousands of records chance excludes much smaller
    excesses, which give no one away. Such an attack holds more than that at some rank, too: of 5000 members and as
    many others p is below 0.0014 in three of four draws. So ``accepted_p`` is the same where each stretch between two
    ranks holds members with the probability that it has there.

    Parameters
    ----------
    members, nonmembers : see :func:`score_attack`
    confidence : 0 … 1, one-sided, of the bound at the rank that is returned

    Returns
    -------
    TopScores

    Examples
    --------
    >>> top_scores([9.0, 8.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0]).baseline
    0.5
    """
    level = 1.0 - between("confidence", confidence, 0, 1)
    one, other = np.sort(vector("members", members))[::-1], np.sort(vector("nonmembers", nonmembers))[::-1]
    total = len(one) + len(other)
    merged = np.sort(np.concatenate([one, other]))[::-1]
    ranks = [rank for rank in _RANKS if rank <= total / 10] or [min(_FEW, total)]
    thresholds = np.unique(merged[np.array(ranks) - 1])
    above = _at_least(one, thresholds), _at_least(other, thresholds)
    looked_at, base = above[0] + above[1], len(one) / total
    accepted = _accepted(looked_at / total, base)
    counts = above[0] > looked_at * accepted
    by_chance, by_accepted = (np.asarray(binom.sf(above[0] - 1, looked_at, share)) for share in (base, accepted))
    worst, order = int(np.lexsort((by_chance, ~counts))[0]), np.argsort(looked_at)
    p = accepted_p = 1.0
    if counts[worst]:
        p = beginning_p(float(by_chance[worst]), looked_at[order], base)
        accepted_p = beginning_p(float(by_accepted[counts].min()), looked_at[order], accepted[order])
    hits, n = int(above[0][worst]), int(looked_at[worst])
    lower = float(beta.ppf(level / len(thresholds), hits, n - hits + 1)) if hits else 0.0
    return TopScores(n, hits, hits / n, lower, p, accepted_p, base)


def _accepted(share: Floats, baseline: float) -> Floats:
    """Return the share of members among the highest scores, of so many of all records, where the area is 0.55."""
    threshold = norm.isf(share) + baseline * _ACCEPTED
    members, others = baseline * norm.sf(threshold - _ACCEPTED), (1.0 - baseline) * norm.sf(threshold)
    return np.asarray(np.where(share < 1.0, members / np.maximum(members + others, 1e-300), baseline))


def _at_least(descending: Floats, thresholds: Floats) -> NDArray[np.intp]:
    """Return how many scores reach each threshold."""
    return np.asarray(len(descending) - np.searchsorted(descending[::-1], thresholds, side="left"))
