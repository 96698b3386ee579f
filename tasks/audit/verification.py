"""Check what is recorded against what is there: the ledger, the approvers, the releases, MLflow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

from tasks.audit import timestamps
from tasks.audit.files import assessment_problems, candidate_problems, release_problems, stray_problems
from tasks.audit.tracked_runs import run_problems
from tasks.common.errors import Refused, ReleaseError, visible
from tasks.common.home import Home, write_private
from tasks.decision.outcomes import SHOWN, show_entry
from tasks.record import approvers, ledger, secret_keys
from tasks.record.entry import FORMAT, START, Facts, LedgerEntry, ReleaseFacts, canonical, entry_json
from tasks.record.ledger_verification import Entries, Finding
from tasks.record.replay import unauthorised
from tasks.tracking.curves import mirror_curves

HINT = (
    "Each further line is one entry. Its digest is the SHA-256 of its JSON without digest and signature, "
    "keys sorted, separators ',' and ':', non-ASCII characters escaped. Its signature, in hexadecimal, is "
    "Ed25519 over the digest's characters by the key in use. previous is the digest of the entry before, 64 "
    "zeros at first. An entry key-rotated is the last that its old_key signs."
)


def verify(
    home: Home,
    *,
    public_key: str | None = None,
    anchor: str | None = None,
    roots: bytes | None = None,
    mlflow: bool = True,
) -> list[Finding]:
    """Return everything that is not as the ledger says, and everything wrong with the ledger itself.

    Parameters
    ----------
    public_key : as it was kept elsewhere; without it a key that was replaced together with every signature
        is not noticed
    anchor : digest of an entry as it was kept elsewhere; without it a ledger that was put back to an older
        state, together with everything that mirrors it, is not noticed
    roots : certificates in PEM form of authorities whose time stamps are trusted; without them it is not checked
        who has stamped
    mlflow : whether MLflow is asked too
    """
    problems = ledger.problems(home, public_key)
    if any(f.kind == "unreadable" for f in problems):
        return problems
    known = ledger.entries(home)
    problems += _anchored(known, anchor)
    problems += timestamps.problems(home, known, roots)
    problems += unauthorised(known)
    problems += _shown_list(home, known)
    problems += release_problems(home, known, public_key)
    problems += stray_problems(home, known)
    problems += _secret_keys(home, known)
    problems += candidate_problems(home, known)
    problems += assessment_problems(home, known)
    if mlflow and not any(f.kind == "key" for f in problems):
        problems += run_problems(home, known)
    return list(dict.fromkeys(problems))


def mirror(home: Home) -> int:
    """Set status tags, registry and curves in MLflow to what the ledger says, and return how many runs there are.

    Raises
    ------
    Refused
        When the ledger is not in order.
    ReleaseError
        When MLflow is not reached.
    """
    ledger.trusted(home)
    last = {e.facts.mlflow_run: e for e in ledger.find(home, ReleaseFacts, *SHOWN)}
    # In the order of the ledger, so that the newest release has the alias.
    for entry in sorted(last.values(), key=attrgetter("number")):
        show_entry(home, entry)
    for plan in {entry.facts.name for entry in last.values()}:
        mirror_curves(home, plan, whole=True)
    return len(last)


def last_entry(home: Home) -> LedgerEntry[Facts]:
    """Return the last entry, whose number, time and digest are to be kept elsewhere.

    Raises
    ------
    Refused
        When nothing was entered yet.
    """
    known = ledger.entries(home)
    if not known:
        raise Refused("nothing was entered yet; there is nothing to anchor")
    return known[-1]


def export(home: Home, target: Path) -> int:
    """Write the ledger to a file for auditors, one JSON object a line; return the number of entries.

    The first line holds the public keys and says how the others are verified. There are no data in it.

    Raises
    ------
    Refused
        When the file exists.
    """
    if target.exists():
        raise Refused(f"{visible(target.name)} exists already; nothing is overwritten")
    known = ledger.entries(home)
    first = {
        "anonflow_ledger": FORMAT,
        "public_keys": ledger.public_keys(home),
        "entries": len(known),
        "head": known[-1].digest if known else START,
        "how_to_verify": HINT,
    }
    lines = [canonical(form) for form in (first, *map(entry_json, known))]
    write_private(target, b"\n".join(lines) + b"\n")
    return len(known)


def _anchored(known: Entries, anchor: str | None) -> Iterator[Finding]:
    if anchor is not None and anchor.strip().lower() not in {e.digest for e in known}:
        sentence = "no entry has the digest that was kept elsewhere: the ledger was cut off or written anew"
        yield Finding("anchor", "ledger", sentence)


def _shown_list(home: Home, known: Entries) -> Iterator[Finding]:
    """Check the list of approvers that is shown."""
    try:
        shown = json.loads(home.approvers.read_bytes()) if home.approvers.exists() else []
    except ValueError:
        shown = None
    if shown != approvers.shown(approvers.listed_by(known)):
        where = home.approvers.name
        yield Finding("approvers", where, f"{where} is not the list that the ledger holds; it is not used, only shown")


def _secret_keys(home: Home, known: Entries) -> list[Finding]:
    """Check the secrets that sign nothing; an auditor may not be allowed to read them."""
    try:
        return secret_keys.problems(home, known)
    except (OSError, ReleaseError):
        return []
