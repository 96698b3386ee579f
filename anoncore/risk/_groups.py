"""Groups of equal records, and how far their distributions lie from that of all."""

from __future__ import annotations

import numpy as np
import pandas as pd

from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats, Indices


def cuts(values: Floats, bins: int) -> tuple[Floats, bool]:
    """Return (b,) inner edges, and whether they are quantiles."""
    known = values[~np.isnan(values)]
    different = np.unique(known)
    if len(different) <= bins:
        return (different[1:] + different[:-1]) / 2.0, False
    return np.unique(np.quantile(known, np.linspace(0.0, 1.0, bins + 1)[1:-1])), True


def codes(data: Microdata, name: str, edges: Floats | None) -> Indices:
    """Return (N,) codes from 0, a missing value having its own."""
    column = data.frame[name]
    if data.schema[name].is_categorical:
        return pd.factorize(column, use_na_sentinel=False)[0].astype(np.intp)
    values = column.to_numpy(dtype="float64")
    if edges is None:
        return pd.factorize(values, use_na_sentinel=False)[0].astype(np.intp)
    return np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values, side="right"))


def places(data: Microdata, name: str) -> tuple[Indices, int]:
    """Return (N,) places 0 … m − 1 in the order of values, −1 for a gap, and m."""
    variable, column = data.schema[name], data.frame[name]
    if variable.is_categorical:
        levels = list(variable.levels or ())
        return np.asarray(pd.Categorical(column, categories=levels).codes).astype(np.intp), len(levels)
    values = column.to_numpy(dtype="float64")
    known = ~np.isnan(values)
    place = np.full(len(values), -1)
    different, place[known] = np.unique(values[known], return_inverse=True)
    return place, len(different)


def ordered_distances(place: Indices, places: int, group: Indices, groups: int) -> Floats:
    """Return (G,) earth mover's distances between each group and all records, places being 1/(m−1) apart.

    A group's cumulative share is constant from one of its values to the next, and that of all records
    ascends: each stretch is summed from prefix sums on the two sides of the crossing.
    """
    present = place >= 0
    known = np.bincount(group[present], minlength=groups).astype(np.float64)
    size = np.bincount(group, minlength=groups)
    share, overall = known / size, float(present.mean())
    apart = np.zeros(groups, dtype=np.float64)
    if places > 1 and present.any():
        cumulative = np.cumsum(np.bincount(place[present], minlength=places)) / known.sum()
        prefix = np.concatenate([[0.0], np.cumsum(cumulative)])
        order = np.lexsort((place[present], group[present]))
        held, at = group[present][order], place[present][order]
        rank = np.arange(len(held)) - (np.cumsum(known) - known)[held]
        occupied = np.flatnonzero(known)
        # One stretch before each group's first value, one after each value.
        owner = np.concatenate([occupied, held])
        level = np.concatenate([np.zeros(len(occupied)), (rank + 1) / known[held]])
        start = np.concatenate([np.zeros(len(occupied), dtype=np.intp), at])
        last = np.append(np.diff(held) != 0, True)
        after = np.where(last, places, np.append(at[1:], places))
        stop = np.concatenate([at[np.flatnonzero(rank == 0)], after])
        middle = np.clip(np.searchsorted(cumulative, level), start, stop)
        below = level * (middle - start) - (prefix[middle] - prefix[start])
        above = (prefix[stop] - prefix[middle]) - level * (stop - middle)
        apart = np.bincount(owner, below + above, groups).astype(np.float64) / (places - 1)
    return np.abs(share - overall) + np.minimum(share, overall) * apart
