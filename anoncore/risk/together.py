"""Values taken together: people whose values of two variables stand side by side in the release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from anoncore.microdata import Microdata
from anoncore.microdata.units import unit_codes
from anoncore.parameters import between
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import shared_variables
from anoncore.risk.verdicts import Verdict

# Where a value repeats more often, another variable's value stands beside it by chance.
_LEVELS = 40
# Variables this closely related stand together because they say the same.
_SAME = 0.9
# A share of the people that no chance explains, however exact the values that a method hands out anew.
_HALF = 0.5
_CONFIDENCE = 0.95  # two-sided, of all pairs together
_BITS = 22
# Pairs times records that are looked at, of more a part by chance; as many pairs always, and codes at once.
_WORK = 400_000_000
_AT_LEAST = 2000
_AT_ONCE = 1 << 15
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio: neighbours are thrown far apart


Places = NDArray[np.int64]
Marks = NDArray[np.bool_]


@dataclass(frozen=True)
class ValuesTogether:
    """The pair of variables whose values are found together most, beside what other people's records do.

    Parameters
    ----------
    pair : names of the two variables; empty when no pair was looked at
    released, reference : people whose two values stand together in the release, and in the reference
    n : people asked about
    excess, lower, upper : of the shares; the bounds hold for all pairs at once
    n_pairs : pairs looked at
    n_possible : pairs whose values are rare enough to point at people; more than ``n_pairs`` in wide tables
    margin, confidence : what is tolerated, and the coverage
    verdict : "fail" when ``lower`` exceeds one half, "inconclusive" when it exceeds the margin, else "pass"
    """

    meaning: ClassVar[str] = (
        "The share of people two of whose values stand together in some released record, beyond the share "
        "whose values stand together in records of other people."
    )

    pair: tuple[str, ...]
    released: int
    reference: int
    n: int
    excess: float
    lower: float
    upper: float
    n_pairs: int
    n_possible: int
    margin: float
    confidence: float
    verdict: Verdict


def values_together(
    original: Microdata,
    released: Microdata,
    reference: Microdata,
    *,
    within: bool = False,
    margin: float = 0.05,
    rng: np.random.Generator,
) -> ValuesTogether:
    """Look for people two of whose values were released together as they are.

    Measures on all variables do not see that a few of them were copied: the others move the record away. For
    every pair of variables that have at least 40 effective values (1/Σp²) and are not nearly the same (rank
    correlation up to 0.9), a person is found when some record holds both values. The excess over the
    reference is paired, with Bonett and Price's adjusted interval (one record added to each kind of
    discordant ones); z is Bonferroni's over the pairs. A method that hands out exact values anew has some
    excess.

    Parameters
    ----------
    original, released, reference : Microdata; release and reference about equally large, since more records
        hold more values by chance; looked at are the variables that are masked and that all three have
    within : the reference holds the people asked about: they count where one of another unit has their values
    margin : 0 … 1, excess tolerated
    rng : Generator, draws pairs where there are too many

    Returns
    -------
    ValuesTogether, of the pair with the largest lower bound; people who lack one of the values are not found.
    Of more pairs than 2000, and than 4·10⁸ divided by the records, so many are drawn, and the result says so.

    Notes
    -----
    Exact values alone count: what was rounded, shifted or given noise is the business of other measures.
    Method: Bonett and Price 2012 for paired shares. O(N · pairs), with
    blocks of pairs at once.

    Examples
    --------
    >>> from anoncore.microdata import Schema, Variable
    >>> schema = Schema([Variable(name, "continuous") for name in "ab"])
    >>> tables = np.random.default_rng(1).normal(size=(2, 200, 2))
    >>> one, other = (Microdata(pd.DataFrame(t, columns=["a", "b"]), schema) for t in tables)
    >>> [values_together(one, t, other, rng=np.random.default_rng(0)).verdict for t in (one, other)]
    ['fail', 'pass']
    """
    between("margin", margin, 0, 1)
    tables = [original, released, reference]
    names = shared_variables(tables)
    columns = {name: _codes(tables, name) for name in names}
    telling = [name for name in names if _effective(columns[name][0]) >= _LEVELS]
    possible = _pairs([_ranks(original, name) for name in telling])
    n = len(original)
    pairs = _drawn(possible, max(_AT_LEAST, _WORK // max(1, n, len(released))), rng)
    z = float(norm.ppf(1.0 - (1.0 - _CONFIDENCE) / 2.0 / max(1, len(pairs))))
    counted = (len(pairs), len(possible), margin, _CONFIDENCE)
    if not len(pairs) or not n:
        return ValuesTogether((), 0, 0, n, 0.0, 0.0, 0.0, *counted, "pass")
    stacked = tuple(np.stack([columns[name][side] for name in telling]) for side in range(3))
    units = unit_codes(reference.units, len(reference)) if within else None
    at_once = max(1, _AT_ONCE // max(1, n, len(released)))
    base = max(int(table.max(initial=0)) for table in stacked) + 1
    parts = [_counted(stacked, pairs[k : k + at_once], base, units) for k in range(0, len(pairs), at_once)]
    observed, expected, more, less = np.concatenate(parts, axis=1)
    lower, upper = _paired(more, less, n, z)
    worst = int(np.argmax(lower))
    low = float(lower[worst])
    return ValuesTogether(
        (telling[pairs[worst, 0]], telling[pairs[worst, 1]]),
        int(observed[worst]),
        int(expected[worst]),
        n,
        (int(observed[worst]) - int(expected[worst])) / n,
        low,
        float(upper[worst]),
        *counted,
        "fail" if not low <= _HALF else "inconclusive" if low > margin else "pass",
    )


def _codes(tables: list[Microdata], name: str) -> list[Indices]:
    """Return the variable as codes common to the tables, −1 where missing."""
    columns = [table.frame[name] for table in tables]
    if any(column.dtype != np.float64 for column in columns):
        columns = [column.astype("object") for column in columns]
    codes, _ = pd.factorize(pd.concat(columns, ignore_index=True))
    return list(np.split(codes.astype(np.int64), np.cumsum([len(table) for table in tables])[:-1]))


def _effective(codes: Indices) -> float:
    """Return 1/Σp² of the known values, the number of equally frequent ones that repeat as often."""
    known = codes[codes >= 0]
    if not len(known):
        return 0.0
    shares = np.bincount(known) / len(known)
    return float(1.0 / (shares @ shares))


def _ranks(data: Microdata, name: str) -> Floats | None:
    """Return (N,) ranks about their mean, 0 where missing, of length 1; None for levels and constants."""
    if data.schema[name].is_categorical:
        return None
    ranks = data.frame[name].rank().to_numpy(dtype="float64")
    ranks = np.nan_to_num(ranks - np.nanmean(ranks))
    length = float(np.sqrt(ranks @ ranks))
    return np.asarray(ranks / length, dtype=np.float64) if length else None


def _pairs(ranks: list[Floats | None]) -> NDArray[np.int32]:
    """Return (pairs, 2) places of the variables, without pairs of numbers that say nearly the same."""
    known = np.array([one is not None for one in ranks], dtype=bool)
    matrix = np.stack([one for one in ranks if one is not None]) if known.any() else np.empty((0, 0))
    row = np.cumsum(known) - 1
    pairs = [np.empty((0, 2), dtype=np.int32)]
    for first in range(len(ranks) - 1):
        others = np.arange(first + 1, len(ranks), dtype=np.int32)
        if known[first]:
            alike = np.zeros(len(others), dtype=bool)
            alike[known[others]] = np.abs(matrix[row[first] + 1 :] @ matrix[row[first]]) > _SAME
            others = others[~alike]
        pairs.append(np.column_stack([np.full(len(others), first, dtype=np.int32), others]))
    return np.concatenate(pairs)


def _drawn(pairs: NDArray[np.int32], at_most: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return the pairs, of too many as many as ``at_most`` by chance."""
    if len(pairs) <= at_most:
        return pairs
    return pairs[np.sort(rng.choice(len(pairs), at_most, replace=False))]


