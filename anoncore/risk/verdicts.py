"""The one rule by which an interval of a harmful figure is compared with its limit."""

from __future__ import annotations

from typing import Literal

Verdict = Literal["pass", "fail", "inconclusive"]


def three_way(lower: float, upper: float, limit: float, *, fails_above: float | None = None) -> Verdict:
    """Compare the interval of a figure, of which more is harmful, with its limit.

    Parameters
    ----------
    lower, upper : bounds of the interval
    limit : the figure passes when the upper bound is within it: what is not proved does not pass
    fails_above : the figure fails when the lower bound exceeds this; by default the limit

    Returns
    -------
    "pass", "fail" or "inconclusive"; a lower bound that is not a number fails.

    Examples
    --------
    >>> three_way(0.4, 0.5, 0.55), three_way(0.5, 0.6, 0.55), three_way(0.56, 0.6, 0.55)
    ('pass', 'inconclusive', 'fail')
    >>> three_way(0.56, 0.59, 0.6, fails_above=0.55)
    'fail'
    """
    if not lower <= (limit if fails_above is None else fails_above):
        return "fail"
    return "pass" if upper <= limit else "inconclusive"


def worst_of(verdicts: set[str]) -> Verdict:
    """Return the worst of some verdicts; "pass" where there is none."""
    order: tuple[Verdict, ...] = ("fail", "inconclusive")
    return next((verdict for verdict in order if verdict in verdicts), "pass")
