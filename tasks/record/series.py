"""The releases of each plan, as the ledger has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.record.entry import Facts, LedgerEntry, ReleaseFacts
from tasks.record.ledger import select


@dataclass(frozen=True)
class PlanSeries:
    """The releases of one plan, oldest first: those that stand, those that were withdrawn, those that wait.

    Parameters
    ----------
    last : when the last one that stands was published; empty without any
    """

    plan: str
    published: tuple[str, ...]
    withdrawn: tuple[str, ...]
    waiting: tuple[str, ...]
    last: str


def series_of(entries: Sequence[LedgerEntry[Facts]]) -> list[PlanSeries]:
    """Return the releases of each plan, in the order of the plans' first entries."""
    known = select(entries, ReleaseFacts)
    last = {entry.facts.release: entry for entry in known}
    published = {entry.facts.release: entry.time for entry in known if entry.event == "published"}
    series = []
    for plan in dict.fromkeys(entry.facts.name for entry in known):
        own = {release: entry.event for release, entry in last.items() if entry.facts.name == plan}
        withdrawn = tuple(release for release, event in own.items() if event == "withdrawn")
        stand = tuple(release for release in own if release in published and release not in withdrawn)
        waiting = tuple(release for release, event in own.items() if event in ("awaiting", "approved"))
        times = [published[release] for release in stand]
        series.append(PlanSeries(plan, stand, withdrawn, waiting, max(times, default="")))
    return series
