"""What is measured over all records of a release in partitions."""

from __future__ import annotations

from dataclasses import replace

from anoncore.partitions.close_records import CloseRecords
from anoncore.risk.scores import ScoreAttack
from tasks.policy.assessment import Assessment, FullRelease
from tasks.policy.attack import p_phrase
from tasks.policy.close_records import compared_with, extremes_counted, figures, result_of_extremes
from tasks.policy.close_records import result_of as result_of_close
from tasks.policy.gate import BoundedFigure, Chance, Gate, GateResult, Metrics, fields_of
from tasks.policy.identical_records import result_of
from tasks.policy.limits import MembershipPolicy, UtilityLimit
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounded_attacks import attacks_in_steps
from tasks.policy.rounding import coarse, interval, people_counted

NAME = "full release"


class FullReleasePolicy(MembershipPolicy, UtilityLimit):
    """What the gate reads."""


def evaluate(assessment: Assessment | PublishedAssessment, policy: FullReleasePolicy) -> tuple[GateResult, ...]:
    """Decide on what was measured of all records; the other gates decide on the sub-table."""
    full = assessment.full_release
    if full is None:
        return ()
    beside = compared_with(full.close.within_original)
    same = result_of("identical records, full release", full.identical, policy, beside=beside)
    nearest = () if full.nearest is None else (_nearest(full.nearest, policy),)
    # Variables along which a group is hidden are not compared.
    shift = (_shift(full, policy),) if full.shifts else ()
    return (same, *nearest, *_close(full.close, policy, beside), *shift)


def _close(close: CloseRecords, policy: FullReleasePolicy, beside: str) -> tuple[GateResult, ...]:
    people = "which the nearest of all released records matches ten times closer than their nearest neighbour does"
    level = policy.full_release_p
    return (
        result_of_close("unusually close records, full release", close.tail, level, f"records {people}", beside=beside),
        result_of_close(
            "isolated records, full release",
            close.isolated,
            level,
            f"the most isolated records {people}",
            beside=beside,
        ),
        result_of_extremes("extreme records, full release", close.extreme, beside=beside),
    )


def _nearest(attack: ScoreAttack, policy: FullReleasePolicy) -> GateResult:
    area, top = attack.area, attack.top
    chance = Chance((("", top.p),), policy.test_p, beyond=Chance((("", top.accepted_p),), policy.tail_p))
    bounds = policy.area_bounds(BoundedFigure.of(area.auc, area))
    return GateResult(
        name="membership, full release",
        verdict=chance.beside(bounds.verdict),
        figure=f"AUC {area.auc:.3f} {interval(area.lower, area.upper, 3)}; closest: {p_phrase(top.p)}, "
        f"{p_phrase(top.accepted_p)} were it 0.55",
        limit=f"{policy.area_limit}; {chance.limit}",
        baseline="0.50, guessing",
        records=area.n_members + area.n_nonmembers,
        meaning="whether the nearest of all released records distinguishes some members from some non-members",
        bounds=bounds,
        chance=chance,
    )


def _shift(full: FullRelease, policy: FullReleasePolicy) -> GateResult:
    worst, limit = max(full.shifts, key=lambda one: one.distance), policy.utility.marginal
    return GateResult(
        name="distributions, full release",
        verdict=policy.utility.loss_verdict(worst.distance <= limit),
        figure=f"{worst.distance:.3f}",
        limit=f"at most {limit:g}",
        baseline="0, unchanged",
        records=full.records.released,
        meaning="largest distance of a variable’s distribution between all original and all released records",
        topic="Utility",
        variables=(worst.variable,),
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the figures of the full release."""
    full = assessment.full_release
    if full is None:
        return {}
    own: dict[str, float | None] = {
        "full/records": float(full.records.released),
        "full/distance": max((one.distance for one in full.shifts), default=None),
    }
    own |= figures({"tail": full.close.tail, "isolated": full.close.isolated}, "full/")
    own |= fields_of(full.close.extreme, ("n_extreme", "n_matched", "baseline"), "full/extreme/")
    return own | ({} if full.nearest is None else {"full/membership": full.nearest.area.auc})


def published(full: FullRelease | None, step: float) -> FullRelease | None:
    """Publish counts of people as the next ten, areas in steps of their sample, distances in whole steps."""
    return full and replace(
        full,
        identical=people_counted(full.identical, step),
        close=replace(
            full.close,
            tail=people_counted(full.close.tail, step),
            isolated=people_counted(full.close.isolated, step),
            extreme=extremes_counted(full.close.extreme, step),
        ),
        nearest=attacks_in_steps(full.nearest, step),
        shifts=coarse(full.shifts, step),
    )


GATE = Gate(
    name=NAME,
    description="Of tables in partitions (`engine: local`), and of those in memory with more than `sample_above` "
    "masked records, other gates are decided on a sub-table of at most 20 000 units of either side that the same plan "
    "has masked. Over all records, those released unchanged are counted and decided on; the nearest of all released "
    "records must not distinguish 5000 members from 5000 non-members, by the limits of `membership` and `tail_p`; and "
    "no variable's distribution may move by more than `utility.marginal`. Of 2000 people, and of the most isolated 1 % "
    "of all, at most 1000, no more may be near a released record than near the reference, and no extreme record of all "
    "may be matched, by the rules of `close_records`, at half of `tail_p` each, and `extreme`.",
    evaluate=evaluate,
    individual=True,
    publishes={"full_release": published},
    metrics=metrics,
)
