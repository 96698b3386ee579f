"""Named random streams that can be read at any place, so that what is drawn never depends on how a table is cut."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_WORDS = 4  # of 32 bits: the entropy of a stream, and of each name


# No repr: whoever has the entropy can undo what was drawn.
@dataclass(frozen=True, eq=False, repr=False)
class Stream:
    """A named stream of 64-bit random words, one for each record.

    Parameters
    ----------
    entropy : tuple of int
        The seed, a secret.
    path : tuple of str or int
        Its name, below that of the stream it was derived from.

    Notes
    -----
    Claim: streams of different names are independent, as far as `numpy.random.SeedSequence` makes them; word i of a
    stream is the same whichever words are asked for.

    Source: PCG64 (O'Neill 2014), which can be advanced by any number of steps.

    Examples
    --------
    >>> stream = Stream.of(np.random.default_rng(1)).named("swap", 3)
    >>> bool(np.array_equal(stream.words(2, 5), stream.words(0, 9)[2:5]))
    True
    """

    entropy: tuple[int, ...]
    path: tuple[str | int, ...] = ()

    @classmethod
    def of(cls, rng: np.random.Generator) -> Stream:
        """Return a stream whose seed is drawn from a generator."""
        return cls(tuple(rng.integers(2**32, size=_WORDS).tolist()))

    def named(self, *names: str | int) -> Stream:
        """Return the stream of a name below this one."""
        return Stream(self.entropy, (*self.path, *names))

    def generator(self) -> np.random.Generator:
        """Return a generator at the beginning of the stream."""
        return np.random.Generator(self._bits())

    def words(self, start: int, stop: int) -> NDArray[np.uint64]:
        """Return (stop - start,) uint64, the words from ``start`` on, uniform and independent."""
        return self._bits(start).random_raw(stop - start)

    def uniform(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return (stop - start,) float64 in [0, 1), those of the words from ``start`` on."""
        return np.random.Generator(self._bits(start)).random(stop - start)

    def _bits(self, start: int = 0) -> np.random.PCG64:
        digest = hashlib.sha256(repr(self.path).encode()).digest()
        name = np.frombuffer(digest[: 4 * _WORDS], dtype="<u4").tolist()
        bits = np.random.PCG64(np.random.SeedSequence(self.entropy, spawn_key=tuple(name)))
        bits.advance(start)
        return bits
