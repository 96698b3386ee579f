"""Deliver published releases to tables and folders elsewhere, and recall them when they are withdrawn.

The release at home is whole before anything is delivered. Each delivery is announced in the ledger and then
confirmed, so that one a crash has cut short is seen; it can be done again, for what stands there already is
recognised.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from tasks.common.digests import sha256_of
from tasks.common.errors import Fault, Refused, ReleaseError, visible
from tasks.common.home import Home, account
from tasks.common.secrets import secret
from tasks.connectors.postgres.table import OURS, keep_table, remove_table
from tasks.connectors.storage import Location, is_address, local_location, open_location
from tasks.publication.candidate import RELEASE_ID, is_data_file
from tasks.publication.manifest import MANIFEST, SIGNATURE, Manifest, verify_release
from tasks.publication.signed import PUBLIC_KEY
from tasks.publication.targets import Target, table_of
from tasks.publication.withdraw import NOTICE, NOTICE_SIGNATURE, notice_problems
from tasks.record import ledger
from tasks.record.dossier import read_dossier
from tasks.record.entry import DeliveryFacts, LedgerEntry, ReleaseFacts, TargetFacts


def deliver(home: Home, release_id: str, target: Target) -> str:
    """Deliver a published release to one target; return its place there.

    It may be repeated: what stands there already and is whole is left as it is, anything else is completed.
    A table is put in place in one transaction. In a folder the manifest comes last, so that a reader who waits
    for it finds a whole release; every file is read back and compared.

    Raises
    ------
    Refused
        When it is not published or was withdrawn, when a secret is missing, or when the target does not take
        it; what stood there before stands there still.
    InputOutputFault
        When the target cannot be reached; trying again may help.
    """
    with home.lock("deliver"):
        folder = _published(home, release_id)
        manifest = Manifest.read(folder)
        place = target.place(release_id, manifest.version)
        delivery = DeliveryFacts(
            by=account(),
            release=release_id,
            name=manifest.name,
            manifest=sha256_of(folder / MANIFEST),
            target=target.facts,
            place=place,
        )
        ledger.append(home, "delivering", delivery)
        try:
            if target.table is not None:
                _to_table(home, delivery, folder)
            else:
                _to_folder(_open(home, delivery), folder, manifest.files)
        except ReleaseError as error:
            ledger.append(home, "delivery failed", replace(delivery, reason=str(error)))
            raise
        ledger.append(home, "delivered", delivery)
    return place


def ready(home: Home, targets: Iterable[Target]) -> None:
    """Refuse targets whose secrets are not there, before anything is published."""
    for target in targets:
        for name in (target.database, target.storage):
            if name is not None:
                secret(name, home)


def recall(home: Home, release_id: str) -> list[str]:
    """Take a release back from every place of delivery; return what could not be done, a sentence each.

    To be called once the ledger says that the release is being withdrawn. It may be repeated. A table is
    dropped, or emptied where views depend on it; in a folder the manifest and the data are removed and
    the notice of the withdrawal is put there. What holds another release by now is left alone.
    """
    problems = []
    with home.lock("deliver"):
        for last in _last_by_place(home).values():
            if last.facts.release != release_id or last.event == "recalled":
                continue
            delivery = replace(last.facts, by=account(), reason="")
            try:
                _take_back(home, delivery)
            except ReleaseError as error:
                ledger.append(home, "recall failed", replace(delivery, reason=str(error)))
                problems.append(f"{Target.of(delivery.target).shown}: {error}")
            else:
                ledger.append(home, "recalled", delivery)
    return problems


def pending(home: Home, release_id: str, targets: Iterable[Target]) -> list[Target]:
    """Return the targets that lack a release, according to the ledger."""
    targets, last = tuple(targets), _last_by_place(home)
    if not targets:
        return []
    version = Manifest.read(_published(home, release_id)).version

    def delivered(target: Target) -> bool:
        entry = last.get((target.facts.system, target.place(release_id, version)))
        return entry is not None and (entry.event, entry.facts.release) == ("delivered", release_id)

    return [target for target in targets if not delivered(target)]


def cut_short(home: Home, name: str) -> list[tuple[str, Target]]:
    """Return the deliveries of a plan's releases that were announced last and neither ended nor failed."""
    gone = withdrawn(home)
    return [
        (entry.facts.release, Target.of(entry.facts.target))
        for entry in _last_by_place(home).values()
        if entry.event == "delivering" and entry.facts.name == name and entry.facts.release not in gone
    ]


def targets_of(home: Home, release_id: str) -> list[Target]:
    """Return the targets of a release: those that its plan states, and those of later deliveries."""
    deliveries = [entry.facts for entry in ledger.find(home, DeliveryFacts, "delivering")]
    published = ledger.of_release(home, release_id, "published")
    stated: tuple[TargetFacts, ...] = ()
    try:
        dossier = read_dossier(home, release_id) if published else None
    except (OSError, Refused):
        dossier = None
    if dossier is not None and dossier.digest == published[-1].facts.dossier:
        stated = dossier.release.targets
    targets = (*stated, *(facts.target for facts in deliveries if facts.release == release_id))
    return list({(facts.system, facts.table or facts.folder): Target.of(facts) for facts in targets}.values())


