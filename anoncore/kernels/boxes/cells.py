"""The cells behind `boxes.partition`: cut level by level, all cells of a level at a time.

Every column keeps its own sorted copy of the records, cell after cell. Cutting is a stable parting of these
copies, so nothing is sorted twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anoncore.errors import InfeasibleError

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]
Flags = NDArray[np.bool_]


@dataclass(eq=False, repr=False)
class Column:
    """One variable of the records still in play: cell after cell, sorted within each."""

    record: Integers
    value: Floats
    weight: Floats

    def take(self, index: Integers | Flags) -> Column:
        """Keep some records, in the order given."""
        return Column(self.record[index], self.value[index], self.weight[index])


@dataclass(eq=False, repr=False)
class Cells:
    """The cells still in play: sizes, bounds, and the root (stratum) each comes from."""

    size: Integers
    lower: Floats
    upper: Floats
    root: Integers

    @property
    def start(self) -> Integers:
        """Where each cell begins in every column."""
        return np.concatenate([[0], np.cumsum(self.size[:-1])]).astype(np.intp)

    def __getitem__(self, index: Integers | Flags) -> Cells:
        return Cells(self.size[index], self.lower[index], self.upper[index], self.root[index])


@dataclass(frozen=True, eq=False, repr=False)
class Rules:
    """What every box must hold, and where infinite faces lie while the cuts are weighed."""

    k: int
    diversity: NDArray[np.intp]
    epsilon: Floats
    lowest: Floats
    highest: Floats


@dataclass(eq=False, repr=False)
class Front:
    """The records and cells still in play, by the rules; ``right`` (N,): a record lies right of its cell's cut."""

    columns: list[Column]
    cells: Cells
    rules: Rules
    right: Flags

    def restricted(self, chosen: Flags) -> Front:
        """Return the front of some of the cells; ``right`` is shared."""
        if chosen.all():
            return self
        part = Front(list(self.columns), self.cells, self.rules, self.right)
        part.keep(chosen)
        return part

    def keep(self, chosen: Flags) -> None:
        """Leave the other cells and their records out."""
        kept = np.repeat(chosen, self.cells.size)
        self.columns[:] = [column.take(kept) for column in self.columns]
        self.cells = self.cells[chosen]

    def mark_right(self, axis: Integers, position: Integers) -> None:
        """Set which records lie right of their cell's cut, ``position`` (C,) records after the cell's start."""
        cells = self.cells
        beyond = np.arange(len(self.columns[0].record)) >= np.repeat(cells.start + position, cells.size)
        for j, column in enumerate(self.columns):
            here = np.repeat(axis == j, cells.size)
            self.right[column.record[here]] = beyond[here]

    def cut(self, axis: Integers, position: Integers, face: Floats) -> None:
        """Cut every cell; the left parts of all come first, then the right parts."""
        self.mark_right(axis, position)
        for j, column in enumerate(self.columns):
            goes = self.right[column.record]
            self.columns[j] = column.take(np.concatenate([np.flatnonzero(~goes), np.flatnonzero(goes)]))
        cells, each = self.cells, np.arange(len(axis))
        upper, lower = cells.upper.copy(), cells.lower.copy()
        upper[each, axis] = face
        lower[each, axis] = face
        left = Cells(position, cells.lower, upper, cells.root)
        self.cells = _join([left, Cells(cells.size - position, lower, cells.upper, cells.root)])


def cut_between(left: Floats, right: Floats) -> Floats:
    """Choose a round number strictly between two values.

    Parameters
    ----------
    left, right : (M,), left < right

    Returns
    -------
    (M,)
        The midpoint, rounded to the largest power of ten within the gap, or to a tenth of it where that
        would not be strictly between; NaN where no double lies between.

    Notes
    -----
    Claim: a function of the two values alone. A bare midpoint would give each of two neighbours the
    other's value, 2z − x, to the last digit; a rounded one only to about the gap between them.

    Source: elementary.

    Examples
    --------
    >>> cut_between(np.array([41.2371, 3.0]), np.array([41.2618, 4.0])).tolist()
    [41.25, 3.5]
    """
    middle = 0.5 * left + 0.5 * right
    result = np.where((left < middle) & (middle < right), middle, np.nan)
    with np.errstate(all="ignore"):
        power = np.floor(np.log10(right - left))
        for digits in (1.0 - power, -power):
            # Dividing by a power of ten, and not multiplying, gives the double nearest to the decimal.
            unit = 10.0 ** np.abs(digits)
            rounded = np.where(digits > 0, np.rint(middle * unit) / unit, np.rint(middle / unit) * unit)
            result = np.where((left < rounded) & (rounded < right), rounded, result)
    return result


def sorted_columns(x: Floats, a: Floats, root: Integers) -> list[Column]:
    """Sort every column of (N, n) records within its root."""
    result = []
    for values, weights in zip(x.T, a.T, strict=True):
        order = np.lexsort((values, root))
        order = order.astype(np.int32) if len(x) < 2**31 else order
        result.append(Column(order, values[order], weights[order]))
    return result


