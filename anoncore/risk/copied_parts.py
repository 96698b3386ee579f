"""Copied parts: released records that hold a part of one person's values beside those of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.stats import norm

from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats
from anoncore.risk._trees import boosted
from anoncore.risk._values import ComparedPeople, Flags
from anoncore.risk.partial_copies import HALF, ScoredHalves

LEVELS, QUASI_IDENTIFIERS = "levels", "quasi-identifiers"

_LEAST = 40  # units on each side, for trees and for a normal law
_COPIED = 0.1  # share of the released records that are taken to be copied in part
_TRAINED = 3000  # people that trees learn from
_RECOMBINED = 2  # records put together of two people for each real one
_ROUNDING = 1e-9  # of a mean score
_PRIOR = 0.1  # released records copied in a half from a person, added to the expected number
_CERTAIN = 8.0  # largest log odds that trees are believed


@dataclass(frozen=True)
class CopiedPart:
    """Whether members hold the parts of released records that look put together more often than non-members do.

    Parameters
    ----------
    name : of the part
    excess : mean score of the members less that of the non-members, in standard errors
    p : one-sided, of as large an excess by chance
    """

    name: str
    excess: float
    p: float


@dataclass(frozen=True)
class CopiedParts:
    """The test for each part of a record.

    Parameters
    ----------
    parts : the levels, the quasi-identifiers, a random half of the variables
    n_members, n_nonmembers : statistical units scored; of many a sample
    """

    meaning: ClassVar[str] = (
        "How much more often released records that look put together hold the levels, the quasi-identifiers or a "
        "random half of the values of a member than of a non-member, in standard errors; 0 is not at all."
    )

    parts: tuple[CopiedPart, ...]
    n_members: int
    n_nonmembers: int

    @property
    def p(self) -> float:
        """The p-value of all parts together, by Bonferroni's correction; not a number where one of them is none."""
        return min(float(np.min([one.p for one in self.parts])) * len(self.parts), 1.0)


def copied_parts(
    original: Microdata,
    released: Microdata,
    reference: Microdata,
    *,
    quasi_identifiers: Sequence[str] = (),
    rng: np.random.Generator,
) -> CopiedParts | None:
    """Test whether released records were put together of one member's part and other values.

    Boosted trees learn to distinguish people, members and non-members alike, from recombined ones, whose part is one
    person's and whose other values are another's. Their odds e^o of a released record are the weight
    w = e^o / (1 + s·(e^o − 1)) of what it shows, s = 0.1 being the share taken to be copied. A person x scores the
    likelihood ratio log(1 − s + s·Σ_y w_y / (M·q)), the sum over the released records with the same part and q the
    share of the other people who have it. The mean over units of members is compared with that of non-members (Welch).

    Parameters
    ----------
    original, released, reference : Microdata; members, what is published, and non-members
    quasi_identifiers : names of what an attacker is expected to know
    rng : Generator, draws people and recombined records

    Returns
    -------
    CopiedParts, or None where there are fewer than 40 units on a side, or no part of two variables beside another

    Notes
    -----
    A tenth of the records copied in eight variables with few levels, which one person in twenty holds alone, changes
    an area under the curve by 0.02: what is tested here is the sum of all evidence, not its ranks. Small evidence about
    everybody adds up likewise, so that a low p-value is no measure of what is at stake.

    Source: likelihood ratio of a mixture of copied and other records (Neyman and Pearson 1933); recombined records as
    in classifier two-sample tests, Lopez-Paz and Oquab 2017. O(P log P + M) for each part.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Schema, Variable
    >>> draw = np.random.default_rng(0)
    >>> schema = Schema([Variable(n, "ordinal", levels=range(30)) for n in "ab"] + [Variable("x", "continuous")])
    >>> tables = [pd.DataFrame(draw.integers(30, size=(400, 3)), columns=list("abx")) for _ in range(3)]
    >>> a, b, c = (Microdata(table.astype({"x": float}), schema) for table in tables)
    >>> copies = Microdata(a.frame.assign(x=c.frame["x"]), schema)
    >>> [copied_parts(a, r, b, rng=np.random.default_rng(1)).p < 1e-6 for r in (copies, c)]
    [True, False]
    """
    people = ComparedPeople.of(original, released, reference, rng)
    if people is None or min(people.n_units) < _LEAST:
        return None
    parts = tuple(_tested(people, name, part, rng) for name, part in _parts(people, quasi_identifiers))
    return CopiedParts(parts, *people.n_units) if parts else None


