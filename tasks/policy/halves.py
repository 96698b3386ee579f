"""What a ``cross`` shows: verdicts, metrics and rows of all records and of two halves, taken together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from scipy.stats import chi2

from tasks.common.errors import Fault
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment
from tasks.policy.attack import Attack
from tasks.policy.gate import (
    DOUBTFUL,
    DOUBTFUL_HALVES,
    BoundedFigure,
    Bounds,
    Chance,
    FormValues,
    Gate,
    GateResult,
    Metrics,
)
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import bounds_of_several, interval

# Of two halves the one that fails, or leaves more open, speaks for both.
OPEN_FIRST = ("fail", "not tested", "inconclusive")
# Each half shows the form of the attack that does best on it, which need not be the same.
OWN = "halves, each in its own worst form"
EACH = "two halves of the units were masked by the whole plan and tested with each other as non-members"
BOTH = "of both halves together"
WHOLE_IS_WITHIN = "; all records pass"


def results_of(gate: Gate, assessment: Assessment | PublishedAssessment, policy: Section) -> tuple[GateResult, ...]:
    """Return a gate's results: of all records where these suffice, else of both halves together.

    A half that fails by its interval fails the release, whatever the other results; tests with a p-value are joined by
    Fisher's method, form by form, so that both halves together keep the level. A half that fails asks a person where
    all records pass, if the gate says so.
    """
    whole = gate.evaluate(assessment, policy)
    of_all = _by_name(whole)
    if not assessment.halves:
        return whole
    sides = [_by_name(gate.evaluate(assessment.of(half), policy)) for half in assessment.halves]
    names = dict.fromkeys([*of_all, *(name for side in sides for name in side)])
    joined = [_joined(of_all.get(name), [side[name] for side in sides if name in side]) for name in names]
    return tuple(map(_weighed, joined, map(of_all.get, names)) if gate.half_is_weighed else joined)


def _by_name(results: Sequence[GateResult]) -> dict[str, GateResult]:
    """Return results by their names; of two with one name, one could pass in the place of the other.

    Raises
    ------
    Fault
        When a name is given twice.
    """
    named = {one.name: one for one in results}
    if len(named) < len(results):
        raise Fault("a gate has given two results of one name; nothing is decided")
    return named


def metrics_of(gate: Gate, assessment: Assessment) -> Metrics:
    """Return a gate's metrics: of all records, and of the halves' means where only these have one."""
    sides = [gate.metrics(assessment.of(half)) for half in assessment.halves]
    names = dict.fromkeys(name for side in sides for name in side)
    known = {name: [value for side in sides if (value := side.get(name)) is not None] for name in names}
    means = {name: _mean(values) for name, values in known.items() if values}
    return means | {name: value for name, value in gate.metrics(assessment).items() if value is not None}


def rows_of(gate: Gate, assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return a gate's rows of the table of attacks; what all records leave untested is of the worse half."""
    whole = gate.attacks(assessment)
    if not assessment.halves or (whole and not any(row.reason for row in whole)):
        return whole
    sides = [gate.attacks(assessment.of(half)) for half in assessment.halves]
    tested = {row.name: row for row in whole if not row.reason}
    worse = [
        row if row.reason else replace(row, name=f"{row.name} (worse half)")
        for row in max(sides, key=_success)
        if row.name not in tested
    ]
    return (*tested.values(), *worse)


def _joined(whole: GateResult | None, halves: Sequence[GateResult]) -> GateResult:
    """Return one result for one question."""
    if whole is not None and all(one == whole for one in halves):
        return whole  # nothing of it is measured of halves
    together = _together([one.chance for one in halves if one.chance is not None])
    failed = _failed(halves, together)
    tested = whole is not None and whole.verdict != "not tested"
    if whole is not None and tested and (whole.verdict == "fail" or failed is None):
        return whole if together is None or not together.asks else _asked(whole, halves, together)
    if failed is not None:
        return failed
    bounds = [one.bounds for one in halves if one.bounds is not None]
    if len(bounds) < len(halves) or len(halves) == 1:
        worse = min(halves, key=lambda one: _rank(one.verdict))
        return replace(worse, meaning=f"{worse.meaning}; the worse of two halves: {EACH}")
    pooled = _pooled(bounds)
    worst = pooled.worst
    surest = max(halves, key=lambda one: one.bounds.worst.lower if one.bounds else 0.0)
    figures = "; ".join(one.figure for one in halves)
    return replace(
        surest,
        verdict=together.beside(pooled.verdict) if together else pooled.verdict,
        figure=f"{_bounded(worst, pooled.upper)}; {OWN}: {figures}{'' if together is None else together.phrase(BOTH)}",
        records=sum(one.records for one in halves),
        meaning=f"{surest.meaning}; mean of the halves in the form that is worst for both: {EACH}",
        bounds=pooled,
        chance=together,
        needed=_needed(pooled) if pooled.verdict == "inconclusive" else DOUBTFUL,
    )


