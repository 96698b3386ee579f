"""Hand a published release over to tables and folders elsewhere, and take it back when it is withdrawn.

The release at home is whole before anything is delivered. Each delivery is announced in the ledger and then
confirmed, so that one a crash has cut short is seen; it can be done again, for what stands there already is
recognised. Entries name the release as ``delivers``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tasks.common.digests import digest_of
from tasks.common.errors import Fault, Refused, ReleaseError, visible
from tasks.common.home import Home, account
from tasks.common.secrets import secret
from tasks.connectors.postgres import OURS, keep_table, remove_table
from tasks.connectors.storage import Place, is_address, local_place, open_place
from tasks.publication.publish import MANIFEST, PUBLIC_KEY, RELEASE_ID, SIGNATURE, verify_release
from tasks.publication.targets import Target, table_of
from tasks.publication.withdraw import NOTICE, NOTICE_SIGNATURE, notice_problems
from tasks.record import ledger
from tasks.record.ledger_verification import CHAIN

LOCK = "deliver.lock"
EVENTS: tuple[ledger.Event, ...] = ("delivering", "delivered", "delivery failed", "recalled", "recall failed")
DATA = ("data.parquet", "data.csv")


def deliver(home: Home, release_id: str, target: Target) -> str:
    """Hand a published release over to one target; return where it stands there.

    It may be repeated: what stands there already and is whole is left as it is, anything else is completed.
    A table is put in place in one transaction. In a folder the manifest comes last, so that whoever waits
    for it finds a whole release; every file is read back and compared.

    Raises
    ------
    Refused
        When it is not published or was withdrawn, when a secret is missing, or when the target does not take
        it; what stood there before stands there still.
    InputOutputFault
        When the target cannot be reached; trying again may help.
    """
    with ledger.locked(home, LOCK):
        folder = _published(home, release_id)
        manifest = (folder / MANIFEST).read_bytes()
        known = json.loads(manifest)
        place = target.place(release_id, known["version"])
        facts = {
            "delivers": release_id,
            "name": known["name"],
            "by": account(),
            "manifest": hashlib.sha256(manifest).hexdigest(),
            "target": target.facts(),
            "place": place,
        }
        ledger.append(home, "delivering", **facts)
        try:
            if target.table is not None:
                _to_table(home, target, place, folder, _mark(release_id, facts["manifest"]))
            else:
                _to_folder(_open(home, target, place), folder, manifest)
        except ReleaseError as error:
            ledger.append(home, "delivery failed", **facts, reason=str(error))
            raise
        ledger.append(home, "delivered", **facts)
    return place


def ready(home: Home, targets: Iterable[Target]) -> None:
    """Refuse targets whose secrets are not there, before anything is published."""
    for target in targets:
        for name in (target.database, target.storage):
            if name is not None:
                secret(name, home)


def recall(home: Home, release_id: str) -> list[str]:
    """Take a release back from wherever it was delivered; return what could not be done, a sentence each.

    To be called once the ledger says that the release is being withdrawn. It may be repeated. A table is
    dropped, or emptied where views depend on it; in a folder the manifest and the data are removed and
    the notice of the withdrawal is put there. What holds another release by now is left alone.
    """
    problems = []
    with ledger.locked(home, LOCK):
        for last in _last_by_place(home).values():
            if last["delivers"] != release_id or last["event"] == "recalled":
                continue
            facts = {k: v for k, v in last.items() if k not in (*CHAIN, "reason")}
            facts |= {"by": account()}
            try:
                _take_back(home, Target.model_validate(last["target"]), last)
            except ReleaseError as error:
                ledger.append(home, "recall failed", **facts, reason=str(error))
                problems.append(f"{Target.model_validate(last['target']).shown}: {error}")
            else:
                ledger.append(home, "recalled", **facts)
    return problems


def pending(home: Home, release_id: str, targets: Iterable[Target]) -> list[Target]:
    """Return the targets at which a release does not stand, by what the ledger says."""
    wanted, last, found = tuple(targets), _last_by_place(home), []
    if not wanted:
        return []
    version = json.loads((_published(home, release_id) / MANIFEST).read_bytes())["version"]
    for target in wanted:
        entry = last.get((_where(target.facts()), target.place(release_id, version)))
        if not (entry and entry["event"] == "delivered" and entry["delivers"] == release_id):
            found.append(target)
    return found


def cut_short(home: Home, name: str) -> list[tuple[str, Target]]:
    """Return the deliveries of a plan's releases that were announced last and neither ended nor failed."""
    gone = withdrawn(home)
    return [
        (entry["delivers"], Target.model_validate(entry["target"]))
        for entry in _last_by_place(home).values()
        if entry["event"] == "delivering" and entry["name"] == name and entry["delivers"] not in gone
    ]


