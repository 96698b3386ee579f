"""Between microdata and the float matrix on which methods and measures work.

Source: Lasko and Vinterbo 2010, sections III and IV-A, with the gaps and the calibrated decoding
that the paper lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from anoncore.errors import AnonymizationError
from anoncore.kernels.ranks import cut_by_counts, interpolate_quantiles, normal_scores
from anoncore.kernels.transport import assign_levels
from anoncore.microdata import Microdata, Schema, Variable, round_to

Decoding = Literal["calibrated", "mode", "probabilities"]
NumericScale = Literal["log", "normal", "linear"]


@dataclass(frozen=True, eq=False)
class Block:
    """The columns of the encoded matrix that one variable occupies, and what was fitted for them.

    ``fill`` (width,) stands in for a missing value; ``indicator`` is the column that says where
    those are, ``gaps`` their number among ``records``; ``counts`` (q,) are the records at each
    level; ``floor`` is set for a logged variable; ``quantiles`` are scores and values, both
    sorted, of a variable on normal scores.
    """

    variable: Variable
    start: int
    width: int
    fill: np.ndarray
    indicator: int | None
    gaps: int
    records: int
    counts: np.ndarray
    location: float = 0.0
    scale: float = 1.0
    floor: float | None = None
    quantiles: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def columns(self) -> slice:
        """The block's own columns, without the missing indicator."""
        return slice(self.start, self.start + self.width)


@dataclass(frozen=True, eq=False)
class Encoder:
    """Microdata ↔ (N, m) float64, in standard deviations of the data it was fitted to.

    Strictly positive continuous variables are logged, then standardised; other continuous
    variables and the codes of ordinal ones are standardised; a binary variable is one column of
    {−1, +1}; a nominal variable with q levels is q such columns. A variable with gaps gets one
    more {−1, +1} column that says where they are, and the gap itself is filled with the mean.
    A variable that holds a single value or none has no columns, and comes back as it was.

    Build it with `Encoder.fit`.

    Examples
    --------
    >>> from anoncore.microdata import Microdata, Schema, Variable
    >>> frame = pd.DataFrame({"sex": ["f", "m", "m"]})
    >>> data = Microdata(frame, Schema([Variable("sex", "binary")]))
    >>> Encoder.fit(data).encode(data).ravel()
    array([-1.,  1.,  1.])
    """

    schema: Schema
    blocks: tuple[Block, ...]
    width: int
    fixed: dict[str, object]

    @classmethod
    def fit(cls, data: Microdata, *, numeric: NumericScale = "log") -> Encoder:
        """Fit the encoding to ``data``.

        Parameters
        ----------
        data : Microdata, N records
            Identifier and household variables are left out.
        numeric : {"log", "normal", "linear"}
            How continuous variables are scaled before they are standardised: log where strictly
            positive; or normal scores (rank → Φ⁻¹), under which heavy tails and monotone
            non-linearity survive; or not at all, under which linear edits stay linear.
        """
        names = data.schema.masked
        if not names or not len(data):
            raise AnonymizationError("there is nothing to encode: no records, or no released variable")
        blocks: list[Block] = []
        fixed: dict[str, object] = {}
        at = 0
        for name in names:
            block = _fit_block(data.frame[name], data.schema[name], at, numeric)
            if block is None:
                known = data.frame[name].dropna()
                fixed[name] = known.iloc[0] if len(known) else None
                continue
            blocks.append(block)
            at += block.width + (block.indicator is not None)
        return cls(data.schema.select(names), tuple(blocks), at, fixed)

    def column_names(self) -> tuple[str, ...]:
        """Return a readable name for each column of the encoded matrix."""
        names: list[str] = []
        for block in self.blocks:
            name = block.variable.name
            nominal = block.variable.kind == "nominal"
            names += [f"{name}={level}" for level in block.variable.levels or ()] if nominal else [name]
            if block.indicator is not None:
                names.append(f"{name} missing")
        return tuple(names)

    def encode(self, data: Microdata) -> np.ndarray:
        """Return the (N, m) matrix of ``data``; variables released as probabilities are accepted.

        A level that was not there at fitting is −1 in every column of its nominal variable, and
        the mean otherwise.
        """
        matrix = np.empty((len(data), self.width))
        for block in self.blocks:
            name = block.variable.name
            if name in data.schema:
                gap = data.frame[name].isna().to_numpy()
                values = _encode_values(_values(data.frame[name], block.variable), block)
            else:
                gap, values = _from_probabilities(data, block)
            told = ~np.isnan(values).any(axis=1) & ~gap
            matrix[:, block.columns] = np.where(told[:, None], values, block.fill)
            if block.indicator is not None:
                matrix[:, block.indicator] = np.where(gap, 1.0, -1.0)
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
            the gap, keeps exactly the count it had; a nominal variable gets the assignment with
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
        columns: dict[str, pd.Series | np.ndarray] = {}
        variables: list[Variable] = []
        by_name = {block.variable.name: block for block in self.blocks}
        for variable in self.schema:
            block = by_name.get(variable.name)
            if block is None:
                columns[variable.name] = _constant(self.fixed[variable.name], variable, len(matrix))
                variables.append(variable)
                continue
            gap = _decode_gap(matrix, block, form, groups)
            if form == "probabilities" and variable.kind in ("binary", "nominal"):
                for expanded, values in _probability_columns(matrix[:, block.columns], block, gap):
                    columns[expanded.name] = values
                    variables.append(expanded)
                continue
            columns[variable.name] = _decode_block(matrix[:, block.columns], block, gap, form, groups)
            variables.append(variable)
        frame = pd.DataFrame(columns)
        return Microdata(frame if index is None else frame.set_axis(index), Schema(variables))


