"""Whether variables are guessed better for members than for non-members."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pydantic import Field

from anoncore.risk import AttributeInference, InferenceRisk
from anoncore.risk.inference import AGREEING, NEAREST, NEAREST_BY_HALF, NEAREST_BY_KEYS, PASSES_WITHIN, TREES
from tasks.common.formatting import count, percent, points
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment
from tasks.policy.attack import NO_NON_MEMBERS, NO_QUASI_IDENTIFIERS, ONE_VARIABLE, Aim, Attack, between, untested
from tasks.policy.criteria import Advantage, Criterion, Knowledge, Place
from tasks.policy.gate import BoundedFigure, Bounds, Gate, GateResult, Metrics, fields_of
from tasks.policy.limits import limit_phrase
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import at_least_ten, bounds_of_several, coarse

NAME = "attribute inference"
# What is known, the ways of guessing with it, and why there may be none.
KNOWLEDGE = {
    Knowledge.QUASI_IDENTIFIERS: (
        "the quasi-identifiers",
        (NEAREST_BY_KEYS,),
        f"{NO_QUASI_IDENTIFIERS}, or every one has it",
    ),
    Knowledge.HALF: ("half of the variables", (NEAREST_BY_HALF,), "there are two variables only"),
    Knowledge.EVERYTHING: ("all other variables", (NEAREST, AGREEING, TREES), ""),
}
whole = partial(percent, digits=0)


class InferenceLimit(Section):
    """How much better the release may let values of members be guessed than those of non-members.

    Parameters
    ----------
    inference : Fail when any variable is shown to be guessed right more often for members, by more than this share.
        Pass when every variable is shown to be within three times as much.
    """

    inference: float = Field(default=0.05, gt=0, le=1)


def evaluate(assessment: Assessment, policy: InferenceLimit) -> tuple[GateResult, ...]:
    """Compare the excess of the worst variable with the limit; one gate for all variables."""
    guessed = assessment.risk.inference
    if guessed is None:
        if assessment.records.reference is not None:
            return ()
        return (GateResult(NAME, "not tested", "needs non-members", "–", "non-members", 0, "guesses of values"),)
    worst, passes = guessed.worst, PASSES_WITHIN * policy.inference
    excess = worst.excess
    # The upper bound is that of a share of all people, the lower one of the most confident guesses.
    variables = (BoundedFigure(v.name, v.excess.value, v.excess.lower, v.upper, 0.0) for v in guessed.variables)
    bounds = Bounds(tuple(variables), passes, policy.inference)
    return (
        GateResult(
            name=NAME,
            verdict=bounds.verdict,
            figure=f"{worst.name}: {excess.value:+.2f}, {bounds_of_several(excess.lower, guessed.upper, 2, '+')}",
            limit=limit_phrase(passes, policy.inference),
            baseline=f"{worst.nonmembers.value:.2f} right for non-members",
            records=guessed.n_members + guessed.n_nonmembers,
            meaning="how much more often a value is guessed right for members than for non-members, among the most "
            f"confident {worst.percent} % of the guesses, by {worst.attack}; worst of {len(guessed.variables)}. “Of "
            "all” is the upper bound of the excess as a share of all people",
            variables=(worst.name,),
            bounds=bounds,
        ),
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the excess of the worst variable with its bounds, and the largest upper bound of all."""
    guessed = assessment.risk.inference
    if guessed is None:
        return {}
    figures = fields_of(guessed.worst.excess, ("value", "lower", "upper"), "risk/inference/excess_")
    return figures | {"risk/inference/upper": guessed.upper}


def published_inference(guessed: InferenceRisk | None, step: float) -> InferenceRisk | None:
    """Publish figures in steps, and of how many people in tens: of others the value itself is missing."""
    if guessed is None:
        return None
    found = coarse(guessed, step)
    variables, ways = (tuple(_in_tens(one) for one in each) for each in (found.variables, found.by_attack))
    return replace(found, variables=variables, by_attack=ways)


def _in_tens(one: AttributeInference) -> AttributeInference:
    members, others = (replace(side, n=at_least_ten(side.n)) for side in (one.members, one.nonmembers))
    return replace(one, members=members, nonmembers=others)


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return what each attacker guesses best: of all ways of guessing with what is known, the worst."""
    guessed, reason = assessment.risk.inference, ""
    if guessed is None:
        reason = NO_NON_MEMBERS if assessment.records.reference is None else ONE_VARIABLE
    rows = []
    for knowledge, (knows, ways, absent) in KNOWLEDGE.items():
        name, place = f"Attribute inference, {knows}", Place(Criterion.INFERENCE, knowledge)
        attacker = (
            f"An attacker who knows {knows} of a person guesses another value by the release; what counts is how much "
            "more often that is right than for non-members."
        )
        relevant = [one for one in guessed.by_attack if one.attack in ways] if guessed else []
        if not guessed or not relevant:
            rows.append(untested(Aim.INFERENCE, name, attacker, reason or absent, NAME, place))
        else:
            worst = max(relevant, key=lambda one: (one.excess.lower, one.upper))
            rows.append(_row(guessed, worst, Attack(Aim.INFERENCE, name, attacker, gate=NAME, place=place)))
    return tuple(rows)


def _row(guessed: InferenceRisk, worst: AttributeInference, row: Attack) -> Attack:
    of = f"{worst.name}, among the most confident {worst.percent} % of the guesses, by {worst.attack}"
    right = f"right for {whole(worst.members.value)} of the members"
    # Few guesses may be sure of themselves: a figure of a hundredth of the people is no figure of all.
    sure = "" if worst.percent == 100 else f", most confident {worst.percent} %"
    return replace(
        row,
        name=f"{row.name}{sure}",
        attacker=f"{row.attacker} Worst of {count(len(guessed.variables))}: {of}, {right}.",
        outcome=f"{points(worst.excess.value)} points",
        interval=f"{between(worst.excess, points, 2)} points",
        baseline=f"{whole(worst.nonmembers.value)} right for non-members",
        records=f"{count(worst.members.n)} members, {count(worst.nonmembers.n)} non-members",
        advantage=Advantage.of_excess(worst.members, worst.nonmembers, worst.excess),
    )


GATE = Gate(
    name=NAME,
    description="Every variable is guessed from the others, from half of them, and from the quasi-identifiers, for "
    "members and for non-members, by the nearest released rows and by boosted trees; compared are the most confident "
    "1, 2, 5, 10, 25 and 100 % of the guesses, with Newcombe's interval of the difference. Fail when the excess is "
    "shown to be above `inference` for any of them, all together at 99 % confidence; pass when, as a share of all "
    "people, each is shown to be within three times as much.",
    evaluate=evaluate,
    limits=InferenceLimit,
    untested_as="membership",
    individual=True,
    publishes={"risk.inference": published_inference},
    metrics=metrics,
    attacks=attacks,
)
