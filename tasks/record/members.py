"""Who is in a release: keyed digests of its statistical units, which stay in the home; only counts are shown."""

from __future__ import annotations

import hmac
import io
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tasks.common.errors import Refused
from tasks.common.home import Home, make_private, write_private

Digests = NDArray[np.uint64]
ARRAYS = ("identities", "contents", "variables", "key", "shared", "shared_key", "named")
# Of a secret that is shared: a short one could be guessed from the digests.
LEAST_SECRET = 32


@dataclass(frozen=True, eq=False, repr=False)
class Members:
    """The units of a release, by HMAC-SHA256 of 64 bits with a key of their own, which the home's digest key gives.

    The key is that of the home, not of one plan: the same people are recognised under another plan's name.

    Parameters
    ----------
    identities : (U,) of what identifies each unit; of its records' values where the plan declares no identifier
    contents : (U,) of the values of its records
    variables : (V,) of the names of these values' variables: contents of other variables are not compared
    key : (1,) of nothing: digests of another key cannot be compared
    shared, shared_key : as ``identities`` and ``key``, by a secret that other homes have too; (0,) without one
    named : (1,) how many units have an identifier; the others are known by their values
    """

    identities: Digests
    contents: Digests
    variables: Digests
    key: Digests
    shared: Digests
    shared_key: Digests
    named: Digests

    @classmethod
    def of(
        cls, home: Home, identities: Digests, contents: Digests, variables: Iterable[str], *, named: int, secret: str
    ) -> Members:
        """Return the digests of units, each identified and described by 64 bits; also by a ``secret`` that is shared.

        Raises
        ------
        Refused
            When the secret is short enough to be guessed.
        """
        own, names = _own_key(home), [name.encode() for name in sorted(variables)]
        values = (_parts(identities), _parts(contents), names, [b""])
        digests = [_digests(own, *one) for one in zip(ARRAYS, values, strict=False)]
        if secret:
            digests += [_digests(_shared_key(secret), "shared", _parts(identities)), recognised_by(secret)]
        else:
            digests += [np.empty(0, dtype=np.uint64)] * 2
        digests.append(np.array([named], dtype=np.uint64))
        return cls(*digests)

    @property
    def by_values(self) -> Members:
        """The same units, each known by the values of its records alone; equal ones are numbered."""
        order = np.argsort(self.contents, kind="stable")
        ordered, names = self.contents[order], self.contents.copy()
        names[order] += (np.arange(len(order)) - np.searchsorted(ordered, ordered)).astype(np.uint64)
        return replace(self, identities=names)

    def same_variables(self, earlier: Members) -> bool:
        """Return whether the values are of the same variables."""
        return np.array_equal(self.variables, earlier.variables)

    def may_share(self, earlier: Members, least: int) -> bool:
        """Return whether the two may hold so many units in common that no digest shows.

        Some are then known by values alone, and these are of other variables, one of them in common; or only one of the
        two has identifiers, so that units of several records are not recognised by their values.
        """
        if self.same_variables(earlier):
            return bool(self.named[0]) != bool(earlier.named[0])
        without = max(len(one.identities) - int(one.named[0]) for one in (self, earlier))
        return without >= least and bool(np.isin(self.variables, earlier.variables).any())

    def in_common(self, earlier: Members) -> NDArray[np.bool_]:
        """Return (U,) which units an earlier release holds too."""
        return np.isin(self.identities, earlier.identities)

    def changed(self, earlier: Members) -> NDArray[np.bool_] | None:
        """Return (U,) which units an earlier release holds with other values; None where its variables are others."""
        if not self.same_variables(earlier):
            return None
        order = np.argsort(earlier.identities)
        known = earlier.identities[order]
        at = np.minimum(np.searchsorted(known, self.identities), max(len(known) - 1, 0))
        return self.in_common(earlier) & (earlier.contents[order][at] != self.contents if len(known) else False)

    def keep(self, home: Home, release: str) -> None:
        """Store the digests, in an order that says nothing of the records'."""
        order = np.argsort(self.identities)
        content = io.BytesIO()
        sorted_ = replace(self, identities=self.identities[order], contents=self.contents[order])
        sorted_ = replace(sorted_, shared=np.sort(self.shared))
        np.savez(content, **vars(sorted_))
        make_private(home.members)
        write_private(home.members_of(release), content.getvalue())


def recognised_by(secret: str) -> Digests:
    """Return (1,) what recognises a secret that homes share, and reveals nothing of it.

    Raises
    ------
    Refused
        When the secret is short enough to be guessed.
    """
    return _digests(_shared_key(secret), "key", [b""])


def _own_key(home: Home) -> bytes:
    return hmac.digest(home.digest_secret(), b"units of releases", "sha256")


def _shared_key(secret: str) -> bytes:
    if len(secret) < LEAST_SECRET:
        raise Refused(
            f"the secret for shared digests must have at least {LEAST_SECRET} characters, since a short one could be "
            "guessed from the digests; draw one with openssl rand -hex 32"
        )
    return hmac.digest(secret.encode(), b"units shared between homes", "sha256")


def _parts(hashes: Digests) -> Iterator[bytes]:
    raw = memoryview(hashes.astype("<u8").tobytes())
    return (bytes(raw[at : at + 8]) for at in range(0, len(raw), 8))


def _digests(key: bytes, kind: str, values: Iterable[bytes]) -> Digests:
    # Grown in place: a million objects of eight bytes take ten times the room.
    name, digests = kind.encode(), bytearray()
    for value in values:
        digests += hmac.digest(key, name + value, "sha256")[:8]
    return np.frombuffer(digests, dtype=np.uint64)


def members_of(home: Home, release: str) -> Members | None:
    """Return the units of a release; None where they are not known.

    Their file may be absent, damaged or of a key that was lost.
    """
    try:
        with np.load(home.members_of(release), allow_pickle=False) as stored:
            members = Members(*(stored[name] for name in ARRAYS))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error):
        return None
    return members if np.array_equal(members.key, _digests(_own_key(home), "key", [b""])) else None