def targets_of(home: Home, release_id: str) -> list[Target]:
    """Return where a release belongs: what its plan said, and where it was delivered since."""
    stated = [e["target"] for e in ledger.find(home, "delivering", delivers=release_id)]
    published = ledger.find(home, "published", release=release_id)
    try:
        dossier = home.dossier(release_id) if RELEASE_ID.fullmatch(release_id) else {}
        digest = dossier.pop("sha256", None)
        if published and digest == digest_of(dossier) == published[-1]["dossier"]:
            stated = [*dossier["release"].get("to", ()), *stated]
        found = [Target.model_validate(one) for one in stated]
    except (OSError, ValueError, AttributeError, KeyError, TypeError, ValidationError):
        found = [Target.model_validate(one) for one in stated]
    return list({(_where(t.facts()), t.table or t.folder): t for t in found}.values())


def withdrawn(home: Home) -> set[str]:
    """Return the releases that are withdrawn, or are being so."""
    return {e["release"] for e in ledger.entries(home) if e["event"] in ("withdrawing", "withdrawn")}


def _published(home: Home, release_id: str) -> Path:
    """Return the folder of a published release that is what it was."""
    events = ledger.find(home, "published", release=release_id) if RELEASE_ID.fullmatch(release_id) else []
    shown = visible(Path(release_id).name)
    if not events:
        raise Refused(f"no release {shown!r} is published; see anonflow list")
    if release_id in withdrawn(home):
        raise Refused(f"{shown} is withdrawn and is not delivered any more")
    folder: Path = home.releases / events[-1]["name"] / release_id
    if found := verify_release(folder):
        said = "; ".join(one.sentence for one in found)
        raise Fault(f"{shown} is no longer what was published: {said}; restore it from a backup")
    return folder


def _last_by_place(home: Home) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the last entry about each place at which a release was to stand."""
    found = {}
    for entry in ledger.entries(home):
        if entry["event"] in EVENTS:
            found[_where(entry["target"]), entry["place"]] = entry
    return found


def _where(facts: dict[str, Any]) -> str:
    """Return in which database or storage a target is."""
    return f"database {facts['database']}" if "table" in facts else f"storage {facts.get('storage', '')}"


def _mark(release_id: str, manifest: str = "") -> str:
    return f"{OURS}release {release_id} manifest {manifest}"


# Tables


def _to_table(home: Home, target: Target, place: str, folder: Path, mark: str) -> None:
    parquet = folder / DATA[0]
    if not parquet.is_file():
        raise Refused("a table is filled from data.parquet, which this release does not have; add it to formats")
    address = secret(str(target.database), home)
    keep_table(address, table_of(place), parquet, mark, target.if_exists)


# Folders


def _open(home: Home, target: Target, place: str) -> Place:
    if is_address(place):
        return open_place(place, target.storage, home)
    return local_place(Path(place))


def _to_folder(place: Place, folder: Path, manifest: bytes) -> None:
    """Write what is not there yet, the manifest last; nothing of another release is overwritten."""
    standing = (place / MANIFEST).read()
    if standing is not None and standing != manifest:
        raise Refused(f"{place.shown} holds another release there; it is not overwritten")
    place.make_folder()
    files: dict[str, str] = json.loads(manifest)["files"]
    own = {name: _digest(folder / name) for name in (SIGNATURE, PUBLIC_KEY)}
    for name, digest in (files | own).items():
        if (place / name).digest() == digest:
            continue
        (place / name).put(folder / name)
        if (place / name).digest() != digest:
            raise Fault(f"{name} read back from {place.shown} is not what was written; the manifest is held back")
    if standing is None:
        (place / MANIFEST).put_whole(manifest)
        if (place / MANIFEST).read() != manifest:
            raise Fault(f"{MANIFEST} read back from {place.shown} is not what was written")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _take_back(home: Home, target: Target, entry: dict[str, Any]) -> None:
    release_id, place = entry["delivers"], entry["place"]
    if target.table is not None:
        left = f"{OURS}withdrawn {release_id}"
        remove_table(secret(str(target.database), home), table_of(place), _mark(release_id), left)
        return
    there = _open(home, target, place)
    names = there.names()
    if not names:
        return
    (there / MANIFEST).remove()
    signed = home.releases / entry["name"] / release_id
    forged = _notice_problems(home, release_id, signed) if (signed / NOTICE).is_file() else []
    for name in (NOTICE_SIGNATURE, NOTICE):
        if (signed / name).is_file() and not forged:
            (there / name).put_whole((signed / name).read_bytes())
    if forged or not (signed / NOTICE).is_file():
        (there / NOTICE).put_whole((json.dumps({"release": release_id}) + "\n").encode())
    for name in names:
        if name in DATA:
            (there / name).remove()
    if forged:
        raise Fault(
            "the data are removed, and the notice of the withdrawal is not put there: at home it is not in "
            f"order: {'; '.join(forged)}; restore releases/{entry['name']}/{release_id} from a backup"
        )


def _notice_problems(home: Home, release_id: str, folder: Path) -> list[str]:
    announced = ledger.find(home, "withdrawing", release=release_id)
    return notice_problems(folder, announced[-1] if announced else None, ledger.public_keys(home))
