"""Values of several tables as numbers that compare as the values do, and how common each is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from anoncore.kernels.left_out import MISSING, Codes
from anoncore.microdata import EACH_RECORD, ComparedUnits, Microdata
from anoncore.microdata.units import Units, unit_codes
from anoncore.risk._checks import Floats
from anoncore.risk.scores import Certainty, ScoreAttack, score_attack

Flags = NDArray[np.bool_]

LEAST = 4  # people on each side
AT_MOST = 5000  # people scored on each side; of more a sample


def shared_variables(tables: Sequence[Microdata], variables: Sequence[str] | None = None) -> list[str]:
    """Return the masked variables that every table has, or those of ``variables``."""
    first = tables[0].schema
    names = first.masked if variables is None else variables
    return [name for name in names if all(name in table.schema for table in tables)]


def aligned_values(tables: Sequence[Microdata], name: str) -> list[Floats]:
    """Return one variable of each table as (N,) numbers: values of numbers, codes of levels, NaN where missing."""
    columns = [table.frame[name] for table in tables]
    if all(column.dtype == np.float64 for column in columns):
        return [column.to_numpy() for column in columns]
    if all(isinstance(column.dtype, pd.CategoricalDtype) for column in columns):
        number: dict[object, int] = {}
        of_levels = [[number.setdefault(level, len(number)) for level in c.cat.categories] for c in columns]
        # The code of a missing value is −1, the last.
        return [np.append(own, np.nan)[c.cat.codes] for own, c in zip(of_levels, columns, strict=True)]
    whole = pd.concat([column.astype("object") for column in columns], ignore_index=True)
    codes = pd.factorize(whole)[0].astype(np.float64)
    codes[codes < 0] = np.nan
    return list(np.split(codes, np.cumsum([len(column) for column in columns])[:-1]))


def logarithms(numbers: Floats) -> Floats:
    """Return logarithms; NaN of what is not above 0."""
    return np.asarray(np.log(np.where(numbers > 0.0, numbers, np.nan)))


def deviations(numbers: Floats) -> Floats:
    """Return the standard deviation of each column; 0 of one without numbers."""
    return np.array([np.nanstd(column) if np.isfinite(column).any() else 0.0 for column in numbers.T])


def drawn_people(table: Microdata, most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw records of at most so many statistical units, one of each, in the order of the table.

    Examples
    --------
    >>> from anoncore.microdata import Schema, Variable
    >>> frame = pd.DataFrame({"x": [1.0, 2.0, 3.0]})
    >>> months = Microdata(frame, Schema([Variable("x", "continuous")])).with_units([7, 7, 8])
    >>> drawn_people(months, 10, np.random.default_rng(0)).tolist()
    [0, 2]
    """
    order = rng.permutation(len(table))
    if table.units is not None:
        order = order[np.sort(np.unique(table.units[order], return_index=True)[1])]
    return np.sort(order[:most])


def places_among(asked: Floats, released: Floats, unit: int) -> tuple[Codes, Codes]:
    """Return the places of numbers in the distribution of those asked, from 0 to ``unit``; `MISSING` for NaN."""
    known = np.sort(asked[~np.isnan(asked)])

    def placed(values: Floats) -> Codes:
        lower, upper = (np.searchsorted(known, values, side=side) for side in ("left", "right"))
        shares = (lower + upper) / (2.0 * max(len(known), 1))
        return np.where(np.isnan(values), MISSING, np.rint(unit * shares)).astype(np.int32)

    return placed(asked), placed(released)


def codes_of_values(asked: Floats, released: Floats, unit: int) -> tuple[Codes, Codes]:
    """Return codes of values, multiples of ``unit``, one for all that no one asked holds; `MISSING` for NaN."""
    known = np.unique(asked[~np.isnan(asked)])

    def coded(values: Floats) -> Codes:
        places = np.searchsorted(known, values)
        held = np.append(known, np.nan)[places] == values
        return np.where(np.isnan(values), MISSING, unit * np.where(held, places, len(known))).astype(np.int32)

    return coded(asked), coded(released)


