"""Chance shown by the original itself: whether a release lies closer to people than they lie to each other."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binom

from anoncore.parameters import between
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import Flags
from anoncore.risk.tail import TailTest

# Of the close pairs of a person with a point of two samples of one size, those with the other; each pair counts once.
PAIRED = 2.0 / 3.0
FEWEST_WITHIN = 20  # isolated people at least; of fewer than 13 no number is conspicuous at the level 0.005


@dataclass(frozen=True, eq=False, repr=False)
class EqualRecords:
    """The kind of equal records that each of some people has, (q,), and how many both tables hold of it.

    Parameters
    ----------
    kind : (q,)
    original, released : (q,)
    times : records that the release has for one of the original
    """

    kind: Indices
    original: Indices
    released: Indices
    times: float

    @classmethod
    def of(cls, asked: Floats, original: Floats, released: Floats) -> EqualRecords:
        """Find what is equal to each of some records (q, n) of the original (N, n), there and in the release (M, n)."""
        (mine, *others), number = kinds_of_records(asked, original, released)
        own, theirs = (np.bincount(kinds, minlength=number)[mine] for kinds in others)
        return cls(mine, own, theirs, len(released) / max(len(original), 1))

    def take(self, rows: Indices | Flags) -> EqualRecords:
        """Return some of the people."""
        return replace(self, **{name: getattr(self, name)[rows] for name in ("kind", "original", "released")})


def kinds_of_records(*tables: Floats) -> tuple[list[Indices], int]:
    """Return one number for all equal records of some tables, (N,) for each, and how many there are.

    Examples
    --------
    >>> kinds, number = kinds_of_records(np.eye(2), np.ones((1, 2)), np.eye(2)[:1])
    >>> [len(one) for one in kinds], number, bool(kinds[0][0] == kinds[2][0])
    ([2, 1, 1], 3, True)
    """
    # Sums of one row after the other: equal for equal rows of one layout, for others with a probability of 2⁻⁵⁰.
    weights = np.random.default_rng(0).normal(size=tables[0].shape[1])
    sums = np.concatenate([(np.ascontiguousarray(table) * weights).sum(axis=1) for table in tables])
    kinds = np.unique(sums, return_inverse=True)[1]
    return np.split(kinds, np.cumsum([len(table) for table in tables])[:-1]), int(kinds.max(initial=-1)) + 1


def compared_kinds(original: Indices, released: Indices, times: float) -> tuple[Flags, Flags, Floats]:
    """Return which kinds of equal records speak for copies, which against, and the share of the first by chance.

    Of a kind of t records in both tables, each is the release's with probability m/(1 + m), m being ``times``. One of
    the original and any of the release are compared with as many in the mirrored case, t − 1 and one, or for t = 2 with
    two of the original and none: then chance gives the first m^(t−2)/(1 + m^(t−2)), or 2m/(2m + 1). So neither rows
    that a release repeats nor kinds that it leaves out hide copies of others.

    Examples
    --------
    >>> first, second, shares = compared_kinds(np.array([1, 2, 1, 2, 3]), np.array([1, 0, 2, 1, 0]), 1.0)
    >>> first.tolist(), second.tolist(), shares.round(2).tolist()[:4]
    ([True, False, True, False, False], [False, True, False, True, False], [0.67, 0.67, 0.5, 0.5])
    """
    both = original + released
    copied = (original == 1) & (released >= 1)
    mirrored = ((original == 2) & (released == 0)) | ((original >= 2) & (released == 1))
    odds = np.where(both == 2, 2.0 * times, np.power(float(times), np.clip(both - 2.0, 0.0, 60.0)))
    return copied, mirrored, np.asarray(odds / (1.0 + odds))


def ratios(near: Floats, own: Floats) -> tuple[Floats, Floats]:
    """Return near/own and own/near; what both are 0 of is near to both.

    Examples
    --------
    >>> [one.tolist() for one in ratios(np.array([1.0, 0.0, 0.0, 2.0]), np.array([2.0, 3.0, 0.0, 0.0]))]
    [[0.5, 0.0, 0.0, inf], [2.0, inf, 0.0, 0.0]]
    """
    sides = ((near, own), (own, near))
    one, other = (np.divide(a, b, out=np.where(a > 0.0, np.inf, 0.0), where=b > 0.0) for a, b in sides)
    return one, other


def within_test(
    released: Floats, own: Floats, equal: EqualRecords, *, tau: float = 0.1, level: float = 0.01
) -> TailTest:
    """Test whether the release comes closer to people of the original than they come to each other by chance.

    If the release were one more sample of the population, of m times the size of the original, the distances d to it
    and d′ to the nearest other person would be exchangeable for m = 1. People with 0 < d < τ·d′ are compared with those
    with 0 < d′ < τ·d. The latter come in pairs, each of which counts once: of all such pairs chance gives the release
    2m/(2m + 1). Equal records are compared as `compared_kinds` does. With the mean of all shares the number of all is
    binomial, or less dispersed (Hoeffding 1956, *Ann. Math. Statist.* 27, 713–721).

    Parameters
    ----------
    released, own : (q,) d/d′ and d′/d, see `ratios`; of a unit with several records the least of each
    equal : records equal to those of the same people
    tau : 0 … 1; 0 where only equal records count
    level : 0 … 1

    Returns
    -------
    TailTest, whose baseline are the people with d′ < τ·d

    Notes
    -----
    Claim: level, where people are independent; conservative where the release is smaller than the original. Who is
    looked at must not depend on which of the two distances is larger. A release that leaves out people who are close to
    each other raises the baseline. Derived here; docs/explanation/risk.md.

    Examples
    --------
    >>> people = np.random.default_rng(0).normal(size=(40, 2))
    >>> copied = within_test(np.zeros(40), np.full(40, np.inf), EqualRecords.of(people, people, people))
    >>> copied.n_released, copied.verdict, round(copied.p / PAIRED**40)
    (40, 'fail', 1)
    """
    between("level", level, 0, 1)
    met, others = ((side < tau) | (side == 0.0) for side in (released, own))
    near, mirrored = (one & ~other & (side > 0.0) for one, other, side in ((met, others, released), (others, met, own)))
    _, first = np.unique(equal.kind, return_index=True)
    copied, against, shares = compared_kinds(equal.original[first], equal.released[first], equal.times)
    for_copies, pairs = int(near.sum()) + int(copied.sum()), -(-int(mirrored.sum()) // 2)
    number = for_copies + pairs + int(against.sum())
    paired = 2.0 * equal.times / (2.0 * equal.times + 1.0)
    chance = float(shares[copied | against].sum()) + paired * (int(near.sum()) + pairs)
    p = float(binom.sf(for_copies - 1, number, chance / number)) if number else 1.0
    return TailTest(
        n=len(own),
        n_duplicates=int((own == 0.0).sum()),
        n_released=int(met.sum()),
        n_reference=int(others.sum()),
        only_released=for_copies,
        only_reference=int((others & ~met).sum()),
        tau=tau,
        level=level,
        p=p,
        verdict="fail" if p < level else "pass",
    )
