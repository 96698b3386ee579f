"""Original, release and reference with their common encoding."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anoncore.encoding.block import NumericScale
from anoncore.encoding.encoder import Encoder
from anoncore.microdata import ComparedUnits, Microdata


@dataclass(frozen=True, eq=False, repr=False)
class EncodedTables:
    """Original, release and reference, and their encoding, which is fitted to the original.

    Parameters
    ----------
    original, released, reference : Microdata; the reference may be None
    encoder : Encoder
    x, y, r : (N, n), (M, n), (L, n) or None, in standard deviations; n = 1 where no variable varies, so that all
        records are equally near
    """

    original: Microdata
    released: Microdata
    reference: Microdata | None
    encoder: Encoder
    x: np.ndarray
    y: np.ndarray
    r: np.ndarray | None

    @classmethod
    def of(cls, original: Microdata, released: Microdata, reference: Microdata | None) -> EncodedTables:
        """Fit the encoding to the original and encode all tables with it."""
        encoder = Encoder.fit(original)
        x, y, r = (
            None if side is None else encoder.encode(side) if encoder.width else np.zeros((len(side), 1))
            for side in (original, released, reference)
        )
        assert x is not None
        assert y is not None
        return cls(original, released, reference, encoder, x, y, r)

    def on_scale(self, numeric: NumericScale) -> tuple[np.ndarray, np.ndarray, np.ndarray | None] | None:
        """Return x, y and r with numbers on another scale; None where no variable is encoded otherwise.

        Axes along which a method masks are straight on the scale of that method alone.
        """
        numbers = [block for block in self.encoder.blocks if block.variable.kind == "continuous"]
        if not numbers or (numeric == "linear" and all(block.floor is None for block in numbers)):
            return None
        encoder = Encoder.fit(self.original, numeric=numeric)
        x, y, r = (None if t is None else encoder.encode(t) for t in (self.original, self.released, self.reference))
        assert x is not None
        assert y is not None
        return x, y, r

    @property
    def unmasked(self) -> EncodedTables:
        """The same with the original as its release."""
        return replace(self, released=self.original, y=self.x)

    @property
    def units(self) -> ComparedUnits:
        """The statistical units of original and reference."""
        return ComparedUnits(self.original.units, None if self.reference is None else self.reference.units)

    @property
    def matrices(self) -> list[np.ndarray]:
        """The encoded tables, the reference's only where there is one."""
        return [matrix for matrix in (self.x, self.y, self.r) if matrix is not None]
