"""Who is in a release: keyed digests of its statistical units, which stay in the home; only counts are shown."""

from __future__ import annotations

import hmac
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from zipfile import BadZipFile

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

from anoncore.kernels.rows import row_blocks
from tasks.common.errors import Refused
from tasks.common.hashes import Hashes, among, numbered, ranges_for, ranges_of
from tasks.common.home import Home, make_private, write_private
from tasks.common.npz import InPieces, read_npz, write_npz

Digests = NDArray[np.uint64]
ARRAYS = ("variables", "key", "values", "shared", "shared_sizes", "shared_key", "named")
# Digests in memory at once, about: in so wide ranges of values a table in partitions is read.
AT_ONCE = 2_000_000
# Names the construction, so that digests by another one are not compared.
_BY = b"AES-256"
# Of a secret that is shared: a short one could be guessed from the digests.
LEAST_SECRET = 32


@dataclass(frozen=True, eq=False, repr=False)
class Members:
    """The units of a release, by 64 bits of AES-256 with keys of their own, which the home's digest key gives.

    The key is that of the home, not of one plan: the same people are recognised under another plan's name. Of a long
    table no more than a piece is in memory at once. The identities of each piece are all greater than those of the one
    before; within a piece the units are in any order. Those of a table in memory are one piece, in their order.

    Parameters
    ----------
    identities : (n,) in each piece, of what identifies each unit; of its records' values where the plan declares no
        identifier
    contents : (n,) in each piece, of the values of its records
    count : how many units there are
    variables : (V,) of the names of these values' variables: contents of other variables are not compared
    key : (1,) of nothing: digests of another key cannot be compared
    values : (V,) as ``identities``, of the values of keys by which no unit is named, of tables in memory: another plan
        may name units by them
    shared, shared_sizes : digests by a secret that other homes have too, of the different values of one key after
        another, and (K,) how many each key has; (0,) without a secret
    shared_key : (1,) as ``key``, of that secret; (0,) without one
    named : (1,) how many units have an identifier; the others are known by their values
    whole : whether all units are one piece
    """

    identities: Hashes
    contents: Hashes
    count: int
    variables: Digests
    key: Digests
    values: Digests
    shared: Digests
    shared_sizes: Digests
    shared_key: Digests
    named: Digests
    whole: bool = True

    @classmethod
    def of(cls, home: Home, identities: Digests, contents: Digests, variables: Iterable[str], *, named: int) -> Members:
        """Return the digests of units, each identified and described by 64 bits."""
        own, none = _own_key(home), np.empty(0, dtype=np.uint64)
        pieces = [[_digests(own, "identities", identities)], [_digests(own, "contents", contents)]]
        return cls(
            identities=lambda: pieces[0],
            contents=lambda: pieces[1],
            count=len(identities),
            variables=_of_names(own, "variables", (name.encode() for name in sorted(variables))),
            key=_recognised(own),
            values=none,
            shared=none,
            shared_sizes=none,
            shared_key=none,
            named=np.array([named], dtype=np.uint64),
        )

    def known_by(self, home: Home, values: Iterable[Digests]) -> Members:
        """Return the same with digests of the values of each key, (V,), by which units are not named."""
        every = np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *values]))
        digests = _digests(_own_key(home), "identities", every)
        return replace(self, values=np.setdiff1d(digests, np.concatenate([*self.identities()])))

    def shared_by(self, secret: str, values: Iterable[Digests]) -> Members:
        """Return the same with digests of the values of each key, (V,), by a secret that other homes have.

        Another home may know the same people by fewer or by other keys, which name their units otherwise.

        Raises
        ------
        Refused
            When the secret is short enough to be guessed.
        """
        key = _shared_key(secret)
        shared = [np.sort(_digests(key, "shared", np.unique(one))) for one in values if len(one)]
        return replace(
            self,
            shared=np.concatenate([self.shared, *shared]),
            shared_sizes=np.array([len(one) for one in shared], dtype=np.uint64),
            shared_key=recognised_by(secret),
        )

    @property
    def by_key(self) -> list[Digests]:
        """The shared digests of each key's values, in ascending order."""
        return (
            np.split(self.shared, np.cumsum(self.shared_sizes.astype(np.intp))[:-1]) if len(self.shared_sizes) else []
        )

    @property
    def by_values(self) -> Members:
        """The same units, each known by the values of its records alone; equal ones are numbered."""

        def names() -> Iterator[Digests]:
            if self.whole:
                return map(numbered, self.contents())
            pieces = ranges_of(self.contents, ranges_for(self.count, AT_ONCE))
            return (numbered(np.sort(own)) for own in pieces)

        # Who has other values is another unit.
        return replace(self, identities=names, contents=names)

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
        without = max(one.count - int(one.named[0]) for one in (self, earlier))
        return without >= least and bool(np.isin(self.variables, earlier.variables).any())

    def names_otherwise(self, earlier: Members, least: int) -> bool:
        """Return whether so many units have a value of a key in common, though they are named by other keys."""
        both = len(np.intersect1d(self.values, earlier.values, assume_unique=True))
        for values, units in ((self.values, earlier), (earlier.values, self)):
            both += sum(int(np.isin(own, values).sum()) for own in units.identities()) if len(values) else 0
        return both >= least

    def in_common(self, earlier: Members) -> Iterator[NDArray[np.bool_]]:
        """Yield (n,) which units an earlier release holds too, for each piece."""
        pieces = ((own[np.newaxis] for own in one.identities()) for one in (self, earlier))
        return (among(own[0], held[0]) for own, held in _beside(*pieces))

    def changed(self, earlier: Members) -> Iterator[NDArray[np.bool_]] | None:
        """Yield (n,) which units an earlier release holds with other values; None where its variables are others."""
        if not self.same_variables(earlier):
            return None
        return (_differ(own, held) for own, held in _beside(self._units(), earlier._units()))

    def keep(self, home: Home, release: str) -> None:
        """Store the digests, in an order that says nothing of the records'."""
        contents = (own[1][np.argsort(own[0], kind="stable")] for own in self._units())
        arrays = {
            "identities": InPieces(self.count, map(np.sort, self.identities())),
            "contents": InPieces(self.count, contents),
            **{name: getattr(self, name) for name in ARRAYS},
        }
        make_private(home.members)
        write_private(home.members_of(release), lambda file: write_npz(file, arrays))

    def _units(self) -> Iterator[Digests]:
        """Yield (2, n) identities and contents of each piece."""
        if self.contents is self.identities:
            return (np.stack([own, own]) for own in self.identities())
        return (np.stack(both) for both in zip(self.identities(), self.contents(), strict=True))


