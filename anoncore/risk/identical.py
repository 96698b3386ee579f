"""Records of the original that stand in the release as they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from anoncore.parameters import between
from anoncore.risk._checks import Floats, Indices, matrix
from anoncore.risk.pairs import FEWEST, OF_PEOPLE, ends, striking_beginning
from anoncore.risk.tail import Distances, TailTest, aligned

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
    only_near, only_other = held_by_one(near, other, rows)
    duplicates, released_as_is, in_reference = (int((side == 0.0).sum()) for side in (gap, near, other))
    counts = IdenticalCounts(len(near), duplicates, released_as_is, in_reference, len(only_near), len(only_other))
    return counts.test(level)


def held_by_one(released: Floats, reference: Floats, records: Floats) -> tuple[Floats, Floats]:
    """Return the distinct ones of some records that the release alone holds, and those that the reference alone holds.

    Parameters
    ----------
    released, reference : (N,) distances, 0 where the set holds the record
    records : (N, n)
    """
    near, other = released == 0.0, reference == 0.0
    only_near, only_other = (np.unique(records[side] + 0.0, axis=0) for side in (near & ~other, other & ~near))
    return only_near, only_other


@dataclass(frozen=True, eq=False, repr=False)
class Coincidences:
    """Distinct records that exactly two of three sets hold: the original, the release, and other people.

    Build it with `Coincidences.of`.

    Parameters
    ----------
    coded : (c + d + P, v) what is held of each variable, as numbers from 0: by the c records of original and release,
        by the d others, and by the people of both samples
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
        copied: Floats,
        by_chance: Floats,
        people: Floats,
        *,
        share: float,
        units: Indices | None = None,
        variables: Indices | None = None,
    ) -> Coincidences:
        """Code the records (c, n) that the release has of the original, (d, n) those of other people, (P, n) people.

        Parameters
        ----------
        copied, by_chance, people, share : see the class
        units : None where each of the people is their own
        variables : (n,) the variable of each column; None where each is one
        """
        records = np.concatenate([copied, by_chance])
        codes = np.arange(len(people)) if units is None else units
        return cls(_coded(records, people, variables), len(copied), len(records), share, codes)

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
        >>> people = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0], [2.0, 1.0], [3.0, 2.0]])
        >>> round(Coincidences.of(people[4:], people[:1], people, share=1 / 3).rarest_first(), 3)
        0.333
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
        >>> rows = np.column_stack([np.arange(60) // 20, np.arange(60)]).astype(float)
        >>> Coincidences.of(rows[:20], rows[20:], rows, share=1 / 3).in_one_group() < 1e-7
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
    coded = np.stack([np.unique(column, return_inverse=True)[1] for column in whole.T], axis=1)
    if variables is None:
        return coded
    of_each = (coded[:, variables == variable] for variable in np.unique(variables))
    return np.stack([np.unique(_sums(one), return_inverse=True)[1] for one in of_each], axis=1)


def _sums(coded: Indices) -> NDArray[np.uint64]:
    """Return a sum of 64 bits of each row of codes; two different rows share one with a probability of about 2⁻⁶³."""
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
