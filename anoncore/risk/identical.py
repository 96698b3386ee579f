"""Records of the original that stand in the release as they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from anoncore.microdata.units import EACH_RECORD, ComparedUnits, unit_codes
from anoncore.parameters import between
from anoncore.risk._checks import Floats, Indices, matrix
from anoncore.risk._values import Flags
from anoncore.risk.pairs import FEWEST, OF_PEOPLE, ends, striking_beginning
from anoncore.risk.tail import Distances, TailTest, aligned
from anoncore.risk.within import kinds_of_records

# Records of a group at least, by which chance may give all to the release; and codes of a variable that make groups.
_IN_GROUP, _LEVELS = 10, 100


@dataclass(frozen=True)
class IdenticalCounts:
    """How many records stand in the release and in the reference as they are, as `identical_records` counts them.

    Parameters
    ----------
    n, n_duplicates, n_released, n_reference, only_released, only_reference : as in `TailTest`
    share : of the last two, the release's by chance
    """

    n: int
    n_duplicates: int
    n_released: int
    n_reference: int
    only_released: int
    only_reference: int
    share: float = 0.5

    def test(self, level: float) -> TailTest:
        """Return the exact one-sided test; inconclusive where even copies of all could not reach the level."""
        counts = {name: value for name, value in vars(self).items() if name != "share"}
        p = float(binom.sf(self.only_released - 1, self.only_released + self.only_reference, self.share))
        verdict: Literal["pass", "fail", "inconclusive"] = "fail" if p < level else "pass"
        if verdict == "pass" and self.share**self.n >= level:
            verdict = "inconclusive"
        return TailTest(**counts, tau=0.0, level=level, p=p, verdict=verdict)


def identical_records(
    released: Distances,
    reference: Distances,
    own: Distances,
    *,
    level: float = 0.01,
    records: ArrayLike | None = None,
) -> TailTest:
    """Test whether more records stand in the release as they are than in a sample of other people.

    Records of few, discrete values coincide by chance, in the reference too. The tail test cannot see
    copies of a record with a twin, since its own distance is 0; this one counts them.

    Parameters
    ----------
    released, reference, own, level : see :func:`tail_test`
    records : (N, n) the same records, encoded; people with one record between them are met or missed
        together, so that the test counts them once. Without it everybody counts.

    Returns
    -------
    TailTest, with tau 0 for distance 0

    Raises
    ------
    AnonymizationError
        As :func:`tail_test`.

    Notes
    -----
    Exact one-sided McNemar test on the records identical to one of the release only, or to one of the
    reference only, both of one size: of the records that one of two sets holds alone, a larger one holds more than its
    share of the rows. Source: docs/explanation/risk.md.

    Examples
    --------
    >>> ones = np.ones(100)
    >>> identical_records(np.where(np.arange(100) < 8, 0.0, 1), ones, ones).n_released
    8
    """
    near, other, gap = aligned(released, reference, own)
    between("level", level, 0, 1)
    # Where records are not given, each is one of its own.
    rows = np.arange(len(near), dtype=np.float64)[:, np.newaxis] if records is None else matrix("records", records)
    met, others = near == 0.0, other == 0.0
    only_near, only_other = (len(np.unique(rows[side] + 0.0, axis=0)) for side in (met & ~others, others & ~met))
    duplicates = int((gap == 0.0).sum())
    return IdenticalCounts(len(near), duplicates, int(met.sum()), int(others.sum()), only_near, only_other).test(level)


@dataclass(frozen=True, eq=False, repr=False)
class RecordsOfTwoSets:
    """Records that two of three sets have in common: the original, the release, and other people.

    Counted are those that each of two sets holds once and the third never. A record that a set's rows are with
    probability q is one of original and release so with N·M·q²(1 − q)^(N + M + L − 2), of the other pairs with N·L and
    M·L in place of N·M: whatever q, chance gives original and release N·M/(N·M + N·L + M·L) of these records.

    Build it with `RecordsOfTwoSets.of`.

    Parameters
    ----------
    coded : (c + d + P, v) what is held of each variable, as numbers from 0: by the c records of original and release,
        by the d of the other pairs, and by the people of original and reference
    copied, records : c, and c + d
    share : 0 … 1, of the records that chance gives original and release
    units : (P,) statistical unit of each of the people
    """

    coded: Indices
    copied: int
    records: int
    share: float
    units: Indices

    @classmethod
    def of(
        cls,
        original: Floats,
        released: Floats,
        reference: Floats,
        *,
        units: ComparedUnits = EACH_RECORD,
        variables: Indices | None = None,
    ) -> RecordsOfTwoSets:
        """Find the records, (N, n), (M, n) and (L, n) being encoded alike.

        Parameters
        ----------
        units : of original and reference; of a unit one record of each pair of sets counts
        variables : (n,) the variable of each column; None where each is one
        """
        sizes = len(original), len(released), len(reference)
        kinds, number = kinds_of_records(original, released, reference)
        members, _, others = kinds
        held = [np.bincount(own, minlength=number) for own in kinds]

        def once(one: int, other: int, never: int) -> Flags:
            return (held[one] == 1) & (held[other] == 1) & (held[never] == 0)

        of_members, of_others = unit_codes(units.members, sizes[0]), unit_codes(units.nonmembers, sizes[2])
        copied = _one_of_each(np.flatnonzero(once(0, 1, 2)[members]), of_members)
        both = _one_of_each(np.flatnonzero(once(0, 2, 1)[members]), of_members)
        strangers = _one_of_each(np.flatnonzero(once(2, 1, 0)[others]), of_others)
        records = np.concatenate([original[copied], original[both], reference[strangers]])
        together = units.together(sizes[0], sizes[2])
        pairs = [float(one * other) for one, other in combinations(sizes, 2)]
        return cls(
            coded=_coded(records, np.concatenate([original, reference]), variables),
            copied=len(copied),
            records=len(records),
            share=pairs[0] / sum(pairs),
            units=np.arange(sizes[0] + sizes[2]) if together is None else together,
        )

    def rarest_first(self) -> float:
        """Return the p-value of the records that the release has of the original, those of the rarest values first.

        Records of common values coincide by chance, and hide among them a few copies of records of rare values, which
        identify people best. The records are put in order of how probable they are, by the people who agree in all
        variables but one and the share of the value there, and by the shares of all values, and looked at from the
        rarest on: see `anoncore.risk.pairs.striking_beginning`. The order treats all sets alike, as units with such a
        record are no people here, so that by chance each record is the original's and the release's with one
        probability.

        Returns
        -------
        float; 1 where the release has no record of the original

        Notes
        -----
        Claim: level, for records that coincide independently of each other. At most one record for every hundred people
        is looked at, 20 at least. That matches weigh by rarity: Skinner and Elliot 2002, *J. R. Statist. Soc. B* 64,
        855–867; the test is derived here. Source: docs/explanation/risk.md.

        Examples
        --------
        >>> draw = np.random.default_rng(0)
        >>> people, released, others = draw.integers(40, size=(3, 500, 2)).astype(float)
        >>> people[:9] = released[:9] = 50.0 + np.arange(18.0).reshape(9, 2)
        >>> RecordsOfTwoSets.of(people, released, others).rarest_first() < 0.001
        True
        """
        if not self.copied:
            return 1.0
        surprise = _surprise(self.coded, self.records, self.units)
        order = np.argsort(-surprise, kind="stable")
        places = ends(-surprise[order])
        most = max(FEWEST, math.ceil(OF_PEOPLE * len(self.units)))
        places = places[: max(1, int(np.searchsorted(places, most, "right")))]
        return striking_beginning((order < self.copied)[: places[-1]], places, self.share)

    def in_one_group(self) -> float:
        """Return the p-value of the group of people of whose records the release has most of the original's.

        Groups share one or two levels, of numbers a tenth. Copies of a small group that can be named hide among the
        records of all others that chance repeats.

        Returns
        -------
        float, by Bonferroni's correction for the groups of ten records or more; 1 where there is none

        Examples
        --------
        >>> draw = np.random.default_rng(0)
        >>> people, released, others = draw.integers(40, size=(3, 500, 2)).astype(float)
        >>> people[:40] = released[:40] = np.column_stack([np.full(40, 50.0), np.arange(40.0)])
        >>> RecordsOfTwoSets.of(people, released, others).in_one_group() < 0.001
        True
        """
        classes = [_classes(column)[: self.records] for column in self.coded.T]
        least, tests = 1.0, 0
        for i, one in enumerate(classes):
            for other in classes[i:]:
                cells = one * (int(other.max(initial=0)) + 1) + other
                held, won = np.bincount(cells), np.bincount(cells[: self.copied])
                held = held[: len(won)]
                enough = held >= _IN_GROUP
                tests += int((np.bincount(cells) >= _IN_GROUP).sum())
                if enough.any():
                    least = min(least, float(np.min(binom.sf(won[enough] - 1, held[enough], self.share))))
        return min(1.0, least * max(tests, 1))


def _one_of_each(rows: Indices, units: Indices) -> Indices:
    """Return one of some rows for each unit."""
    return rows[np.unique(units[rows], return_index=True)[1]]


def _classes(codes: Indices) -> Indices:
    """Return codes, or tenths of them by rank where they are too many."""
    if int(codes.max(initial=0)) < _LEVELS:
        return codes
    cuts = np.quantile(codes, np.arange(1, 10) / 10)
    return np.searchsorted(cuts, codes)


def _surprise(coded: Indices, records: int, units: Indices) -> Floats:
    """Return −log of how probable the first records are among units without any of these.

    By the people who hold all values but one, times the share of the value, averaged over variables; and by the product
    of all shares, which decides where nobody does.
    """
    sums = _sums(coded)
    asked, people = coded[:records], coded[records:]
    others = ~np.isin(units, units[np.isin(sums[records:], sums[:records])])
    n = int(others.sum()) + 1.0
    product, nearly = np.zeros(records), np.zeros(records)
    for own, held, weight in zip(asked.T, people.T, _weights(coded.shape[1]), strict=True):
        share = (np.bincount(held[others], minlength=int(own.max()) + 1)[own] + 1.0) / n
        product += np.log(share)
        rest = sums[:records] - own.astype(np.uint64) * weight
        there = np.sort((sums[records:] - held.astype(np.uint64) * weight)[others])
        agree = np.searchsorted(there, rest, "right") - np.searchsorted(there, rest, "left")
        nearly += agree / n * share / coded.shape[1]
    return np.asarray(-np.logaddexp(product, np.log(np.maximum(nearly, np.finfo(float).tiny))))


def _coded(records: Floats, people: Floats, variables: Indices | None) -> Indices:
    """Return what all hold of each variable as numbers from 0, those of the records first."""
    whole = np.concatenate([records, people]) + 0.0
    codes = [np.unique(column, return_inverse=True)[1] for column in whole.T]
    coded = np.column_stack([np.empty((len(whole), 0), dtype=np.intp), *codes])
    if variables is None or not len(variables):
        return coded
    of_each = (coded[:, variables == variable] for variable in np.unique(variables))
    return np.stack([np.unique(_sums(one), return_inverse=True)[1] for one in of_each], axis=1)


def _sums(coded: Indices) -> NDArray[np.uint64]:
    """Return a sum of 64 bits of each row of codes, which two different rows hardly ever share."""
    return np.asarray((coded.astype(np.uint64) * _weights(coded.shape[1])).sum(axis=1, dtype=np.uint64))


def _weights(columns: int) -> NDArray[np.uint64]:
    return np.random.default_rng(0).integers(2**64, size=columns, dtype=np.uint64) | np.uint64(1)


def twins_by_chance(met: int, own: int, people: int, others: int) -> float:
    """Return the one-sided p-value of so many people having a twin among others, if those are other people.

    Other people repeat records of the original no more often than its own people do. Of all twins, in the
    others and among the people themselves, chance puts no larger a share than others / (people + others − 1)
    into the others; a half at least is granted, because who has one twin often has several.

    Parameters
    ----------
    met : people of the original with an identical record among the others
    own : people of the original with an identical record in the original
    people, others : sizes of both

    Returns
    -------
    float, P(Bin(met + own, share) ≥ met); small where the others are in part the people themselves

    Notes
    -----
    Twins come in groups, which widens chance beyond the binomial: use a strict level. Source: docs/explanation/risk.md.

    Examples
    --------
    >>> twins_by_chance(6, 0, 500, 500) < 0.02 < twins_by_chance(6, 6, 500, 500)
    True
    """
    share = max(0.5, others / (people + others - 1))
    return float(binom.sf(met - 1, met + own, share))
