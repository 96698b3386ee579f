"""How often a released row is traced to its person."""

from __future__ import annotations

from functools import partial

from pydantic import Field

from anoncore.risk import Linkage, MatchSignal, SubsetLinkage, three_way
from tasks.common.formatting import NOTHING, count, number, percent, shares
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment
from tasks.policy.attack import Aim, Attack, between, untested
from tasks.policy.criteria import Advantage, Criterion, Knowledge, Place
from tasks.policy.gate import Gate, GateResult, Metrics, fields_of
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import coarse, interval

NAME = "linkage"
CERTAIN = "linkage with certainty"
AIM = Aim.LINKAGE
PLACE = Place(Criterion.LINKABILITY, Knowledge.EVERYTHING)
NO_OWN_ROW = "no released row stems from one person, so there is no right row to find"
NOT_ALIGNED = (
    "which row of the file stems from which person is not known, since nothing states that its rows are in the order "
    "of the original’s; `--aligned` states it and tests this"
)


class LinkageLimit(Section):
    """How many people may be linked to their own row.

    Parameters
    ----------
    linkage_rate : Fail when, at 95 % confidence, more than this share of people is linked to their own row. Applies
        where rows keep the identity of their records.
    linkage_certain : Fail when, at 95 % confidence, more than this share of people is linked with certainty: only one
        released row has some of a person's values, and it is the person's own.
    """

    linkage_rate: float = Field(default=0.2, gt=0, le=1)
    linkage_certain: float = Field(default=0.02, gt=0, le=1)


def evaluate(assessment: Assessment, policy: LinkageLimit) -> tuple[GateResult, ...]:
    """Compare the largest linkage rate, by all or by some variables, and that of certain links with their limits."""
    link, parts = assessment.risk.linkage, assessment.risk.subset_linkage
    if link is None:
        return ()
    rate, upper = link.rate, link.rate.upper
    known = "the share of people whose nearest released row is their own, for an attacker who knows all values"
    if parts is not None:
        upper = max(upper, parts.upper)
        if parts.worst.rate.lower > rate.lower:
            rate = parts.worst.rate
            known = f"the share of people whose released row is found by {parts.worst.name}"
        known += f"; worst of {len(parts.subsets) + 1} sets of variables"
    whole = GateResult(
        name=NAME,
        verdict=three_way(rate.lower, upper, policy.linkage_rate),
        figure=f"{rate.value:.2f} {interval(rate.lower, upper, 2)}",
        limit=f"≤ {policy.linkage_rate:g}",
        baseline=f"{link.guess:.3g}, guessing",
        records=rate.n,
        meaning=known,
    )
    return (whole,) if parts is None else (whole, _certain(parts, policy))