def cut_all(front: Front) -> tuple[Integers, Cells]:
    """Cut until no cell can be, using up the columns; return (N,) each record's leaf, and the leaves."""
    leaf = np.empty(len(front.right), dtype=np.intp)
    leaves: list[Cells] = []
    done = 0
    while len(front.cells.size):
        axis, position, face = _best_cuts(front)
        closed = axis < 0
        resting = np.repeat(closed, front.cells.size)
        number = np.repeat(done + np.cumsum(closed) - 1, front.cells.size)
        leaf[front.columns[0].record[resting]] = number[resting]
        leaves.append(front.cells[closed])
        done += int(closed.sum())
        if closed.any():
            front.keep(~closed)
            axis, position, face = axis[~closed], position[~closed], face[~closed]
        front.cut(axis, position, face)
    return leaf, _join(leaves)


def _best_cuts(front: Front) -> tuple[Integers, Integers, Floats]:
    """Return (C,) each: the column to cut, -1 for none, the records left of the cut, and its face."""
    cells, rules = front.cells, front.rules
    c = len(cells.size)
    axis, position, face, most = np.full(c, -1), np.zeros(c, np.intp), np.zeros(c), np.full(c, -np.inf)
    open_ = cells.size >= 2 * rules.k
    low = np.where(np.isinf(cells.lower), rules.lowest[cells.root], cells.lower)
    high = np.where(np.isinf(cells.upper), rules.highest[cells.root], cells.upper)
    for j, column in enumerate(front.columns):
        cuts = _cuts(column, cells, rules.k)
        for target, apply in _targets(cells.size, rules.k):
            at, valid = cuts.nearest(target)
            valid &= open_ & apply
            if rules.diversity.max() > 1 and valid.any():
                at, valid = _keep_diversity(front, j, cuts, at, valid)
            left_sum, right_sum, z = _halves(column, cells, np.where(valid, at, 1))
            gain = left_sum * (high[:, j] - z) + right_sum * (z - low[:, j])
            better = valid & np.isfinite(z) & (gain > most)
            axis[better], position[better] = j, at[better]
            face[better], most[better] = z[better], gain[better]
    return axis, position, face