def logistic_probabilities(scores: np.ndarray) -> np.ndarray:
    """Return the logistic of each score, normalised over the q levels of a nominal variable.

    Parameters
    ----------
    scores : (N, q) float64, masked columns of the {−1, +1} encoding

    Returns
    -------
    (N, q) float64, rows sum to 1

    Notes
    -----
    Source: Lasko and Vinterbo 2010, section III.

    Examples
    --------
    >>> logistic_probabilities(np.array([[-2.5, -1.5, 0.41]])).round(4)
    array([[0.0883, 0.2123, 0.6995]])
    """
    chances = 1.0 / (1.0 + np.exp(-scores))
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def _fit_block(column: pd.Series, variable: Variable, at: int, numeric: NumericScale) -> Block | None:
    """Fit one variable; None when it holds a single value or none, which needs no column."""
    gap = column.isna().to_numpy()
    known = _values(column, variable)[~gap]
    if known.size == 0 or (not gap.any() and (known == known[0]).all()):
        return None
    width = len(variable.levels or ()) if variable.kind == "nominal" else 1
    block = Block(
        variable=variable,
        start=at,
        width=width,
        fill=np.zeros(width),
        indicator=at + width if gap.any() else None,
        gaps=int(gap.sum()),
        records=len(gap),
        counts=_level_counts(known, variable),
    )
    if variable.kind == "continuous":
        block = _fit_continuous(block, known, numeric)
    elif variable.kind == "ordinal":
        block = replace(block, location=float(known.mean()), scale=float(known.std()) or 1.0)
    else:
        block = replace(block, fill=_encode_values(known, block).mean(axis=0))
    return block


def _fit_continuous(block: Block, known: np.ndarray, numeric: NumericScale) -> Block:
    if numeric == "normal":
        order = np.argsort(known, kind="stable")
        return replace(block, quantiles=(normal_scores(known)[order], known[order]))
    log = numeric == "log" and bool(known.min() > 0)
    scaled = np.log(known) if log else known
    # The floor keeps a positive variable positive after rounding, and the log defined elsewhere.
    floor = (block.variable.precision or float(known.min()) / 2) if log else None
    location, scale = float(scaled.mean()), float(scaled.std())
    # Equal values differ from their mean by rounding.
    constant = scale <= 1e-12 * abs(location)
    return replace(block, location=location, scale=1.0 if constant else scale, floor=floor)


def _level_counts(known: np.ndarray, variable: Variable) -> np.ndarray:
    if not variable.is_categorical:
        return np.zeros(0, dtype=np.int64)
    return np.bincount(known.astype(np.int64), minlength=len(variable.levels or ()))


def _values(column: pd.Series, variable: Variable) -> np.ndarray:
    """Return (N,) float64: the numbers of a continuous variable, else level codes; NaN where missing."""
    if not variable.is_categorical:
        return column.to_numpy(dtype="float64")
    codes = np.asarray(pd.Categorical(column, categories=list(variable.levels or ())).codes, dtype="float64")
    codes[codes < 0] = np.nan
    return codes


def _encode_values(values: np.ndarray, block: Block) -> np.ndarray:
    """Return (N, width) scores of one variable; rows of missing values are not meaningful."""
    if block.variable.kind == "nominal":
        return np.where(values[:, None] == np.arange(block.width), 1.0, -1.0)
    if block.variable.kind == "binary":
        return np.where(values == 1, 1.0, -1.0)[:, None]
    if block.quantiles is not None:
        scores, sorted_values = block.quantiles
        return np.interp(values, sorted_values, scores)[:, None]
    if block.floor is not None:
        values = np.log(np.maximum(values, block.floor))
    return ((values - block.location) / block.scale)[:, None]


