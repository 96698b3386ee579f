"""Rows that stand in the order of the original's: who knows the order knows whose row is whose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import Flags, aligned_values, shared_variables

_FEWEST, _MOST = 40, 20_000  # rows, of more the first ones
_CLASSES = 20  # of a number
_SORTED_BY, _LEVELS = 40, 1000  # variables by which rows may be sorted, and levels of one
_SHIFTS = 20  # rows by which the tables are shifted, either way
_CLEARLY = 6.0  # standard deviations
_PERIODS = 2000  # rows after which a table may repeat itself


@dataclass(frozen=True)
class RowOrder:
    """Variables whose values agree with those in the same row of the original.

    Parameters
    ----------
    variables : that agree more often than with any row near by
    rows : compared; 0 where the tables have different numbers of them
    """

    meaning: ClassVar[str] = "Variables whose released values stand in the rows of the people they are of."

    variables: tuple[str, ...]
    rows: int


def row_order(original: Microdata, released: Microdata) -> RowOrder:
    """Find variables of which released rows agree with the original's in the same place, and less so near by.

    Rows are compared as they stand, and once more with both tables sorted by each variable, the order being kept
    within its values. Numbers agree within a twentieth of the distribution. Of two tables that are merely sorted
    alike, or repeat the same months for each person, rows near by, or a period away, agree as often; of two that hold
    one calendar whose hours have the same prices for everybody they do not.

    Parameters
    ----------
    original, released : Microdata, in the order in which they were handed over

    Returns
    -------
    RowOrder

    Notes
    -----
    A variable agrees where the share of equal rows exceeds the largest one of 40 shifts by six standard deviations, of
    the shares of shifts or of a binomial one, whichever is larger. Claim: none. Source: own; elementary.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> schema = Schema([Variable("x", "continuous"), Variable("y", "continuous")])
    >>> one, other = np.random.default_rng(0).normal(size=(2, 300, 2))
    >>> a, b = (Microdata(pd.DataFrame(rows, columns=["x", "y"]), schema) for rows in (one, other))
    >>> kept = Microdata(b.frame.assign(x=a.frame["x"] + 0.01), schema)
    >>> row_order(a, kept).variables, row_order(a, b).variables
    (('x',), ())
    """
    rows = min(len(original), _MOST)
    names = shared_variables([original, released])
    if len(original) != len(released) or rows < _FEWEST or not names:
        return RowOrder((), 0)
    one, other = (np.column_stack(side)[:rows] for side in zip(*_coded(original, released, names), strict=True))
    found = np.zeros(len(names), dtype=bool)
    for by, orders in _orders(one, other):
        agree = _agreeing(one[orders[0]], other[orders[1]])
        if by is not None:
            agree[by] = False
        found |= agree
    return RowOrder(tuple(name for name, agrees in zip(names, found, strict=True) if agrees), rows)


def _coded(original: Microdata, released: Microdata, names: list[str]) -> Iterator[list[Indices]]:
    """Give codes of each variable in both tables: of a number the class, −1 where missing."""
    for name in names:
        sides = aligned_values([original, released], name)
        if not original.schema[name].is_categorical and np.isfinite(sides[0]).any():
            cuts = np.unique(np.nanquantile(sides[0], np.arange(1, _CLASSES) / _CLASSES))
            sides = [np.where(np.isnan(side), np.nan, np.searchsorted(cuts, side)) for side in sides]
        yield [np.where(np.isnan(side), -1.0, side).astype(np.intp) for side in sides]


def _orders(one: Indices, other: Indices) -> Iterator[tuple[int | None, tuple[Indices, Indices]]]:
    """Give the orders to compare: as rows stand, and sorted by each variable with several values."""
    yield None, (np.arange(len(one)), np.arange(len(other)))
    for by in range(min(one.shape[1], _SORTED_BY)):
        if 1 < len(np.unique(one[:, by])) <= _LEVELS:
            yield by, (np.argsort(one[:, by], kind="stable"), np.argsort(other[:, by], kind="stable"))


def _agreeing(one: Indices, other: Indices) -> Flags:
    """Return which columns agree in the same row more than in rows near by, or a period away."""
    here, rows = (one == other).mean(axis=0), len(one)
    shifts = [by for by in range(-_SHIFTS, _SHIFTS + 1) if by]
    near = np.array([_shifted(one, other, by) for by in shifts])
    most = near.max(axis=0)
    spread = np.maximum(near.std(axis=0), np.sqrt(most * (1.0 - most) / rows))
    agree = here - most > _CLEARLY * np.maximum(spread, 1.0 / rows)
    for at in np.flatnonzero(agree):
        own = one[:, at]
        again = [float(_shifted(own, own, by)) for by in range(1, min(_PERIODS, rows // 2))]
        period = int(np.argmax(again)) + 1
        agree[at] = here[at] - _shifted(own, other[:, at], period) > _CLEARLY * spread[at]
    return agree


def _shifted(one: Indices, other: Indices, by: int) -> Floats:
    """Return the share of rows of one that agree with the row of the other so many places further down."""
    same = one[-by:] == other[:by] if by < 0 else one[:-by] == other[by:]
    return np.asarray(same.mean(axis=0))
