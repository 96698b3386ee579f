"""How many records of the sample, and about how many people of the population, share a record's key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._groups import codes

Missing = Literal["level", "holders", "excluded"]
Codes = NDArray[np.int64]
_LARGEST = 2**62


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Frequencies of the keys of N records.

    Parameters
    ----------
    sample : (N,) f, records whose key equals the record's, itself included; 0 where it is not counted
    population : (N,) F̂, the sum of their sampling weights
    """

    sample: Indices = field(repr=False)
    population: Floats = field(repr=False)


def key_codes(data: Microdata, names: Sequence[str], edges: Sequence[Floats | None] | None = None) -> Codes:
    """Return (N, m) levels of the key variables, 0, 1, … in each column and −1 for a missing value.

    Parameters
    ----------
    data : Microdata
    names : of the key variables
    edges : of each, where its numbers are cut; None where they are not
    """
    columns = []
    for name, cut in zip(names, edges or [None] * len(names), strict=True):
        column = data.frame[name]
        code = pd.factorize(column)[0] if cut is None else codes(data, name, cut)
        columns.append(np.where(column.isna().to_numpy(), -1, code))
    return np.stack(columns, axis=1).astype(np.int64)


def groups_of(keys: Codes) -> Indices:
    """Return (N,) numbers of the groups of equal rows, in the order of their first rows."""
    group = np.zeros(len(keys), dtype=np.int64)
    size = 1
    for column in keys.T:
        levels = int(column.max(initial=-1)) + 2
        if size * levels > _LARGEST:
            group = pd.factorize(group)[0].astype(np.int64)
            size = int(group.max(initial=-1)) + 1
        group = group * levels + (column + 1)
        size *= levels
    return pd.factorize(group)[0].astype(np.intp)


def key_frequencies(keys: ArrayLike, weights: ArrayLike | None = None, *, missing: Missing = "level") -> Frequencies:
    """Count the records that share each record's key.

    Parameters
    ----------
    keys : (N, m) int, levels from 0; −1 where a value is missing
    weights : (N,) sampling weights above 0; 1 when None
    missing : "level", missing values equal each other and nothing else; "holders", a record's missing values are
        not compared, and records count that hold all its others: those that lack one of them help no other record;
        "excluded", records with a missing value are not counted

    Returns
    -------
    Frequencies

    Raises
    ------
    AnonymizationError
        When keys or weights are not as described.

    Notes
    -----
    Claim: exact, in O(P·N) for P patterns of missing values.

    Source: Templ, Kowarik and Meindl (2015), *Journal of Statistical Software* 67 (4), section 3.1, but that a missing
    value of another record agrees with none: ten records without keys would else agree with all.

    Examples
    --------
    >>> keys = [[0, 1], [0, 1], [0, -1], [1, -1]]
    >>> [key_frequencies(keys, missing=m).sample.tolist() for m in ("level", "holders", "excluded")]
    [[2, 2, 1, 1], [2, 2, 3, 1], [2, 2, 0, 0]]
    """
    table = np.asarray(keys, dtype=np.int64)
    if table.ndim != 2 or not table.shape[1] or (table.size and int(table.min()) < -1):
        raise AnonymizationError("keys must be a table of levels from 0, with -1 for missing and at least one column")
    weight = checked_weights(weights, len(table))
    if missing not in ("level", "holders", "excluded"):
        raise AnonymizationError(f"missing must be level, holders or excluded, got {missing!r}")
    group = groups_of(table)
    first = np.unique(group, return_index=True)[1]
    sizes, sums = np.bincount(group), np.bincount(group, weight, len(first)).astype(np.float64)
    kinds = table[first]
    if missing == "holders":
        sizes, sums = _holders(kinds, sizes, sums)
    elif missing == "excluded":
        complete = (kinds >= 0).all(axis=1)
        sizes, sums = np.where(complete, sizes, 0), np.where(complete, sums, 0.0)
    return Frequencies(sizes[group], sums[group])


def checked_weights(weights: ArrayLike | None, records: int) -> Floats:
    """Return sampling weights that are above 0, one for each record."""
    if weights is None:
        return np.ones(records)
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise AnonymizationError("weights must be numeric; name the sampling weights") from None
    if array.shape != (records,):
        raise AnonymizationError(f"weights must hold one number for each of {records} records")
    if bad := int((~(np.isfinite(array) & (array > 0))).sum()):
        raise AnonymizationError(f"weights must be above 0 everywhere, {bad} record(s) are not; leave them out")
    return array


def _holders(kinds: Codes, sizes: Indices, sums: Floats) -> tuple[Indices, Floats]:
    """Return the frequencies of the records that hold what different keys have left."""
    known = kinds >= 0
    pattern = groups_of(known.astype(np.int64))
    counts, totals = np.zeros(len(kinds), dtype=np.intp), np.zeros(len(kinds))
    for first in np.unique(pattern, return_index=True)[1]:
        rows = np.flatnonzero(known[:, known[first]].all(axis=1))
        group = groups_of(kinds[rows][:, known[first]]) if known[first].any() else np.zeros(len(rows), dtype=np.intp)
        mine = pattern[rows] == pattern[first]
        counts[rows[mine]] = np.bincount(group, sizes[rows])[group[mine]].astype(np.intp)
        totals[rows[mine]] = np.bincount(group, sums[rows])[group[mine]]
    return counts, totals
