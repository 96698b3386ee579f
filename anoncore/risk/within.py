"""Chance shown by the original itself: whether a release lies closer to people than they lie to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import binom

from anoncore.parameters import between
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import Flags
from anoncore.risk.tail import TailTest

# Of the close pairs of a person with a point of two samples alike, those with the other sample; each pair counted once.
PAIRED = 2.0 / 3.0
FEWEST = 20  # isolated people at least; of fewer than 13 no number is conspicuous at the level 0.005


@dataclass(frozen=True, eq=False, repr=False)
class Alike:
    """Equal records: (q,) the kind of each of some people, and how many records are of it in both tables."""

    kind: Indices
    records: Indices

    @classmethod
    def of(cls, asked: Floats, original: Floats, released: Floats) -> Alike:
        """Find what is equal to each of some records (q, n) of the original (N, n), there and in the release (M, n)."""
        whole = np.concatenate([asked, original, released])
        # Sums of one row after the other: equal for equal rows, and for others with a probability of 2⁻⁵⁰ or so.
        sums = (whole * np.random.default_rng(0).normal(size=whole.shape[1])).sum(axis=1)
        kinds = np.unique(sums, return_inverse=True)[1]
        held = np.bincount(kinds[len(asked) :], minlength=int(kinds.max(initial=0)) + 1)
        return cls(kinds[: len(asked)], held[kinds[: len(asked)]])

    def take(self, rows: Indices | Flags) -> Alike:
        """Return some of the people."""
        return Alike(self.kind[rows], self.records[rows])


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


def within_test(released: Floats, own: Floats, alike: Alike, *, tau: float = 0.1, level: float = 0.01) -> TailTest:
    """Test whether the release comes closer to people of the original than they come to each other by chance.

    If the release were one more sample of the population and of the size of the original, the distances d to it and
    d′ to the nearest other person would be exchangeable. So as many people have d < τ·d′ as d′ < τ·d. The latter come
    in pairs, each of which counts once: of all such pairs chance gives the release two in three. Of a kind of t equal
    records it is t times as probable that one of them is the original's and the others the release's as that all are
    the original's: then each kind counts once, and chance gives the release t in t + 1. With the mean of these shares
    the number of all is binomial, or less dispersed (Hoeffding 1956, *Ann. Math. Statist.* 27, 713–721).

    Parameters
    ----------
    released, own : (q,) d/d′ and d′/d, see `ratios`; of a unit with several records the least of each
    alike : records equal to those of the same people
    tau : 0 … 1; 0 where only equal records count
    level : 0 … 1

    Returns
    -------
    TailTest, whose baseline are the people with d′ < τ·d

    Notes
    -----
    Claim: level, where people are independent; conservative where the release is smaller than the original. Who is
    looked at must not depend on which of the two distances is larger. Derived here; docs/explanation/risk.md.

    Examples
    --------
    >>> people = np.random.default_rng(0).normal(size=(40, 2))
    >>> copied = within_test(np.zeros(40), np.full(40, np.inf), Alike.of(people, people, people))
    >>> copied.n_released, copied.verdict, round(copied.p / PAIRED**40)
    (40, 'fail', 1)
    """
    between("level", level, 0, 1)
    met, others = ((side < tau) | (side == 0.0) for side in (released, own))
    only_released, only_own = met & ~others, others & ~met
    kinds, first = np.unique(alike.kind[only_own & (own == 0.0)], return_index=True)
    twins = alike.records[only_own & (own == 0.0)][first]
    ours = int(only_released.sum())
    pairs = -(-int((only_own & (own > 0.0)).sum()) // 2)
    equal = np.concatenate([alike.records[only_released & (released == 0.0)], twins]).astype(np.float64)
    number = ours + len(kinds) + pairs
    shares = float((equal / (equal + 1.0)).sum()) + PAIRED * (number - len(equal))
    p = float(binom.sf(ours - 1, number, shares / number)) if number else 1.0
    duplicates = int((own == 0.0).sum())
    verdict: Literal["pass", "fail", "inconclusive"] = "fail" if p < level else "pass"
    return TailTest(
        n=len(own),
        n_duplicates=duplicates,
        n_released=int(met.sum()),
        n_reference=int(others.sum()),
        only_released=ours,
        only_reference=int(only_own.sum()),
        tau=tau,
        level=level,
        p=p,
        verdict=verdict,
    ).of_part(1.0, PAIRED)
