"""The published releases that a candidate follows: of the same plan or data, or of the same statistical units."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from anoncore.method import enough_left_out
from tasks.common.home import Home
from tasks.record import ledger
from tasks.record.entry import ReleaseFacts
from tasks.record.members import Members, members_of, share_units

# So many units in common make another plan's release an earlier one; no plan can raise it and escape the comparison.
IN_COMMON = 5
# Of the records, by so many at most the releases of nearly the same units differ, or by as many as hide single ones.
NEARLY = 0.02


@dataclass(frozen=True)
class Lineage:
    """By what a candidate's earlier releases are found.

    Parameters
    ----------
    name : of its plan
    data, records : digests of its source, and of the source's records
    """

    name: str
    data: str
    records: str

    @classmethod
    def of(cls, facts: ReleaseFacts) -> Lineage:
        """Return that of a candidate whose facts are entered."""
        return cls(facts.name, facts.data, facts.records)


@dataclass(frozen=True)
class Predecessor:
    """A published release that a candidate follows.

    Parameters
    ----------
    facts : what is entered of it
    units : how those of both are recognised; None where it is not known which they share
    """

    facts: ReleaseFacts
    units: Literal["identities", "values"] | None

    def known(self, members: Members) -> Members:
        """Return units as they are to be compared with those of this release."""
        return members.by_values if self.units == "values" else members

    def members(self, home: Home) -> Members | None:
        """Return the units of this release; None where it cannot be known which of them another has."""
        before = members_of(home, self.facts.release) if self.units else None
        return None if before is None else self.known(before)


def codebook_of(folder: Path) -> dict[str, Any]:
    """Return the codebook beside released files; empty where it is gone, or cannot be read."""
    book = folder / "codebook.json"
    with suppress(ValueError):
        return json.loads(book.read_bytes()) if book.is_file() else {}
    return {}


def released_records(folder: Path) -> int | None:
    """Return how many records a release or a candidate holds; None where its codebook is gone."""
    return codebook_of(folder).get("records")


def nearly_as_many(one: int, other: int) -> bool:
    """Return whether two releases are so nearly as large that they may be of the same people."""
    return abs(one - other) <= max(NEARLY * one, enough_left_out(one // 10))


def predecessors(home: Home, lineage: Lineage, now: Members | None, *, after: int = 0) -> tuple[Predecessor, ...]:
    """Return the published releases that a candidate follows, oldest first, withdrawn ones too.

    These are the releases of the same plan, whose people are in part the same; those of the same file or records; those
    that share units with it, whatever their plan is called; and those of which this is not known.

    Parameters
    ----------
    now : the units of the candidate; None where they are not known
    after : only what was published after the entry of this number
    """
    entries = (entry for entry in ledger.find(home, ReleaseFacts, "published") if entry.number > after)
    published = {entry.facts.release: entry.facts for entry in entries}
    found = (_predecessor(home, facts, lineage, now) for facts in published.values())
    return tuple(one for one in found if one is not None)


def _predecessor(home: Home, facts: ReleaseFacts, lineage: Lineage, now: Members | None) -> Predecessor | None:
    """Return a release as one that is followed; None where it is of other people."""
    before = members_of(home, facts.release)
    if now is None or before is None:
        return Predecessor(facts, None)
    if share_units(now, before, IN_COMMON):
        return Predecessor(facts, "identities")
    if now.same_variables(before) and share_units(now.by_values, before.by_values, IN_COMMON):
        return Predecessor(facts, "values")
    if now.may_share(before, IN_COMMON) or now.names_otherwise(before, IN_COMMON):
        return Predecessor(facts, None)
    own = facts.name == lineage.name or facts.is_about(lineage.data, lineage.records)
    return Predecessor(facts, "identities") if own else None
