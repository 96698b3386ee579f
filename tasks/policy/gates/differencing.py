"""What the difference of two releases reveals of the people who joined in between."""

from __future__ import annotations

from pydantic import Field

from anoncore.risk import three_way, worst_of
from anoncore.risk.differencing import PASSES_WITHIN
from tasks.common.formatting import count, percent, points
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment, PairDifferencing, Series
from tasks.policy.attack import Aim, Attack, untested
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.limits import limit_phrase
from tasks.policy.published import PublishedAssessment

NAME = "differencing"
MEANING = (
    "how many more of their values are read off from the difference of two releases for people who joined or changed "
    "in between than for others"
)


class DifferencingLimit(Section):
    """How much of new people's values the difference of two releases may reveal.

    Parameters
    ----------
    differencing : Fail when the difference of two releases is shown to reveal a larger share of the values of people
        who joined or changed than of others'. Pass when it is shown to be within three times as much.
    """

    differencing: float = Field(default=0.05, gt=0, le=1)


def evaluate(assessment: Assessment, policy: DifferencingLimit) -> tuple[GateResult, ...]:
    """Compare the excess of the worst pair of releases with the limit."""
    series = assessment.series
    if series is None or not (series.pairs or series.untested):
        return ()
    passes = PASSES_WITHIN * policy.differencing
    limit, without = limit_phrase(passes, policy.differencing), f"{count(series.untested)} pair(s) not tested"
    if not series.pairs:
        return (GateResult(NAME, "not tested", without, limit, "people in neither", 0, MEANING),)
    ways = [way for pair in series.pairs for way in pair.attack.ways]
    verdicts = {three_way(way.lower, way.upper, passes, fails_above=policy.differencing) for way in ways}
    worst = _worst(series).attack.worst
    more = f"; {without}" if series.untested else ""
    return (
        GateResult(
            name=NAME,
            verdict=worst_of(verdicts | ({"inconclusive"} if series.untested else set())),
            figure=f"{worst.excess:+.2f}, shown > {worst.lower:+.2f}, by {worst.way}; of all ≤ "
            f"{max(way.upper for way in ways):+.2f}{more}",
            limit=limit,
            baseline=f"{worst.control:.2f} right for others",
            records=_worst(series).attack.n_control,
            meaning=f"{MEANING}; worst of {count(len(series.pairs))} earlier release(s)",
        ),
    )


def _worst(series: Series) -> PairDifferencing:
    return max(series.pairs, key=lambda pair: (pair.attack.worst.lower, pair.attack.upper))


def metrics(assessment: Assessment) -> Metrics:
    """Return the excess of the worst pair, with its lower bound and the largest upper bound of all."""
    series = assessment.series
    if series is None or not series.pairs:
        return {}
    worst = _worst(series).attack.worst
    upper = max(pair.attack.upper for pair in series.pairs)
    return {"risk/differencing": worst.excess, "risk/differencing_lower": worst.lower, "risk/differencing_upper": upper}


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attack by the worst pair of releases."""
    series, name, aim = assessment.series, "Difference of two releases", Aim.INFERENCE
    attacker = (
        "An attacker subtracts an earlier release from this one and ascribes the difference to the people who joined "
        "or changed in between."
    )
    if series is None or not (series.pairs or series.untested):
        return ()
    if not series.pairs:
        return (untested(aim, name, attacker, "too few other people, or no variable in common", NAME),)
    pair = _worst(series)
    worst = pair.attack.worst
    return (
        Attack(
            aim,
            name,
            f"{attacker} Worst of {count(len(series.pairs))}: {pair.release}, by {worst.way}, right for "
            f"{percent(worst.joined, 0)} of the values.",
            f"{points(worst.excess)} points",
            f"{points(worst.lower)} to {points(worst.upper)} points",
            f"{percent(worst.control, 0)} right for others",
            f"{count(pair.attack.n_control)} others",
            NAME,
        ),
    )


GATE = Gate(
    name=NAME,
    description="Each of the earlier releases with the fewest changes is subtracted from the candidate: counts of "
    "levels, sums of numbers, and values that are new. Fail when more of the values of people who joined or changed "
    "are shown to be read off than of others by more than `differencing`, all pairs together at 99 % confidence; pass "
    "when each is shown at 95 % to be within three times as much.",
    evaluate=evaluate,
    limits=DifferencingLimit,
    untested_as="membership",
    individual=True,
    metrics=metrics,
    attacks=attacks,
)
