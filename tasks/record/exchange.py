"""Who is in the releases of other homes: signed files of digests by a secret that two offices share.

A file holds, of each release of a home, one digest for each different value of each of its keys (identifiers,
households): half a block of AES-256, keyed by the shared secret, 64 bits. Two plans may name units by other keys, or by
more; one in common is enough. It holds no digests of other values, by which a holder of the secret could try out values
of a person.
"""

from __future__ import annotations

import base64
import binascii
import json
import stat
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tasks.common import keys
from tasks.common.digests import digest_of, sha256_of
from tasks.common.errors import Refused, visible
from tasks.common.home import Home, account, make_private, write_private
from tasks.common.secrets import NAME, secret
from tasks.common.values import from_json, to_json
from tasks.record import ledger
from tasks.record.entry import ExchangeFacts, LedgerEntry, ReleaseFacts, canonical
from tasks.record.members import Digests, members_of, recognised_by
from tasks.record.signing import public_key, sign

FORMAT = 3
MAX_BYTES = 500_000_000


@dataclass(frozen=True)
class SharedRelease:
    """The units of a release of one home, for another.

    Parameters
    ----------
    release, published : its identity, and when it was published
    units : of each key digests of 64 bits, sorted, in base64
    """

    release: str
    published: str
    units: tuple[str, ...]

    @property
    def digests(self) -> tuple[Digests, ...]:
        """The digests of each key's values, (V,)."""
        return tuple(np.frombuffer(base64.b64decode(one), dtype="<u8").astype(np.uint64) for one in self.units)

    @property
    def digest(self) -> str:
        """One digest of all units."""
        return digest_of("|".join(self.units))


@dataclass(frozen=True)
class SharedDigests:
    """A file of digests, as it is written and signed.

    Parameters
    ----------
    key : what recognises the shared secret, and reveals nothing of it
    home : the identity of the home's ledger
    releases : every published release that holds digests by this secret, oldest first
    signature : of everything else, by the home's key, in hexadecimal
    """

    format: int
    key: str
    home: str
    releases: tuple[SharedRelease, ...]
    signature: str = ""

    @property
    def content(self) -> bytes:
        """What is signed."""
        return b"anonflow digests " + canonical(to_json(replace(self, signature="")))

    def facts(self, office: str, public: str, content: bytes) -> ExchangeFacts:
        """Return what is entered of it, written as this content."""
        releases = {one.release: one.digest for one in self.releases}
        return ExchangeFacts(
            by=account(),
            office=office,
            public_key=public,
            file=sha256(content).hexdigest(),
            home=self.home,
            key=self.key,
            releases=releases,
        )


@dataclass(frozen=True)
class OtherRelease:
    """The units of a release of another home, (V,) of each of its keys, by the secret that is shared with it."""

    office: str
    release: str
    units: tuple[Digests, ...]


def export_digests(home: Home, name: str, target: Path) -> tuple[int, int]:
    """Enter, write and sign the digests of this home's published releases by a shared secret.

    Parameters
    ----------
    name : of the secret, as plans name it under ``series: shared``

    Returns
    -------
    how many releases the file holds, and how many hold no digests by this secret

    Raises
    ------
    Refused
        When the secret is not there, no release holds digests by it, or the file cannot be written.
    """
    ledger.trusted(home)
    key = recognised_by(secret(name, home))
    published = {e.facts.release: e.time for e in ledger.find(home, ReleaseFacts, "published")}
    releases = []
    for release, time in published.items():
        members = members_of(home, release)
        if members is not None and np.array_equal(members.shared_key, key):
            units = tuple(base64.b64encode(one.astype("<u8").tobytes()).decode() for one in members.by_key)
            releases.append(SharedRelease(release, time, units))
    if not releases:
        raise Refused(
            f"no published release holds digests by the secret {visible(name)}; plans that name it (series: shared) "
            "store them when they run"
        )
    shared = SharedDigests(FORMAT, _hex(key), ledger.identity(home), tuple(releases))
    content = canonical(to_json(replace(shared, signature=sign(home, shared.content))))
    own = keys.public_of(public_key(home))
    # Entered first: no file leaves the home that its ledger does not know of.
    ledger.append(home, "digests-exported", shared.facts("", "" if own is None else keys.raw(own), content))
    try:
        write_private(target, content)
    except OSError:
        raise Refused(f"{visible(target.name)} cannot be written; choose another place and export again") from None
    return len(releases), len(published) - len(releases)


