"""What a ``cross`` shows: verdicts, metrics and rows of all records and of two halves, taken together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from anoncore.risk import three_way
from tasks.policy.assessment import Assessment
from tasks.policy.attack import Attack
from tasks.policy.gate import Bounds, Gate, GateResult, Metrics
from tasks.policy.limits import ChanceLimit
from tasks.policy.published import PublishedAssessment

WORST_FIRST = ("fail", "not tested", "inconclusive")
EACH = "two halves of the units were masked by the whole plan and tested with each other as non-members"


def results_of(gate: Gate, assessment: Assessment | PublishedAssessment, policy: ChanceLimit) -> tuple[GateResult, ...]:
    """Return a gate's results: of all records where these suffice, else of both halves together.

    A half that fails fails the release, whatever the other results. A half's exact tests have half of the level, so
    that both together keep it.
    """
    whole = gate.evaluate(assessment, policy)
    if not assessment.halves:
        return whole
    halved = policy.model_copy(update={"tail_p": policy.tail_p / len(assessment.halves)})
    sides = [{one.name: one for one in gate.evaluate(assessment.of(half), halved)} for half in assessment.halves]
    of_all = {one.name: one for one in whole}
    names = dict.fromkeys([*of_all, *(name for side in sides for name in side)])
    return tuple(_joined(of_all.get(name), [side[name] for side in sides if name in side]) for name in names)


def metrics_of(gate: Gate, assessment: Assessment) -> Metrics:
    """Return a gate's metrics: of all records, and of the halves' means where only these have one."""
    sides = [gate.metrics(assessment.of(half)) for half in assessment.halves]
    means = {name: _mean([side.get(name) for side in sides]) for side in sides for name in side}
    return means | {name: value for name, value in gate.metrics(assessment).items() if value is not None}


def rows_of(gate: Gate, assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return a gate's rows of the table of attacks; what all records leave untested is of the worse half."""
    whole = gate.attacks(assessment)
    if not assessment.halves or not any(row.reason for row in whole):
        return whole
    sides = [gate.attacks(assessment.of(half)) for half in assessment.halves]
    tested = {row.name: row for row in whole if not row.reason}
    worse = [
        replace(row, attacker=f"{row.attacker} In a cross, {EACH}; this is the half with the greater success.")
        for row in max(sides, key=_success)
        if row.name not in tested
    ]
    return (*tested.values(), *worse)


def _joined(whole: GateResult | None, halves: Sequence[GateResult]) -> GateResult:
    """Return one result for one question."""
    failed = [one for one in halves if one.verdict == "fail"]
    tested = whole is not None and whole.verdict != "not tested"
    if whole is not None and (not halves or (tested and (whole.verdict == "fail" or not failed))):
        return whole
    if failed:
        return replace(failed[0], meaning=f"{failed[0].meaning}; of one half: {EACH}")
    pooled = _pooled([one.bounds for one in halves if one.bounds is not None])
    if pooled is None or len(halves) == 1 or any(one.bounds is None for one in halves):
        worst = min(halves, key=lambda one: _rank(one.verdict))
        return replace(worst, meaning=f"{worst.meaning}; the worse of two halves: {EACH}")
    verdict = three_way(pooled.lower, pooled.upper, pooled.passes_within, fails_above=pooled.fails_above)
    surest = max(halves, key=lambda one: one.bounds.value if one.bounds else 0.0)
    return replace(
        surest,
        verdict=verdict,
        figure=f"{pooled.value:.3f} [{pooled.lower:.3f}, {pooled.upper:.3f}]; halves: "
        + "; ".join(one.figure for one in halves),
        records=sum(one.records for one in halves),
        meaning=f"{surest.meaning}; {EACH}",
        bounds=pooled,
    )


def _pooled(bounds: Sequence[Bounds]) -> Bounds | None:
    """Return the mean of the halves' figures with its bounds.

    The halves' errors are taken as independent. They are opposed where records that are easily mistaken for members
    of one half are so for members of the other, so that the bounds are too wide rather than too narrow. An upper bound
    that holds for several figures loses what the reach of one of them loses.
    """
    if not bounds:
        return None
    n = len(bounds)

    def mean(values: Iterator[float]) -> float:
        return math.fsum(values) / n

    down = math.hypot(*(one.value - one.lower for one in bounds)) / n
    up = mean(one.reach for one in bounds) - math.hypot(*(one.reach for one in bounds)) / n
    value = mean(one.value for one in bounds)
    return replace(
        bounds[0],
        value=value,
        lower=value - down,
        upper=mean(one.upper for one in bounds) - up,
    )


def _rank(verdict: str) -> int:
    return WORST_FIRST.index(verdict) if verdict in WORST_FIRST else len(WORST_FIRST)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _success(rows: Sequence[Attack]) -> float:
    return max((row.advantage.lower for row in rows if row.advantage is not None), default=-math.inf)