def _counted(tables: tuple[Indices, ...], pairs: NDArray[np.int32], base: int, units: Indices | None) -> Indices:
    """Return (4, pairs) people found in the release, in the reference, in the one alone, in the other alone.

    Parameters
    ----------
    tables : (variables, records) codes of original, release and reference
    pairs : (pairs, 2)
    base : larger than every code
    units : of the reference, where it holds the people; None where it does not
    """
    people, near, other = (_combined(table, pairs, base) for table in tables)
    if units is not None:
        other = _of_several(other, np.tile(units, len(pairs)))
    bits = min(_BITS, max(12, len(people).bit_length() + 5))
    asked = _spread(people, bits)
    marks = _marked(asked, bits)
    there = people >= 0
    present = (_stand_in(people, asked, side, marks, bits) & there for side in (near, other))
    released, reference = (side.reshape(len(pairs), -1) for side in present)
    sides = (released, reference, released & ~reference, reference & ~released)
    return np.stack([side.sum(axis=1) for side in sides])


def _combined(codes: Indices, pairs: NDArray[np.int32], base: int) -> Indices:
    """Return a code of both values for each pair and record, −1 where one of the two is missing."""
    one, other = codes[pairs[:, 0]], codes[pairs[:, 1]]
    both = (np.arange(len(pairs))[:, None] * base + one) * base + other
    both[(one < 0) | (other < 0)] = -1
    return np.asarray(both.ravel())


def _of_several(codes: Indices, units: Indices) -> Indices:
    """Return the codes that several units hold: of each of them, another one does."""
    order = np.argsort(codes, kind="stable")
    ordered, owner = codes[order], units[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    several = np.minimum.reduceat(owner, starts) < np.maximum.reduceat(owner, starts)
    return np.asarray(ordered[starts][several])


def _stand_in(people: Indices, asked: Places, codes: Indices, marks: Marks, bits: int) -> Marks:
    """Return whether each of ``people`` is among ``codes``: what tables of bits let through is looked up."""
    few = codes[marks[_spread(codes, bits)]]
    present = np.zeros(len(people), dtype=bool)
    if len(few):
        maybe = np.flatnonzero(_marked(_spread(few, bits), bits)[asked])
        present[maybe] = np.isin(people[maybe], few)
    return present


def _marked(places: Places, bits: int) -> Marks:
    marks = np.zeros(1 << bits, dtype=bool)
    marks[places] = True
    return marks


def _spread(codes: Indices, bits: int) -> Places:
    return np.asarray((codes.view(np.uint64) * _ODD) >> np.uint64(64 - bits)).view(np.int64)


def _paired(more: Indices, less: Indices, n: int, z: float) -> tuple[Floats, Floats]:
    """Return the bounds of paired differences of shares, with one record added to each kind."""
    total = n + 2
    up, down = (more + 1) / total, (less + 1) / total
    reach = z * np.sqrt(np.maximum(0.0, (up + down - (up - down) ** 2) / total))
    return np.maximum(-1.0, up - down - reach), np.minimum(1.0, up - down + reach)
