"""Check what is recorded against what is there: the ledger, the people, the releases, MLflow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tasks.audit.authorisation import theirs, unwarranted
from tasks.common import keys
from tasks.common.digests import sha256_of
from tasks.common.errors import Refused, ReleaseError, visible
from tasks.common.home import DOSSIER, Home, write_private
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.decision.assessment_integrity import changed_pages, kept_dossier
from tasks.decision.outcomes import SHOWN, show_entry
from tasks.publication.candidate import load_candidate
from tasks.publication.manifest import MANIFEST, verify_release
from tasks.publication.signed import PUBLIC_KEY
from tasks.publication.withdraw import notice_problems
from tasks.record import approvers as people
from tasks.record import holdout_key as holdout
from tasks.record import ledger
from tasks.record.ledger_verification import START, Finding
from tasks.tracking import mlflow as track
from tasks.tracking.mlflow import StoredRun

# How a release, or a candidate, stands after an entry.
STATES = {
    "published": "published",
    "withdrawing": "withdrawing",
    "withdrawn": "withdrawn",
    "awaiting": "waiting",
    "approved": "waiting",
    "publishing": "publishing",
    "abandoned": "abandoned",
    "rejected": "rejected",
    "expired": "expired",
}
HINT = (
    "Each further line is one entry. Its digest is the SHA-256 of its JSON without digest and signature, "
    "keys sorted, separators ',' and ':', non-ASCII characters escaped. Its signature, in hexadecimal, is "
    "Ed25519 over the digest's characters by the key in use. previous is the digest of the entry before, 64 "
    "zeros at first. An entry key-rotated is the last that its old_key signs."
)


def verify(
    home: Home, *, public_key: str | None = None, anchor: str | None = None, mlflow: bool = True
) -> list[Finding]:
    """Return everything that is not as the ledger says, and everything wrong with the ledger itself.

    Parameters
    ----------
    public_key : as it was kept elsewhere; without it a key that was replaced together with every signature
        is not noticed
    anchor : digest of an entry as it was kept elsewhere; without it a ledger that was put back to an older
        state, together with everything that mirrors it, is not noticed
    mlflow : whether MLflow is asked too
    """
    found = ledger.problems(home, public_key)
    if any(f.kind == "unreadable" for f in found):
        return found
    known = ledger.entries(home)
    found += _anchored(known, anchor)
    found += _of_people(home, known)
    found += _of_releases(home, known, public_key)
    found += _of_strays(home, known)
    found += _of_keys(home, known)
    found += _of_candidates(home, known)
    found += _of_assessments(home, known)
    if mlflow and not any(f.kind == "key" for f in found):
        found += _of_mlflow(home, known)
    return list(dict.fromkeys(found))


def mirror(home: Home) -> int:
    """Set the status tags in MLflow to what the ledger says, and return how many runs there are.

    Raises
    ------
    Refused
        When the ledger is not in order.
    ReleaseError
        When MLflow is not reached.
    """
    people.trusted(home)
    shown = (e for e in ledger.entries(home) if e.get("event") in SHOWN and e.get("mlflow_run"))
    last = {str(e["mlflow_run"]): e for e in shown}
    for entry in last.values():
        show_entry(home, entry)
    return len(last)


def head(home: Home) -> dict[str, Any]:
    """Return number, time and digest of the last entry, to be kept elsewhere.

    Raises
    ------
    Refused
        When nothing was entered yet.
    """
    known = ledger.entries(home)
    if not known:
        raise Refused("nothing was entered yet; there is nothing to anchor")
    return {k: known[-1].get(k) for k in ("number", "time", "digest")}


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
    first = {"anonflow_ledger": 1, "public_keys": ledger.public_keys(home), "entries": len(known)}
    first |= {"head": known[-1]["digest"] if known else START, "how_to_verify": HINT}
    lines = [json.dumps(line, sort_keys=True) for line in (first, *known)]
    write_private(target, ("\n".join(lines) + "\n").encode("ascii"))
    return len(known)


# The ledger and the people


def _anchored(known: list[dict[str, Any]], anchor: str | None) -> Iterator[Finding]:
    if anchor is not None and anchor.strip().lower() not in {e.get("digest") for e in known}:
        sentence = "no entry has the digest that was kept elsewhere: the ledger was cut off or written anew"
        yield Finding("anchor", "ledger", sentence)


def _named(known: list[dict[str, Any]], where: str, number: object, digest: object) -> Iterator[Finding]:
    """Check that an entry which something else names is there, and is the same."""
    there = isinstance(number, int) and 0 < number <= len(known)
    if not there or known[int(str(number)) - 1].get("digest") != digest:
        sentence = (
            f"{where} names entry {visible(number)} of the ledger, which "
            f"{'is another now' if there else 'is not there'}: the ledger was cut off or written anew"
        )
        yield Finding("truncated", where, sentence)


def _of_people(home: Home, known: list[dict[str, Any]]) -> Iterator[Finding]:
    """Check the list that is shown, and every decision's own signature."""
    for place, entry in enumerate(known):
        if entry.get("identity") == "verified" and not theirs(known[:place], entry):
            where = f"entry {entry.get('number')}"
            sentence = f"{where} is said to be {visible(entry.get('approver'))}'s, and their key did not sign it"
            yield Finding("approval", where, sentence)
    yield from unwarranted(known)
    shown = people.shown(people.people_of(known))
    try:
        there = json.loads(home.people.read_bytes()) if home.people.exists() else []
    except ValueError:
        there = None
    if there != shown:
        sentence = f"{home.people.name} is not the list that the ledger holds; it is not used, only shown"
        yield Finding("people", home.people.name, sentence)


