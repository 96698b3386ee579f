"""Value presence: whether values, and combinations of values, that stand in a release reveal its members."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.threads import in_threads
from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats
from anoncore.risk._proportions import Difference, Proportion, difference, proportion
from anoncore.risk._values import ComparedPeople, SortedValues
from anoncore.risk.scores import SINGLE, AttackFamily, Certainty, NamedAttack

# What is known in the attack by a single variable, before its name.
ONE_VARIABLE = "the variable "
MISSING = "which values are missing"
SEVERAL = 2
# How many combinations of so many variables are looked at; of more a random choice.
_COMBINATIONS = {1: 1000, 2: 150, 3: 200, 4: 200}

Codes = NDArray[np.uint64]
Combination = tuple[int, ...]


@dataclass(frozen=True)
class ValuePresence(AttackFamily):
    """What the presence of values reveals about members, beside the same of non-members.

    The forms are single values, two to four values of one person together, all categorical values, the
    quasi-identifiers, which values are missing, and each variable by itself.

    Parameters
    ----------
    variable : the one that reveals most by itself
    unique_members, unique_nonmembers : of the values of that variable that one record alone holds in the original
        (in the reference), the share that stand in the release
    excess : their difference; near 1 where a release hands out the values of its members
    """

    meaning: ClassVar[str] = (
        "How well members are distinguished from non-members by which of their values, and combinations of values, "
        "stand in the release; 0.5 is guessing."
    )

    variable: str
    unique_members: Proportion
    unique_nonmembers: Proportion
    excess: Difference


def value_presence(
    original: Microdata,
    released: Microdata,
    reference: Microdata,
    *,
    quasi_identifiers: Sequence[str] = (),
    certainty: Certainty = SINGLE,
    rng: np.random.Generator,
) -> ValuePresence | None:
    """Attack membership with nothing but the question whether a person's values occur in the release.

    For each variable, and for combinations of two to four variables, people are put into classes by how many others
    (members and non-members alike) hold the same values. q is the share of a class whose values stand in the release,
    in one row. A person whose values do scores −log q, else 0; scores are summed over the combinations of one size.
    Two combinations are looked at by themselves: all categorical variables, and the quasi-identifiers. So is which of a
    person's values are missing, where several variables are: a method may leave missing values where they are.

    Parameters
    ----------
    original, released, reference : Microdata; members, what is published, and non-members
    quasi_identifiers : names of what an attacker is expected to know
    certainty : of the bounds; the lower ones hold for all forms of all attacks together
    rng : Generator, draws people and combinations where there are many

    Returns
    -------
    ValuePresence, or None where there are fewer than four people on a side or no variable in common

    Notes
    -----
    The product of marginal evidence as in Homer et al. 2008, *PLoS Genetics* 4, e1000167, with the evidence of
    a present value alone, departing from it in the combinations; docs/explanation/risk.md. O(N log N) for each
    combination.

    Examples
    --------
    >>> from anoncore.microdata import Schema, Variable
    >>> import pandas as pd
    >>> schema = Schema([Variable("income", "continuous")])
    >>> people = np.random.default_rng(1).normal(size=(3, 400, 1))
    >>> a, b, c = (Microdata(pd.DataFrame(t, columns=["income"]), schema) for t in people)
    >>> rng = np.random.default_rng(0)
    >>> [value_presence(a, t, b, rng=rng).worst.attack.area.auc for t in (a, c)]
    [1.0, 0.5]
    """
    people = ComparedPeople.of(original, released, reference, rng)
    if people is None:
        return None
    asked, published = _codes(people, rng)
    kinds = dict(_kinds(people, quasi_identifiers, rng))
    if gaps := _gaps(people, rng):
        kinds[MISSING] = [(len(asked),)]
        asked, published = (np.vstack([codes, own]) for codes, own in zip((asked, published), gaps, strict=True))
    tests = len(kinds) + len(people.names)
    single, certain = 1.0 - (1.0 - certainty.confidence) / tests, certainty.over(tests)
    forms: list[NamedAttack] = []
    columns: list[Floats] = []
    for knowledge, chosen in kinds.items():
        evidence = list(in_threads(partial(_evidence, asked, published), chosen))
        columns = columns or evidence
        forms.append(NamedAttack(knowledge, people.attack(np.sum(evidence, axis=0), certain)))
    alone = [people.attack(evidence, certain) for evidence in columns]
    # The area of a variable that everyone shares is exactly one half.
    worst = max(range(len(alone)), key=lambda j: (max(alone[j].area.lower, 0.5), alone[j].area.auc, -alone[j].top.p))
    values, size = people.values[worst], people.n_members
    unique = [_unique_present(side, people.released[worst], single) for side in (values[:size], values[size:])]
    return ValuePresence(
        attacks=(*forms, *(NamedAttack(f"{ONE_VARIABLE}{n}", a) for n, a in zip(people.names, alone, strict=True))),
        n_members=people.n_units[0],
        n_nonmembers=people.n_units[1],
        variable=people.names[worst],
        unique_members=unique[0],
        unique_nonmembers=unique[1],
        excess=difference(*unique),
    )


def _kinds(
    people: ComparedPeople, quasi_identifiers: Sequence[str], rng: np.random.Generator
) -> Iterator[tuple[str, list[Combination]]]:
    """Give what is looked up, single values first, as combinations of variables."""
    n = len(people.names)
    for size, most in _COMBINATIONS.items():
        chosen = list(combinations(range(n), size)) if n <= 30 or size < 3 else _drawn(n, size, most, rng)
        if len(chosen) > most:
            chosen = [chosen[i] for i in np.sort(rng.choice(len(chosen), most, replace=False))]
        if chosen:
            yield ("single values" if size == 1 else f"{size} values of one person together"), chosen
    kinds = {
        "all categorical values": ~people.numeric,
        "the quasi-identifiers": np.isin(people.names, list(quasi_identifiers)),
    }
    for knowledge, flags in kinds.items():
        if flags.sum() > 1:
            yield knowledge, [tuple(np.flatnonzero(flags).tolist())]


def _drawn(n: int, size: int, number: int, rng: np.random.Generator) -> list[Combination]:
    return sorted({tuple(sorted(rng.choice(n, size, replace=False).tolist())) for _ in range(number)})


def _codes(people: ComparedPeople, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """Return (n, P) and (n, M) random 64-bit codes of the values, so that sums are codes of combinations."""
    n = len(people)
    asked, published = [], []
    for values, released in zip(people.values, people.released, strict=True):
        pool = SortedValues(np.concatenate([values, released]))
        codes = rng.integers(2**64, size=len(pool.known), dtype=np.uint64)[pool.places]
        asked.append(codes[:n])
        published.append(codes[n:])
    return np.stack(asked), np.stack(published)


def _gaps(people: ComparedPeople, rng: np.random.Generator) -> tuple[Codes, Codes] | None:
    """Return (P,) and (M,) codes of which values are missing; None where fewer than two variables ever are."""
    sides = [np.isnan(np.column_stack(side)) for side in (people.values, people.released)]
    if sum(bool(one.any() or other.any()) for one, other in zip(sides[0].T, sides[1].T, strict=True)) < SEVERAL:
        return None
    codes = rng.integers(2**64, size=len(people.names), dtype=np.uint64)
    asked, published = (np.where(side, codes, np.uint64(0)).sum(axis=1, dtype=np.uint64) for side in sides)
    return asked, published


def _evidence(asked: Codes, published: Codes, combination: Combination) -> Floats:
    """Return the evidence of the presence of each person's values of some variables."""
    own = sum((asked[j] for j in combination), np.zeros(asked.shape[1], dtype=np.uint64))
    rows = sum((published[j] for j in combination), np.zeros(published.shape[1], dtype=np.uint64))
    known, places, counts = np.unique(own, return_inverse=True, return_counts=True)
    place = np.minimum(np.searchsorted(known, rows), len(known) - 1)
    stands = np.zeros(len(known), dtype=bool)
    stands[place[known[place] == rows]] = True
    kind, present = np.ceil(np.log2(counts)).astype(np.intp)[places], stands[places]
    share = (np.bincount(kind, weights=present) + 0.5) / (np.bincount(kind) + 1.0)
    return np.where(present, -np.log(share)[kind], 0.0)


def _unique_present(values: Floats, released: Floats, confidence: float) -> Proportion:
    """Return how many of the values that one record alone holds stand in the release."""
    values = values[~np.isnan(values)]
    alone = values[SortedValues(values).counts(values) == 1]
    return proportion(int((SortedValues(released).counts(alone) > 0).sum()), len(alone), confidence)
