"""Curves over the published releases of a plan, with the limits of its policy, as auditors see them in MLflow.

An experiment beside that of the releases holds two runs, so that each of its charts shows two lines: what was measured,
and the limit. A point's step is the number of the release, its time that of the publication. All of it is derived from
ledger and dossiers, and an audit compares it with them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from tasks.common.errors import Refused
from tasks.common.formatting import markdown_cell
from tasks.common.home import Home
from tasks.policy.gate import GateResult
from tasks.record import ledger
from tasks.record.dossier import find_dossier
from tasks.record.entry import Facts, LedgerEntry, ReleaseFacts
from tasks.record.ledger_verification import Finding
from tasks.tracking import mlflow as track
from tasks.tracking.mlflow import CurvePoint

CURVES = " curves"
# What MLflow does not take in the name of a metric.
UNNAMED = re.compile(r"[^\w\-. :/]")
# So many releases, the newest, fit into the text beside the curves.
LISTED = 25
Entry = LedgerEntry[ReleaseFacts]


def mirror_curves(home: Home, plan: str, *, whole: bool = False) -> None:
    """Show in MLflow the releases of a plan that its curves lack; with ``whole`` also correct what is there.

    Raises
    ------
    ReleaseError
        When MLflow does not take it.
    """
    entries = ledger.find(home, ReleaseFacts, "published", "withdrawn")
    if not (releases := _published(entries).get(plan)):
        return
    experiment, owner = plan + CURVES, ledger.identity(home)
    with home.lock("curves"):
        points = set() if whole else track.curves(experiment, owner)
        points |= _points(home, releases, {point.step for point in points})
        withdrawn = {one.facts.release for one in entries if one.event == "withdrawn"}
        track.show_curves(experiment, owner, points, description(releases, withdrawn, points))


def curve_problems(home: Home, known: Sequence[LedgerEntry[Facts]]) -> Iterator[Finding]:
    """Find plans whose curves are not what ledger and dossiers say.

    Raises
    ------
    ReleaseError
        When MLflow is not reached.
    """
    owner = ledger.identity(home)
    for plan, releases in _published(ledger.select(known, ReleaseFacts, "published")).items():
        if track.curves(plan + CURVES, owner) != _points(home, releases):
            where = f"MLflow experiment {plan}{CURVES}"
            sentence = f"{where}: they are not those of the published releases; anonflow audit mirror sets it right"
            yield Finding("mlflow curves", where, sentence)


def description(releases: Sequence[Entry], withdrawn: Iterable[str], points: Iterable[CurvePoint]) -> str:
    """Return the newest releases as a table in Markdown: when, by whom, and the risk that is nearest its limit."""
    figures = {(one.step, one.metric): one.value for one in points if one.run == "releases"}
    limits = {(one.step, one.metric): one.value for one in points if one.run == "limits"}
    used: dict[int, tuple[float, str]] = {}
    for (step, metric), value in figures.items():
        limit = limits.get((step, metric), 0.0)
        if metric.startswith("risk at most/") and limit > 0:
            text = f"{metric.partition('/')[2]}: {value:.3g} of {limit:.3g}"
            used[step] = max(used.get(step, (-math.inf, "")), (value / limit, text))
    gone = set(withdrawn)
    rows = [
        f"| {step} | {one.time[:16]} | {one.facts.release}{' (withdrawn)' * (one.facts.release in gone)} "
        f"| {_approvers(one.facts)} | {used.get(step, (0.0, ''))[1]} |"
        for step, one in reversed([*enumerate(releases, 1)])
    ]
    head = "| step | published (UTC) | release | approved by | risk nearest its limit |\n|---|---|---|---|---|\n"
    more = f"\n\n{len(rows) - LISTED} older releases are in the curves alone." if len(rows) > LISTED else ""
    return (
        "Published releases of this plan. The chart view (second button below) shows what was measured over the "
        "releases, and the policy’s limit as a line; a group’s name says whether a figure may be at most, or must be "
        f"at least its limit. `anonflow audit verify` compares all of it with the signed ledger.\n\n{head}"
        + "\n".join(rows[:LISTED])
        + more
    )


def _approvers(facts: ReleaseFacts) -> str:
    return markdown_cell(", ".join(one.approver for one in facts.approvals) or "the policy alone")


def _published(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Return when each release of each plan was published, in that order."""
    first: dict[str, Entry] = {}
    for entry in entries:
        if entry.event == "published":
            first.setdefault(entry.facts.release, entry)
    plans = dict.fromkeys(entry.facts.name for entry in first.values())
    return {plan: [entry for entry in first.values() if entry.facts.name == plan] for plan in plans}


def _points(home: Home, releases: Sequence[Entry], there: Collection[int] = ()) -> set[CurvePoint]:
    """Return the figures that decide, and their limits, of the releases but those whose steps are there already.

    A release whose dossier is changed or gone has none.
    """
    points = set()
    for step, entry in enumerate(releases, start=1):
        time = int(datetime.fromisoformat(entry.time).timestamp() * 1000)
        for result in () if step in there else _results(home, entry.facts.release):
            if (decisive := result.decisive) is not None and math.isfinite(decisive.figure):
                topic = "risk p-value" if result.chance and not result.bounds else result.topic.lower()
                side = "at least" if decisive.at_least else "at most"
                metric = UNNAMED.sub(" ", f"{topic} {side}/{result.name}")
                points.add(CurvePoint("releases", metric, decisive.figure, step, time))
                points.add(CurvePoint("limits", metric, decisive.limit, step, time))
    return points


def _results(home: Home, release: str) -> tuple[GateResult, ...]:
    try:
        dossier = find_dossier(home, release)
    except Refused:
        return ()
    return dossier.verdict.gates if dossier else ()