def counted(pieces: Iterable[NDArray[np.bool_]]) -> int:
    """Return how many units are marked in all pieces."""
    return sum(int(np.count_nonzero(piece)) for piece in pieces)


def share_units(one: Members, earlier: Members, least: int) -> bool:
    """Return whether so many units of one are in an earlier release; reads no further than is needed to know."""
    return any(total >= least for total in accumulate(map(np.count_nonzero, one.in_common(earlier))))


def _beside(own: Iterable[Digests], earlier: Iterable[Digests]) -> Iterator[tuple[Digests, Digests]]:
    """Yield each piece, (m, n), beside the earlier units up to its greatest identity, (m, k) in ascending order."""
    rest, held = iter(earlier), None
    for piece in own:
        greatest = piece[0].max(initial=0)
        while held is None or not held.size or held[0, -1] <= greatest:
            more = next(rest, None)
            if more is None:
                break
            ascending = more[:, np.argsort(more[0], kind="stable")]
            held = ascending if held is None else np.concatenate([held, ascending], axis=1)
        if held is None:
            held = piece[:, :0]
        yield piece, held[:, : np.searchsorted(held[0], greatest, side="right")]
        # Equal ones may be in the next piece, too.
        held = held[:, np.searchsorted(held[0], greatest) :]


def _differ(own: Digests, held: Digests) -> NDArray[np.bool_]:
    """Return (n,) which units, (2, n), have other contents than those of the same identity among (2, k)."""
    if not held.size:
        return np.zeros(own.shape[1], dtype=np.bool_)
    at = np.minimum(np.searchsorted(held[0], own[0]), held.shape[1] - 1)
    return np.asarray((held[0, at] == own[0]) & (held[1, at] != own[1]))


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
    """Return the units of a release, which are read from its file when they are asked for; None where they are unknown.

    Their file may be absent, damaged or of a key that was lost.
    """
    file = home.members_of(release)
    try:
        # Opened once: what is read later is what was checked, also when another process removes or replaces it.
        kept = file.open("rb")
        identities, contents = (partial(read_npz, kept, name) for name in ("identities", "contents"))
        with np.load(kept, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in ARRAYS}
        members = Members(identities, contents, _intact(identities, contents), whole=False, **arrays)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, RuntimeError, zlib.error):
        return None
    return members if np.array_equal(members.key, _recognised(_own_key(home))) else None


def _intact(identities: Hashes, contents: Hashes) -> int:
    """Return how many units a file holds, which is read for it; ValueError where they are not as they were kept."""
    count, last = 0, np.zeros(1, dtype=np.uint64)
    for own, values in zip(identities(), contents(), strict=True):
        if len(own) != len(values) or np.any(own < np.concatenate([last, own[:-1]])):
            raise ValueError("other units than were kept")
        count, last = count + len(own), own[-1:]
    return count