def drawn_records(units: Units | None, records: int, most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw at most so many records, of whole statistical units, in the order of the table.

    A unit with more of its records among those drawn would have a higher best score than one with fewer.

    Examples
    --------
    >>> drawn_records(np.array([7, 7, 8, 9, 9]), 5, 4, np.random.default_rng(0)).tolist()
    [0, 1, 3, 4]
    """
    if records <= most:
        return np.arange(records)
    codes = unit_codes(units, records)
    order = rng.permutation(int(codes.max()) + 1)
    held = np.cumsum(np.bincount(codes)[order])
    return np.flatnonzero(np.isin(codes, order[: max(1, int(np.searchsorted(held, most, "right")))]))


class SortedValues:
    """The distinct values of a column in order, a missing value last, with the records that hold each.

    Parameters
    ----------
    values : (N,) float64, NaN where missing

    Attributes
    ----------
    known : (d,) the distinct values
    places : (N,) the place of each record's value among them
    numbers : how many of them are not missing; a missing value has the place after these
    """

    def __init__(self, values: Floats) -> None:
        self.known, self.places, counts = np.unique(values, return_inverse=True, return_counts=True)
        self.records = len(values)
        self.numbers = int((~np.isnan(self.known)).sum())
        self._cumulated = np.concatenate([[0], np.cumsum(counts)])

    def interval(self, asked: Floats, tolerance: float = 0.0) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the half-open interval of places within ``tolerance`` of each value; NaN meets NaN alone."""
        numbers = self.known[: self.numbers]
        lower = np.searchsorted(numbers, asked - tolerance, side="left")
        upper = np.searchsorted(numbers, asked + tolerance, side="right")
        missing = np.isnan(asked)
        lower[missing], upper[missing] = len(numbers), len(self.known)
        return lower.astype(np.int32), upper.astype(np.int32)

    def next_to(self, records: int) -> tuple[Floats, Floats]:
        """Return, for each known value, the smallest and largest of the numbers of so many records below and above."""
        end = self._cumulated[self.numbers]
        first = np.clip(self._cumulated[:-1] - records, 0, max(end - 1, 0))
        last = np.clip(self._cumulated[1:] - 1 + records, 0, max(end - 1, 0))
        ends = [self.known[np.searchsorted(self._cumulated, rank, side="right") - 1] for rank in (first, last)]
        missing = np.arange(len(self.known)) >= self.numbers
        return np.where(missing, np.nan, ends[0]), np.where(missing, np.nan, ends[1])

    def interval_between(self, low: Floats, high: Floats) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the half-open interval of places of values from ``low`` to ``high``; NaN meets NaN alone."""
        return self.interval(low)[0], self.interval(high)[1]

    def between(self, low: Floats, high: Floats) -> NDArray[np.intp]:
        """Return how many records hold a value from ``low`` to ``high``."""
        lower, upper = self.interval_between(low, high)
        return np.asarray(self._cumulated[upper] - self._cumulated[lower])

    def counts(self, asked: Floats, tolerance: float = 0.0) -> NDArray[np.intp]:
        """Return how many records hold a value within ``tolerance`` of each one asked for."""
        lower, upper = self.interval(asked, tolerance)
        return np.asarray(self._cumulated[upper] - self._cumulated[lower])


@dataclass(frozen=True, eq=False, repr=False)
class ComparedPeople:
    """Members and non-members whom an attack scores, beside the release, variable by variable.

    How common a value is, is counted among all of them but the person who is scored: under the null hypothesis that
    the release owes nothing to the members, members and non-members then score alike.

    Parameters
    ----------
    names : n variables that all tables have
    numeric : (n,) whether a variable is continuous
    values : of each variable the (P,) values of the people, members first
    released : of each variable the (M,) released values
    n_members, n_nonmembers : records scored; of more than 5000 on a side a sample
    members : (n_members,) the records of the original that are scored
    units : of these records
    """

    names: tuple[str, ...]
    numeric: Flags
    values: tuple[Floats, ...]
    released: tuple[Floats, ...]
    n_members: int
    n_nonmembers: int
    members: NDArray[np.intp]
    units: ComparedUnits = EACH_RECORD

    @classmethod
    def of(
        cls,
        original: Microdata,
        released: Microdata,
        reference: Microdata,
        rng: np.random.Generator,
        most: int = AT_MOST,
    ) -> ComparedPeople | None:
        """Draw at most so many on a side; None with fewer than four on one, or no variable in common."""
        tables = (original, released, reference)
        names = shared_variables(tables)
        if min(len(original), len(reference)) < LEAST or not names or not len(released):
            return None
        drawn = [drawn_records(t.units, len(t), most, rng) for t in (original, reference)]
        columns = [aligned_values(tables, name) for name in names]
        return cls(
            names=tuple(names),
            numeric=np.array([original.schema[name].kind == "continuous" for name in names]),
            values=tuple(np.concatenate([members[drawn[0]], others[drawn[1]]]) for members, _, others in columns),
            released=tuple(published for _, published, _ in columns),
            n_members=len(drawn[0]),
            n_nonmembers=len(drawn[1]),
            members=drawn[0],
            units=ComparedUnits(original.units, reference.units).take(*drawn),
        )

    def __len__(self) -> int:
        return self.n_members + self.n_nonmembers

    def attack(self, scores: Floats, certainty: Certainty) -> ScoreAttack:
        """Compare the scores of members with those of non-members."""
        sides = scores[: self.n_members], scores[self.n_members :]
        return score_attack(*sides, certainty=replace(certainty, units=self.units))

    def of_units(self, scores: Floats) -> list[Floats]:
        """Return the mean score of each unit, of members and of non-members."""
        return self.units.means(scores[: self.n_members], scores[self.n_members :])

    @property
    def n_units(self) -> tuple[int, int]:
        """The units that are scored: members and non-members."""
        one, other = self.of_units(np.zeros(len(self)))
        return len(one), len(other)

    def shares(self, variable: int, tolerance: float = 0.0) -> Floats:
        """Return (P,) shares of the other people who hold each person's value, half a person added."""
        own = SortedValues(self.values[variable])
        return np.asarray(((own.counts(own.known, tolerance) - 0.5) / own.records)[own.places])
