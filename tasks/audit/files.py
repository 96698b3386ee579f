"""Check releases, candidates and assessments in the home against the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from tasks.common import keys
from tasks.common.digests import sha256_of
from tasks.common.errors import ReleaseError, visible
from tasks.common.home import DOSSIER, Home
from tasks.decision.assessment_integrity import changed_pages, stored_dossier_digest
from tasks.publication.candidate import load_candidate
from tasks.publication.manifest import MANIFEST, Manifest, verify_release
from tasks.publication.signed import PUBLIC_KEY
from tasks.publication.withdraw import notice_problems
from tasks.record import ledger
from tasks.record.entry import Event, KeyFacts, LedgerEntry, ReleaseFacts
from tasks.record.ledger_verification import Entries, Finding, reference_problems
from tasks.record.pruned import Pruned

Entry = LedgerEntry[ReleaseFacts]
State = Literal[
    "published", "withdrawing", "withdrawn", "waiting", "publishing", "abandoned", "rejected", "expired", "superseded"
]
# The state of a release, or of a candidate, after an entry.
STATES: dict[Event, State] = {
    "published": "published",
    "withdrawing": "withdrawing",
    "withdrawn": "withdrawn",
    "awaiting": "waiting",
    "approved": "waiting",
    "publishing": "publishing",
    "abandoned": "abandoned",
    "rejected": "rejected",
    "expired": "expired",
    "superseded": "superseded",
}


def release_problems(home: Home, known: Entries, public_key: str | None) -> Iterator[Finding]:
    """Check that each release is as it was published, or that the notice of its withdrawal is.

    Parameters
    ----------
    public_key : the last key that has signed here, where it is known from elsewhere
    """
    signers = _signers(home, known, public_key)
    for release, (state, entry) in _release_states(known).items():
        folder, moved = _folders(home, entry)
        where = f"releases/{entry.facts.name}/{release}"
        if state in ("publishing", "withdrawing"):
            yield Finding("cut short", where, f"{where}: {state} {release} did not end; the next run settles it")
        elif state == "published":
            yield from _published(folder, where, entry, known, signers)
        elif state == "withdrawn":
            yield from _published(moved, f"withdrawn/{entry.facts.name}/{release}", entry, known, signers)
            announced = [e for e in ledger.select(known, ReleaseFacts, "withdrawing") if e.facts.release == release]
            for sentence in notice_problems(folder, announced[-1] if announced else None, signers):
                yield Finding("notice", where, f"{where}: {sentence}")


def stray_problems(home: Home, known: Entries) -> Iterator[Finding]:
    """Find whatever lies among the releases and is none, also under a name that begins with a point."""
    expected: set[Path] = set()
    for state, entry in _release_states(known).values():
        folder, moved = _folders(home, entry)
        if state in ("publishing", "withdrawing", "withdrawn"):
            expected |= {folder, moved}
        elif state == "published":
            expected.add(folder)
    strays = [
        path
        for root in (home.releases, home.withdrawn)
        for plan in (sorted(root.iterdir()) if root.is_dir() else [])
        for path in (sorted(plan.iterdir()) if plan.is_dir() else [plan])
        if path not in expected
    ]
    # Read anew, since a publication may have begun: what it puts together lies beside, under such a name.
    states = _release_states(ledger.entries(home)).values() if strays else ()
    busy = any(state in ("publishing", "withdrawing") for state, _ in states)
    for path in strays:
        if not (busy and path.name.startswith(".")):
            where = visible(path.relative_to(home.path))
            yield Finding("unknown release", where, f"{where} exists there, but the ledger has no entry about it")


def candidate_problems(home: Home, known: Entries) -> Iterator[Finding]:
    """Check that each candidate that waits is there and as it was assessed, and that there are no others."""
    last = {e.facts.release: e.event for e in ledger.select(known, ReleaseFacts, *STATES)}
    waiting = {release for release, event in last.items() if event in ("awaiting", "approved")}
    stored = {p.name for p in home.candidates.iterdir()} if home.candidates.exists() else set()
    for release in sorted(waiting):
        where = f"candidates/{release}"
        if release not in stored:
            yield Finding("candidate missing", where, f"{where} awaits a decision, and is gone")
            continue
        try:
            load_candidate(home, release)
        except ReleaseError as error:
            yield Finding("candidate changed", where, str(error))
    cut_short = {release for release, event in last.items() if event in ("abandoned", "publishing")}
    for name in sorted(stored - waiting - cut_short):
        where = f"candidates/{visible(name)}"
        yield Finding("unknown candidate", where, f"{where} lies there, and by the ledger it awaits nothing")


def assessment_problems(home: Home, known: Entries) -> Iterator[Finding]:
    """Check that the stored figures and pages are those on which it was decided."""
    entered: dict[str, dict[str, ReleaseFacts]] = {}
    for entry in ledger.select(known, ReleaseFacts):
        entered.setdefault(entry.facts.release, {})[entry.facts.dossier] = entry.facts
    pruned = Pruned.of(known).releases
    for release, by_dossier in sorted(entered.items()):
        where = f"assessments/{release}"
        digest = stored_dossier_digest(home, release)
        if digest is None and release in pruned:
            continue
        if digest is None:
            yield Finding("assessment", where, f"{where}: {DOSSIER} is gone")
        elif digest not in by_dossier:
            yield Finding("assessment", where, f"{where}: {DOSSIER} is not one on which it was decided")
        for page in changed_pages(home, by_dossier.get(digest or "", list(by_dossier.values())[-1])):
            yield Finding("assessment", where, f"{where}: {page}")


def _release_states(known: Entries) -> dict[str, tuple[State, Entry]]:
    """Return the state of each release, with the entry that says so."""
    states: dict[str, tuple[State, Entry]] = {}
    for entry in ledger.select(known, ReleaseFacts, *STATES):
        state, release = STATES[entry.event], entry.facts.release
        before = states[release][0] if release in states else ""
        # A second candidate of the same content leaves what was published where it is.
        if before not in ("published", "withdrawn") or state in ("withdrawing", "withdrawn", "published"):
            states[release] = (state, entry)
    return states


def _folders(home: Home, entry: Entry) -> tuple[Path, Path]:
    """Return where a release is, and where it is stored once it is withdrawn."""
    inside = Path(entry.facts.name, entry.facts.release)
    return home.releases / inside, home.withdrawn / inside


def _signers(home: Home, known: Entries, given: str | None) -> set[str]:
    """Return the public keys that have signed here; ``given`` is the last of them, where it is known."""
    changes = [e.facts for e in ledger.select(known, KeyFacts)]
    if changes:
        return {key for change in changes for key in (change.old_key, change.new_key)}
    last = keys.public_of(given) if given else None
    try:
        return {keys.raw(last) if last else ledger.public_keys(home)[-1]}
    except ReleaseError:
        return set()


def _published(folder: Path, where: str, entry: Entry, known: Entries, signers: set[str]) -> Iterator[Finding]:
    """Check a release's files against its manifest, and that against the ledger."""
    if not folder.is_dir():
        yield Finding("release missing", where, f"{where} was published, and is gone")
        return
    for one in verify_release(folder):
        yield Finding(one.kind, where, f"{where}: {one.sentence}")
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return
    if sha256_of(manifest) != entry.facts.manifest:
        yield Finding("manifest", where, f"{where}: {MANIFEST} is not the one that the ledger holds")
    key = keys.public_of(_text(folder / PUBLIC_KEY))
    if signers and (key is None or keys.raw(key) not in signers):
        yield Finding("foreign key", where, f"{where}: {PUBLIC_KEY} is not a key of this home")
    try:
        named = Manifest.read(folder).ledger
    except ValueError:
        return
    yield from reference_problems(known, where, named and named.entry, named and named.digest)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
