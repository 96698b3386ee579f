"""Numbers that were computed from another number of all records of a group, as the greatest wage of a firm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.threads import in_threads

Floats = NDArray[np.float64]
Codes = NDArray[np.integer]
Flags = NDArray[np.bool_]
Figure = Literal["mean", "median", "least", "greatest", "sum"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
SUM = 4
EXTREMES = LEAST, GREATEST = 2, 3

FEWEST = 8  # groups, and different figures of theirs, that must agree
AGREE = 0.9  # of the groups in which the number varies
VARY = 0.5  # of the groups
WITHIN = 0.05  # least share of a number's variance that is within groups
OVERLAP = 0.5  # of the groups, in the order of their least numbers, that reach into the next: else they are its classes
SCREENED = 40  # groups, the smallest, on which all pairs of numbers are tried first
PASSED = 0.6  # of these
FEWEST_SCREENED = 3  # records of a screened group
SAMPLED = 10_000  # first records, and as many from all over the table, by which most numbers are refuted
PART_LEVELS = 10  # of a column by each of whose levels some records of a group alone may be counted
PART_RECORDS = 50_000  # of the screened groups, up to which that is tried
PART_SCREENED = 1000  # records of screened groups, about, on which parts are tried
PAIRS = 256  # of records of one group, on which a number is tried first for being the same in both
# Units of a figure by which it may differ: rounded, and beside an estimated constant.
EXACT, SHIFTED = 0.5, 0.75
COARSE = 0.1  # of its standard deviation: above, a constant and a factor fit too much
LIMIT = 1e-6  # of its range: rounding of single precision


class Computed(NamedTuple):
    """Places of a figure and of the number that it is computed from, of the groups' column, -1 for its own values.

    ``part`` is the place of the column of which one level's records alone are counted, -1 for all records.
    """

    figure: int
    number: int
    group: int
    kind: Figure
    part: int = -1


@dataclass(frozen=True, eq=False, repr=False)
class _Groups:
    """Records in the order of their groups.

    Parameters
    ----------
    rows : (M,) records that are in a group
    starts : (G,) the first of each group among them
    own : the groups are the values of the figure itself
    """

    rows: Codes
    starts: Codes
    own: bool = False

    @classmethod
    def of(cls, codes: Codes, *, own: bool = False) -> _Groups:
        """Sort the records by their codes; those below 0 are in no group."""
        # Short codes are sorted by radix, in a tenth of the time.
        short = codes.astype(np.int16) if codes.max(initial=0) < np.iinfo(np.int16).max else codes
        rows = np.argsort(short, kind="stable")[int((codes < 0).sum()) :]
        return cls(rows, np.flatnonzero(np.diff(codes[rows], prepend=-1)), own)

    @property
    def sizes(self) -> Codes:
        """Return (G,) the records of each group."""
        return np.diff(np.append(self.starts, len(self.rows)))

    @property
    def of_rows(self) -> Codes:
        """Return (M,) the group of each record."""
        return np.repeat(np.arange(len(self.starts)), self.sizes)

    @classmethod
    def smallest(cls, codes: Codes, *, own: bool = False) -> _Groups:
        """Take the smallest groups with enough records, without sorting all: a figure of all groups is one of these."""
        sizes = np.bincount(codes[codes >= 0])
        chosen = np.argsort(np.where(sizes < FEWEST_SCREENED, len(codes) + 1, sizes), kind="stable")[:SCREENED]
        is_chosen = np.zeros(len(sizes) + 1, dtype=bool)  # the last place is that of code -1
        is_chosen[chosen] = True
        kept = np.flatnonzero(is_chosen[codes])
        some = cls.of(codes[kept], own=own)
        return cls(kept[some.rows], some.starts, own)

    def fewer(self, records: int) -> _Groups:
        """Return the first groups that hold about so many records; enough of them to be tried."""
        ends = np.append(self.starts, len(self.rows))
        kept = max(int(np.searchsorted(ends, records)), 2 * FEWEST)
        return _Groups(self.rows[: ends[min(kept, len(self.starts))]], self.starts[:kept], self.own)

    def first(self, values: Floats) -> Floats:
        """Return (G, …) a value of each group that is the same in all its records, from (N, …) values."""
        return np.asarray(np.fmax.reduceat(values[self.rows], self.starts))

    def same(self, values: Floats) -> Flags:
        """Return which columns of ``values`` (N, n) have one value in each group, missing ones apart."""
        inside = values[self.rows]
        low, high = np.fmin.reduceat(inside, self.starts), np.fmax.reduceat(inside, self.starts)
        return np.asarray(((low == high) | np.isnan(low)).all(axis=0))


@dataclass(frozen=True, eq=False, repr=False)
class _Figures:
    """Figures of groups.

    Parameters
    ----------
    values : (5, G, n) those of `FIGURES`, of each number; NaN where it does not vary within the group
    counts : (G, n) records with a number
    """

    values: Floats
    counts: Floats

    @classmethod
    def of(cls, numbers: Floats, groups: _Groups, *, medians: bool = True) -> _Figures:
        """Compute them of numbers (N, n); no medians where groups are the figure's own values.

        Numbers beside equal values often lie around these, so that many medians are equal to them.
        """
        inside = numbers[groups.rows]
        values, counts = _of_cells(inside, groups.of_rows, len(groups.starts))
        if medians and not groups.own:
            values[FIGURES.index("median")] = np.where(np.isnan(values[0]), np.nan, _medians(inside, groups, counts))
        return cls(values, counts)


def _of_cells(numbers: Floats, cells: Codes, size: int) -> tuple[Floats, Floats]:
    """Return figures (5, size, n) of numbers (M, n) by cells (M,), none below 0, without medians; and counts."""
    from anoncore.kernels._group_figures_compiled import cell_figures

    values, counts = np.empty((len(FIGURES), size, numbers.shape[1])), np.zeros((size, numbers.shape[1]))
    cell_figures(numbers, cells, values, counts)
    return values, counts


def _of_levels(numbers: Floats, groups: _Groups, codes: Codes) -> tuple[Floats, list[int]]:
    """Return figures (5, G, p, n) over the records of p levels in each group, and the levels, of codes (N,).

    Those of which a number can vary within enough groups; no medians.
    """
    levels, size, of_rows = int(codes.max(initial=-1)) + 1, len(groups.starts), groups.of_rows
    held = np.bincount((of_rows * levels + codes)[codes >= 0], minlength=size * levels).reshape(size, levels)
    chosen = np.flatnonzero((held > 1).sum(axis=0) >= FEWEST)
    place = np.full(levels + 1, -1)  # the last one is that of code -1
    place[chosen] = np.arange(len(chosen))
    cells = np.where(place[codes] < 0, -1, of_rows * len(chosen) + place[codes])
    figures, _ = _of_cells(numbers, cells, size * len(chosen))
    return figures.reshape(len(FIGURES), size, len(chosen), numbers.shape[1]), chosen.tolist()


def _medians(inside: Floats, groups: _Groups, counts: Floats) -> Floats:
    """Return (G, n) medians of numbers (M, n) in the order of their groups."""
    of_rows, last = groups.of_rows, len(inside) - 1
    medians = np.empty_like(counts)
    for at, column in enumerate(inside.T):
        ranked = column[np.lexsort((column, of_rows))]
        present = np.maximum(counts[:, at], 1).astype(np.intp)
        middle = [np.minimum(groups.starts + place, last) for place in ((present - 1) // 2, present // 2)]
        medians[:, at] = (ranked[middle[0]] + ranked[middle[1]]) / 2
    return medians


def computed_figures(
    numbers: Floats,
    units: Floats,
    figures: Flags,
    groups: Codes,
    people: Codes | None = None,
    *,
    only: int | None = None,
) -> list[Computed]:
    """Find the numbers that are a figure of groups, computed from another number of their records.

    Groups are the values of any column that determines the figure; of a figure that none does, its own values, if it
    is then equal to the mean, the sum or an extreme that one record alone has. Otherwise it may be a constant plus a
    multiple of a mean, median, least or greatest number, so that centred and scaled ones are found. Its groups must
    hold several units, and the number must vary within them, not be cut into classes by them. Where it is computed from
    no number of all records, those of one level of a column with few are tried, but for medians, and first on about
    1000 records of groups: of a level that few records of a large group hold, a figure may be missed.

    Parameters
    ----------
    numbers : (N, n) float64, NaN where missing
    units : (n,) precision of each, 0 for none
    figures : (n,) which of them to look at; all serve as what is computed from
    groups : (N, m) values of columns as codes, -1 where missing; the first n are those of the numbers
    people : (N,) the statistical unit of each record; None where each is its own
    only : the place of the column whose values alone are groups; None for all

    Returns
    -------
    list of Computed, one for each figure at most, in their order

    Examples
    --------
    >>> draw = np.random.default_rng(0)
    >>> firm, wage = np.arange(200) // 10, draw.integers(1000, 9000, 200).astype(float)
    >>> top = np.maximum.reduceat(wage, np.arange(0, 200, 10))[firm]
    >>> columns = np.column_stack([wage, top])
    >>> codes = [np.unique(column, return_inverse=True)[1] for column in columns.T]
    >>> computed_figures(columns, np.ones(2), np.ones(2, dtype=bool), np.column_stack([*codes, firm]))
    [Computed(figure=1, number=0, group=2, kind='greatest', part=-1)]
    """
    records, width = numbers.shape
    levels = groups.max(axis=0, initial=-1) + 1
    known = (~np.isnan(numbers)).sum(axis=0)
    candidates = np.flatnonzero(figures & (levels[:width] >= FEWEST) & (levels[:width] <= known / 3))
    found: dict[int, Computed] = {}
    determined: set[int] = set()
    asked_for = np.full(len(levels), only is None)
    if only is not None:
        asked_for[only] = True
    usable = np.flatnonzero((levels >= FEWEST) & (levels <= records / 2) & asked_for).tolist()
    # Of columns with the same groups the first names them: levels sooner than another figure.
    parts_by = np.flatnonzero((levels >= 2) & (levels <= PART_LEVELS))
    parts = _Parts(groups, parts_by, np.flatnonzero(levels[:width] >= 2))
    order = sorted(usable, key=lambda at: (at < width, levels[at]))
    for group in order:
        asked = [at for at in candidates.tolist() if at != group and levels[at] <= levels[group]]
        asked = _determined(numbers, asked, groups[:, group])
        determined |= set(asked)
        asked = [at for at in asked if at not in found]
        found |= _Search(numbers, units, group, groups[:, group], people, parts).found(asked)
    for at in candidates[asked_for[candidates]].tolist():
        values = np.unique(numbers[:, at])
        if at not in determined and _is_fine(values[~np.isnan(values)], float(units[at])):
            found |= _Search(numbers, units, -1, groups[:, at], people, parts).found([at])
    return [found[at] for at in sorted(found)]


def _determined(numbers: Floats, asked: list[int], codes: Codes) -> list[int]:
    """Return which numbers have one value in each group; pairs of records refute most, of some records already."""
    records = np.arange(len(codes))
    some = np.union1d(records[:SAMPLED], records[:: max(1, len(codes) // SAMPLED)])
    for rows in (some, records):
        if asked:
            groups = _Groups.of(codes[rows])
            asked = _not_refuted(numbers, asked, _Groups(rows[groups.rows], groups.starts))
    return [at for at in asked if groups.same(numbers[:, [at]])[0]] if asked else []


def _not_refuted(numbers: Floats, asked: list[int], groups: _Groups) -> list[int]:
    """Return which numbers are the same in some pairs of records of one group."""
    inside = np.ones(len(groups.rows), dtype=bool)
    inside[groups.starts] = False
    second = np.flatnonzero(inside)
    second = second[:: max(1, len(second) // PAIRS)]
    one, other = (numbers[groups.rows[at]][:, asked] for at in (second, second - 1))
    differ = (one != other) & ~np.isnan(one) & ~np.isnan(other)
    return [at for at, refuted in zip(asked, differ.any(axis=0), strict=True) if not refuted]


@dataclass(frozen=True, eq=False, repr=False)
class _Parts:
    """Codes (N, m), the columns by whose levels parts are taken, and the numbers that vary."""

    codes: Codes
    columns: Codes
    numbers: Codes


@dataclass(frozen=True, eq=False, repr=False)
class _Search:
    """Looks for what figures of one set of groups are computed from; parameters are those of `computed_figures`.

    Parameters
    ----------
    group : the column of the groups, -1 where they are the figure's own values
    codes : (N,) the groups
    """

    numbers: Floats
    units: Floats
    group: int
    codes: Codes
    people: Codes | None
    parts: _Parts

    @property
    def own(self) -> bool:
        return self.group < 0

    @cached_property
    def whole(self) -> _Groups:
        """All records by their groups: sorted only where something is to be confirmed."""
        return _Groups.of(self.codes, own=self.own)

    @cached_property
    def is_of_several(self) -> bool:
        """Whether groups hold several units."""
        return self.people is None or _hold_several(self.whole, self.people)

    def found(self, asked: list[int]) -> dict[int, Computed]:
        """Return the first number and kind that each figure is computed from: of all records, or of a part of them."""
        if not asked:
            return {}
        some = _Groups.smallest(self.codes, own=self.own)
        figures = {at: some.first(self.numbers[:, at]) for at in asked}
        whole = _Figures.of(self.numbers, some).values[:, :, None]
        found = self._confirmed(self._screened(figures, whole, np.arange(self.numbers.shape[1]), [(-1, 0)]))
        rest = {at: figure for at, figure in figures.items() if at not in found}
        if not rest or len(some.rows) > PART_RECORDS:
            return found
        some = some.fewer(PART_SCREENED)
        rest = {at: figure[: len(some.starts)] for at, figure in rest.items()}
        numbers, here = self.parts.numbers, _Groups(np.arange(len(some.rows)), some.starts, self.own)
        screened, coded = self.numbers[np.ix_(some.rows, numbers)], self.parts.codes[some.rows]

        def of_parts(column: int) -> list[tuple[Computed, int]]:
            others, levels = _of_levels(screened, here, coded[:, column])
            return self._screened(rest, others, numbers, [(column, level) for level in levels])

        for promising in in_threads(of_parts, [at for at in self.parts.columns.tolist() if at != self.group]):
            found |= self._confirmed([one for one in promising if one[0].figure not in found])
        return found

    def _screened(
        self, figures: dict[int, Floats], others: Floats, numbers: Codes, parts: list[tuple[int, int]]
    ) -> list[tuple[Computed, int]]:
        """Return what each figure may be computed from, by the screened groups, and the level of the part.

        Parameters
        ----------
        others : (5, G, p, n) the figures of some numbers over the records of a part
        numbers : (n,) their places
        parts : (p,) column and level; column -1 for all records
        """
        return [
            (Computed(at, int(numbers[which]), self.group, kind, parts[place][0]), parts[place][1])
            for at, figure in figures.items()
            for place, kind, which in _promising(figure, others, float(self.units[at]), own=self.own)
            if numbers[which] not in (at, self.group)
        ]

    def _confirmed(self, promising: list[tuple[Computed, int]]) -> dict[int, Computed]:
        """Return, for each figure, the first of what it may be computed from that all groups confirm."""
        found: dict[int, Computed] = {}
        for one, level in promising:
            if one.figure in found or not self.is_of_several:
                continue
            records = slice(None) if one.part < 0 else self.parts.codes[:, one.part] == level
            counted = np.full((len(self.numbers), 1), np.nan)
            counted[records, 0] = self.numbers[records, one.number]
            unit = float(self.units[one.figure])
            if _is_figure(self.numbers[:, one.figure], counted, self.whole, FIGURES.index(one.kind), unit):
                found[one.figure] = one
        return found


def _hold_several(groups: _Groups, people: Codes) -> bool:
    """Whether at least half of the groups hold records of several units."""
    own = people[groups.rows]
    several = np.minimum.reduceat(own, groups.starts) < np.maximum.reduceat(own, groups.starts)
    return bool(several.mean() >= VARY)


def _promising(figure: Floats, others: Floats, unit: float, *, own: bool) -> Iterator[tuple[int, Figure, int]]:
    """Yield part, kind and number whose figures (5, G, p, n) agree with ``figure`` (G,) in most groups.

    Those of the first part come first, and the best of each.
    """
    kinds, of_groups, parts, n = others.shape
    flat = others.reshape(kinds, of_groups, parts * n)
    shares = _agreement(figure, flat, unit, exact=[own or kind == SUM for kind in range(kinds)])
    by_part = shares.reshape(kinds, parts, n).swapaxes(0, 1)
    for part in np.flatnonzero((by_part >= PASSED).any(axis=(1, 2))).tolist():
        for place in np.argsort(-by_part[part], axis=None, kind="stable").tolist():
            kind, number = np.unravel_index(place, (kinds, n))
            if by_part[part, kind, number] < PASSED:
                break
            yield part, FIGURES[int(kind)], int(number)


def _agreement(figure: Floats, others: Floats, unit: float, *, exact: Sequence[bool]) -> Floats:
    """Return (k, n) in which share of the groups with both a figure (G,) is one of ``others`` (k, G, n).

    Equal up to rounding; unless it must be ``exact`` (k,), also up to a constant, or a constant and a factor.
    """
    from anoncore.kernels._group_figures_compiled import agreeing_shares

    shares = np.zeros((len(others), others.shape[2]))
    known = figure[~np.isnan(figure)]
    slack = LIMIT * float(np.ptp(known)) if len(known) else 0.0
    shifted = np.where(exact, -1.0, SHIFTED * unit + slack if _is_fine(known, unit) else -1.0)
    agreeing_shares(figure, others, EXACT * unit + slack, shifted, FEWEST, shares)
    return shares


def _is_fine(known: Floats, unit: float) -> bool:
    """Whether the known numbers of a figure are so many units apart that few others agree with it by chance."""
    return len(known) > 0 and bool(SHIFTED * unit <= COARSE * known.std())


def _is_figure(figure: Floats, number: Floats, groups: _Groups, kind: int, unit: float) -> bool:
    """Whether a figure (N,) is one of a number (N, 1) in nearly all groups in which that varies, and no class of it."""
    of_groups, own = _Figures.of(number, groups), groups.first(figure)
    values = of_groups.values[:, :, 0]
    vary = ~np.isnan(values[kind]) & ~np.isnan(own)
    enough = vary.sum() >= FEWEST and vary.mean() >= VARY
    if not enough or min(len(np.unique(one[vary])) for one in (own, values[kind])) < FEWEST:
        return False
    if _agreement(own, values[kind][None, :, None], unit, exact=[groups.own or kind == SUM])[0, 0] < AGREE:
        return False
    # What counts the records is no figure of a number that hardly varies.
    counts = np.column_stack([of_groups.counts, groups.sizes])[vary]
    counts = counts[:, np.ptp(counts, axis=0) > 0]
    if _agreement(own[vary], counts[None], unit, exact=[False]).max(initial=0.0) >= VARY:
        return False
    if not _varies_within(number[groups.rows, 0], groups) or not _overlaps(values[LEAST][vary], values[GREATEST][vary]):
        return False
    return not groups.own or kind not in EXTREMES or _held_by_one(number[groups.rows, 0], values[kind], groups)


def _varies_within(inside: Floats, groups: _Groups) -> bool:
    """Whether numbers (M,) vary within groups by more than a small part of their variance."""
    of_rows, known = groups.of_rows, ~np.isnan(inside)
    counts = np.bincount(of_rows[known], minlength=len(groups.starts))
    means = np.bincount(of_rows[known], inside[known], minlength=len(counts)) / np.maximum(counts, 1)
    rest = inside[known] - means[of_rows[known]]
    return bool(np.mean(rest**2) >= WITHIN * np.var(inside[known]))


def _overlaps(low: Floats, high: Floats) -> bool:
    """Whether most groups reach into the next one, unlike the classes into which a number is cut."""
    order = np.argsort(low, kind="stable")
    return bool(np.mean(high[order][:-1] > low[order][1:]) >= OVERLAP)


def _held_by_one(inside: Floats, extremes: Floats, groups: _Groups) -> bool:
    """Whether one record alone has the extreme in nearly every group: a limit is reached by several, or by none."""
    at = np.add.reduceat(inside == extremes[groups.of_rows], groups.starts)[~np.isnan(extremes)]
    return bool(np.mean(at == 1) >= AGREE)
