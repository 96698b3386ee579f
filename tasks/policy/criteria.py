"""The criteria of the Article 29 Working Party, the attackers they are tried with, and success on one common scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from anoncore.risk import Difference, Proportion, ResidualRisk, proportion, residual_risk
from tasks.common.formatting import Interval

TEN = 10  # counts of people are published as the next multiple


class Criterion(StrEnum):
    """What a release must not allow (opinion 05/2014, WP216, section 2.2)."""

    SINGLING_OUT = "Singling out"
    LINKABILITY = "Linkability"
    INFERENCE = "Inference"


class Knowledge(StrEnum):
    """What the attacker knows of a person."""

    QUASI_IDENTIFIERS = "A stranger with the quasi-identifiers"
    HALF = "An acquaintance with half of the columns"
    EVERYTHING = "One who knows everything"


@dataclass(frozen=True)
class Place:
    """Where an attack stands on the page for an authority."""

    criterion: Criterion
    knowledge: Knowledge


# Who knows everything about a person can infer only whether the person is in the data.
IN_THE_DATA = Place(Criterion.INFERENCE, Knowledge.EVERYTHING)


@dataclass(frozen=True)
class Advantage:
    """Success of an attack beyond its control, as a share of its failures on the control: 0 is none, 1 certainty.

    Parameters
    ----------
    success, control : of the attack, and of the same where membership carries no risk, 0 … 1
    value, lower, upper : r = (success − control) / (1 − control), with its interval
    n : people or records that the figure rests on
    scale : of success and control: a share, or an area under the ROC curve
    at_most : success, control and gain are the largest that published counts allow, and ``lower`` is of the least
    """

    success: float
    control: float
    value: float
    lower: float
    upper: float
    n: int
    scale: Literal["share", "AUC"] = "share"
    at_most: bool = False

    @classmethod
    def of_area(cls, area: float, bounds: Interval, n: int) -> Advantage:
        """Return that of an attack that ranks members before non-members; guessing has an area of 0.5."""
        value, lower, upper = (2.0 * figure - 1.0 for figure in (area, bounds.lower, bounds.upper))
        return cls(area, 0.5, value, lower, upper, n, "AUC")

    @classmethod
    def of_residual(cls, risk: ResidualRisk) -> Advantage:
        """Return that of an attack whose success was counted beside its control."""
        n = risk.attack.n + risk.control.n
        return cls(risk.attack.value, risk.control.value, risk.value, risk.lower, risk.upper, n)

    @classmethod
    def of_counts(cls, successes: int, control: int, n: int) -> Advantage | None:
        """Return that of successes among n records, beside those of the control on the same; None without any.

        Both are published as the next ten: the gain is the largest that they allow, or a leak of ten records would
        show none.
        """
        if not n:
            return None
        largest = residual_risk(proportion(successes, n), proportion(max(0, control - TEN), n))
        least = residual_risk(proportion(max(0, successes - TEN), n), proportion(control, n))
        gain = replace(cls.of_residual(largest), lower=least.lower, n=n, at_most=successes > 0)
        return replace(gain, control=min(control / n, 1.0))

    @classmethod
    def of_excess(cls, members: Proportion, nonmembers: Proportion, excess: Difference) -> Advantage:
        """Return that of the difference of two shares, whose bounds are those of several attacks together."""
        left = 1.0 - nonmembers.value
        value, lower, upper = (
            min(1.0, max(-1.0, figure / left)) if left else 0.0 for figure in (excess.value, excess.lower, excess.upper)
        )
        return cls(members.value, nonmembers.value, value, lower, upper, members.n + nonmembers.n)

    @classmethod
    def of_share(cls, share: Proportion, guess: float) -> Advantage:
        """Return that of a share of successes beside that of guessing, which is known."""
        left = 1.0 - guess
        value, lower, upper = ((f - guess) / left if left else 0.0 for f in (share.value, share.lower, share.upper))
        return cls(share.value, guess, value, lower, upper, share.n)