def with_halves(found: CopiedParts | None, halves: ScoredHalves) -> CopiedParts | None:
    """Add the test of a random half of the variables: members' mean of log(0.1 + expected number of copied records).

    Highest scores, which `partial_copies` tests, stand out by copies of rare halves; where variables have few levels,
    evidence is small and about many people, and the mean sees more of it. Where there are fewer than 40 units on a
    side, nothing is added.
    """
    if min(halves.people.n_units) < _LEAST:
        return found
    part = _compared(halves.people, HALF, np.log(_PRIOR + halves.scores))
    return replace(found, parts=(*found.parts, part)) if found else CopiedParts((part,), *halves.people.n_units)


def _parts(people: ComparedPeople, quasi_identifiers: Sequence[str]) -> Iterator[tuple[str, Flags]]:
    """Give the parts of two variables at least that leave another one, each once."""
    levels, keys = ~people.numeric, np.isin(people.names, list(quasi_identifiers))
    for name, part in ((LEVELS, levels), (QUASI_IDENTIFIERS, keys)):
        if 1 < part.sum() < len(part) and not (part is keys and (keys == levels).all()):
            yield name, part


def _tested(people: ComparedPeople, name: str, part: Flags, rng: np.random.Generator) -> CopiedPart:
    known, released = (np.column_stack(table) for table in (people.values, people.released))
    codes = np.unique(np.vstack([known, released])[:, part], axis=0, return_inverse=True, equal_nan=True)[1]
    asked, rows = np.split(codes.ravel(), [len(known)])
    weight = np.bincount(rows, _weights(known, released, part, rng), minlength=int(codes.max()) + 1)
    share = (np.bincount(asked)[asked] - 0.5) / len(known)
    return _compared(people, name, np.log(1.0 - _COPIED + _COPIED * weight[asked] / (len(rows) * share)))


def _compared(people: ComparedPeople, name: str, scores: Floats) -> CopiedPart:
    """Compare the mean score of units of members with that of non-members."""
    sides = people.of_units(scores)
    error = np.sqrt(sum(float(side.var(ddof=1)) / len(side) for side in sides))
    # Where nobody's part is in the release, all scores are equal up to rounding.
    excess = float((sides[0].mean() - sides[1].mean()) / error) if error > _ROUNDING else 0.0
    return CopiedPart(name, excess, float(norm.sf(excess)))


def _weights(known: Floats, released: Floats, part: Flags, rng: np.random.Generator) -> Floats:
    """Return what each released record weighs: the more, the more it looks put together."""
    n = len(known)
    drawn = known[rng.permutation(n)[:_TRAINED]]
    # With replacement: of a permutation every single column has the same distribution, and trees find no split.
    first, second = rng.integers(n, size=(2, _RECOMBINED * len(drawn)))
    mixed = known[first]
    mixed[:, part] = known[second][:, part]
    # Trees take no column without a value.
    rows, labels = np.concatenate([drawn, mixed]), np.repeat([0, 1], [len(drawn), len(mixed)])
    present = ~np.isnan(rows).all(axis=0)
    settings = {"max_iter": 150, "max_leaf_nodes": 20, "min_samples_leaf": 15, "l2_regularization": 5.0}
    trees = boosted(rows[:, present], labels, int(rng.integers(2**31)), **settings)
    # Odds of equally many: records that are weighed instead make trees ten times slower.
    logs = trees.decision_function(released[:, present]) - np.log(_RECOMBINED)
    odds = np.exp(np.clip(logs, -_CERTAIN, _CERTAIN))
    return np.asarray(odds / (1.0 + _COPIED * (odds - 1.0)))