def import_digests(home: Home, office: str, file: Path, public: Path, name: str) -> int:
    """Take over the digests of another home, whose public key signs them; return of how many releases.

    Parameters
    ----------
    office : what the other home is called here; the same one signs with the same key, and its files only grow
    public : the file of its public key, received by another way than the digests
    name : of the shared secret, as plans name it under ``series: shared``

    Raises
    ------
    Refused
        When the file was changed, is signed by another key, is by another secret, or lacks releases or units of the
        file before.
    """
    if not NAME.fullmatch(office):
        raise Refused("an office is named by letters, digits, _ . and -, beginning with a letter or _")
    trusted = keys.read_public(public)
    content = _read(file)
    shared = _parsed(content, file.name)
    if not keys.verifies_hex(trusted, shared.content, shared.signature):
        raise Refused(
            f"{visible(file.name)} is not signed by the key that was given, or was changed since it was signed"
        )
    if shared.key != _hex(recognised_by(secret(name, home))):
        raise Refused(
            f"{visible(file.name)} was made with another secret than {visible(name)} here, so that no unit would be "
            "recognised; compare the two secrets, and ask for a new file"
        )
    with home.lock("exchange"):
        ledger.trusted(home)
        if shared.home == ledger.identity(home):
            raise Refused(f"{visible(file.name)} is of this home, whose own releases count anyway")
        if (before := _imports(home).get(office)) is not None:
            _check_successor(home, before, shared, keys.raw(trusted))
        make_private(home.exchange)
        place = home.exchange_of(office)
        write_private(place, content)
        ledger.append(home, "digests-imported", shared.facts(office, keys.raw(trusted), content))
    return len(shared.releases)


def releases_elsewhere(home: Home, key: Digests) -> tuple[OtherRelease, ...]:
    """Return the releases of other homes whose units are known by a shared secret.

    Raises
    ------
    Refused
        When a file is gone or is not the one that was imported.
    """
    found = []
    for office, entry in _imports(home).items():
        shared = _imported(home, entry)
        if shared.key == _hex(key):
            found += [OtherRelease(office, one.release, one.digests) for one in shared.releases]
    return tuple(found)


def by_other_secrets(home: Home, key: Digests) -> int:
    """Count the offices whose digests were imported where none of these are by the given secret."""
    made = [entry.facts.key for entry in imports(home)]
    return 0 if _hex(key) in made else len(made)


def imports(home: Home) -> tuple[LedgerEntry[ExchangeFacts], ...]:
    """Return the last import of each office."""
    return tuple(_imports(home).values())


def _imports(home: Home) -> dict[str, LedgerEntry[ExchangeFacts]]:
    return {e.facts.office: e for e in ledger.find(home, ExchangeFacts, "digests-imported")}


def _imported(home: Home, entry: LedgerEntry[ExchangeFacts]) -> SharedDigests:
    """Return the file that was imported last from an office, checked against the ledger."""
    office = entry.facts.office
    place = home.exchange_of(office)
    if not place.is_file() or sha256_of(place) != entry.facts.file:
        raise Refused(
            f"the digests of {visible(office)} are gone or were changed since {entry.time}; import them again with "
            "anonflow digests import"
        )
    return _parsed(place.read_bytes(), place.name)


def _check_successor(home: Home, entry: LedgerEntry[ExchangeFacts], shared: SharedDigests, public: str) -> None:
    """Refuse a file that cannot follow the one before: of another key or home, or without its releases or units."""
    old, given, office = entry.facts, {one.release: one for one in shared.releases}, visible(entry.facts.office)
    if public != old.public_key:
        raise Refused(
            f"{office} signed with another key before; confirm the new one with them, and import under another name"
        )
    if shared.home != old.home or set(old.releases) - set(given):
        raise Refused(f"the file lacks releases of the last one of {office}, or is of another home; ask for a new one")
    try:
        before = _imported(home, entry).releases
    except Refused:
        # Gone: what is given takes its place if the releases of then are the very same.
        kept = all(given[release].digest == digest for release, digest in old.releases.items())
    else:
        kept = all(
            np.isin(np.concatenate(one.digests), np.concatenate(given[one.release].digests)).all() for one in before
        )
    if not kept:
        raise Refused(f"the file lacks units of releases of the last one of {office}; ask for a new one")


def _read(file: Path) -> bytes:
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise Refused(f"{visible(file.name)} is not a regular file")
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError:
        raise Refused(f"{visible(file.name)} cannot be read") from None
    if len(content) > MAX_BYTES:
        raise Refused(f"{visible(file.name)} is larger than {MAX_BYTES} bytes")
    return content


def _parsed(content: bytes, name: str) -> SharedDigests:
    try:
        form: Any = json.loads(content)
        held = form["format"]
        shared = from_json(SharedDigests, form) if held == FORMAT else None
        for one in shared.releases if shared else ():
            if not one.units or any(len(base64.b64decode(units, validate=True)) % 8 for units in one.units):
                raise ValueError
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError, binascii.Error):
        raise Refused(f"{visible(name)} holds no digests of anonflow, or was cut short") from None
    if shared is None:
        raise Refused(f"{visible(name)} has format {visible(held)}, and this version of anonflow uses {FORMAT}")
    return shared


def _hex(key: Digests) -> str:
    return key.astype(">u8").tobytes().hex()