def _asked(whole: GateResult, halves: Sequence[GateResult], together: Chance) -> GateResult:
    """Return the result of all records, as a question where chance hardly explains what both halves show."""
    if whole.verdict != "pass" or not together.is_doubtful:
        return whole
    figure = f"{whole.figure}; {OWN}: {'; '.join(one.figure for one in halves)}, p = {together.p:.2g} {BOTH}"
    meaning = f"{whole.meaning}; {EACH}"
    return replace(
        whole, verdict="inconclusive", figure=figure, meaning=meaning, chance=together, needed=DOUBTFUL_HALVES
    )


def times_needed(open_: Bounds) -> float:
    """Return how many times as many units would settle an open question about a harmless release.

    A harmless figure is as far below what fails as what passes is above it, so that its bound passes with units
    enough for a reach of twice that distance; reaches fall with the root of the number of units.
    """
    slack = 2.0 * (open_.passes_within - open_.fails_above)
    return (max(form.reach for form in open_.forms) / slack) ** 2 if slack > 0 else 0.0


def _needed(open_: Bounds) -> str:
    """Say what would settle an open question, as the end of a sentence: more units, or less risk where they suffice."""
    times = times_needed(open_)
    if times > 1.0:
        return f"; a harmless release needs about {float(f'{times:.2g}'):g} times as many units to be shown so"
    return "; it is near the limit, not short of units: stronger masking or fewer variables would lower it"


def _weighed(joined: GateResult, whole: GateResult | None) -> GateResult:
    """Return the failure of a half as a question where all records are shown to be within the limit."""
    if whole is None or (joined.verdict, whole.verdict) != ("fail", "pass"):
        return joined
    return replace(joined, verdict="inconclusive", meaning=f"{joined.meaning}{WHOLE_IS_WITHIN}: {whole.figure}")


def _bounded(worst: BoundedFigure, upper: float) -> str:
    """Return a figure with its bounds; an upper one that lies below it is of all people, or of all forms."""
    if worst.value > upper:
        return f"{worst.value:.3f}, {bounds_of_several(worst.lower, upper, 3)}"
    return f"{worst.value:.3f} {interval(worst.lower, upper, 3)}"


def _failed(halves: Sequence[GateResult], together: Chance | None) -> GateResult | None:
    """Return the result that fails the release: of one half by itself, or of both by their p-values together."""
    for one in halves:
        alone = one.bounds.verdict if one.bounds else "pass" if one.chance else one.verdict
        if alone == "fail":
            return replace(one, verdict="fail", meaning=f"{one.meaning}; of one half: {EACH}")
    if together is None or not together.fails:
        return None
    worse = min(halves, key=lambda one: one.chance.p if one.chance else 1.0)
    return replace(
        worse,
        verdict="fail",
        figure=f"{OWN}: {'; '.join(one.figure for one in halves)}{together.phrase(BOTH)}",
        meaning=f"{worse.meaning}; {EACH}",
        chance=together,
    )


def _together(tests: Sequence[Chance]) -> Chance | None:
    """Return the tests of the halves as one, form by form; None without any."""
    if not tests:
        return None
    beyond = _together([one.beyond for one in tests if one.beyond is not None])
    return Chance(_by_form([one.forms for one in tests]), tests[0].level, beyond, tests[0].asks)


def _by_form(halves: Sequence[FormValues]) -> FormValues:
    """Return the p-value of each form by Fisher's method; not a number where one of them is none."""
    p: dict[str, list[float]] = {}
    for name, value in (form for half in halves for form in half):
        p.setdefault(name, []).append(value)
    logs = {name: math.fsum(math.log(max(one, 1e-300)) for one in each) for name, each in p.items()}
    return tuple((name, float(chi2.sf(-2.0 * total, 2 * len(p[name])))) for name, total in logs.items())


def _pooled(bounds: Sequence[Bounds]) -> Bounds:
    """Return the mean of the halves' figures, form by form, with its bounds; a form of one half is as it was there."""
    forms: dict[str, list[BoundedFigure]] = {}
    for form in (form for half in bounds for form in half.forms):
        forms.setdefault(form.name, []).append(form)
    return replace(bounds[0], forms=tuple(_mean_figure(each) for each in forms.values()))


def _mean_figure(halves: Sequence[BoundedFigure]) -> BoundedFigure:
    """Return the mean of a figure of the halves.

    Errors of areas cancel or add up as `anoncore.risk.halves` measures; those of other figures are taken as
    independent. Bounds of something else are averaged as they are.
    """
    if len(halves) == 1:
        return halves[0]
    value = _mean([one.value for one in halves])
    down, up = (
        max(one.error_ratio for one in halves) * math.hypot(*reaches) / len(halves)
        for reaches in ([one.value - one.lower for one in halves], [one.reach for one in halves])
    )
    beyond = _mean([one.upper - one.reach for one in halves])
    return replace(halves[0], value=value, lower=value - down, upper=beyond + up, reach=up)


def _rank(verdict: str) -> int:
    return OPEN_FIRST.index(verdict) if verdict in OPEN_FIRST else len(OPEN_FIRST)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _success(rows: Sequence[Attack]) -> float:
    return max((row.advantage.lower for row in rows if row.advantage is not None), default=-math.inf)
