"""Those entries of the ledger that someone asks for: of a plan, of a status, of a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tasks.common.errors import Refused
from tasks.record.entry import Event, Facts, LedgerEntry, ReleaseFacts
from tasks.record.ledger import select

# The status of a release, by the last event about it.
STATUS_OF: Final[dict[Event, str]] = {
    "awaiting": "awaiting",
    "approved": "awaiting",
    "rejected": "rejected",
    "expired": "expired",
    "superseded": "superseded",
    "publishing": "publishing",
    "published": "published",
    "unchanged": "published",
    "abandoned": "abandoned",
    "withdrawing": "withdrawing",
    "withdrawn": "withdrawn",
}
# The beginning of a time as the ledger writes it: a year, a month, a day, or a day with hour and minute.
TIME = re.compile(r"\d{4}(-\d{2}(-\d{2}(T\d{2}:\d{2}(:\d{2})?)?)?)?")


@dataclass(frozen=True)
class Selection:
    """What is asked for; None asks for all.

    Parameters
    ----------
    plan : the name of a plan
    status : what its releases are now, a value of `STATUS_OF`
    since, until : the beginning of a time in UTC, such as 2026-11 or 2026-11-23; ``until`` takes in all of it

    Raises
    ------
    Refused
        When it names no such status or time.
    """

    plan: str | None = None
    status: str | None = None
    since: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        if self.status is not None and self.status not in STATUS_OF.values():
            raise Refused(f"--status takes one of {', '.join(dict.fromkeys(STATUS_OF.values()))}")
        if not all(TIME.fullmatch(time) for time in (self.since, self.until) if time is not None):
            raise Refused("--since and --until take 2026, 2026-11, 2026-11-23 or 2026-11-23T04:05, in UTC")

    def of(self, entries: Sequence[LedgerEntry[Facts]]) -> list[LedgerEntry[Facts]]:
        """Return those of the entries that are asked for, in their order."""
        last = {entry.facts.release: STATUS_OF[entry.event] for entry in select(entries, ReleaseFacts)}
        return [
            entry
            for entry in entries
            if self.plan in (None, getattr(entry.facts, "name", ""))
            and self.status in (None, last.get(entry.facts.subject))
            and (self.since is None or entry.time[: len(self.since)] >= self.since)
            and (self.until is None or entry.time[: len(self.until)] <= self.until)
        ]
