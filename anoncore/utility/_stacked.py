"""Two tables one above the other, as the columns of a classifier, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from anoncore.errors import AnonymizationError
from anoncore.utility._sides import Floats, evenly_spread

Rows = Iterator[tuple[Floats, Floats | None, int]]

RANK = 1e-9  # variance below this share of a standardised column's counts as none
ROUNDED = 1e-12  # a variance of products below this is rounding
CELLS = 1 << 20  # numbers of the design made at a time
KEPT = 1 << 24  # a design of fewer numbers is made once and kept


@dataclass(frozen=True, eq=False, repr=False)
class Stacked:
    """Standardised columns and their products, made block by block; the released side comes second."""

    sides: tuple[Floats, Floats]
    arrays: tuple[Floats | None, Floats | None]
    mean: Floats
    scale: Floats
    pairs: np.ndarray
    centre: Floats

    @classmethod
    def of(
        cls, own_rows: Floats, other_rows: Floats, first: Floats | None, second: Floats | None, pairs: np.ndarray
    ) -> Stacked:
        sides, arrays = (own_rows, other_rows), (first, second)
        total = len(own_rows) + len(other_rows)
        low = np.minimum(own_rows.min(axis=0), other_rows.min(axis=0))
        high = np.maximum(own_rows.max(axis=0), other_rows.max(axis=0))
        mean = sum((_total(side, w) for side, w in zip(sides, arrays, strict=True)), np.zeros(len(low)))
        mean = np.clip(mean / total, low, high)
        squares = sum((_total((s - mean) ** 2, w) for s, w in zip(sides, arrays, strict=True)), np.zeros(len(low)))
        scale = np.sqrt(squares / total)
        # A constant column becomes one of zeros.
        scale = np.where((high > low) & (scale > 0), scale, np.inf)
        plain = cls(sides, arrays, mean, scale, pairs, np.zeros(len(low) + len(pairs)))
        sums = np.zeros(len(plain.centre))
        for block, w, _ in plain.blocks():
            sums += block.sum(axis=0) if w is None else w @ block
        return cls(sides, arrays, mean, scale, pairs, sums / total)

    def blocks(self) -> Rows:
        """Yield (b, p) columns, (b,) weights or None, and whether they are released."""
        rows = max(64, CELLS // max(1, len(self.centre)))
        for label, (side, w) in enumerate(zip(self.sides, self.arrays, strict=True)):
            for begin in range(0, len(side), rows):
                z = (side[begin : begin + rows] - self.mean) / self.scale
                if len(self.pairs):
                    z = np.concatenate([z, z[:, self.pairs[:, 0]] * z[:, self.pairs[:, 1]]], axis=1)
                yield z - self.centre, None if w is None else w[begin : begin + rows], label

    def rotated(self, basis: Floats) -> Callable[[], Rows]:
        """Return what yields the blocks' (b, r) coordinates, kept where they are few."""

        def fresh() -> Rows:
            return ((z @ basis, w, label) for z, w, label in self.blocks())

        if basis.shape[1] * sum(len(side) for side in self.sides) > KEPT:
            return fresh
        kept = list(fresh())
        return lambda: iter(kept)

    def moments(self) -> tuple[Floats, Floats | None]:
        """Return (p, p) sums of products, weighted once and (where there are weights) twice."""
        spread = np.zeros((len(self.centre), len(self.centre)))
        noise = None if all(w is None for w in self.arrays) else np.zeros_like(spread)
        for z, w, _ in self.blocks():
            once = z if w is None else np.sqrt(w)[:, None] * z
            spread += once.T @ once
            if noise is not None:
                twice = z if w is None else w[:, None] * z
                noise += twice.T @ twice
        return spread, noise


def _total(rows: Floats, w: Floats | None) -> Floats:
    return np.asarray(rows.sum(axis=0) if w is None else w @ rows)


def spread_pairs(columns: int, limit: int) -> np.ndarray:
    """Return (m, 2) columns to multiply, all or ``limit`` of them, spread by the golden ratio."""
    if limit < 0:
        raise AnonymizationError(f"interactions must be at least 0, got {limit}")
    every = np.column_stack(np.triu_indices(columns))
    return every[evenly_spread(len(every), limit)]


def independent_directions(spread: Floats, total: int) -> Floats:
    """Return (p, r), the independent directions of columns, each scaled to a sum of squares of 1.

    Parameters
    ----------
    spread : (p, p) sums of products of standardised columns over ``total`` records
    """
    squares = np.diagonal(spread)
    # A product of standardised columns with less variance is a constant that was rounded.
    varies = squares > ROUNDED * total
    scale = np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=varies)
    values, vectors = np.linalg.eigh(spread * np.outer(scale, scale))
    kept = values > RANK * max(1.0, float(values[-1]))
    return np.asarray(scale[:, None] * vectors[:, kept] / np.sqrt(values[kept]))
