"""What can be wrong with the ledger: its chain, its signatures, its head; and what these are made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasks.common import keys
from tasks.common.home import Home

START = "0" * 64
# What is entered beside the facts.
CHAIN = ("number", "time", "event", "previous", "digest", "signature")
# What a crash in the middle of an append leaves; the next append settles it.
CUT_SHORT = ("unfinished", "behind")


@dataclass(frozen=True)
class Finding:
    """What is not as it was left: a kind for scripts, where it is, and a sentence."""

    kind: str
    where: str
    sentence: str


def parsed_line(line: bytes) -> dict[str, Any] | None:
    """Return the entry, or the head, that a line holds; None when it holds none."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def entry_digest(body: dict[str, Any]) -> str:
    """Return the digest of an entry without digest and signature."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def chain_problems(known: list[dict[str, Any]]) -> list[Finding]:
    """Return which entries do not follow the one before them, and which are not what they were."""
    numbers = {entry.get("number") for entry in known}
    found = []
    before, number_before = START, 0
    for place, entry in enumerate(known, start=1):
        number = entry.get("number")
        number = number if isinstance(number, int) else place
        where = f"entry {place}"
        if entry.get("previous") != before or entry.get("number") != number_before + 1:
            lost = any(n not in numbers for n in range(number_before + 1, number))
            kind = "removed" if lost else "reordered" if number != number_before + 1 else "chain"
            why = {"removed": ": entries were removed", "reordered": ": the order was changed"}.get(kind, "")
            found.append(Finding(kind, where, f"{where} does not follow the one before it{why}"))
        if entry.get("digest") != entry_digest({k: v for k, v in entry.items() if k not in CHAIN[-2:]}):
            found.append(Finding("changed", where, f"{where} was changed"))
        before, number_before = str(entry.get("digest")), number
    return found


def signers_of(known: list[dict[str, Any]], last: str) -> tuple[list[str], list[Finding]]:
    """Return who should have signed each entry, going back from the key that is trusted.

    A change of keys counts when the new key has accepted it: who holds none of ours cannot put another
    history before it.
    """
    changes = [(place, e) for place, e in enumerate(known) if e.get("event") == "key-rotated"]
    signers, found = [last] * len(known), []
    key = last
    for place, entry in reversed(changes):
        where = f"entry {place + 1}"
        new = keys.public_of(str(entry.get("new_key")))
        agreed = keys.holds_hex(new, acceptance(entry, entry.get("previous")), entry.get("accepted"))
        if entry.get("new_key") != key or not agreed:
            sentence = f"{where} names a new key that is not the one which signs after it"
            found.append(Finding("key", where, sentence))
            break
        key = str(entry.get("old_key"))
        signers[: place + 1] = [key] * (place + 1)
    return signers, found


def signature_problems(known: list[dict[str, Any]], signers: Sequence[str]) -> list[Finding]:
    """Return which entries are not signed by those who should have."""
    public = {text: keys.public_of(text) for text in set(signers)}
    return [
        Finding("signature", f"entry {place}", f"entry {place} is not signed by this home's key")
        for place, (entry, signer) in enumerate(zip(known, signers, strict=True), start=1)
        if not keys.holds_hex(public[signer], str(entry.get("digest")).encode(), entry.get("signature"))
    ]


def read_head(home: Home) -> dict[str, Any] | None:
    """Return the head that stands in the home; None when none does, or none that can be read."""
    return parsed_line(home.head.read_bytes()) if home.head.exists() else None


def head_content(head: dict[str, Any]) -> bytes:
    """Return what is signed of a head."""
    return f"anonflow head {head.get('number')} {head.get('digest')}".encode()


def head_problems(home: Home, known: list[dict[str, Any]], signers: Sequence[str]) -> list[Finding]:
    """Return whether the head names the last entry, signed; else entries may have been cut off."""
    head = read_head(home)
    where = home.head.name
    if head is None:
        gone = "is gone" if not home.head.exists() else "cannot be read"
        sentence = f"{where}, which names the last entry, {gone}: whether entries were cut off is not known"
        return [Finding("head", where, sentence)] if known or home.head.exists() else []
    number = head.get("number")
    if not isinstance(number, int) or number > len(known):
        sentence = f"the ledger ends with entry {len(known)}, and its head names entry {number}: it was cut off"
        return [Finding("truncated", where, sentence)]
    signer = keys.public_of(signers[max(number, 1) - 1]) if number >= 0 else None
    if not keys.holds_hex(signer, head_content(head), head.get("signature")):
        return [Finding("head", where, f"{where} is not signed by this home's key")]
    if head.get("digest") != (known[number - 1].get("digest") if number else START):
        return [Finding("truncated", where, f"entry {number} is not the one that the ledger's head names")]
    if number < len(known):
        ends = f"the ledger's head names entry {number}, and the ledger ends with entry {len(known)}"
        if number < len(known) - 1:
            return [Finding("head", where, f"{ends}: an older head was put in its place")]
        sentence = f"{ends}: an append did not end, or an older head was put in its place"
        return [Finding("behind", where, sentence)]
    return []


def acceptance(named: dict[str, Any], previous: object) -> bytes:
    """Return what a new key signs of the change that brings it in."""
    return f"anonflow key {named.get('old_key')} {named.get('new_key')} {previous}".encode()


def entry_line(entry: dict[str, Any]) -> bytes:
    """Return how an entry is written: in one form only, so that no other text reads as the same entry."""
    return json.dumps(entry, sort_keys=True).encode("ascii")


def form_problems(lines: Sequence[bytes], found: Sequence[Finding]) -> list[Finding]:
    """Return which lines read as their entry and are not what was written: spaces, order, doubled keys."""
    known = {f.where for f in found if f.kind in ("changed", "unreadable")}
    changed, place = [], 0
    for line in lines:
        if not line.strip():
            changed.append(Finding("changed", "ledger", "the ledger holds an empty line, which nobody enters"))
            continue
        place += 1
        where, entry = f"entry {place}", parsed_line(line)
        if entry is not None and where not in known and line != entry_line(entry):
            changed.append(Finding("changed", where, f"{where} is not written as it was entered"))
    return changed