def _targets(size: Integers, k: int) -> list[tuple[Integers, Flags]]:
    """Return the records left of the cuts that leave both sides the most boxes of k, and where each applies.

    There is one where the number of boxes is even, the median, and else one on either side of it.
    """
    boxes = np.maximum(size // k, 1)
    fewer = size * (boxes // 2) // boxes
    return [(fewer, np.ones(len(size), dtype=bool)), (size - fewer, size != 2 * fewer)]


def _halves(column: Column, cells: Cells, at: Integers) -> tuple[Floats, Floats, Floats]:
    """Return (C,) each: the sums of weights on both sides of a cut and the cut's face."""
    start = cells.start
    ends = np.column_stack([start, np.minimum(start + at, len(column.value) - 1)]).ravel()
    sums = np.add.reduceat(column.weight, ends).reshape(-1, 2)
    after = ends[1::2]
    return sums[:, 0], sums[:, 1], cut_between(column.value[after - 1], column.value[after])


@dataclass(frozen=True, eq=False, repr=False)
class _Cuts:
    """Where a column can be cut without parting ties: positions in the column, ascending."""

    boundary: Integers
    start: Integers
    size: Integers
    k: int

    def nearest(self, target: Integers) -> tuple[Integers, Flags]:
        """Return (C,) the boundary nearest to a target, the lower of two, and whether it is valid."""
        up, up_valid = self.from_(target)
        down, down_valid = self.up_to(target)
        lower = down_valid & (~up_valid | (target - down <= up - target))
        return np.where(lower, down, up), up_valid | down_valid

    def from_(self, target: Integers) -> tuple[Integers, Flags]:
        """Return (C,) the first boundary at or after a target, and whether it leaves k on both sides."""
        rank = np.searchsorted(self.boundary, self.start + np.maximum(target, self.k))
        return self._at(rank)

    def up_to(self, target: Integers) -> tuple[Integers, Flags]:
        """Return (C,) the last boundary at or before a target, and whether it leaves k on both sides."""
        wanted = self.start + np.minimum(target, self.size - self.k)
        return self._at(np.searchsorted(self.boundary, wanted, side="right") - 1)

    def _at(self, rank: Integers) -> tuple[Integers, Flags]:
        if not len(self.boundary):
            return np.zeros_like(rank), np.zeros(len(rank), dtype=bool)
        at = self.boundary[np.clip(rank, 0, len(self.boundary) - 1)] - self.start
        inside = (rank >= 0) & (rank < len(self.boundary))
        return at, inside & (at >= self.k) & (at <= self.size - self.k)


def _cuts(column: Column, cells: Cells, k: int) -> _Cuts:
    return _Cuts(np.flatnonzero(column.value[1:] > column.value[:-1]) + 1, cells.start, cells.size, k)


def _join(parts: Sequence[Cells]) -> Cells:
    names = ("size", "lower", "upper", "root")
    return Cells(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


# -- distinct values


def _keep_diversity(front: Front, j: int, cuts: _Cuts, at: Integers, valid: Flags) -> tuple[Integers, Flags]:
    """Move cuts of column j to the nearest position that leaves enough distinct values on both sides.

    More records never have fewer distinct values, so the positions that serve the left side are all those
    from some one on, and those that serve the right side all those up to some other: bisection finds them.
    """
    at, valid = at.copy(), valid.copy()
    chosen = np.flatnonzero(valid)
    front = front.restricted(valid)
    left_ok = _side_is_diverse(front, j, at[chosen], np.zeros(len(chosen), bool))
    right_ok = _side_is_diverse(front, j, at[chosen], np.ones(len(chosen), bool))
    valid[chosen[~left_ok & ~right_ok]] = False
    mend = left_ok != right_ok
    chosen, lacks_right = chosen[mend], left_ok[mend]
    if not len(chosen):
        return at, valid
    front = front.restricted(mend)
    size, k = front.cells.size, front.rules.k
    # Bisect the size of the side that lacks something, between too few and one more than allowed.
    few, enough = np.where(lacks_right, size - at[chosen], at[chosen]), size - k + 1
    while (enough - few > 1).any():
        middle = np.where(enough - few > 1, (few + enough) // 2, few)
        serves = _side_is_diverse(front, j, np.where(lacks_right, size - middle, middle), lacks_right)
        few, enough = np.where(serves, few, middle), np.where(serves, middle, enough)
    split = np.where(lacks_right, size - enough, enough)
    sub = _Cuts(cuts.boundary, cuts.start[chosen], size, k)
    (up, up_valid), (down, down_valid) = sub.from_(split), sub.up_to(split)
    place = np.where(lacks_right, down, up)
    ok = np.where(lacks_right, down_valid, up_valid) & (enough <= size - k)
    place = np.where(ok, place, at[chosen])
    ok &= _side_is_diverse(front, j, place, ~lacks_right)
    at[chosen], valid[chosen] = place, ok
    return at, valid


def _side_is_diverse(front: Front, j: int, position: Integers, side: Flags) -> Flags:
    """Return (C,): whether one side (True: right) of a cut of column j has enough distinct values."""
    cells, rules = front.cells, front.rules
    front.mark_right(np.full(len(position), j), position)
    size = np.where(side, cells.size - position, position)
    wanted = np.repeat(side, cells.size)
    result = np.ones(len(position), dtype=bool)
    for i, column in enumerate(front.columns):
        if rules.diversity[i] > 1:
            values = column.value[front.right[column.record] == wanted]
            result &= _diverse(values, size, rules.diversity[i], rules.epsilon[i])
    return result


def _diverse(values: Floats, size: Integers, least: int, epsilon: float) -> Flags:
    """Return (C,): whether each run of sorted values has at least so many that are ε apart."""
    end = np.cumsum(size)
    at, result = end - size, size > 0
    for _ in range(least - 1):
        at = np.where(result, _next_apart(values, np.minimum(at, len(values) - 1), end, epsilon), end)
        result &= at < end
    return result


def packed(values: Floats, size: Integers, epsilon: float) -> Integers:
    """Return (B,): the most values of each run of sorted values that are ε apart."""
    total = len(values)
    end = np.repeat(np.cumsum(size), size)
    step = _next_apart(values, np.arange(total), end, epsilon)
    # From every value to the next far enough, and beyond the run's end to nowhere; doubled until all heads
    # have arrived there.
    step = np.append(np.where(step < end, step, total), total)
    count = np.append(np.ones(total, dtype=np.intp), 0)
    heads = np.cumsum(size) - size
    while (step[heads] < total).any():
        count, step = count + count[step], step[step]
    return count[heads]


def _next_apart(values: Floats, at: Integers, end: Integers, epsilon: float) -> Integers:
    """Return the first index after ``at`` whose value is larger and at least ε larger; ``end`` for none."""
    low, high = at + 1, end.copy()
    base = values[at]
    while (low < high).any():
        middle = (low + high) // 2
        beyond = values[np.minimum(middle, len(values) - 1)] - base
        apart = (beyond >= epsilon) & (beyond > 0)
        searching = low < high
        high = np.where(searching & apart, middle, high)
        low = np.where(searching & ~apart, middle + 1, low)
    return high


def refuse_small(front: Front) -> None:
    """Raise InfeasibleError unless every root can be a box by itself."""
    cells, rules = front.cells, front.rules
    small = int((cells.size < rules.k).sum())
    if small:
        raise InfeasibleError(
            f"boxes: {small} of {len(cells.size)} strata have fewer than k = {rules.k} records; merge strata or lower k"
        )
    for j, column in enumerate(front.columns):
        poor = int((~_diverse(column.value, cells.size, rules.diversity[j], rules.epsilon[j])).sum())
        if poor:
            raise InfeasibleError(
                f"boxes: {poor} of {len(cells.size)} strata have fewer than l = {rules.diversity[j]} "
                f"distinct values of column {j}; lower l or epsilon for that column, or merge strata"
            )
