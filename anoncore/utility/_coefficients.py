"""One coefficient of a regression in two tables, and how far its confidence intervals overlap."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """One coefficient of one table: value, standard error, confidence interval."""

    estimate: float
    error: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Coefficient:
    """One coefficient, in the original and in another table.

    Parameters
    ----------
    term : "(constant)", a variable, or variable=level
    original, other : None where it cannot be estimated
    difference : |difference| / the original's standard error; None where either is missing
    overlap : 0 … 1, of the confidence intervals; 0 when only the original has it; None when the original
        has not
    agrees : same sign and both, or neither, significantly different from 0; None as overlap
    note : why it cannot be estimated, "" when it can
    """

    term: str
    original: Estimate | None
    other: Estimate | None
    difference: float | None
    overlap: float | None
    agrees: bool | None
    note: str = ""


def compared_coefficient(term: str, original: Estimate | None, other: Estimate | None, why: str) -> Coefficient:
    """Set one coefficient of two tables side by side; ``why`` says what one of them lacks."""
    if original is None:
        return Coefficient(term, None, other, None, None, None, why)
    if other is None:
        return Coefficient(term, original, None, None, 0.0, False, why)
    apart = abs(other.estimate - original.estimate)
    difference = apart / original.error if original.error > 0 else 0.0 if apart == 0 else None
    return Coefficient(
        term, original, other, difference, overlap(original, other), _finding(original) == _finding(other)
    )


def _finding(one: Estimate) -> int:
    return int(one.lower > 0) - int(one.upper < 0)


def overlap(original: Estimate, other: Estimate) -> float:
    """Return the mean share of two intervals that they have in common, 0 … 1.

    An interval of no length shares all of itself with one that holds it.

    Examples
    --------
    >>> overlap(Estimate(1, 0.5, 0, 2), Estimate(2, 0.5, 1, 3))
    0.5
    """
    low, high = max(original.lower, other.lower), min(original.upper, other.upper)
    if high < low:
        return 0.0
    lengths = [one.upper - one.lower for one in (original, other)]
    return float(sum((high - low) / length if length > 0 else 1.0 for length in lengths) / 2)
