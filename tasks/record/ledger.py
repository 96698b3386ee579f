"""The record of every decision: appended, chained by hash, signed; never changed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tasks.common import keys
from tasks.common.errors import Fault, Refused, ReleaseError
from tasks.common.home import Home, account, write_private
from tasks.common.values import to_json
from tasks.record.entry import (
    KIND_OF,
    START,
    Event,
    Facts,
    Head,
    KeyFacts,
    LedgerEntry,
    LossFacts,
    ReleaseFacts,
    canonical,
    content_digest,
    entry_line,
    parse_entry,
)
from tasks.record.ledger_store import store_of
from tasks.record.ledger_verification import (
    CUT_SHORT,
    Finding,
    acceptance,
    chain_problems,
    clock_problems,
    head_problems,
    line_problems,
    read_head,
    signature_problems,
    signers_of,
    stated_losses,
)
from tasks.record.signing import key_name, next_key, signing_key

K = TypeVar("K", bound=Facts)
Entries = list[LedgerEntry[Facts]]
BEHIND = "an append did not end: the ledger's head named the entry before the last one"


def append(home: Home, event: Event, facts: K) -> LedgerEntry[K]:
    """Append one signed entry and return it.

    Each entry holds the digest of the one before it, and the signed head names the last, so that a
    changed, removed or reordered entry is found by `problems`.

    Raises
    ------
    Fault
        When the ledger does not end with the entry that its head names: going on would hide the loss.
    """
    with store_of(home).lock():
        key = signing_key(home)
        return _append(home, event, facts, _settled(home, entries(home), key), key)


def settle(home: Home) -> bool:
    """Enter that a crash came between an entry and the head that names it; return whether it did.

    Raises
    ------
    Fault
        When the ledger does not end with the entry that its head names.
    """
    store = store_of(home)
    if not store.content() and store.head() is None:
        return False
    with store.lock():
        known = entries(home)
        return len(_settled(home, known, signing_key(home))) > len(known)


def resume(home: Home, *, by: str, reason: str) -> LedgerEntry[LossFacts]:
    """Go on with a ledger whose end was lost; the new entry says which entry the head had named."""
    with store_of(home).lock():
        facts = LossFacts(by=by, reason=reason, head=read_head(home))
        return _append(home, "resumed", facts, entries(home), signing_key(home))


def entries(home: Home) -> Entries:
    """Return every entry, oldest first.

    What an append left that did not end is passed over: it was never reported. `problems` names it.

    Raises
    ------
    Fault
        When a line is not an entry.
    """
    whole, rest = _lines(home)
    parsed = [parse_entry(line) for line in whole if line.strip()]
    if None in parsed:
        raise Fault("the ledger holds a line that is not an entry; restore it from a backup")
    return [entry for entry in (*parsed, parse_entry(rest)) if entry is not None]


def last_number(home: Home) -> int:
    """Return the number of the last entry; 0 of an empty ledger."""
    return max((entry.number for entry in entries(home)[-1:]), default=0)


def find(home: Home, kind: type[K], *events: Event) -> list[LedgerEntry[K]]:
    """Return the entries with facts of this kind, of these events or of all, oldest first."""
    return select(entries(home), kind, *events)


def select(known: Sequence[LedgerEntry[Facts]], kind: type[K], *events: Event) -> list[LedgerEntry[K]]:
    """Return those of the entries that hold facts of this kind, of these events or of all."""
    chosen = (entry for entry in known if not events or entry.event in events)
    return [cast("LedgerEntry[K]", entry) for entry in chosen if isinstance(entry.facts, kind)]


def of_release(home: Home, release: str, *events: Event) -> list[LedgerEntry[ReleaseFacts]]:
    """Return the entries about one candidate or release, oldest first."""
    return [entry for entry in find(home, ReleaseFacts, *events) if entry.facts.release == release]


def last_of_releases(home: Home) -> list[LedgerEntry[ReleaseFacts]]:
    """Return the last entry about each candidate or release."""
    return list({entry.facts.release: entry for entry in find(home, ReleaseFacts)}.values())


def problems(home: Home, public: str | None = None) -> list[Finding]:
    """Return what is wrong with the ledger: changed, removed, reordered, cut off, signed by another.

    Parameters
    ----------
    public : the public key that should have signed last, as `public_key` gave it and as it was kept elsewhere; the
        home's own when not given, which can be replaced by anyone who can write there
    """
    head = store_of(home).head()
    whole, rest = _lines(home)
    known = [entry for line in (*whole, rest) if (entry := parse_entry(line)) is not None]
    findings = [*line_problems(whole, rest), *chain_problems(known), *clock_problems(known)]
    last, mismatch = _last_key(home, bool(known), public)
    findings += mismatch
    if last:
        signers, changes = signers_of(known, last)
        findings += [*changes, *signature_problems(known, signers)]
        findings += head_problems(home, head, known, signers or [last])
    return [*findings, *stated_losses(known)]


def trusted(home: Home) -> None:
    """Refuse to rely on a ledger that is not in order.

    Raises
    ------
    Refused
        With the first finding.
    """
    findings = [f.sentence for f in problems(home) if f.kind not in (*CUT_SHORT, "resumed", "clock")]
    if findings:
        raise Refused(f"the ledger is not in order, so nothing is decided: {findings[0]}; see anonflow audit verify")


# Keys


def public_keys(home: Home) -> list[str]:
    """Return every public key that has signed here, oldest first, in base64; the last is in use."""
    return [*(e.facts.old_key for e in find(home, KeyFacts)), keys.raw(signing_key(home).public_key())]


def identity(home: Home) -> str:
    """Return what distinguishes this home from others: the fingerprint of its first key."""
    return keys.fingerprint(public_keys(home)[0])


def rotate_key(home: Home, *, by: str, reason: str) -> LedgerEntry[KeyFacts]:
    """Sign with a new key from now on; return the entry, the last that the old key signs.

    The entry names both keys, and the new one signs it too, so that a history without the new key cannot be put
    before it.
    """
    with store_of(home).lock():
        old = signing_key(home)
        write_private(next_key(home), keys.new_private())
        new = keys.read_private(next_key(home), "the new key")
        known = _settled(home, entries(home), old)
        facts = KeyFacts(
            by=by, reason=reason, old_key=keys.raw(old.public_key()), new_key=keys.raw(new.public_key()), accepted=""
        )
        accepted = new.sign(acceptance(facts, known[-1].digest if known else START)).hex()
        entry = _append(home, "key-rotated", replace(facts, accepted=accepted), known, old)
        os.replace(next_key(home), home.key)
    return entry


def _last_key(home: Home, filled: bool, public: str | None) -> tuple[str, list[Finding]]:
    """Return the public key to trust, and what is wrong with the home's own; none when there is none."""
    own, wrong = "", []
    if not home.key.exists() and filled:
        wrong.append(f"the signing key {key_name(home)} is gone")
    elif public is None or os.access(home.key, os.R_OK):
        try:
            own = keys.raw(signing_key(home).public_key())
        except ReleaseError as error:
            wrong.append(str(error))
    trusted_key = own
    if public is not None:
        if (given := keys.public_of(public)) is None:
            raise Refused("the public key that was given is no Ed25519 key, in PEM form or as base64")
        trusted_key = keys.raw(given)
        if own not in ("", trusted_key):
            wrong.append("this home's key is not the one that was kept elsewhere: it was changed, or replaced")
    return trusted_key, [Finding("key", "keys", sentence) for sentence in wrong]


