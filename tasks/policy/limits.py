"""Limits that several gates share."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field
from scipy.stats import norm

from anoncore.risk import MembershipAttack
from tasks.common.sections import Section
from tasks.policy.gate import BoundedFigure, Bounds

# Tests that fail harmless releases by chance: identical, close and isolated records, and the highest scores of four
# attacks. Each has this share of the level `tail_p`, so that all of them together keep it (Bonferroni). Tests of all
# records of large tables have three such shares more.
SHARE = 1.0 / 7.0

# Standard errors by which a harmless release may look harmful and still be proved harmless.
SLACK = 1.5
# With which a normal number exceeds two standard errors on one side.
CHANCE = 0.025


class ChanceLimit(Section):
    """The level of the exact tests on single records.

    Parameters
    ----------
    tail_p : Fail when chance alone produces what is found less often than this, in any of the seven tests: each fails
        at a seventh. Of identical, unusually close and isolated records a person is asked below this itself. Where an
        accepted area may explain the highest scores of an attack at this level, they ask a person; of files of other
        tools those by density alone.
    """

    tail_p: float = Field(default=0.01, gt=0, lt=1)

    @property
    def test_p(self) -> float:
        """The level of each test by itself."""
        return self.tail_p * SHARE

    @property
    def full_release_p(self) -> float:
        """What `tail_p` is for close records of a whole large table, which are tested beside those of a sub-table."""
        return self.tail_p / 2


class MembershipLimit(Section):
    """How well members may be distinguished from non-members.

    Parameters
    ----------
    membership_auc : Fail when an attack is shown to distinguish members from non-members better than this. 0.5 is
        guessing. All attacks hold together at 99 % confidence.
    membership_pass : Pass when every attack is shown not to distinguish better than this, or than ``membership_auc``
        if that is larger; otherwise inconclusive.
    """

    membership_auc: float = Field(default=0.55, ge=0.5, le=1)
    membership_pass: float = Field(default=0.60, ge=0.5, le=1)

    @property
    def area_passes_within(self) -> float:
        """What the upper bound of an area must be within to pass."""
        return max(self.membership_auc, self.membership_pass)

    @property
    def area_limit(self) -> str:
        """The limits as a phrase."""
        return limit_phrase(self.area_passes_within, self.membership_auc)

    def area_bounds(self, *areas: BoundedFigure) -> Bounds:
        """Return areas under the curve with both limits."""
        return Bounds(areas, self.area_passes_within, self.membership_auc)


class UtilityLimits(Section):
    """What may be lost, and which impossible values are accepted. Between two samples as much may differ again.

    Parameters
    ----------
    marginal : Largest distance of a variable's distributions (Kolmogorov's, total variation, or the difference of the
        share missing).
    pair : Largest change of an association of two variables (Pearson correlation, correlation ratio, Cramér's V).
    total : Largest share of the total of a non-negative number that may be lost or added.
    two_samples : So many times what the worst variable, or pair, differs by between two samples is accepted in any
        case, so many times the standard error of a total, more for the worst of several, and so many times the
        propensity score of the reference sample.
    spike : Largest change of the share of a value that at least 5 % of a variable's values are, or three standard
        errors between two samples where that is more.
    propensity : Largest ratio of the propensity score's error to its null, by regression and by classification tree.
    overlap : Least mean overlap of the confidence intervals of a regression (declared, or chosen), or what two samples
        nearly always reach where that is less.
    exceeded : When one of these six is not met, ask a ``person``, or ``reject``.
    beyond : Share of values beyond the source's range, an end that few units hold rounded outward, of one variable,
        that is accepted.
    impossible : Share of records with one combination that the source never holds, and of records that break a
        dependency, that is accepted. Failing this or ``beyond`` always rejects. Beside both, a few records are
        accepted that chance accounts for, as another sample would show them.
    """

    marginal: float = Field(default=0.05, ge=0, le=1)
    pair: float = Field(default=0.10, ge=0, le=2)
    total: float = Field(default=0.05, ge=0)
    two_samples: float = Field(default=2.0, ge=0)
    spike: float = Field(default=0.02, ge=0, le=1)
    propensity: float = Field(default=5.0, ge=1)
    overlap: float = Field(default=0.5, ge=0, le=1)
    exceeded: Literal["person", "reject"] = "person"
    beyond: float = Field(default=0.0, ge=0, le=1)
    impossible: float = Field(default=0.0, ge=0, le=1)

    def distance(self, two_samples: float) -> float:
        """Return the largest distance of a variable that is accepted."""
        return max(self.marginal, self.two_samples * two_samples)

    def change(self, two_samples: float) -> float:
        """Return the largest change of an association that is accepted."""
        return max(self.pair, self.two_samples * two_samples)

    def share(self, error: float, of: int = 1) -> float:
        """Return the largest share of a total that may be lost or added, from the standard error of that total.

        Of so many totals, all stay within twice as many errors as often as a single one within two, or more often.
        """
        return max(self.total, self.two_samples * error * float(norm.isf(CHANCE / of) / norm.isf(CHANCE)))

    def ratio(self, reference: float | None) -> float:
        """Return the largest ratio of the propensity score's error to its null that is accepted."""
        return max(self.propensity, self.two_samples * (reference or 0.0))

    def loss_verdict(self, accepted: bool) -> Literal["pass", "fail", "to decide"]:
        """Return the verdict on a loss: beyond its limit a person decides, or the release is rejected."""
        return "pass" if accepted else "fail" if self.exceeded == "reject" else "to decide"


class UtilityLimit(Section):
    """How much of the statistics may be lost.

    Parameters
    ----------
    utility : What may be lost, and which impossible values are accepted.
    """

    utility: UtilityLimits = UtilityLimits()


class MembershipPolicy(ChanceLimit, MembershipLimit):
    """What gates read that decide on areas and on the highest scores."""


def limit_phrase(passes: float, fails: float) -> str:
    """Say within what a figure must be shown to pass, and beyond what to fail."""
    return f"fail: shown > {fails:g}; pass: shown ≤ {passes:g}"


def nonmembers_needed(area: MembershipAttack, policy: MembershipLimit) -> str:
    """Say how many non-members would prove a harmless release harmless, as the end of a sentence.

    The error of the area of a score without information is √((1/m + 1/n)/12).
    """
    m, n = area.n_members, area.n_nonmembers
    reach = float(norm.ppf(0.5 + area.confidence / 2.0)) + SLACK
    error = (policy.area_passes_within - 0.5) / reach
    if (1.0 / m + 1.0 / n) / 12.0 <= error**2:
        return ""
    rest = 12.0 * error**2 - 1.0 / m
    if rest <= 0.0:
        return f"; {m} members are too few to prove a release harmless"
    return f"; a proof needs about {math.ceil(1.0 / rest / 10.0) * 10} non-members"