def withdrawn(home: Home) -> set[str]:
    """Return the releases that are withdrawn, or are being so."""
    return {e.facts.release for e in ledger.find(home, ReleaseFacts, "withdrawing", "withdrawn")}


def _published(home: Home, release_id: str) -> Path:
    """Return the folder of a published release that is what it was."""
    events = ledger.of_release(home, release_id, "published") if RELEASE_ID.fullmatch(release_id) else []
    shown = visible(Path(release_id).name)
    if not events:
        raise Refused(f"no release {shown!r} is published; see anonflow list")
    if release_id in withdrawn(home):
        raise Refused(f"{shown} is withdrawn and is not delivered any more")
    folder: Path = home.releases / events[-1].facts.name / release_id
    if differences := verify_release(folder):
        problem = "; ".join(one.sentence for one in differences)
        raise Fault(f"{shown} is no longer what was published: {problem}; restore it from a backup")
    return folder


def _last_by_place(home: Home) -> dict[tuple[str, str], LedgerEntry[DeliveryFacts]]:
    """Return the last entry about each place of a release."""
    return {(entry.facts.target.system, entry.facts.place): entry for entry in ledger.find(home, DeliveryFacts)}


def _open(home: Home, delivery: DeliveryFacts) -> Location:
    """Return the folder of a delivery."""
    if is_address(delivery.place):
        return open_location(delivery.place, delivery.target.storage, home)
    return local_location(Path(delivery.place))


def _to_table(home: Home, delivery: DeliveryFacts, folder: Path) -> None:
    parts = sorted(path for path in folder.glob("*.parquet") if is_data_file(path.name))
    if not parts:
        raise Refused("a table is filled from Parquet files, which this release does not have; add parquet to formats")
    target = Target.of(delivery.target)
    address = secret(str(target.database), home)
    mark = f"{OURS}release {delivery.release} manifest {delivery.manifest}"
    keep_table(address, table_of(delivery.place), parts, mark, target.if_exists)


def _to_folder(place: Location, folder: Path, files: Mapping[str, str]) -> None:
    """Write what is not there yet, the manifest last; nothing of another release is overwritten."""
    manifest, standing = (folder / MANIFEST).read_bytes(), (place / MANIFEST).read()
    if standing is not None and standing != manifest:
        raise Refused(f"{place.shown} holds another release there; it is not overwritten")
    place.make_folder()
    signature = {name: sha256_of(folder / name) for name in (SIGNATURE, PUBLIC_KEY)}
    for name, digest in (*files.items(), *signature.items()):
        if (place / name).digest() == digest:
            continue
        (place / name).put(folder / name)
        if (place / name).digest() != digest:
            raise Fault(f"{name} read back from {place.shown} is not what was written; the manifest is held back")
    if standing is None:
        (place / MANIFEST).put_whole(manifest)
        if (place / MANIFEST).read() != manifest:
            raise Fault(f"{MANIFEST} read back from {place.shown} is not what was written")


def _take_back(home: Home, delivery: DeliveryFacts) -> None:
    target = delivery.target
    if target.table is not None:
        # Without the manifest's digest: a table that was delivered anew is recognised as well.
        mark = f"{OURS}release {delivery.release} manifest "
        left = f"{OURS}withdrawn {delivery.release}"
        remove_table(secret(str(target.database), home), table_of(delivery.place), mark, left)
        return
    place = _open(home, delivery)
    names = place.names()
    if not names:
        return
    (place / MANIFEST).remove()
    problems = _put_notice(home, delivery, place)
    for name in names:
        if is_data_file(name):
            (place / name).remove()
    if problems:
        raise Fault(
            "the data are removed, and the notice of the withdrawal is not put there: at home it is not in "
            f"order: {'; '.join(problems)}; restore releases/{delivery.name}/{delivery.release} from a backup"
        )


def _put_notice(home: Home, delivery: DeliveryFacts, place: Location) -> list[str]:
    """Put the signed notice into a folder, or only the release's id where it is missing; return its problems."""
    folder = home.releases / delivery.name / delivery.release
    signed = (folder / NOTICE).is_file()
    announced = ledger.of_release(home, delivery.release, "withdrawing")
    entry = announced[-1] if announced else None
    problems = notice_problems(folder, entry, ledger.public_keys(home)) if signed else []
    if signed and not problems:
        for name in (NOTICE_SIGNATURE, NOTICE):
            if (folder / name).is_file():
                (place / name).put_whole((folder / name).read_bytes())
    else:
        (place / NOTICE).put_whole((json.dumps({"release": delivery.release}) + "\n").encode())
    return problems
