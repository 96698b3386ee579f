"""Curves over the published releases of a plan, with the limits of its policy, as auditors see them in MLflow.

An experiment beside that of the releases holds two runs, so that each of its charts shows two lines: what was measured,
and the limit. A point's step is the number of the release, its time that of the publication. All of it is derived from
ledger and dossiers, and an audit compares the points with them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tasks.common.errors import Refused, cut
from tasks.common.formatting import markdown_cell, to_minute
from tasks.common.home import Home
from tasks.policy.verdict import Verdict
from tasks.record import ledger
from tasks.record.dossier import find_verdict
from tasks.record.entry import Facts, LedgerEntry, ReleaseFacts
from tasks.record.ledger_verification import Finding
from tasks.tracking import mlflow as track
from tasks.tracking.metrics import readable
from tasks.tracking.mlflow import CurvePoint

CURVES = " curves"
# The experiment with the releases of all plans; a plan's name holds no space.
RELEASES = "published releases"
# What MLflow does not take in the name of a metric.
UNNAMED = re.compile(r"[^\w\-. :/]")
# So many releases, the newest, fit into the text beside the curves.
LISTED = 25
LONGEST_NAME = 100
HEAD = "published (UTC) | release | approved by | risk"


@dataclass(frozen=True)
class Published:
    """A release as it was published: by its number among those of its plan, and the results of its gates.

    Parameters
    ----------
    withdrawn : whether it was later
    """

    number: int
    entry: LedgerEntry[ReleaseFacts]
    withdrawn: bool

    def verdict(self, home: Home) -> Verdict | None:
        """Return what the policy said of it; None where its dossier is changed or gone."""
        try:
            return find_verdict(home, self.entry.facts.release)
        except Refused:
            return None

    def risk(self, home: Home) -> str:
        """Return the gates on risk that failed, are open or were waived, and the one nearest its limit."""
        verdict = self.verdict(home)
        return verdict.risk_in_words if verdict else ""


def published_releases(known: Sequence[LedgerEntry[Facts]]) -> dict[str, list[Published]]:
    """Return the releases of each plan in the order of their publication."""
    entries = ledger.select(known, ReleaseFacts, "published", "withdrawn")
    withdrawn = {one.facts.release for one in entries if one.event == "withdrawn"}
    first: dict[str, LedgerEntry[ReleaseFacts]] = {}
    for entry in entries:
        if entry.event == "published":
            first.setdefault(entry.facts.release, entry)
    plans: dict[str, list[Published]] = {}
    for release, entry in first.items():
        own = plans.setdefault(entry.facts.name, [])
        own.append(Published(len(own) + 1, entry, release in withdrawn))
    return plans


def mirror_curves(home: Home, plan: str, *, whole: bool = False) -> None:
    """Show in MLflow the releases of a plan that its curves lack; with ``whole`` also correct what is there.

    Raises
    ------
    ReleaseError
        When MLflow does not take it.
    """
    plans = published_releases(ledger.entries(home))
    if not (releases := plans.get(plan)):
        return
    experiment, owner = plan + CURVES, ledger.identity(home)
    with home.lock("curves"):
        points = set() if whole else track.curves(experiment, owner)
        points |= _points(home, releases, {point.step for point in points})
        track.show_curves(experiment, owner, points, _description(home, releases))
        track.show_text(RELEASES, owner, _overview(home, plans.values()))


def curve_problems(home: Home, known: Sequence[LedgerEntry[Facts]]) -> Iterator[Finding]:
    """Find plans whose curves are not what ledger and dossiers say.

    Raises
    ------
    ReleaseError
        When MLflow is not reached.
    """
    owner = ledger.identity(home)
    for plan, releases in published_releases(known).items():
        if track.curves(plan + CURVES, owner) != _points(home, releases):
            where = f"MLflow experiment {plan}{CURVES}"
            sentence = f"{where}: they are not those of the published releases; anonflow audit mirror sets it right"
            yield Finding("mlflow curves", where, sentence)


def _overview(home: Home, plans: Iterable[Sequence[Published]]) -> str:
    """Return the newest releases of all plans as a table in Markdown."""
    newest = sorted((one for releases in plans for one in releases), key=lambda one: one.entry.number, reverse=True)
    return _listed(
        f"| {HEAD} |\n|---|---|---|---|\n",
        [f"| {_row(home, one)} |" for one in newest[:LISTED]],
        len(newest),
        "in the experiments of their plans alone",
        "The releases of all plans, the newest first. A plan’s experiment has everything that was measured, also of "
        "what was not published. The signed ledger is the record: `anonflow list --risk`, `anonflow audit verify`.",
    )


def _listed(head: str, rows: Sequence[str], total: int, elsewhere: str, about: str) -> str:
    """Return a table with as many of these rows as MLflow takes, where the others are, and a text below."""
    for count in range(len(rows), -1, -1):
        older = f"\n\n{total - count} older releases are {elsewhere}." if total > count else ""
        text = head + "\n".join(rows[:count]) + older + f"\n\n{about}"
        if len(text) <= track.TAG_LENGTH:
            break
    return text


def _row(home: Home, one: Published) -> str:
    release = f"{one.entry.facts.release}{' (withdrawn)' * one.withdrawn}"
    by = markdown_cell(cut(one.entry.facts.decided_by, LONGEST_NAME))
    return " | ".join((to_minute(one.entry.time), release, by, one.risk(home)))


def _description(home: Home, releases: Sequence[Published]) -> str:
    """Return the newest releases as a table in Markdown."""
    return _listed(
        f"Published releases of this plan:\n\n| step | {HEAD} |\n|---|---|---|---|---|\n",
        [f"| {one.number} | {_row(home, one)} |" for one in reversed(releases[-LISTED:])],
        len(releases),
        "in the curves alone",
        "The chart view of this experiment shows what was measured over the releases, and the policy’s limit as "
        "a line; a group’s name says whether a figure may be at most, or must be at least its limit. Figures here are "
        "as published: rounded, upper bounds upwards. The runs of the releases have what each attack measured, of two "
        "halves their mean, while a gate joins the bounds of both. `anonflow audit verify` compares the curves with "
        "the signed ledger.",
    )


def _points(home: Home, releases: Sequence[Published], there: Collection[int] = ()) -> set[CurvePoint]:
    """Return the figures that decide, and their limits, of the releases but those whose steps are there already."""
    points = set()
    for one in releases:
        time = int(datetime.fromisoformat(one.entry.time).timestamp() * 1000)
        verdict = None if one.number in there else one.verdict(home)
        for result in verdict.gates if verdict else ():
            if (decisive := result.decisive) is not None and math.isfinite(decisive.figure):
                topic = "risk p-value" if result.chance and not result.bounds else result.topic.lower()
                side = "at least" if decisive.at_least else "at most"
                metric = UNNAMED.sub(" ", f"{topic} {side}/{result.name}")
                points.add(CurvePoint("releases", metric, readable(decisive.figure), one.number, time))
                points.add(CurvePoint("limits", metric, decisive.limit, one.number, time))
    return points