def _from_probabilities(data: Microdata, block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Read back a variable that was released as one probability column per level."""
    names = [_probability_name(block.variable, level) for level in block.variable.levels or ()]
    chances = data.frame[names].to_numpy(dtype="float64")
    gap = np.isnan(chances).any(axis=1)
    if block.variable.kind == "binary":
        chances = chances[:, 1:]
    return gap, 2.0 * chances - 1.0


def _decode_gap(matrix: np.ndarray, block: Block, form: Decoding, groups: np.ndarray | None) -> np.ndarray:
    """Return (N,) bool: which records have no value."""
    if block.indicator is None:
        return np.zeros(len(matrix), dtype=bool)
    scores = matrix[:, block.indicator]
    if form == "mode":
        return np.asarray(scores > 0)
    counts = _rescale(np.array([block.records - block.gaps, block.gaps]), len(matrix))
    return _cut(scores, counts, groups) == 1


def _decode_block(
    scores: np.ndarray, block: Block, gap: np.ndarray, form: Decoding, groups: np.ndarray | None
) -> pd.Series:
    variable = block.variable
    if variable.kind == "continuous":
        return pd.Series(np.where(gap, np.nan, _decode_numbers(scores[:, 0], block)))
    codes = np.full(len(scores), -1)
    told = ~gap
    kept = None if groups is None else groups[told]
    if form == "calibrated":
        counts = _rescale(block.counts, int(told.sum()))
        codes[told] = (
            _assign(scores[told], counts, kept) if variable.kind == "nominal" else _cut(scores[told, 0], counts, kept)
        )
    elif variable.kind == "nominal":
        codes[told] = scores[told].argmax(axis=1)
    elif variable.kind == "binary":
        codes[told] = scores[told, 0] > 0
    else:
        nearest = np.rint(scores[told, 0] * block.scale + block.location)
        codes[told] = np.clip(nearest, 0, len(variable.levels or ()) - 1).astype(int)
    return _levels_column(codes, variable)


def _decode_numbers(scores: np.ndarray, block: Block) -> np.ndarray:
    if block.quantiles is not None:
        values = interpolate_quantiles(scores, *block.quantiles)
        return round_to(values, block.variable.precision)
    values = scores * block.scale + block.location
    if block.floor is None:
        return round_to(values, block.variable.precision) + 0.0  # no −0
    return np.maximum(round_to(np.exp(values), block.variable.precision), block.floor)


def _cut(scores: np.ndarray, counts: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Cut scores into levels with the given counts; whole groups stay on one side of a cut."""
    if groups is None:
        return cut_by_counts(scores, counts)
    first, inverse, sizes = _distinct(groups)
    order = np.argsort(scores[first], kind="stable")
    middle = np.empty(len(first))
    middle[order] = np.cumsum(sizes[order]) - sizes[order] / 2
    return np.searchsorted(np.cumsum(counts)[:-1], middle, side="right")[inverse]


def _assign(scores: np.ndarray, counts: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """Assign nominal levels with the given counts; a whole group takes its most frequent level."""
    codes = assign_levels(scores, counts)
    if groups is None:
        return codes
    _, inverse, _ = _distinct(groups)
    votes = np.zeros((inverse.max(initial=-1) + 1, scores.shape[1]))
    np.add.at(votes, (inverse, codes), 1.0)
    return votes.argmax(axis=1)[inverse]


def _distinct(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    _, first, inverse, sizes = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    return first, inverse, sizes


def _rescale(counts: np.ndarray, total: int) -> np.ndarray:
    """Return counts in the same proportions that sum to ``total``, by largest remainder."""
    if counts.sum() == total:
        return counts
    shares = counts * (total / counts.sum())
    whole = np.floor(shares).astype(np.int64)
    short = total - int(whole.sum())
    whole[np.argsort(-(shares - whole), kind="stable")[:short]] += 1
    return whole


def _probability_columns(scores: np.ndarray, block: Block, gap: np.ndarray) -> list[tuple[Variable, np.ndarray]]:
    both = np.column_stack([-scores[:, 0], scores[:, 0]]) if block.variable.kind == "binary" else scores
    chances = np.where(gap[:, None], np.nan, np.round(logistic_probabilities(both), 3))
    return [
        (
            Variable(
                _probability_name(block.variable, level),
                "continuous",
                role=block.variable.role,
                precision=0.001,
                description=f"probability that {block.variable.name} is {level}",
            ),
            chances[:, j],
        )
        for j, level in enumerate(block.variable.levels or ())
    ]


def _probability_name(variable: Variable, level: object) -> str:
    return f"{variable.name}={level}"


def _constant(value: object, variable: Variable, records: int) -> pd.Series:
    if not variable.is_categorical:
        return pd.Series(np.full(records, np.nan if value is None else value, dtype="float64"))
    code = -1 if value is None else list(variable.levels or ()).index(value)
    return _levels_column(np.full(records, code), variable)


def _levels_column(codes: np.ndarray, variable: Variable) -> pd.Series:
    levels: pd.Index = pd.Index(list(variable.levels or ()))
    return pd.Series(pd.Categorical.from_codes(codes, levels, ordered=variable.kind == "ordinal"))
