"""Whether few people joined, left or changed since an earlier release."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from tasks.common.formatting import count
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment, Series, UnitChanges
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.published import published_series
from tasks.policy.rounding import in_its_ten

NAME = "change since earlier releases"
AT_MOST = 3
NOT_KNOWN = "as it is not known which units they share: no identifier and other variables, or no digests"
ALIKE = "whose figures are as near as those of nearly the same units, though fewer than five known units are in common"
UNREAD = (
    "whose figures cannot be compared, as no file is there, tables are in partitions, or most variables or levels are "
    "others, though nearly as large"
)
COMPUTED = (
    "figures of a few units can be computed from who left, from what changed in one variable, or from several releases"
)
LARGE = "a unit with many records joined or changed, which move figures by more than chance hides"
NOT_COMPARED = "as the digests imported of them are by other secrets than the plan's"
DECLARE = (
    "; declare the same identifier in all plans of one population, give unrelated tables homes of their own, or let a "
    "person accept it"
)
DRAW = (
    "; declare `series: {kind: register}`, by which each release is of a random part of the units, with a left_out of "
    "200 or more, its default; or choose a method that draws figures anew, such as sequential-trees; or let a person "
    "accept it"
)
APART = "; give unrelated tables homes of their own, or let a person accept it"
SPLIT = "; release at most a few records of each unit, or let a person accept it"
AGREE = (
    "; agree with the other office which of you releases these units, or how much of them, since what both releases "
    "reveal together is not measured; or let a person accept it"
)
EXCHANGE = "; export and import digests by the secret that the plan names, or let a person accept it"
WAIT = (
    "; run the plan again when more have joined, left or changed, or let a person accept it; least_change is the limit"
)


class ChangeLimit(Section):
    """How many people have to differ between two releases of a series.

    Parameters
    ----------
    least_change : So many statistical units have to join, leave or change since every published release, or none;
        otherwise a person decides. By default the ``k`` of the assessment.
    """

    least_change: int | None = Field(default=None, ge=2)


def evaluate(assessment: Assessment, policy: ChangeLimit) -> tuple[GateResult, ...]:
    """Ask a person where few units joined, left or changed, or where it is not known who is in a release."""
    series = assessment.series
    if series is None:
        return ()
    others = series.elsewhere or series.by_other_secrets or series.alike or series.unread
    if not (series.releases or others):
        return ()
    few, unknown = series.few, series.releases - series.known
    shown = few[:AT_MOST] or ((series.newest,) if series.newest else ())
    parts = [since(one, series.least) for one in shown]
    if len(few) > AT_MOST:
        parts.append(f"and since {count(len(few) - AT_MOST)} more")
    parts += [_elsewhere(one, series.least) for one in series.elsewhere[-AT_MOST:]]
    if len(series.elsewhere) > AT_MOST:
        parts.append(f"and {count(len(series.elsewhere) - AT_MOST)} more of other homes")
    parts += _untested(series, unknown)
    undecided = few or unknown or series.exact or series.large or others
    return (
        GateResult(
            name=NAME,
            verdict="inconclusive" if undecided else "pass",
            figure="; ".join(parts),
            limit=f"none, or at least {count(series.least)} of each{' and no unit in common' * bool(series.elsewhere)}",
            baseline="0, the same people with the same values",
            records=assessment.records.original,
            meaning=f"{_units(series)} that joined, left or changed; where few did, the difference of two releases "
            "discloses their values",
            needed=_needed(series),
        ),
    )


def _untested(series: Series, unknown: int) -> Iterator[str]:
    """Yield why releases were not compared, or can be computed with, and how many."""
    reasons = (
        (unknown, f"earlier release(s) not tested, {NOT_KNOWN}"),
        (series.alike, f"other release(s) not tested, {ALIKE}"),
        (series.unread, f"other release(s) not tested, {UNREAD}"),
        (series.exact, f"earlier release(s) of partly the same units, {_exact(series)}"),
        (series.large, f"earlier release(s) since which {LARGE}"),
        (series.by_other_secrets, f"other home(s) not tested, {NOT_COMPARED}"),
    )
    yield from (f"{count(number)} {reason}" for number, reason in reasons if number)


def _exact(series: Series) -> str:
    """Return why figures of a few units can be computed."""
    held = f"a left_out of {count(series.left_out)} is too few to hide them" if series.left_out else ""
    return f"while figures follow from the source and {held or 'all units are in each'}: {COMPUTED}"


def _needed(series: Series) -> str:
    """Return what would decide it: waiting helps only where few units changed, and nothing else is open."""
    if series.exact:
        return DRAW
    if series.large:
        return SPLIT
    if series.elsewhere:
        return AGREE
    if series.few:
        return WAIT
    if series.alike:
        return DECLARE
    if series.unread:
        return APART
    return EXCHANGE if series.releases == series.known else DECLARE


def _units(series: Series) -> str:
    return "statistical units" if series.identified else "records, known by their values as no identifier is declared,"


def since(changes: UnitChanges, least: int) -> str:
    """Return how many units joined, left or changed since a release, in tens; no number below ``least``."""
    return f"since {changes.release}: {_counts(changes, least)}"


def _elsewhere(changes: UnitChanges, least: int) -> str:
    beside = f"beside {changes.release} of another home"
    if changes.joined is None or changes.left is None or changes.in_common is None:
        return f"{beside}: units in common; fewer than {least} of these, of those it lacks, or of those it has besides"
    both, lacks, besides = (in_its_ten(n, least) for n in (changes.in_common, changes.joined, changes.left))
    return f"{beside}: {both} units in common, {lacks} that it lacks, {besides} that it has besides"


def _counts(changes: UnitChanges, least: int) -> str:
    few = f"1 to {least - 1}"
    if changes.joined is None or changes.left is None:
        moved = f"{few} joined or {few} left"
    else:
        moved = f"{in_its_ten(changes.joined, least)} joined, {in_its_ten(changes.left, least)} left"
    if not changes.same_variables:
        return f"{moved}; who changed is not known, as its variables are others"
    return f"{moved}, {few if changes.changed is None else in_its_ten(changes.changed, least)} changed"


def metrics(assessment: Assessment) -> Metrics:
    """Return how many releases there are since which few units joined, left or changed, or of other variables."""
    series = assessment.series
    return {} if series is None or not series.releases else {"risk/series_few": len(series.few)}


GATE = Gate(
    name=NAME,
    description="Statistical units that joined, left or changed since each published release of the plan, of the data "
    "or of the same units under any plan, counted by keyed digests that only the home holds. Inconclusive, so that a "
    "person decides, where it is 1 to `least_change` − 1 units of one of the three, where it is not known which units "
    "a release shares, and where its variables are others, so it is not known who changed; beside each release "
    "of another home that holds some of the units, as its file is not at hand and what both reveal together is not "
    "measured; where all digests of other homes are by other secrets; beside each release that is not known to hold "
    "five of the units, of the 50 nearest in number of records, and whose figures are as near to the candidate's as "
    "those of other people seldom are, or cannot be compared while it holds nearly as many records; "
    "and where some units are in both releases and others are not, or changed, while the steps keep figures exactly "
    "and the series draws no units, or leaves out fewer than 200 (`left_out`). "
    "No count below the limit is shown, others in tens; of joined and left neither, where one is below it.",
    evaluate=evaluate,
    limits=ChangeLimit,
    individual=True,
    publishes={"series": published_series},
    metrics=metrics,
)
