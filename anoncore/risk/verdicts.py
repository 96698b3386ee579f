"""The one rule by which an interval of a harmful figure is compared with its limit."""

from __future__ import annotations

from typing import Literal

Verdict = Literal["pass", "fail", "inconclusive"]
Bound = Literal["lower", "upper"]


def three_way(
    lower: float, upper: float, limit: float, *, passes_by: Bound = "upper", fails_above: float | None = None
) -> Verdict:
    """Compare the interval of a figure, of which more is harmful, with its limit.

    Parameters
    ----------
    lower, upper : bounds of the interval
    limit : largest figure that is accepted
    passes_by : the bound that must be within the limit to pass: "upper" asks for a proof that the figure is within
        the limit, "lower" only for the absence of a proof that it is not
    fails_above : the figure fails when the lower bound exceeds this; by default the limit

    Returns
    -------
    "pass", "fail" or "inconclusive"; a lower bound that is not a number fails.

    Examples
    --------
    >>> three_way(0.4, 0.5, 0.55), three_way(0.5, 0.6, 0.55), three_way(0.56, 0.6, 0.55)
    ('pass', 'inconclusive', 'fail')
    >>> three_way(0.5, 0.6, 0.55, passes_by="lower")
    'pass'
    """
    if not lower <= (limit if fails_above is None else fails_above):
        return "fail"
    return "pass" if (upper if passes_by == "upper" else lower) <= limit else "inconclusive"


def worst_of(verdicts: set[str]) -> Verdict:
    """Return the worst of some verdicts; "pass" where there is none."""
    order: tuple[Verdict, ...] = ("fail", "inconclusive")
    return next((verdict for verdict in order if verdict in verdicts), "pass")
