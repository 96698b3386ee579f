"""Microdata as a matrix of floating point numbers, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from anoncore.encoding.block import Block, NumericScale, Smoothing, levels_column
from anoncore.encoding.scores import Decoding
from anoncore.errors import AnonymizationError
from anoncore.kernels.smoothed_values import recommended_reach
from anoncore.microdata import Microdata, Schema, Variable


@dataclass(frozen=True, eq=False, repr=False)
class Encoder:
    """Microdata ↔ (N, m) float64, in standard deviations of the data it was fitted to.

    Strictly positive continuous variables are logged, then standardised; other continuous
    variables and the codes of ordinal ones are standardised; a binary variable is one column of
    {−1, +1}; a nominal variable with q levels is q such columns. A variable with missing values gets
    one more {−1, +1} column that says where they are, and the missing value itself is filled with the mean.
    A variable that holds a single value or none has no columns, and comes back as it was.

    Build it with `Encoder.fit`.

    Examples
    --------
    >>> frame = pd.DataFrame({"sex": ["f", "m", "m"]})
    >>> data = Microdata(frame, Schema([Variable("sex", "binary")]))
    >>> Encoder.fit(data)
    Encoder(1 columns of 1 variables)
    >>> Encoder.fit(data).encode(data).ravel()
    array([-1.,  1.,  1.])
    """

    schema: Schema
    blocks: tuple[Block, ...]
    width: int
    fixed: Mapping[str, object]

    @classmethod
    def fit(
        cls, data: Microdata, *, numeric: NumericScale = "log", k: int = 5, rng: np.random.Generator | None = None
    ) -> Encoder:
        """Fit the encoding to ``data``.

        Parameters
        ----------
        data : Microdata, N records
            Identifier and household variables are left out.
        numeric : {"log", "normal", "linear"}
            How continuous variables are scaled before they are standardised: log where strictly
            positive; or normal scores (rank → Φ⁻¹), under which heavy tails and monotone
            non-linearity survive; or not at all, under which linear edits stay linear.
        k : int
            Numbers that fewer statistical units hold, or fewer than 20 to 60, are decoded from normal scores as
            averages over the ranks around them: no number of a single unit comes back, the extremes least.
        rng : Generator, optional
            Draws, for normal scores, how many outermost units are passed over: where that is known, the largest number
            that comes back shows whether the holder of the largest value is among the records.

        Raises
        ------
        AnonymizationError
            When there are no records, or no variable is released.
        """
        schema = data.schema
        if not schema.masked or not len(data):
            raise AnonymizationError("there is nothing to encode: no records, or no released variable")
        numbers = sum(schema[name].kind == "continuous" for name in schema.masked)
        reach = max(recommended_reach(len(data), max(numbers, 1)), k)
        smoothing = Smoothing(k=k, reach=reach, units=data.units, rng=rng)
        blocks: list[Block] = []
        fixed: dict[str, object] = {}
        for name in schema.masked:
            block = Block.fit(data.frame[name], schema[name], blocks[-1].end if blocks else 0, numeric, smoothing)
            if block is None:
                present = data.frame[name].dropna()
                fixed[name] = present.iloc[0] if len(present) else None
            else:
                blocks.append(block)
        return cls(schema.select(schema.masked), tuple(blocks), blocks[-1].end if blocks else 0, fixed)

    def of_sample(self, records: int, rng: np.random.Generator) -> Encoder:
        """Return the encoder of so many records drawn from those it was fitted to: counts of levels are drawn."""
        return replace(self, blocks=tuple(block.of_sample(records, rng) for block in self.blocks))

    def __repr__(self) -> str:
        return f"Encoder({self.width} columns of {len(self.schema)} variables)"

    def column_names(self) -> tuple[str, ...]:
        """Return a readable name for each column of the encoded matrix."""
        return tuple(name for block in self.blocks for name in block.column_names())

    def variable_of_columns(self) -> np.ndarray:
        """Return (m,) the place of the variable of each column of the encoded matrix."""
        return np.repeat(np.arange(len(self.blocks)), [block.end - block.start for block in self.blocks])

    def encode(self, data: Microdata) -> np.ndarray:
        """Return the (N, m) matrix of ``data``; variables released as probabilities are accepted.

        A level that did not occur at fitting is −1 in every column of its nominal variable, and
        the mean otherwise.
        """
        matrix = np.empty((len(data), self.width))
        for block in self.blocks:
            block.encode_into(matrix, data)
        return matrix

    def decode(
        self,
        matrix: np.ndarray,
        *,
        form: Decoding = "calibrated",
        groups: np.ndarray | None = None,
        index: pd.Index | None = None,
    ) -> Microdata:
        """Return the microdata that a masked matrix stands for.

        Parameters
        ----------
        matrix : (N, m) float64
            For ``calibrated``, N is the number of records at fitting.
        form : {"calibrated", "mode", "probabilities"}
            How scores become levels. ``calibrated`` cuts them by rank so that every level, and
            the missing value, keeps exactly the count it had; a nominal variable gets the assignment with
            these counts and the largest total score. ``mode`` is the paper's threshold and arg
            max, under which rare levels vanish. ``probabilities`` replaces each binary and
            nominal variable by one column per level with the normalised logistic of its score.
        groups : (N,) int, optional
            Records of one group have equal rows and must stay equal; counts are then kept only
            as nearly as whole groups allow.
        index : Index, optional
            Row identity, for methods whose records keep theirs.

        Notes
        -----
        Numbers are rounded to the source's precision; a variable that was strictly positive stays
        at least one unit above 0.
        """
        blocks = {block.variable.name: block for block in self.blocks}
        columns: list[tuple[Variable, np.ndarray | pd.Series]] = []
        for variable in self.schema:
            if variable.name in blocks:
                columns += blocks[variable.name].decode(matrix, form, groups)
            else:
                columns.append((variable, self._constant(variable, len(matrix))))
        frame = pd.DataFrame({variable.name: values for variable, values in columns})
        schema = Schema(variable for variable, _ in columns)
        return Microdata(frame if index is None else frame.set_axis(index), schema)

    def _constant(self, variable: Variable, records: int) -> np.ndarray | pd.Series:
        value = self.fixed[variable.name]
        if not variable.is_categorical:
            return np.full(records, np.nan if value is None else value, dtype="float64")
        code = -1 if value is None else list(variable.levels or ()).index(value)
        return levels_column(np.full(records, code), variable)
