"""Count earlier attempts at a release that were rejected, since a verdict on the best of many draws proves nothing."""

from __future__ import annotations

from tasks.common.home import Home
from tasks.policy.gates.unit_changes import NAME as CHANGE
from tasks.record import ledger
from tasks.record.entry import Event, LedgerEntry, ReleaseFacts
from tasks.record.members import Members, counted, members_of

# Two tables that share so large a part of the units of the larger are nearly the same.
NEARLY = 0.9
WAITING: tuple[Event, ...] = ("awaiting", "approved")


def rejected_attempts(home: Home, masking: str, now: Members) -> int:
    """Count the earlier attempts by the same masking on nearly the same units, under whatever plan's name.

    Those are counted that a gate on risk or a person rejected, and those with such a gate open that wait, that
    waited too long or that were superseded, since the last such release was published. A person who rejects because
    few units changed since then decides on that, and not on what chance has drawn.
    """
    entries = ledger.find(home, ReleaseFacts, "rejected", "expired", "superseded", "published", *WAITING)
    # What became of a candidate that waits counts in its place.
    last = {e.facts.release: e for e in entries}
    rejected = 0
    for entry in (e for e in entries if e.facts.masking == masking):
        if entry.event in WAITING and last[entry.facts.release] is not entry:
            continue
        before = members_of(home, entry.facts.release)
        if entry.event == "published" and before is not None and _nearly(now, before):
            rejected = 0
        elif is_attempt(entry) and (before is None or _nearly(now, before)):
            rejected += 1
    return rejected


def is_attempt(entry: LedgerEntry[ReleaseFacts]) -> bool:
    """Return whether an entry counts: a rejection, or that a candidate waits, or waited in vain."""
    if entry.event in (*WAITING, "superseded"):
        return entry.facts.open_risk
    if entry.event == "expired":
        # Others were overtaken by a release that was published meanwhile.
        until = entry.facts.terms.expires if entry.facts.terms else ""
        return entry.facts.open_risk and bool(until) and entry.time >= until
    return entry.event == "rejected" and counts(entry.facts)


def counts(facts: ReleaseFacts) -> bool:
    """Return whether a rejected attempt counts against later ones."""
    waited, _ = facts.gates.get(CHANGE, ("pass", ""))
    return facts.open_risk or (facts.decided is not None and waited == "pass")


def _nearly(now: Members, before: Members) -> bool:
    return counted(now.in_common(before)) >= NEARLY * max(now.count, before.count)