# Releases and candidates


def _last(known: list[dict[str, Any]]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return how each release stands, with the entry that says so."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for entry in known:
        if entry.get("release") and entry.get("event") in STATES:
            stands = STATES[entry["event"]]
            before = found[entry["release"]][0] if entry["release"] in found else ""
            # A second candidate of the same content leaves what was published where it is.
            if before not in ("published", "withdrawn") or stands in (
                "withdrawing",
                "withdrawn",
                "published",
            ):
                found[entry["release"]] = (stands, entry)
    return found


def _of_releases(home: Home, known: list[dict[str, Any]], public_key: str | None) -> Iterator[Finding]:
    signers = _signers(home, known, public_key)
    for release, (stands, entry) in _last(known).items():
        folder, kept = (root / entry["name"] / release for root in (home.releases, home.withdrawn))
        where = f"releases/{entry['name']}/{release}"
        if stands in ("publishing", "withdrawing"):
            sentence = f"{where}: {stands} {release} did not end; the next run settles it"
            yield Finding("cut short", where, sentence)
        elif stands == "published":
            yield from _published(folder, where, entry, known, signers)
        elif stands == "withdrawn":
            yield from _published(kept, f"withdrawn/{entry['name']}/{release}", entry, known, signers)
            announced = [e for e in known if e.get("event") == "withdrawing" and e.get("release") == release]
            for sentence in notice_problems(folder, announced[-1] if announced else None, signers):
                yield Finding("notice", where, f"{where}: {sentence}")


def _of_strays(home: Home, known: list[dict[str, Any]]) -> Iterator[Finding]:
    """Find whatever lies among the releases and is none, also under a name that begins with a point."""
    expected: set[Path] = set()
    for release, (stands, entry) in _last(known).items():
        folder, kept = (root / entry["name"] / release for root in (home.releases, home.withdrawn))
        if stands in ("publishing", "withdrawing", "withdrawn"):
            expected |= {folder, kept}
        elif stands == "published":
            expected.add(folder)
    found = [
        path
        for root in (home.releases, home.withdrawn)
        for path in (sorted(root.iterdir()) if root.is_dir() else [])
        for path in (sorted(path.iterdir()) if path.is_dir() else [path])
        if path not in expected
    ]
    # Read anew, since a publication may have begun: what it puts together lies beside, under such a name.
    busy = found and {"publishing", "withdrawing"} & {s for s, _ in _last(ledger.entries(home)).values()}
    for path in found:
        if not (busy and path.name.startswith(".")):
            where = visible(path.relative_to(home.path))
            yield Finding("unknown release", where, f"{where} stands there, and the ledger does not know it")


def _of_keys(home: Home, known: list[dict[str, Any]]) -> Iterator[Finding]:
    """Check the keys that sign nothing: that behind keyed digests, and that behind who is held out."""
    problem = _of_digest_key(home, any(e.get("event") == "key-rotated" for e in known))
    if problem:
        where = f"{home.digest_key.parent.name}/{home.digest_key.name}"
        yield Finding("digest key", where, f"{where} {problem}, so keyed digests are not what they were")
        return
    try:
        another = home.key.exists() and holdout.is_another(home)
    except (OSError, ReleaseError):
        # What is wrong with the key that signs is named elsewhere, and an auditor may not read any.
        return
    if another:
        gone = "is gone" if not home.holdout.exists() else "is not the key of the earlier runs"
        where = f"{home.holdout.parent.name}/{home.holdout.name}"
        yield Finding("holdout", where, f"{where} {gone}: others would be held out")


def _of_digest_key(home: Home, changed: bool) -> str:
    """Return what is wrong with the key behind keyed digests: it is the first one, once that has changed."""
    if not home.digest_key.exists():
        return "is gone" if changed else ""
    try:
        own = keys.raw(keys.read_private(home.digest_key, "it").public_key())
    except PermissionError:
        return ""
    except ReleaseError:
        return "cannot be read, or can be by others"
    try:
        return "" if own == ledger.public_keys(home)[0] else "is not the first key of this home"
    except (OSError, ReleaseError):
        return ""


def _signers(home: Home, known: list[dict[str, Any]], given: str | None) -> set[str]:
    """Return the public keys that have signed here; ``given`` is the last of them, where it is known."""
    changes = [e for e in known if e.get("event") == "key-rotated"]
    last = keys.public_of(given) if given else None
    own = {keys.raw(last)} if last else _own_key(home)
    return {str(e.get(k)) for e in changes for k in ("old_key", "new_key")} or own


def _own_key(home: Home) -> set[str]:
    try:
        return {ledger.public_keys(home)[-1]}
    except ReleaseError:
        return set()


def _published(
    folder: Path, where: str, entry: dict[str, Any], known: list[dict[str, Any]], signers: set[str]
) -> Iterator[Finding]:
    """Check a release's files against its manifest, and that against the ledger."""
    if not folder.is_dir():
        yield Finding("release missing", where, f"{where} was published, and is gone")
        return
    for one in verify_release(folder):
        yield Finding(one.kind, where, f"{where}: {one.sentence}")
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return
    if sha256_of(manifest) != entry.get("manifest"):
        yield Finding("manifest", where, f"{where}: {MANIFEST} is not the one that the ledger holds")
    key = keys.public_of(_text(folder / PUBLIC_KEY))
    if signers and (key is None or keys.raw(key) not in signers):
        yield Finding("foreign key", where, f"{where}: {PUBLIC_KEY} is no key of this home")
    try:
        named = json.loads(manifest.read_bytes()).get("ledger") or {}
    except (ValueError, AttributeError):
        return
    yield from _named(known, where, named.get("entry"), named.get("digest"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""


def _of_candidates(home: Home, known: list[dict[str, Any]]) -> Iterator[Finding]:
    waiting = {entry["release"] for entry in _latest(known).values() if entry["event"] in ("awaiting", "approved")}
    there = {p.name for p in home.candidates.iterdir()} if home.candidates.exists() else set()
    for release in sorted(waiting):
        where = f"candidates/{release}"
        if release not in there:
            yield Finding("candidate missing", where, f"{where} awaits a decision, and is gone")
            continue
        try:
            load_candidate(home, release)
        except ReleaseError as error:
            yield Finding("candidate changed", where, str(error))
    abandoned = {e["release"] for e in _latest(known).values() if e["event"] in ("abandoned", "publishing")}
    for name in sorted(there - waiting - abandoned):
        where = f"candidates/{visible(name)}"
        yield Finding("unknown candidate", where, f"{where} lies there, and by the ledger it awaits nothing")


def _latest(known: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {str(e["release"]): e for e in known if e.get("release") and e.get("event") in STATES}


def _of_assessments(home: Home, known: list[dict[str, Any]]) -> Iterator[Finding]:
    """Check that the figures and pages which are kept are those on which it was decided."""
    told: dict[str, dict[str, dict[str, Any]]] = {}
    for entry in known:
        if entry.get("release") and "dossier" in entry:
            told.setdefault(entry["release"], {})[str(entry["dossier"])] = entry
    for release, decided in sorted(told.items()):
        where = f"assessments/{release}"
        digest = kept_dossier(home, release)
        if digest is None:
            yield Finding("assessment", where, f"{where}: {DOSSIER} is gone")
        elif digest not in decided:
            sentence = f"{where}: {DOSSIER} is not one on which it was decided"
            yield Finding("assessment", where, sentence)
        for page in changed_pages(home, decided.get(digest or "", list(decided.values())[-1])):
            yield Finding("assessment", where, f"{where}: {page}")


# MLflow


def _of_mlflow(home: Home, known: list[dict[str, Any]]) -> Iterator[Finding]:
    """Check each tracked run against what was read back when it was made, and its tags against the ledger."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for entry in known:
        if entry.get("mlflow_run"):
            runs.setdefault(str(entry["mlflow_run"]), []).append(entry)
    found: list[Finding] = []
    try:
        with _scratch(home):
            for run, told in runs.items():
                found += _of_run(run, told, track.stored_run(run))
        for tags in track.recorded(ledger.identity(home)):
            number, _, digest = tags.get("release.entry", "").partition(" ")
            where = f"the MLflow run of {visible(tags.get('release.id', 'a release'))}"
            found += _named(known, where, int(number) if number.isdecimal() else None, digest)
    except ReleaseError as error:
        sentence = f"MLflow was not reached, so its runs are not checked: {error}"
        found.append(Finding("mlflow not reached", "mlflow", sentence))
    yield from found


@contextmanager
def _scratch(home: Home) -> Iterator[None]:
    """Let what is downloaded lie in a workspace of the home, which the next run wipes if this is killed."""
    with ExitStack() as stack:
        # Where the home cannot be written to, the system's temporary folder has to do. Nothing is drawn.
        with suppress(OSError):
            stack.enter_context(Run.opened(home, SeedSection(public=0, data_are_public=True)))
        yield


def _of_run(run: str, told: list[dict[str, Any]], now: StoredRun | None) -> Iterator[Finding]:
    where = f"MLflow run {run} of {told[-1].get('release')}"
    if now is None or now.deleted:
        yield Finding("mlflow deleted", where, f"{where} was deleted")
    if now is None:
        return
    kept = told[-1].get("mlflow") or {}
    for part, digest in kept.items():
        if now.parts.get(part) != digest:
            named = {"run": "experiment, user, times or end", "history": "metrics' histories"}.get(part, part)
            yield Finding(f"mlflow {part}", where, f"{where}: its {named} are not those that were logged")
    yield from _of_decision(where, told, now.tags)
    shown = [SHOWN[str(e["event"])] for e in told if e.get("event") in SHOWN]
    said = now.tags.get("release.status")
    if shown and said != shown[-1]:
        sentence = (
            f"{where}: its status says {visible(said)}, and the ledger {shown[-1]}; it was edited, or MLflow "
            "could not be reached when it was decided (anonflow audit mirror sets it right)"
        )
        yield Finding("mlflow status", where, sentence)


def _of_decision(where: str, told: list[dict[str, Any]], tags: Mapping[str, str]) -> Iterator[Finding]:
    """Check who decided and why, as the tags of a run say it, against the decisions in the ledger.

    The last decision is not asked for: one that a crash has cut short is carried out without these tags.
    """
    for key in ("approver", "approval_reason"):
        said = tags.get(f"release.{key}")
        if said is not None and not any(people.same(said, track.tag(e[key])) for e in told if key in e):
            sentence = f"{where}: its tag release.{key} is in no decision of the ledger about it"
            yield Finding("mlflow decision", where, sentence)
