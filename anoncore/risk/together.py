"""Values taken together: people whose values of two variables stand side by side in the release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm

from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats, Indices, between

# Where a value repeats more often, another variable's value stands beside it by chance.
_LEVELS = 40
# Variables this closely related stand together because they say the same.
_SAME = 0.9
# A share of the people that no chance explains, however exact the values that a method hands out anew.
_HALF = 0.5
_BITS = 22
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio: neighbours are thrown far apart


@dataclass(frozen=True)
class ValuesTogether:
    """The pair of variables whose values are found together most, beside what other people's records do.

    Parameters
    ----------
    pair : names of the two variables; empty when no pair was looked at
    released, reference : people whose two values stand together in the release, and in the reference
    n : people asked about
    excess, lower, upper : of the shares; the bounds hold for all pairs at once
    n_pairs : pairs looked at, those whose values are rare enough to point at people
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
    margin: float
    confidence: float
    verdict: Literal["pass", "fail", "inconclusive"]


def values_together(
    original: Microdata,
    released: Microdata,
    reference: Microdata,
    *,
    variables: Sequence[str] | None = None,
    margin: float = 0.05,
    confidence: float = 0.95,
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
        hold more values by chance
    variables : names; by default those that are masked and that all three have
    margin : 0 … 1, excess tolerated
    confidence : 0 … 1, two-sided, of all pairs together

    Returns
    -------
    ValuesTogether, of the pair with the largest lower bound; people who lack one of the values are not found

    Notes
    -----
    Exact values alone count: what was rounded, shifted or given noise is the business of other measures.
    Method: Bonett and Price 2012 for paired shares. O(N · pairs).

    Examples
    --------
    >>> from anoncore.microdata import Schema, Variable
    >>> schema = Schema([Variable(name, "continuous") for name in "ab"])
    >>> tables = np.random.default_rng(1).normal(size=(2, 200, 2))
    >>> one, other = (Microdata(pd.DataFrame(t, columns=["a", "b"]), schema) for t in tables)
    >>> values_together(one, one, other).verdict, values_together(one, other, other).verdict
    ('fail', 'pass')
    """
    between("margin", margin, 0, 1)
    tables = [original, released, reference]
    names = [
        name
        for name in (original.schema.masked if variables is None else variables)
        if all(name in table.schema for table in tables)
    ]
    columns = {name: _codes(tables, name) for name in names}
    telling = [name for name in names if _effective(columns[name][0][0]) >= _LEVELS]
    ranks = {name: _ranks(original, name) for name in telling}
    pairs = [(a, b) for a, b in combinations(telling, 2) if not _alike(ranks[a], ranks[b])]
    n = len(original)
    none = ValuesTogether((), 0, 0, n, 0.0, 0.0, 0.0, len(pairs), margin, confidence, "pass")
    z = float(norm.ppf(1.0 - (1.0 - between("confidence", confidence, 0, 1)) / 2.0 / max(1, len(pairs))))
    worst = none
    for first, second in pairs:
        people, near, other = _combined(columns[first], columns[second])
        there = people >= 0
        found, expected = _stand_in(people, near), _stand_in(people, other)
        found, expected = found & there, expected & there
        lower, upper = _paired(int((found & ~expected).sum()), int((expected & ~found).sum()), n, z)
        if not worst.pair or lower > worst.lower:
            worst = ValuesTogether(
                pair=(first, second),
                released=int(found.sum()),
                reference=int(expected.sum()),
                n=n,
                excess=(int(found.sum()) - int(expected.sum())) / n,
                lower=lower,
                upper=upper,
                n_pairs=len(pairs),
                margin=margin,
                confidence=confidence,
                verdict="fail" if lower > _HALF else "inconclusive" if lower > margin else "pass",
            )
    return worst


def _codes(tables: list[Microdata], name: str) -> tuple[list[Indices], int]:
    """Return the variable as codes common to the tables, −1 where missing, and how many there are."""
    columns = [table.frame[name].astype("object") for table in tables]
    codes, levels = pd.factorize(pd.concat(columns, ignore_index=True))
    ends = np.cumsum([len(table) for table in tables])[:-1]
    return [part.astype(np.int64) for part in np.split(codes, ends)], len(levels)


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


def _alike(one: Floats | None, other: Floats | None) -> bool:
    """Return whether two numbers say nearly the same."""
    return one is not None and other is not None and bool(abs(one @ other) > _SAME)


def _combined(
    one: tuple[list[Indices], int], other: tuple[list[Indices], int]
) -> tuple[Indices, Indices, Indices]:
    """Return the pair's codes in the three tables, −1 where one of the two is missing."""
    first, second, third = (
        np.where((a < 0) | (b < 0), -1, a * other[1] + b) for a, b in zip(one[0], other[0], strict=True)
    )
    return first, second, third


def _stand_in(people: Indices, codes: Indices) -> NDArray[np.bool_]:
    """Return (N,) whether each code is among ``codes``: what a table of bits lets through is looked up."""
    found = np.zeros(len(people), dtype=bool)
    maybe = _let_through(people, codes)
    few = codes[_let_through(codes, people[maybe])]
    found[maybe] = np.isin(people[maybe], few)
    return found


def _let_through(asked: Indices, there: Indices) -> NDArray[np.intp]:
    """Return the places of what may be among ``there``, and of little else."""
    bits = np.zeros(1 << _BITS, dtype=bool)
    bits[_spread(there)] = True
    return np.flatnonzero(bits[_spread(asked)])


def _spread(codes: Indices) -> NDArray[np.uint64]:
    return (codes.astype(np.uint64) * _ODD) >> np.uint64(64 - _BITS)


def _paired(more: int, less: int, n: int, z: float) -> tuple[float, float]:
    """Return the bounds of a paired difference of shares, with one record added to each kind."""
    total = n + 2
    up, down = (more + 1) / total, (less + 1) / total
    reach = z * float(np.sqrt(max(0.0, (up + down - (up - down) ** 2) / total)))
    return max(-1.0, up - down - reach), min(1.0, up - down + reach)
