"""Functional dependencies: a variable that is looked up from others, by a table learned from the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from anoncore.edits.conditions import numbers
from anoncore.edits.functions import Function, function_of
from anoncore.errors import AnonymizationError
from anoncore.microdata import Units
from anoncore.microdata.inference import MIN_COUNT
from anoncore.microdata.precision import observed_precision

# A value that fewer statistical units of a combination hold is not looked up (minimum frequency rule).
FEWEST_UNITS = 3
# Numbers that rise or fall with another by chance are fewer.
FEWEST_ON_CURVE = 10
MISSING, UNKNOWN, NUMBER = -1, -2, 0


@dataclass(frozen=True, eq=False, repr=False)
class _Cell:
    """Entries that share the levels of their determinants: their numbers in the table, and their scaled numbers."""

    entries: np.ndarray
    tree: KDTree | None


@dataclass(frozen=True, eq=False, repr=False)
class _Curve:
    """A number that rises, or falls, with its determinant, or is a function of it.

    Parameters
    ----------
    entries : (E,), the determinant of each entry of the table
    x, y : (R,), determinant and dependent of those that are looked up, in order
    frequent : (E,) bool, enough units hold the entry that a value of the source itself reveals none of them
    unit : of which the dependent's values are multiples, if any
    function : by which every value of the source follows; what follows from it then says nothing of single records
    single : the dependent's values are of single precision, and so is what follows, or it would equal none of them
    slack : how far the source's values are from the function's, for they are rounded or of single precision
    """

    entries: np.ndarray
    x: np.ndarray
    y: np.ndarray
    frequent: np.ndarray
    unit: float | None
    function: Function | None = None
    single: bool = False
    slack: float = 0.0

    def between(self, at: np.ndarray) -> np.ndarray:
        """Return (M,) what follows from numbers (M,) that no entry has, rounded as the values are."""
        with np.errstate(all="ignore"):
            joined = np.interp(at, self.x, self.y) if self.function is None else self.function(at)
        joined = np.where(np.isfinite(joined), joined, np.nan)
        if self.unit is None and self.single:
            return joined.astype("float32").astype("float64")
        return joined if self.unit is None else np.round(np.round(joined / self.unit) * self.unit, 9)


@dataclass(frozen=True, eq=False, repr=False)
class LookupTable:
    """The value of a dependent for each combination of its determinants in the source, E combinations.

    It is confidential: it has no ``repr`` and cannot be pickled or copied.

    Parameters
    ----------
    levels : of each determinant that has levels, those of the source; None for a number
    scale : (numbers,), standard deviations of the determinants that are numbers
    cells : entries by the levels of the determinants (by position; -1 for a missing value)
    values : (E,) object or float64, the value that most records of the combination hold; missing where there is none
    released : (E,) bool, the value is looked up: enough units of the combination, or of its band of neighbouring
        numbers with the same value, hold it, and half of the records or more have one
    undetermined : (E,) bool, a determinant is missing, and the records do not agree
    withheld : levels of the dependent that are never looked up, since too few units of the source hold them
    curve : where one number determines another that rises, or falls, with it, as a logarithm does
    """

    levels: tuple[pd.Index | None, ...]
    scale: np.ndarray
    cells: Mapping[tuple[int, ...], _Cell]
    values: np.ndarray
    released: np.ndarray
    undetermined: np.ndarray
    withheld: tuple[object, ...]
    curve: _Curve | None = None

    def __reduce__(self) -> NoReturn:
        """Refuse to be stored."""
        raise TypeError("a lookup table is confidential and is not stored")

    def find(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) int: the entry of each record of the determinants, (N, d); -1 where there is none.

        Numbers take the nearest entry of the same levels, in standard deviations.
        """
        codes, values = _keys(frame, self.levels)
        positions = np.full(len(frame), -1)
        combinations, of = np.unique(codes, axis=0, return_inverse=True)
        for number, combination in enumerate(combinations):
            cell = self.cells.get(tuple(combination.tolist()))
            if cell is None:
                continue
            rows = np.flatnonzero(of.reshape(-1) == number)
            at = np.zeros(len(rows), dtype=int)
            if cell.tree is not None:
                here = _present_numbers(combination, self.levels)
                at = np.asarray(cell.tree.query(values[np.ix_(rows, here)] / self.scale[here])[1])
            positions[rows] = cell.entries[at]
        return positions

    def find_values(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Return (N,) the entry of each record, as `find`, and (N,) what follows from it; missing where nothing does.

        Between two entries of a curve what follows is on the line that joins them. What follows by a function is
        computed at the entries too, unless enough units hold them: the digits of the source's own values would show
        which numbers its records hold.
        """
        entry = self.find(frame)
        empty: Any = None if self.values.dtype == object else np.nan
        values = np.asarray(np.where(entry >= 0, self.values[entry], empty))
        if self.curve is not None:
            at, curve = _keys(frame, self.levels)[1][:, 0], self.curve
            inside = (curve.x[0] < at) & (at < curve.x[-1])
            beside = curve.entries[entry] != at
            computed = (beside | ~curve.frequent[entry]) if curve.function is not None else beside & inside
            between = (entry >= 0) & computed
            values[between] = curve.between(at[between])
        return entry, values


@dataclass(frozen=True, kw_only=True)
class LookupEdit:
    """A functional dependency: the dependent follows from other variables, as a division follows from the state.

     The dependent is not masked but looked up again after masking. The table of values is learned from the source when
    the plan runs and is not part of the plan. A number takes the value of the nearest number in the source; where the
    dependent is a number that rises, or falls, with a single determinant all along, it is interpolated, and where
    it is its logarithm, its square or on a straight line in every record, it is computed. An unknown combination
    and a missing determinant give a missing value, the latter unless the source determines one; so does a
    combination in which fewer than 3 statistical units of the source hold the value.
    Neighbouring numbers with one value, such as the ages of an age group, count as one combination. A record that
    holds another value than most records of its combination violates the edit; a missing dependent does not.

    Parameters
    ----------
    name : How reports refer to the edit.
    dependent : The variable that is looked up.
    of : The variables that determine it, one or more.
    """

    edit: Literal["lookup"] = "lookup"
    name: str
    dependent: str
    of: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", tuple(self.of))
        if not self.of or len(set(self.of)) < len(self.of):
            raise AnonymizationError(f"edit {self.name!r}: of needs one or more different variables")
        if self.dependent in self.of:
            raise AnonymizationError(f"edit {self.name!r}: dependent {self.dependent!r} must not be listed in of")

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of all variables that the edit reads."""
        return (*self.of, self.dependent)

    @property
    def parts(self) -> tuple[str, ...]:
        """The variables from which the dependent is looked up."""
        return self.of

    def learned(self, frame: pd.DataFrame, units: Units | None = None, fewest: int = 0) -> LearnedLookup:
        """Return the edit with the table of values of a source, N records.

        Parameters
        ----------
        frame : (N, n) the source
        units : (N,) statistical units; without them each record is one
        fewest : levels of the dependent that fewer units of the source hold are not looked up
        """
        table = _learned(self, frame, units, fewest)
        return LearnedLookup(name=self.name, dependent=self.dependent, of=self.of, table=table)

    def refuse_identifying(self, frame: pd.DataFrame, units: Units | None = None) -> None:
        """Refuse determinants that nearly identify the records of a source, N records.

        Raises
        ------
        AnonymizationError
            When they do, so that the lookup would hardly say more than what single records hold.
        """
        table = _learned(self, frame, units, 0)
        if table.curve is not None and table.curve.function is not None:
            return
        majority = pd.factorize(table.values)[0]
        if _identifying(table.cells, majority, len(frame) if units is None else len(np.unique(units))):
            raise AnonymizationError(
                f"edit {self.name!r}: {', '.join(self.of)} nearly identifies records, so that a lookup would follow "
                f"single records' values of {self.dependent!r}; remove the edit, or state determinants whose values "
                "recur"
            )

    def applies(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: the dependent is present, and determined where a determinant is missing."""
        own = self.learned(frame)
        return own.applies(frame) & ~own.table.undetermined[own.table.find(frame[list(self.of)])]

    def holds(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: the dependent is that of most records of the combination; True where it does not apply."""
        return self.learned(frame).holds(frame) | ~self.applies(frame)


@dataclass(frozen=True, kw_only=True)
class LearnedLookup(LookupEdit):
    """A functional dependency with the table of values that was learned from a source; the table is never shown."""

    table: LookupTable = field(repr=False, compare=False)

    def applies(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: the dependent is present."""
        return np.asarray(frame[self.dependent].notna())

    def holds(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) bool: the dependent is the one in the table, or missing."""
        entry, values = self.table.find_values(frame[list(self.of)])
        own = _plain(frame[self.dependent])
        slack = 0.0 if self.table.curve is None else self.table.curve.slack
        same = np.abs(own - values) <= slack if slack else own == values
        return (np.asarray(same) & (entry >= 0)) | ~self.applies(frame)

    def look_up(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) object or float64: the value of the dependent for each record; None or NaN where missing."""
        entry, values = self.table.find_values(frame[list(self.of)])
        empty: Any = None if values.dtype == object else np.nan
        return np.asarray(np.where((entry >= 0) & self.table.released[entry], values, empty))

    def unknown(self, frame: pd.DataFrame) -> int:
        """Return the number of records that hold every determinant and for which nothing is looked up."""
        known = frame[list(self.of)].notna().all(axis=1).to_numpy()
        entry = self.table.find(frame[list(self.of)])
        # Where all records of a combination lack the dependent, missing is what follows.
        follows = (entry >= 0) & (self.table.released[entry] | pd.isna(self.table.values[entry]))
        return int((known & ~follows).sum())


def _learned(edit: LookupEdit, frame: pd.DataFrame, units: Units | None, fewest: int) -> LookupTable:
    """Return the table of an edit, see `LookupEdit.learned`."""
    determinants = frame[list(edit.of)]
    levels = tuple(None if _is_number(column) else _levels(column) for _, column in determinants.items())
    codes, amounts = _keys(determinants, levels)
    keys = np.column_stack([codes, np.nan_to_num(amounts)])
    combinations, entry = np.unique(keys, axis=0, return_inverse=True)
    entry = entry.reshape(-1)
    own, names = pd.factorize(frame[edit.dependent], sort=True)
    size = len(combinations)
    majority, agreed = _majority(entry, own, size)
    filled = np.bincount(entry, weights=own >= 0, minlength=size) * 2 >= np.bincount(entry, minlength=size)
    patterns = combinations[:, : codes.shape[1]].astype(int)
    undetermined = (patterns == MISSING).any(axis=1) & ~agreed
    majority = np.where(undetermined, -1, majority)
    number = _is_number(frame[edit.dependent])
    values = np.array([*names, np.nan if number else None], dtype="float64" if number else object)
    scale = np.array([_deviation(amount) for amount in amounts.T])
    cells = _cells(patterns, combinations[:, codes.shape[1] :], levels, scale)
    band = _bands(cells, majority)
    band_of = np.where((own >= 0) & (own == majority[entry]), band[entry], -1)
    frequent = _units_of(band_of, units, size) >= FEWEST_UNITS
    rare = np.append((_units_of(own, units, len(names)) < fewest) & (not number), False)
    released = filled & frequent[band] & ~rare[majority]
    single = number and len(levels) == 1 and levels[0] is None
    present = patterns[:, 0] == NUMBER
    function = function_of(amounts[:, 0], numbers(frame[edit.dependent])) if single else None
    if function is not None:
        released = filled & present
    common = _units_of(entry, units, size) >= MIN_COUNT
    curve = _curve(combinations[:, -1], values[majority], released & present, common, function) if single else None
    return LookupTable(levels, scale, cells, values[majority], released, undetermined, tuple(values[rare]), curve)


def _curve(
    x: np.ndarray, values: np.ndarray, released: np.ndarray, frequent: np.ndarray, function: Function | None
) -> _Curve | None:
    """Return the curve on which the released entries lie, those in the order of ``x``; None where they rise and fall.

    All are (E,). The values of few units are not on it, so that nothing between them reveals them, but where a function
    of the determinant does.
    """
    on = released & ~np.isnan(values)
    y = values[on]
    steps = np.diff(y)
    if function is None and (len(y) < FEWEST_ON_CURVE or not ((steps > 0).all() or (steps < 0).all())):
        return None
    single = bool((y == y.astype("float32")).all())
    curve = _Curve(x, x[on], y, frequent, observed_precision(y), function, single)
    if function is None:
        return curve
    return replace(curve, slack=float(np.abs(curve.between(curve.x) - y).max(initial=0.0)))


def _cells(
    patterns: np.ndarray, amounts: np.ndarray, levels: tuple[pd.Index | None, ...], scale: np.ndarray
) -> dict[tuple[int, ...], _Cell]:
    """Return the entries of each pattern of levels, with a tree over their numbers where there are any."""
    cells = {}
    distinct, of = np.unique(patterns, axis=0, return_inverse=True)
    order = np.argsort(of.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(of.reshape(-1), minlength=len(distinct)))
    for pattern, entries in zip(distinct, np.split(order, ends)[:-1], strict=True):
        here = _present_numbers(pattern, levels)
        tree = KDTree(amounts[np.ix_(entries, here)] / scale[here]) if len(here) else None
        cells[tuple(pattern.tolist())] = _Cell(entries, tree)
    return cells


def _majority(entry: np.ndarray, own: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (E,) the most frequent code of each entry, -1 where all are missing, and whether its records agree."""
    counts = pd.DataFrame({"entry": entry, "own": own})[own >= 0].value_counts().reset_index()
    counts = counts.sort_values(["entry", "count", "own"], ascending=[True, False, True])
    first = counts.drop_duplicates("entry")
    majority = np.full(size, -1)
    majority[first["entry"].to_numpy()] = first["own"].to_numpy()
    return majority, np.bincount(counts["entry"].to_numpy(dtype=int), minlength=size) <= 1


def _bands(cells: Mapping[tuple[int, ...], _Cell], majority: np.ndarray) -> np.ndarray:
    """Return (E,) the band of each entry: neighbours with the same levels and the same value, linked in any number.

    Neighbours of one number are the next smaller and the next larger one, of d numbers the 2d nearest points.
    """
    links = [np.zeros((0, 2), dtype=int)]
    for cell in cells.values():
        if cell.tree is None or len(cell.entries) < 2:
            continue
        points = np.asarray(cell.tree.data)
        if points.shape[1] == 1:
            order = cell.entries[np.argsort(points[:, 0])]
            links.append(np.column_stack([order[:-1], order[1:]]))
        else:
            nearest = np.asarray(cell.tree.query(points, k=min(2 * points.shape[1] + 1, len(points)))[1])[:, 1:]
            links.append(np.column_stack([np.repeat(cell.entries, nearest.shape[1]), cell.entries[nearest.ravel()]]))
    ends = np.concatenate(links)
    ends = ends[majority[ends[:, 0]] == majority[ends[:, 1]]]
    size = len(majority)
    graph = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(size, size))
    return np.asarray(connected_components(graph, directed=False)[1])


def _identifying(cells: Mapping[tuple[int, ...], _Cell], majority: np.ndarray, units: int) -> bool:
    """Whether most combinations belong to one unit, and neighbours explain the dependent hardly better than chance.

    Parameters
    ----------
    cells : the combinations by the levels of their determinants
    majority : (E,) code of the dependent by combination, in the order of levels; -1 where there is none
    units : number of statistical units

    Notes
    -----
    A band of neighbouring numbers or levels with one value, such as an age group or the region of a postal code, is
    no single record's, and a value that fills a range or two is none. The neighbour is the nearest number with the
    same levels, or the next level; by chance, a share 1 − Σp² of neighbours differ.
    """
    neighbour = np.roll(np.arange(len(majority)), -1)
    for cell in cells.values():
        if cell.tree is not None and len(cell.entries) > 1:
            nearest = np.asarray(cell.tree.query(cell.tree.data, k=2)[1])
            neighbour[cell.entries] = cell.entries[nearest[:, 1]]
    known = (majority >= 0) & (majority[neighbour] >= 0)
    share = np.bincount(majority[known]) / max(known.sum(), 1)
    differ = np.count_nonzero(majority[known] != majority[neighbour[known]])
    scattered = differ > 2 * np.count_nonzero(share)
    return bool(2 * known.sum() > units and scattered and 2 * differ > known.sum() * (1.0 - np.sum(share**2)))


def _deviation(values: np.ndarray) -> float:
    """Return the standard deviation of the values that are present; 1 where they do not differ."""
    present = values[~np.isnan(values)]
    return float(present.std()) or 1.0 if len(present) else 1.0


def _units_of(own: np.ndarray, units: Units | None, size: int) -> np.ndarray:
    """Return (L,) the number of statistical units that hold each code; -1 is none."""
    pairs = pd.DataFrame({"own": own, "unit": np.arange(len(own)) if units is None else units}).drop_duplicates()
    return np.bincount(pairs["own"].to_numpy()[pairs["own"].to_numpy() >= 0], minlength=size)


def _keys(frame: pd.DataFrame, levels: tuple[pd.Index | None, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return (N, d) positions of levels, `NUMBER`, `MISSING` or `UNKNOWN`, and (N, numbers) the numbers."""
    codes, amounts = [], []
    for (_, column), known in zip(frame.items(), levels, strict=True):
        if known is None:
            value = numbers(column)
            codes.append(np.where(np.isnan(value), MISSING, NUMBER))
            amounts.append(value)
        else:
            own, names = pd.factorize(column)
            at = known.get_indexer(pd.Index(names, dtype=object))
            codes.append(np.append(np.where(at < 0, UNKNOWN, at), MISSING)[own])
    empty = np.zeros((len(frame), 0))
    return np.column_stack(codes), np.column_stack(amounts) if amounts else empty


def _present_numbers(pattern: np.ndarray, levels: tuple[pd.Index | None, ...]) -> np.ndarray:
    """Return which numbers are present in a pattern, by position among the numbers."""
    own = np.array([code for code, known in zip(pattern, levels, strict=True) if known is None])
    return np.flatnonzero(own == NUMBER)


def _levels(column: pd.Series) -> pd.Index:
    """Return the levels that the column holds, in their order."""
    return pd.Index(list(pd.factorize(column, sort=True)[1]), dtype=object)


def _is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)


def _plain(column: pd.Series) -> np.ndarray:
    return column.to_numpy(dtype="float64") if _is_number(column) else column.astype(object).to_numpy()
