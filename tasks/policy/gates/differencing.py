"""What the difference of two releases reveals of the people who joined in between."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from anoncore.risk import Decoded, Differencing, worst_of
from anoncore.risk.differencing import AREA_PASSES_WITHIN, PASSES_WITHIN
from tasks.common.formatting import count, percent, points
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment, Series
from tasks.policy.attack import Aim, Attack, between, untested
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.limits import limit_phrase
from tasks.policy.published import PublishedAssessment, published_series
from tasks.policy.rounding import rounded_down, rounded_up

NAME = "differencing"
MEANING = (
    "how many more of their values are read off from the difference of two releases for people who joined or changed "
    "in between than for others, and how much better than by guessing it shows who they are"
)
MORE = (
    "; more people who join or change between two releases decide it: publish less often, accept more by a larger "
    "`policy: differencing`, or let a person accept it"
)
WHY = "as there are too few other people, no variable or level in common, or no files"
LEVELS = "as of some no level is in common: they were recoded in another way"
LEFT = "as units only left since the earlier releases, whose records are no longer at hand"
FEW = "no figure is shown where few joined, left or changed: their number could be computed from it"


class DifferencingLimit(Section):
    """How much of new people's values the difference of two releases may reveal.

    Parameters
    ----------
    differencing : Fail when the difference of two releases is shown to reveal a larger share of the values of people
        who joined or changed than of others', or who they are by an area under the ROC curve that is further above
        0.5. Pass when it is shown to be within three times as much, and twice as much above 0.5.
    """

    differencing: float = Field(default=0.05, gt=0, le=1)


def evaluate(assessment: Assessment | PublishedAssessment, policy: DifferencingLimit) -> tuple[GateResult, ...]:
    """Compare the excess of the worst pair of releases with the limit."""
    series = assessment.series
    if series is None or not (series.pairs or series.untested or series.left):
        return ()
    passes, areas = (times * policy.differencing for times in (PASSES_WITHIN, AREA_PASSES_WITHIN))
    verdicts = {one.attack.verdict(policy.differencing) if one.attack else one.verdict for one in series.pairs}
    lacking = any(pair.lacking for pair in series.pairs)
    undecided = {"inconclusive"} if series.untested or series.left or lacking or not verdicts else set()
    shown, figure = [attack for _, attack in _shown(series)], _without_figures(series)
    worst = shown[0].worst if shown else None
    if worst:
        bounds = f"{worst.excess:+.2f}, shown > {rounded_down(worst.lower, 2, '+')}, by {worst.way}; of all ≤ "
        figure = [
            f"{bounds}{rounded_up(max(attack.upper for attack in shown), 2, '+')}",
            *(_undecided(shown, policy) if any(one.verdict == "inconclusive" for one in series.pairs) else ()),
            *figure,
        ]
        if any(one.attack and one.attack.verdict(policy.differencing) != one.verdict for one in series.pairs):
            figure.append("decided before it was rounded")
    return (
        GateResult(
            name=NAME,
            verdict=worst_of(verdicts | undecided),
            figure="; ".join(figure),
            limit=f"{limit_phrase(passes, policy.differencing)}, ≤ {areas:g} of an area beyond 0.5",
            baseline=_baseline(worst) if worst else "as much as for others",
            records=shown[0].n_control if shown else 0,
            meaning=f"{MEANING}; worst of {count(len({pair.release for pair in series.pairs}))} earlier release(s)",
            needed=MORE,
        ),
    )


def _undecided(shown: list[Differencing], policy: DifferencingLimit) -> Iterator[str]:
    """Yield by which ways it is not decided, each with its largest upper bound."""
    ways = [way for attack in shown for way in attack.ways if way.verdict(policy.differencing) == "inconclusive"]
    largest = {way.way: max(one.upper for one in ways if one.way == way.way) for way in ways}
    if largest:
        yield "undecided by " + ", ".join(f"{way} (≤ {rounded_up(upper, 2, '+')})" for way, upper in largest.items())


def _shown(series: Series) -> list[tuple[str, Differencing]]:
    """Return the earlier releases with the attacks whose figures may be shown, the worst first."""
    shown = [
        (f"{pair.release}, who {'changed' if pair.changed else 'joined'}", pair.attack)
        for pair in series.pairs
        if pair.attack
    ]
    return sorted(shown, key=lambda pair: (pair[1].worst.lower, pair[1].upper), reverse=True)


def _baseline(worst: Decoded) -> str:
    return "area 0.50, guessing" if worst.traced else f"{worst.control:.2f} right for others"


def _without_figures(series: Series) -> list[str]:
    """Return a phrase for each kind of pair of releases without figures."""
    withheld = len({pair.release for pair in series.pairs if pair.few})
    kinds = (
        (withheld, "not shown, as few joined, left or changed, or it is not known how many"),
        (series.untested, f"not tested, {WHY}"),
        (len({pair.release for pair in series.pairs if pair.lacking}), f"not tested by all variables, {LEVELS}"),
        (series.left, "not tested, as units only left, whose records are no longer at hand"),
        (series.not_tried, "not tried, as more joined since"),
    )
    return [f"{count(number)} pair(s) {phrase}" for number, phrase in kinds if number]


def metrics(assessment: Assessment) -> Metrics:
    """Return the excess of the worst pair that is shown, with its lower bound and the largest upper bound of all."""
    shown = [attack for _, attack in _shown(assessment.series)] if assessment.series else []
    if not shown:
        return {}
    worst, upper = shown[0].worst, max(attack.upper for attack in shown)
    return {"risk/differencing": worst.excess, "risk/differencing_lower": worst.lower, "risk/differencing_upper": upper}


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attack by the worst pair of releases that is shown."""
    series, name, aim = assessment.series, "Difference of two releases", Aim.INFERENCE
    attacker = (
        "An attacker subtracts an earlier release from this one and ascribes the difference to the people who joined "
        "or changed in between."
    )
    if series is None or not (series.pairs or series.untested or series.left):
        return ()
    shown = _shown(series)
    if not shown:
        return (untested(aim, name, attacker, WHY if series.untested else LEFT if series.left else FEW, NAME),)
    release, attack = shown[0]
    worst = attack.worst
    right = f"area {worst.joined:.2f}" if worst.traced else f"right for {percent(worst.joined, 0)} of the values"
    return (
        Attack(
            aim,
            name,
            f"{attacker} Worst of {count(len(shown))}: {release}, by {worst.way}, {right}.",
            f"{points(worst.excess)} points",
            f"{between(worst, points, 2)} points",
            _baseline(worst) if worst.traced else f"{percent(worst.control, 0)} right for others",
            f"{count(attack.n_control)} others",
            NAME,
        ),
    )


GATE = Gate(
    name=NAME,
    description="Each of the earlier releases since which fewest people joined, or changed, up to twelve, is "
    "subtracted from the candidate, in the candidate's levels: counts of levels, sums of numbers, and values that are "
    "new or, of numbers, more frequent, on average over the variables of each way; and the traces of all variables "
    "together, which show who joined or changed by an area under the ROC curve, of which what is above 0.5 counts. "
    "Fail when more of their values are shown to be read off than of others, or they are shown to be distinguished, by "
    "more than `differencing`, all pairs together at 99 % confidence; pass when each is shown at 95 % to be within "
    "three times as much, an area within twice as much above 0.5. Inconclusive where a pair cannot be subtracted since "
    "which people joined, where of a variable of both no level is in common, and where people only left while the "
    "steps keep figures exactly, since their records are no longer at hand. No figure is shown of pairs between which "
    "few joined, left or changed.",
    evaluate=evaluate,
    limits=DifferencingLimit,
    individual=True,
    publishes={"series": published_series},
    metrics=metrics,
    attacks=attacks,
)
