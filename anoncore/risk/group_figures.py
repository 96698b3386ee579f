"""Variables that were computed from the records of a group, and releases that repeat what was computed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom

from anoncore.kernels.group_figures import Figure, computed_figures
from anoncore.kernels.threads import in_threads
from anoncore.microdata import Microdata
from anoncore.microdata.precision import observed_precision
from anoncore.risk._checks import Floats
from anoncore.risk._values import aligned_values

# Below which chance does not explain how many figures stand in the release.
LEVEL = 1e-3
# Steps by which figures are moved in either direction, to count those that stand there by chance.
_MOVED = 20
# Of the range of the figures: moved further, they would leave it.
_WITHIN = 8
# Numbers are told apart down to this part of the range where they have no unit.
_FINEST = 1e-9
# Whose squares and sums are finite; columns that are dropped may hold larger numbers.
_LARGEST = 1e100


@dataclass(frozen=True)
class GroupFigure:
    """A variable that was computed from another one of all records of a group, or of one part of each group.

    Parameters
    ----------
    variable : the figure, such as the greatest wage of a firm
    number : the variable that it was computed from; it may be dropped
    group : the variable by which records are grouped; the figure itself where no other one determines it
    kind : what was computed, or of which it is a linear function
    part : the variable of which one level's records alone were counted; None where all were
    """

    variable: str
    number: str
    group: str
    kind: Figure
    part: str | None = None

    @property
    def reason(self) -> str:
        """What it is, as a phrase."""
        groups = "records that share it" if self.group == self.variable else f"all records with the same {self.group}"
        if self.part is not None:
            groups += f" and one value of {self.part}"
        return f"the {self.kind} of {self.number} among {groups}, or a linear function of it"


@dataclass(frozen=True)
class ReleasedFigures:
    """How many of the figures of one variable stand in the release.

    Parameters
    ----------
    source : which variable it is, and what it was computed from
    figures : different figures of the source; of groups, where these are released and chance explains less of them so
    repeated : those that the release has, of the same group
    by_chance : as many as the release has, on average, of the same figures moved by some units
    p : probability of so many by chance
    share : of the released records with a value whose value is a figure of the source
    """

    source: GroupFigure
    figures: int
    repeated: int
    by_chance: float
    p: float
    share: float

    @property
    def is_explained(self) -> bool:
        """Whether chance explains the figures that are repeated."""
        return self.p >= LEVEL


@dataclass(frozen=True)
class GroupFigures:
    """Released variables that were computed from all records of a group.

    Parameters
    ----------
    records : of the release, that were compared
    looked_at : released numbers, and variables whose levels are numbers
    computed : those that were computed from another number of all records of a group, whether repeated or not
    """

    meaning: ClassVar[str] = (
        "Numbers that were computed from all records of a group, or from those with one value of another variable, and "
        "are released as they were computed: the greatest "
        "of a group is one person's number, and who knows all others computes the last one from a mean or a sum."
    )

    records: int
    looked_at: int
    computed: tuple[ReleasedFigures, ...]

    @property
    def repeated(self) -> tuple[ReleasedFigures, ...]:
        """Those that the release repeats, the most frequent first."""
        return tuple(sorted((one for one in self.computed if not one.is_explained), key=lambda one: -one.repeated))


def find_group_figures(
    columns: pd.DataFrame,
    figures: Collection[str],
    units: NDArray[np.integer] | None = None,
    *,
    group: str | None = None,
) -> tuple[GroupFigure, ...]:
    """Find variables that were computed from another one of all records of a group, or of one part of each group.

    Parameters
    ----------
    columns : (N, n) all columns of the whole table, also those that are dropped; numbers and levels
    figures : names of the columns to look at, where they hold numbers; all others serve as groups and as what is
        computed from
    units : (N,) the statistical unit of each record; None where each is its own
    group : the column whose groups alone are looked at; None for those of all columns

    Returns
    -------
    tuple of GroupFigure
        In the order of the columns; of variables whose values 8 groups or more share, 3 records each on average.

    Notes
    -----
    Claim: found in independent columns hardly ever (none of 200 random tables of 12 columns), since 90 % of the groups
    in which the number varies must agree to rounding. A number that is merely constant within groups is none. Source:
    differencing and dominance in tables of magnitudes, Hundepool et al. 2012, *Statistical Disclosure Control*,
    chapter 4.

    Examples
    --------
    >>> draw = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"school": np.arange(600) // 20, "score": draw.integers(0, 900, 600) / 10})
    >>> frame["average"] = frame.groupby("school")["score"].transform("mean").round(2)
    >>> find_group_figures(frame, ["average"])
    (GroupFigure(variable='average', number='score', group='school', kind='mean', part=None),)
    """
    coded = dict(
        zip(map(str, columns.columns), in_threads(_coded, (columns[name] for name in columns.columns)), strict=True)
    )
    numbers = {name: levels for name, (_, levels) in coded.items() if levels is not None}
    names = [*numbers, *(name for name in coded if name not in numbers)]
    if not numbers or not len(columns):
        return ()
    # Columns lie together, as they are read one after the other.
    codes = np.array([coded[name][0] for name in names]).T
    del coded
    matrix = np.array([np.append(levels, np.nan)[codes[:, at]] for at, levels in enumerate(numbers.values())]).T
    precision = np.array(list(in_threads(_unit, numbers.values())))
    asked = np.array([name in figures for name in numbers])
    people = None if units is None else np.asarray(units)
    found = computed_figures(
        matrix, precision, asked, codes, people, only=None if group is None else names.index(group)
    )
    return tuple(
        GroupFigure(
            names[one.figure],
            names[one.number],
            names[one.figure if one.group < 0 else one.group],
            one.kind,
            None if one.part < 0 else names[one.part],
        )
        for one in found
    )


def group_figures(original: Microdata, released: Microdata, known: Sequence[GroupFigure] | None = None) -> GroupFigures:
    """Look for released variables that were computed from all records of a group, and whose figures are repeated.

    Parameters
    ----------
    original, released : Microdata
    known : figures that were found in the whole table, before columns were dropped; None to look for them in
        ``original``, which then has to hold whole groups

    Returns
    -------
    GroupFigures

    Notes
    -----
    Figures that the release has are compared with those that it has of the same figures moved by up to 20 of their
    units: values of their own that merely lie near are met as often there. An exact binomial test at 0.001.

    Claim: none. Source: that of :func:`find_group_figures`.

    Examples
    --------
    >>> from anoncore.microdata import Schema, Variable
    >>> draw = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"firm": np.arange(600) // 20, "wage": draw.integers(1000, 9000, 600).astype(float)})
    >>> frame["top"] = frame.groupby("firm")["wage"].transform("max")
    >>> schema = Schema([Variable("firm", "nominal"), Variable("wage", "continuous"), Variable("top", "continuous")])
    >>> data = Microdata(frame, schema)
    >>> [(one.source.variable, one.repeated) for one in group_figures(data, data).repeated]
    [('top', 30)]
    >>> elsewhere = Microdata(frame.assign(top=frame["top"] + draw.integers(-400, 400, 600)), schema)
    >>> group_figures(data, elsewhere).repeated
    ()
    """
    shared = [v.name for v in released.schema if v.is_masked and v.name in original.schema]
    tables = {name: tuple(_numbers(table.frame[name]) for table in (original, released)) for name in shared}
    numbers = {n: (own, theirs) for n, (own, theirs) in tables.items() if own is not None and theirs is not None}
    if known is None:
        known = find_group_figures(original.frame, numbers, original.units)
    groups = {n: aligned_values([original, released], n) for n in {one.group for one in known} & set(shared)}
    counted = (_released(one, numbers[one.variable], groups.get(one.group)) for one in known if one.variable in numbers)
    return GroupFigures(len(released), len(numbers), tuple(counted))


def _released(figure: GroupFigure, numbers: tuple[Floats, Floats], groups: list[Floats] | None) -> ReleasedFigures:
    """Count the figures of one variable in the release, alone and beside their groups, and take the clearer result.

    Parameters
    ----------
    numbers : (N,) and (M,) values in the original and in the release
    groups : the same of the variable by which records are grouped; None where it is not released
    """
    own, theirs = numbers
    known = own[~np.isnan(own)]
    unit = _unit(own) or (_FINEST * float(np.ptp(known)) if len(known) else 0.0) or 1.0
    places = [np.round(values / unit) for values in numbers]
    there = ~np.isnan(theirs)
    share = float(np.isin(places[1][there], places[0]).mean()) if there.any() else 0.0
    sides = [[np.zeros(len(values)) for values in numbers]]
    if groups is not None and figure.group != figure.variable:
        sides.append(groups)
    counts = (_repeated(*(_pairs(g, at) for g, at in zip(side, places, strict=True))) for side in sides)
    return ReleasedFigures(figure, *min(counts, key=lambda one: one[-1]), share)


def _pairs(group: Floats, place: Floats) -> NDArray[np.complex128]:
    """Return the different pairs of a group and a place, neither missing, as complex numbers."""
    there = ~np.isnan(group) & ~np.isnan(place)
    return np.unique(place[there] + 1j * group[there])


def _repeated(figures: NDArray[np.complex128], released: NDArray[np.complex128]) -> tuple[int, int, float, float]:
    """Return how many figures there are and are released, how many would be by chance, and the probability of so many.

    Parameters
    ----------
    figures, released : (q,) different pairs of a place, in units, and a group
    """
    if not len(figures) or not len(released):
        return len(figures), 0, 0.0, 1.0
    steps = int(min(_MOVED, max(1.0, np.ptp(figures.real) // _WITHIN)))
    moves = [step for step in range(-steps, steps + 1) if step]
    repeated = int(np.isin(figures, released).sum())
    by_chance = (sum(int(np.isin(figures + move, released).sum()) for move in moves) + 1.0) / len(moves)
    p = float(binom.sf(repeated - 1, len(released), min(1.0, by_chance / len(released))))
    return len(figures), repeated, by_chance, p


def _numbers(column: pd.Series) -> Floats | None:
    """Return a column as numbers, also where it was read as text or levels, and two levels as 0 and 1; else None."""
    codes, levels = _coded(column)
    return None if levels is None else np.asarray(np.append(levels, np.nan)[codes])


def _coded(column: pd.Series) -> tuple[NDArray[np.int32], Floats | None]:
    """Return (N,) codes of a column's values, -1 where missing, and what number each code is; None without numbers."""
    found, levels = pd.factorize(column, sort=False)
    codes = found.astype(np.int32)
    if isinstance(levels, pd.CategoricalIndex):
        levels = levels.astype(object)
    try:
        values = pd.to_numeric(pd.Series(levels), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    except OverflowError:  # whole numbers beyond every float, which columns that are dropped may hold
        return codes, None
    if np.isnan(values).any():
        return codes, np.array([0.0, 1.0]) if len(levels) == 2 else None
    # Several texts may be one number, and too large ones are none.
    of_level, numbers = pd.factorize(np.where(np.abs(values) <= _LARGEST, values, np.nan))
    return np.append(of_level, -1).astype(np.int32)[codes], np.asarray(numbers, dtype=np.float64)


def _unit(values: Floats) -> float:
    """Return the largest unit of which all differences of the values are multiples; 0 of numbers without one."""
    present = np.unique(values[np.isfinite(values)])
    precision = observed_precision(present)
    if precision is None or np.abs(present).max() / precision >= 2**53:
        return 0.0
    steps = np.diff(np.round(present / precision).astype(np.int64))
    return precision * int(np.gcd.reduce(steps)) if len(steps) else precision