# Appending


def _append(home: Home, event: Event, facts: K, known: Entries, key: Ed25519PrivateKey) -> LedgerEntry[K]:
    if KIND_OF[event] is not type(facts):
        raise TypeError(f"an entry {event} holds {KIND_OF[event].__name__}, not {type(facts).__name__}")
    entry = LedgerEntry(
        number=len(known) + 1,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        event=event,
        previous=known[-1].digest if known else START,
        facts=facts,
    )
    digest = content_digest(entry)
    entry = replace(entry, digest=digest, signature=key.sign(digest.encode()).hex())
    store = store_of(home)
    if not known and store.head() is None:
        # So that a first append that does not end does not look like a head that was removed.
        store.put_head(_signed(Head(number=0, digest=START), key))
    store.append(entry.number, entry_line(entry), _signed(Head(number=entry.number, digest=entry.digest), key))
    return entry


def _settled(home: Home, known: Entries, key: Ed25519PrivateKey) -> Entries:
    """Return the entries, and one more where the head was behind: that it was must not be forgotten.

    Raises
    ------
    Fault
        When entries were cut off.
    """
    public = keys.raw(key.public_key())
    head = store_of(home).head()
    findings = head_problems(home, head, known, signers_of(known, public)[0] or [public])
    if cut := [f for f in findings if f.kind not in CUT_SHORT]:
        raise Fault(
            f"{cut[0].sentence}; nothing is entered. Restore the ledger from a backup, or state the loss "
            "with anonflow audit resume"
        )
    if not findings:
        return known
    facts = LossFacts(by=account(), reason=BEHIND, head=read_head(home))
    return [*known, _append(home, "settled", facts, known, key)]


def _signed(head: Head, key: Ed25519PrivateKey) -> bytes:
    return canonical(to_json(replace(head, signature=key.sign(head.content).hex())))


def _lines(home: Home) -> tuple[list[bytes], bytes]:
    """Return the ledger's lines, and what follows the last line end."""
    *whole, rest = store_of(home).content().split(b"\n")
    return whole, rest
