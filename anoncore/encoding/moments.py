"""The linear encoder of a table, from sums over its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from anoncore.encoding.block import Block, numbers_of
from anoncore.encoding.encoder import Encoder
from anoncore.microdata import Microdata, Schema, Variable


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """Sums over the records of a part of a table, for one variable.

    Parameters
    ----------
    records, present : how many there are, and how many have a value
    counts : (q,) int, the records at each level; empty for a number
    mean, squares : of the numbers, or the positions of levels, and the sum of their squared distances from the mean
    """

    records: int
    present: int
    counts: np.ndarray
    mean: float
    squares: float

    @classmethod
    def of(cls, data: Microdata, name: str) -> Moments:
        """Return the moments of a variable of some records."""
        variable = data.schema[name]
        values = numbers_of(data.frame[name], variable)
        values = values[~np.isnan(values)]
        levels = len(variable.levels or ())
        counts = np.bincount(values.astype(np.int64), minlength=levels) if variable.is_categorical else np.zeros(0, int)
        mean = float(values.mean()) if len(values) else 0.0
        return cls(len(data), len(values), counts, mean, float(((values - mean) ** 2).sum()))

    def __add__(self, other: Moments) -> Moments:
        """Return the moments of both parts. Source: Chan, Golub and LeVeque 1983."""
        present = self.present + other.present
        part, gap = other.present / max(present, 1), other.mean - self.mean
        return Moments(
            self.records + other.records,
            present,
            self.counts + other.counts,
            self.mean + part * gap,
            self.squares + other.squares + gap**2 * part * self.present,
        )


def linear_encoder(schema: Schema, moments: Mapping[str, Moments]) -> Encoder:
    """Return the encoder that `Encoder.fit` with ``numeric="linear"`` fits to a table, from its moments.

    Parameters
    ----------
    schema : Schema
    moments : mapping of each variable that is encoded to its Moments, of all records

    Returns
    -------
    Encoder, up to rounding; variables of one value have a column here, of zeros, or a constant for levels

    Examples
    --------
    >>> import pandas as pd
    >>> data = Microdata(pd.DataFrame({"x": [1.0, 2.0, 6.0]}), Schema([Variable("x", "continuous")]))
    >>> parts = [Moments.of(data.take(np.array(rows)), "x") for rows in ([0], [1, 2])]
    >>> linear_encoder(data.schema, {"x": parts[0] + parts[1]}).encode(data).ravel().round(4).tolist()
    [-0.9258, -0.4629, 1.3887]
    """
    blocks: list[Block] = []
    for name, own in moments.items():
        if own.present:
            blocks.append(_block(schema[name], own, blocks[-1].end if blocks else 0))
    return Encoder(schema, tuple(blocks), blocks[-1].end if blocks else 0, {})


def _block(variable: Variable, own: Moments, start: int) -> Block:
    levels, spread = len(variable.levels or ()), float(np.sqrt(own.squares / own.present))
    width = levels if variable.kind == "nominal" else 1
    numeric = variable.kind in ("continuous", "ordinal")
    shares = own.counts / own.present if variable.kind == "nominal" else own.counts[1:].sum(keepdims=True) / own.present
    return Block(
        variable=variable,
        start=start,
        width=width,
        indicator=start + width if own.present < own.records else None,
        missing=own.records - own.present,
        records=own.records,
        fill=np.zeros(1) if numeric else 2.0 * shares - 1.0,
        counts=own.counts,
        location=own.mean if numeric else 0.0,
        scale=(spread if spread > 1e-12 * abs(own.mean) else 1.0) if numeric else 1.0,
    )