def _certain(parts: SubsetLinkage, policy: LinkageLimit) -> GateResult:
    """Compare the largest share of people who are linked with certainty with its limit."""
    surest, upper = parts.surest, parts.upper_certain
    share = surest.certain
    return GateResult(
        name=CERTAIN,
        verdict=three_way(share.lower, upper, policy.linkage_certain),
        figure=f"{share.value:.3f} {interval(share.lower, upper, 3)}",
        limit=f"≤ {policy.linkage_certain:g}",
        baseline=f"{surest.chance:.3g}, guessing",
        records=share.n,
        meaning=f"the share of people whose own released row alone agrees on {surest.name}; worst of "
        f"{len(parts.subsets)} sets of variables",
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the rate with its bounds, and how well right matches are recognised."""
    link = assessment.risk.linkage
    if link is None:
        return {}
    signals = {f"risk/linkage/auc_{signal.name}": signal.auc for signal in link.signals}
    parts = assessment.risk.subset_linkage
    return (
        fields_of(link.rate, ("value", "lower", "upper"), "risk/linkage/")
        | fields_of(parts and parts.worst.rate, ("value", "lower", "upper"), "risk/linkage/subset_")
        | fields_of(parts and parts.surest.certain, ("value", "lower", "upper"), "risk/linkage/certain_")
        | signals
        | {"risk/linkage/guess": link.guess}
    )


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the attack by the nearest row, and what would limit it."""
    link = assessment.risk.linkage
    attacker = "An attacker who knows all values of all people takes the nearest released row for each person’s."
    if link is None:
        reason = NOT_ALIGNED if assessment.is_external else NO_OWN_ROW
        return (untested(AIM, "Linkage", attacker, reason, NAME, PLACE),)
    if link.n_suppressed:
        attacker += f" {count(link.n_suppressed)} of the people have no row in the release."
    rate, chance = link.rate, f"{percent(link.guess, 2)}, guessing"
    rows = [
        Attack(
            AIM,
            "Linkage, people linked",
            attacker,
            percent(rate.value, 0),
            shares(rate),
            chance,
            count(rate.n),
            NAME,
            PLACE,
            Advantage.of_share(rate, link.guess),
        ),
        Attack(
            AIM,
            "Linkage, if every group were known",
            "An attacker knows the right group of identical rows for each person and picks one row of it.",
            percent(link.group_rate, 0),
            "counted in full",
            chance,
            count(rate.n),
        ),
    ]
    parts = assessment.risk.subset_linkage
    return (*rows, *(_by_subset(parts) if parts else ()), *_among_nonmembers(link), *map(_signal, link.signals))


def _by_subset(parts: SubsetLinkage) -> list[Attack]:
    worst, surest = parts.worst, parts.surest
    attacker = (
        f"An attacker who knows some values of all people links them by these. Worst of {len(parts.subsets)} sets of "
        "variables: "
    )
    sure = "Exactly one released row has the person’s values, and it is the person’s own."
    if surest.nonmembers is not None:
        sure += f" Exactly one row has the values of {percent(surest.nonmembers, 0)} of the non-members, too."
    people = count(parts.n_people)
    rows = (
        ("Linkage by some variables", f"{attacker}{worst.name}.", worst.linked, parts.guess, NAME),
        (
            "Linkage by some variables, with certainty",
            f"{attacker}{surest.name}. {sure}",
            surest.certain,
            surest.chance,
            CERTAIN,
        ),
    )
    return [
        Attack(
            AIM,
            name,
            text,
            percent(rate.value, 0),
            shares(rate),
            f"{percent(by_chance, 2)}, guessing",
            people,
            gate,
            Place(Criterion.LINKABILITY, Knowledge.HALF),
            Advantage.of_share(rate, by_chance),
        )
        for name, text, rate, by_chance, gate in rows
    ]


def _among_nonmembers(link: Linkage) -> list[Attack]:
    if link.among_nonmembers is None or link.n_reference is None:
        return []
    return [
        Attack(
            AIM,
            "Linkage, own row among non-members’",
            "An attacker who knows all values of a person finds that person’s row among records of the reference "
            "instead of the other released rows.",
            percent(link.among_nonmembers.value, 0),
            shares(link.among_nonmembers),
            f"{percent(1 / (link.n_reference + 1), 2)}, guessing",
            count(link.among_nonmembers.n),
        )
    ]


def _signal(signal: MatchSignal) -> Attack:
    two = partial(number, digits=2)
    trusted = "a model of the three measures" if signal.name == "combined" else f"a small {signal.name}"
    settled = not (signal.n_right and signal.n_wrong)
    return Attack(
        AIM,
        f"Right matches recognised by {'all three' if signal.name == 'combined' else signal.name}",
        f"The same attacker wants to know which matches are right, and trusts {trusted}."
        + (" All matches are of one kind, so there is nothing to recognise." if settled else ""),
        NOTHING if settled else f"AUC {two(signal.auc)}",
        NOTHING if settled else between(signal, two, 2),
        f"{two(signal.baseline)}, guessing",
        f"{count(signal.n_right)} right, {count(signal.n_wrong)} wrong",
    )


GATE = Gate(
    name=NAME,
    description="Where rows keep the identity of their records: the share of people whose released row is found, with "
    "Wilson's interval: as the nearest one by all variables, and by the variables that stayed unchanged, the "
    "quasi-identifiers, single variables and random subsets, there also as the only row that agrees. Lower bounds "
    "hold for all of them together. `linkage` fails when one is above `linkage_rate`, `linkage with certainty` when "
    "that of the only row that agrees is above `linkage_certain`; each passes when all its upper bounds are within.",
    evaluate=evaluate,
    limits=LinkageLimit,
    individual=True,
    publishes={"risk.linkage": coarse, "risk.subset_linkage": coarse},
    metrics=metrics,
    attacks=attacks,
)
