"""Success of an attack beyond its control, as the rule of Anonymeter has it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from anoncore.risk._proportions import Proportion


@dataclass(frozen=True)
class ResidualRisk:
    """Success on members beyond the success on non-members, as a share of the attacks that fail on non-members.

    Parameters
    ----------
    value, lower, upper : r = (attack − control) / (1 − control), with its interval; 0 where both are 1
    attack, control : shares of attempts that succeed
    """

    value: float
    lower: float
    upper: float
    attack: Proportion
    control: Proportion


def residual_risk(attack: Proportion, control: Proportion) -> ResidualRisk:
    """Return r with an interval from the two Wilson intervals (MOVER, Newcombe 2001 for ratios of differences).

    1 − r = (1 − attack) / (1 − control) is a ratio of two independent shares; its bounds combine those of the
    shares as Donner and Zou 2012 have it.

    Examples
    --------
    >>> from anoncore.risk._proportions import proportion
    >>> round(residual_risk(proportion(60, 100), proportion(20, 100)).value, 3)
    0.5
    """
    if not attack.n or not control.n or control.value >= 1.0:
        return ResidualRisk(0.0, -1.0, 1.0, attack, control)
    top = (1.0 - attack.value, 1.0 - attack.upper, 1.0 - attack.lower)
    low = (1.0 - control.value, 1.0 - control.upper, 1.0 - control.lower)
    ratio = top[0] / low[0]
    smallest, largest = _bounds(top, low)
    return ResidualRisk(1.0 - ratio, max(-1.0, 1.0 - largest), min(1.0, 1.0 - smallest), attack, control)


def _bounds(top: tuple[float, float, float], low: tuple[float, float, float]) -> tuple[float, float]:
    """Return the bounds of top/low, each given as value, lower and upper bound; infinite where low may be 0."""
    (a, a_low, a_high), (b, b_low, b_high) = top, low
    smallest, largest = 0.0, math.inf
    if b_high * (2.0 * b - b_high) != 0.0:
        root = max(0.0, (a * b) ** 2 - a_low * b_high * (2 * a - a_low) * (2 * b - b_high))
        smallest = max(0.0, (a * b - math.sqrt(root)) / (b_high * (2.0 * b - b_high)))
    if b_low > 0.0:
        root = max(0.0, (a * b) ** 2 - a_high * b_low * (2 * a - a_high) * (2 * b - b_low))
        largest = (a * b + math.sqrt(root)) / (b_low * (2.0 * b - b_low))
    return smallest, largest
