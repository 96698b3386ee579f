"""Find what is wrong with the ledger: its chain, its signatures, its form and its head."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from tasks.common import keys
from tasks.common.errors import visible
from tasks.common.home import Home
from tasks.common.values import from_json
from tasks.record.entry import (
    START,
    Facts,
    Head,
    KeyFacts,
    LedgerEntry,
    LossFacts,
    content_digest,
    entry_line,
    parse_entry,
)
from tasks.record.ledger_store import store_of

# What a crash in the middle of an append leaves; the next append settles it.
CUT_SHORT = ("unfinished", "behind")
# So many seconds back are how clocks are set right.
CLOCK_STEP = 60.0
Entries = Sequence[LedgerEntry[Facts]]


@dataclass(frozen=True)
class Finding:
    """What is not as it was entered: a kind for scripts, where it is, and a sentence."""

    kind: str
    where: str
    sentence: str


def read_head(home: Home) -> Head | None:
    """Return the head of the ledger; None when there is none, or none that can be read."""
    return _parsed(store_of(home).head())


def _parsed(head: bytes | None) -> Head | None:
    try:
        return None if head is None else from_json(Head, json.loads(head))
    except (ValueError, RecursionError):
        return None


def line_problems(lines: Sequence[bytes], rest: bytes) -> Iterator[Finding]:
    """Find lines that are no entries, or not written as they were entered; ``rest`` follows the last line end."""
    place = 0
    for line in [*lines, *([rest] if parse_entry(rest) else [])]:
        if not line.strip():
            yield Finding("changed", "ledger", "the ledger holds an empty line, which is never entered")
            continue
        place += 1
        entry = parse_entry(line)
        if entry is None:
            yield Finding("unreadable", f"line {place}", f"line {place} of the ledger is not an entry")
        elif line != entry_line(entry):
            yield Finding("changed", f"entry {place}", f"entry {place} is not written as it was entered")
    if rest and parse_entry(rest) is None:
        sentence = "the last line is unfinished: an append did not end, and what it said is not on record"
        yield Finding("unfinished", f"line {place + 1}", sentence)


def chain_problems(entries: Entries) -> Iterator[Finding]:
    """Find entries that do not follow the one before them, and those that were changed."""
    numbers = {entry.number for entry in entries}
    previous, number = START, 0
    for place, entry in enumerate(entries, start=1):
        where = f"entry {place}"
        if entry.previous != previous or entry.number != number + 1:
            lost = any(n not in numbers for n in range(number + 1, entry.number))
            kind = "removed" if lost else "reordered" if entry.number != number + 1 else "chain"
            why = {"removed": ": entries were removed", "reordered": ": the order was changed"}.get(kind, "")
            yield Finding(kind, where, f"{where} does not follow the one before it{why}")
        if entry.digest != content_digest(entry):
            yield Finding("changed", where, f"{where} was changed")
        previous, number = entry.digest, entry.number


def clock_problems(entries: Entries) -> Iterator[Finding]:
    """Find entries that are dated before the one they follow: the clock was set back, or the date is not true."""
    for before, entry in pairwise(entries):
        if _seconds(entry) < _seconds(before) - CLOCK_STEP:
            where = f"entry {entry.number}"
            sentence = f"{where} is dated {entry.time}, before entry {before.number} ({before.time}), which it follows"
            yield Finding("clock", where, sentence)


def _seconds(entry: LedgerEntry[Facts]) -> float:
    try:
        return datetime.fromisoformat(entry.time).timestamp()
    except ValueError:
        return 0.0


def signers_of(entries: Entries, last: str) -> tuple[list[str], list[Finding]]:
    """Return which public key should have signed each entry, going back from the one that is trusted.

    A change of keys counts when the new key has accepted it: without any of this home's keys no one can put another
    history before it.
    """
    signers, problems = [last] * len(entries), []
    key = last
    for place, entry in reversed(list(enumerate(entries))):
        if not isinstance(entry.facts, KeyFacts):
            continue
        agreed = keys.verifies_hex(
            keys.public_of(entry.facts.new_key), acceptance(entry.facts, entry.previous), entry.facts.accepted
        )
        if entry.facts.new_key != key or not agreed:
            where = f"entry {place + 1}"
            sentence = f"{where} names a new key that is not the one which signs after it"
            problems.append(Finding("key", where, sentence))
            break
        key = entry.facts.old_key
        signers[: place + 1] = [key] * (place + 1)
    return signers, problems


def acceptance(change: KeyFacts, previous: str) -> bytes:
    """Return what a new key signs of the change that brings it in, after the entry of digest ``previous``."""
    return f"anonflow key {change.old_key} {change.new_key} {previous}".encode()


def signature_problems(entries: Entries, signers: Sequence[str]) -> Iterator[Finding]:
    """Find entries that are not signed by the key which should have signed them."""
    public = {text: keys.public_of(text) for text in set(signers)}
    for place, (entry, signer) in enumerate(zip(entries, signers, strict=True), start=1):
        if not keys.verifies_hex(public[signer], entry.digest.encode(), entry.signature):
            yield Finding("signature", f"entry {place}", f"entry {place} is not signed by this home's key")


def head_problems(home: Home, written: bytes | None, entries: Entries, signers: Sequence[str]) -> list[Finding]:
    """Return whether the head names the last entry, signed; else entries may have been cut off.

    Outside the ledger's lock the head is read before the entries, since others may be appended meanwhile.
    """
    head, where, last = _parsed(written), home.head.name, len(entries)
    if head is None:
        gone = "is gone" if written is None else "cannot be read"
        sentence = f"{where}, which names the last entry, {gone}: whether entries were cut off is not known"
        return [Finding("head", where, sentence)] if entries or written is not None else []
    if head.number > last:
        sentence = f"the ledger ends with entry {last}, and its head names entry {head.number}: it was cut off"
        return [Finding("truncated", where, sentence)]
    signer = keys.public_of(signers[max(head.number, 1) - 1]) if head.number >= 0 else None
    if not keys.verifies_hex(signer, head.content, head.signature):
        return [Finding("head", where, f"{where} is not signed by this home's key")]
    if head.digest != (entries[head.number - 1].digest if head.number else START):
        return [Finding("truncated", where, f"entry {head.number} is not the one that the ledger's head names")]
    if head.number == last:
        return []
    ends = f"the ledger's head names entry {head.number}, and the ledger ends with entry {last}"
    if head.number < last - 1:
        return [Finding("head", where, f"{ends}: an older head was put in its place")]
    return [Finding("behind", where, f"{ends}: an append did not end, or an older head was put in its place")]


def stated_losses(entries: Entries) -> Iterator[Finding]:
    """Find entries that record a loss of earlier entries."""
    for entry in entries:
        if isinstance(entry.facts, LossFacts) and entry.event == "resumed":
            where = f"entry {entry.number}"
            yield Finding("resumed", where, f"{where} records a loss of earlier entries, and its reason")


def reference_problems(entries: Entries, where: str, number: Any, digest: Any) -> Iterator[Finding]:
    """Find whether the entry that a file or a run names is missing, or is another by now."""
    there = isinstance(number, int) and 0 < number <= len(entries)
    if not there or entries[number - 1].digest != digest:
        sentence = (
            f"{where} names entry {visible(number)} of the ledger, which "
            f"{'is another now' if there else 'is not there'}: the ledger was cut off or written anew"
        )
        yield Finding("truncated", where, sentence)
