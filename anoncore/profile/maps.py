"""Groups that one area holds far more of than its population explains: candidates for group anonymity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import hypergeom

from anoncore.microdata import Microdata
from anoncore.microdata.inference import MIN_COUNT

CHANCE = 0.01  # that a table whose columns have nothing to do with its areas has any group that stands out
FEWEST = 20  # units of the group in the area
TIMES = 3.0  # what a share in the population would explain
PART = 0.1  # of the group, at least, is in the area
MINORITY = 0.2  # of all units, at most, are in the group
MOST = 3  # groups of a table
NO_GROUPS = ("area", "weight", "stratum", "sampling-unit")


@dataclass(frozen=True)
class StandsOut:
    """A level that one area holds more of than chance and its population explain.

    Parameters
    ----------
    variable, level : who is in the group
    parameter, area : where it stands out
    order : the levels of the parameter that at least `MIN_COUNT` units hold
    observed : int, units of the group in the area
    expected : float, the same if the group were spread as the population is
    """

    variable: str
    level: object
    parameter: str
    area: object
    order: tuple[object, ...]
    observed: int
    expected: float


def groups_that_stand_out(data: Microdata) -> tuple[StandsOut, ...]:
    """Find levels whose map has a peak that the population does not explain.

    Parameters
    ----------
    data : Microdata, N records; of records of one statistical unit the first counts

    Returns
    -------
    tuple of StandsOut
        At most `MOST`, the largest excess first, one of each variable and area variable.

    Notes
    -----
    Claim: a table whose columns are independent of its areas has a result with probability at most `CHANCE`. The number
    of a group in an area is then hypergeometric, whatever the sizes of both; its tail, times the number of levels and
    areas tried, must be at most `CHANCE`. Besides, at least `FEWEST` units and a part `PART` of the group are there,
    `TIMES` what the population explains. Left out are variables that follow from the area, or it from them.

    Source: Bonferroni's inequality; Chertov and Tavrov 2010, section 4, leave open how groups are found.

    Examples
    --------
    >>> from anoncore.microdata import Schema, Variable
    >>> frame = pd.DataFrame({"area": list("abcdefgh") * 100})
    >>> frame["serves"] = (frame.area == "c") & (frame.index < 400)
    >>> frame["serves"] = frame["serves"].map({True: "yes", False: "no"})
    >>> schema = Schema([Variable("area", "nominal", role="area"), Variable("serves", "binary")])
    >>> [(one.level, one.area) for one in groups_that_stand_out(Microdata(frame, schema))]
    [('yes', 'c')]
    """
    if data.units is not None:
        data = data.take(np.unique(data.units, return_index=True)[1])
    places = [v.name for v in data.schema if v.role == "area" and v.is_masked and v.is_categorical]
    names = [v.name for v in data.schema if v.is_masked and v.is_categorical and v.role not in NO_GROUPS]
    tables = [(place, name, _counts(data.frame[place], data.frame[name])) for place in places for name in names]
    tried = sum(table.size for _, _, table in tables)
    found = [one for place, name, table in tables for one in _peaks(data.frame, place, name, table, tried)]
    found.sort(key=lambda one: one.expected - one.observed)
    first = {(one.variable, one.parameter): one for one in reversed(found)}
    return tuple(one for one in found if first[one.variable, one.parameter] is one)[:MOST]


def _counts(area: pd.Series, group: pd.Series) -> np.ndarray:
    """Return (m, l) units per area and level; those with a missing value are left out."""
    a, g = area.cat.codes.to_numpy(), group.cat.codes.to_numpy()
    shape, known = (len(area.cat.categories), len(group.cat.categories)), (a >= 0) & (g >= 0)
    cells = a[known].astype(np.intp) * shape[1] + g[known]
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)


def _peaks(frame: pd.DataFrame, place: str, name: str, table: np.ndarray, tried: int) -> Iterator[StandsOut]:
    present = table > 0
    if (present.sum(axis=1) <= 1).all() or (present.sum(axis=0) <= 1).all():
        return
    units, heads, sizes = table.sum(), table.sum(axis=1), table.sum(axis=0)
    expected = np.outer(heads, sizes) / units
    large = (table >= FEWEST) & (table >= PART * sizes) & (table >= TIMES * expected) & (sizes <= MINORITY * units)
    areas, levels = (frame[column].cat.categories for column in (place, name))
    at, of = np.nonzero(large)
    chance = tried * hypergeom.sf(table[at, of] - 1, units, sizes[of], heads[at])
    order = tuple(areas[heads >= MIN_COUNT])
    for a, g in zip(at[chance <= CHANCE], of[chance <= CHANCE], strict=True):
        yield StandsOut(name, levels[g], place, areas[a], order, int(table[a, g]), float(expected[a, g]))
