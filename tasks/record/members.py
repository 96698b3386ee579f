"""Who is in a release: keyed digests of its statistical units, which stay in the home; only counts are shown."""

from __future__ import annotations

import hmac
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from zipfile import BadZipFile

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from anoncore.kernels.rows import row_blocks
from tasks.common.errors import Refused
from tasks.common.home import Home, make_private, write_private

Digests = NDArray[np.uint64]
ARRAYS = ("identities", "contents", "variables", "key", "shared", "shared_key", "named")
# Names the construction, so that digests by another one are not compared.
_BY = b"AES-256"
# Of a secret that is shared: a short one could be guessed from the digests.
LEAST_SECRET = 32


@dataclass(frozen=True, eq=False, repr=False)
class Members:
    """The units of a release, by 64 bits of AES-256 with keys of their own, which the home's digest key gives.

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
        own, none = _own_key(home), np.empty(0, dtype=np.uint64)
        return cls(
            identities=_digests(own, "identities", identities),
            contents=_digests(own, "contents", contents),
            variables=_of_names(own, "variables", (name.encode() for name in sorted(variables))),
            key=_recognised(own),
            shared=_digests(_shared_key(secret), "shared", identities) if secret else none,
            shared_key=recognised_by(secret) if secret else none,
            named=np.array([named], dtype=np.uint64),
        )

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
        sorted_ = replace(self, identities=self.identities[order], contents=self.contents[order])
        sorted_ = replace(sorted_, shared=np.sort(self.shared))
        make_private(home.members)
        write_private(home.members_of(release), lambda file: np.savez(file, **vars(sorted_)))


def recognised_by(secret: str) -> Digests:
    """Return (1,) what recognises a secret that homes share, and reveals nothing of it.

    Raises
    ------
    Refused
        When the secret is short enough to be guessed.
    """
    return _recognised(_shared_key(secret))


def _recognised(key: bytes) -> Digests:
    return _of_names(key, "key", [_BY])


def _own_key(home: Home) -> bytes:
    return hmac.digest(home.digest_secret(), b"units of releases", "sha256")


def _shared_key(secret: str) -> bytes:
    if len(secret) < LEAST_SECRET:
        raise Refused(
            f"the secret for shared digests must have at least {LEAST_SECRET} characters, since a short one could be "
            "guessed from the digests; draw one with openssl rand -hex 32"
        )
    return hmac.digest(secret.encode(), b"units shared between homes", "sha256")


def _digests(key: bytes, kind: str, hashes: Digests) -> Digests:
    """Return (U,) the first half of the block that AES makes of each 64 bits, by a key of each kind.

    A block cipher on distinct blocks cannot be told from a random permutation, nor half of each block from a random
    function. HMAC of one unit after another takes two hundred times as long.
    """
    cipher = Cipher(AES256(hmac.digest(key, kind.encode(), "sha256")), ECB()).encryptor()  # noqa: S305 - nothing is encrypted
    digests = np.empty(len(hashes), dtype=np.uint64)
    for rows in row_blocks(len(hashes)):
        blocks = np.zeros((len(hashes[rows]), 2), dtype="<u8")
        blocks[:, 0] = hashes[rows]
        digests[rows] = np.frombuffer(cipher.update(blocks.tobytes()), dtype="<u8")[::2]
    return digests


def _of_names(key: bytes, kind: str, names: Iterable[bytes]) -> Digests:
    """Return (V,) 64 bits of HMAC-SHA256 of each."""
    return np.array(
        [int.from_bytes(hmac.digest(key, kind.encode() + name, "sha256")[:8], "little") for name in names],
        dtype=np.uint64,
    )


def members_of(home: Home, release: str) -> Members | None:
    """Return the units of a release; None where they are not known.

    Their file may be absent, damaged or of a key that was lost.
    """
    try:
        with np.load(home.members_of(release), allow_pickle=False) as stored:
            members = Members(*(stored[name] for name in ARRAYS))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error):
        return None
    return members if np.array_equal(members.key, _recognised(_own_key(home))) else None
