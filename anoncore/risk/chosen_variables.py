"""Membership by densities in a few variables, which are chosen with one half of the people and tried on the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from anoncore.kernels.left_out import Codes, nearest_with_each, nearest_without_each
from anoncore.microdata import Microdata
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import Flags, aligned_values, codes_of_values, places_among, shared_variables

UNIT = 1 << 16  # numbers are placed among the people in such parts of the distribution; codes of levels are multiples
_SAME = 1e-5  # of the unit, by variable, below which distances are alike
_FEWEST, _MOST = 20, 2000  # people of a side in a half, at least; people to choose with, at most
_LEAST = 400  # people to choose with where there are so many; where they would take too long nothing is chosen
_OPERATIONS = 20e9  # of the distances that a choice takes, which limits the people to choose with
_VARIABLES = 40  # of more a random choice
_LEVELS = 8000  # of a variable, whose codes have to stay below those of `anoncore.kernels.left_out`
_WIDENED, _SIZES = 6, (3, 4, 5)  # the best combinations that are made wider, and the sizes they reach
_QUARTERS, _FEW_LEVELS, _PAIRS = 4, 20, 60  # parts of a number, levels, and pairs of variables that make groups
_SEARCHES = 60  # for nearest rows that a choice takes, about


@dataclass(frozen=True, eq=False, repr=False)
class CodedPeople:
    """People and released rows in codes whose differences are distances, variable by variable.

    Parameters
    ----------
    people : (P, n) numbers by their place in the distribution of all people, levels by multiples of `UNIT`
    rows : (n, M) the same of the release; what nobody holds has a code of its own
    numeric : (n,) whether numbers
    n_members : of the people, who come first
    """

    people: Codes
    rows: Codes
    numeric: Flags
    n_members: int

    @classmethod
    def of(cls, original: Microdata, released: Microdata, reference: Microdata) -> CodedPeople | None:
        """Code the variables that all tables have, but those with thousands of levels; None where there is none."""
        people, rows, numeric = [], [], []
        for name in shared_variables((original, released, reference)):
            members, published, others = aligned_values((original, released, reference), name)
            asked, number = np.concatenate([members, others]), original.schema[name].kind == "continuous"
            if number or len(np.unique(asked)) <= _LEVELS:
                coded = (places_among if number else codes_of_values)(asked, published, UNIT)
                people.append(coded[0])
                rows.append(coded[1])
                numeric.append(number)
        return cls(np.stack(people, axis=1), np.stack(rows), np.array(numeric), len(original)) if numeric else None

    def take(self, members: Indices, nonmembers: Indices) -> CodedPeople:
        """Return some of the members and of the non-members, beside all rows."""
        chosen = np.concatenate([members, self.n_members + nonmembers])
        return CodedPeople(self.people[chosen], self.rows, self.numeric, len(members))

    def groups(self, rng: np.random.Generator) -> Iterator[Indices]:
        """Give codes of groups, (P,): by levels or by quarters of numbers; by both levels, of some pairs of variables.

        Not by levels of which there are many: hardly anyone shares two of them.
        """
        shares = np.where(self.numeric, UNIT // _QUARTERS + 1, UNIT)
        codes = np.maximum(self.people // shares, -1).astype(np.intp) + 1
        yield from codes.T
        few = np.flatnonzero(~self.numeric & (codes.max(axis=0) <= _FEW_LEVELS))
        pairs = np.array([(i, j) for i in few for j in few if i < j])
        for i, j in pairs[rng.permutation(len(pairs))[:_PAIRS]]:
            yield codes[:, i] * (_FEW_LEVELS + 1) + codes[:, j]

    @property
    def levels(self) -> tuple[Indices, Indices]:
        """Codes of levels from 0 for missing ones: (P, c) of the people and (M, c) of the rows."""
        people, rows = (np.maximum(codes // UNIT + 1, 0) for codes in (self.people.T, self.rows))
        return people[~self.numeric].T.astype(np.intp), rows[~self.numeric].T.astype(np.intp)


def by_chosen_variables(coded: CodedPeople, halves: Sequence[Indices], rng: np.random.Generator) -> Floats | None:
    """Score people by the ratio of distances in the variables that distinguish members best in the other half.

    A release may keep a few variables of each person beside others' values, by which nobody is near. The distance is
    Σ_j min(|x_j − y_j|, 1), numbers by their place in the distribution of all people and levels 1 apart; the score, the
    logarithm of the distance to the nearest person of the other half less that to the nearest released row. In one half
    the area under the curve is computed for all variables, leaving out by and by the quarter without which it is
    largest; and for pairs with a number, of which the best are made wider by one variable at a time. The combination
    with the largest area scores the other half.

    Parameters
    ----------
    coded : people and rows
    halves : of the people, no unit in both
    rng : Generator, draws the people to choose with, and variables where there are many

    Returns
    -------
    (P,) share of the own half who score less, a tie counting one half; None with fewer than 20 on a side of a half, or
    where the release has too many values to search

    Notes
    -----
    No person is scored by a choice that looked at their membership, so that without a leak all score alike. Source:
    docs/explanation/risk.md; ratio of distances as in `anoncore.risk.density`. O(P·M·n) for each of about 60 searches,
    with at most 2000 people.
    """
    member = np.arange(len(coded.people)) < coded.n_members
    fewest = min(int(np.bincount(member[half].astype(int), minlength=2).min()) for half in halves)
    variables = coded.people.shape[1]
    drawn = np.sort(rng.permutation(variables)[:_VARIABLES])
    search = coded.rows.shape[1] + len(halves[0])
    most = int(min(_MOST, _OPERATIONS / (search * len(drawn) * _SEARCHES)))
    if fewest < _FEWEST or variables < 2 or most < _LEAST:
        return None
    people, rows, numeric = coded.people[:, drawn], np.ascontiguousarray(coded.rows[drawn]), coded.numeric[drawn]
    scores = np.empty(len(people))
    for learned, scored in (halves, halves[::-1]):
        asked = _balanced(learned, member, most, rng)
        chosen = _Choice(people[asked], rows, np.ascontiguousarray(people[scored].T), member[asked]).best(numeric)
        # Which people are nearest is asked of the other half, so that nobody is the own nearest person.
        beside = np.ascontiguousarray(people[learned][:, chosen].T)
        ratios = _by_all(np.ascontiguousarray(people[scored][:, chosen]), rows[chosen], beside)
        scores[scored] = rankdata(ratios) / len(ratios)
    return scores


def _balanced(half: Indices, member: Flags, most: int, rng: np.random.Generator) -> Indices:
    """Draw as many members as non-members."""
    sides = half[member[half]], half[~member[half]]
    size = min(most // 2, *map(len, sides))
    return np.concatenate([rng.choice(side, size, replace=False) for side in sides])


def _by_all(people: Codes, rows: Codes, beside: Codes) -> Floats:
    """Return (T,) ratios of distances by all variables."""
    # By all known columns, a known one adds nothing.
    known = np.ones(len(rows), dtype=bool)
    near, among = (nearest_with_each(people, known, UNIT, table)[:, 0] for table in (rows, beside))
    return _ratios(near, among, len(rows))


def _ratios(near: Codes, among: Codes, variables: int) -> Floats:
    same = _SAME * UNIT * variables
    return np.asarray(np.log(among + same) - np.log(near + same))


@dataclass(frozen=True, eq=False, repr=False)
class _Choice:
    """People of whom it is known who is a member, rows, and people of the other half.

    Parameters
    ----------
    people, rows, beside : (T, n), (n, M) and (n, B)
    member : (T,)
    """

    people: Codes
    rows: Codes
    beside: Codes
    member: Flags

    def best(self, numeric: Flags) -> Flags:
        """Return the combination of variables with the largest area."""
        areas: dict[frozenset[int], float] = {}
        for combinations in (self._narrowed(), self._widened(np.flatnonzero(numeric))):
            for found in combinations:
                areas |= found
        best = max(areas, key=lambda one: areas[one])
        return self._flags(best)

    def _flags(self, variables: frozenset[int]) -> Flags:
        return np.isin(np.arange(len(self.rows)), list(variables))

    def _narrowed(self) -> Iterator[dict[frozenset[int], float]]:
        """Leave out variables by and by; give the areas of the combinations that are left, two variables at least."""
        known = np.ones(len(self.rows), dtype=bool)
        while (size := int(known.sum())) > 2:
            caps = np.ascontiguousarray(np.broadcast_to(np.where(known, UNIT, 0), self.people.shape).astype(np.int32))
            near, among = (nearest_without_each(self.people, caps, table)[0] for table in (self.rows, self.beside))
            at = np.flatnonzero(known)
            areas = self._areas(near[:, at], among[:, at], size - 1)
            whole = frozenset(at.tolist())
            yield {whole - {int(j)}: float(area) for j, area in zip(at, areas, strict=True)}
            known[at[np.argsort(-areas, kind="stable")[: min(-(-size // 4), size - 2)]]] = False

    def _widened(self, first: Indices) -> Iterator[dict[frozenset[int], float]]:
        """Give the areas of pairs with one of the first variables, and of the best combinations with one more."""
        found: dict[frozenset[int], float] = {}
        for j in first.tolist():
            found |= self._with_each(frozenset({j}))
        yield found
        for _ in _SIZES:
            best = sorted(found, key=lambda one: found[one])[-_WIDENED:]
            found = {}
            for one in best:
                found |= self._with_each(one)
            yield found

    def _with_each(self, variables: frozenset[int]) -> dict[frozenset[int], float]:
        """Return the areas of some variables with one more."""
        known = self._flags(variables)
        near, among = (nearest_with_each(self.people, known, UNIT, table) for table in (self.rows, self.beside))
        others = np.flatnonzero(~known)
        areas = self._areas(near[:, others], among[:, others], len(variables) + 1)
        return {variables | {int(j)}: float(area) for j, area in zip(others, areas, strict=True)}

    def _areas(self, near: Codes, among: Codes, variables: int) -> Floats:
        """Return the area under the curve of the ratios of distances, column by column."""
        ranks = rankdata(_ratios(near, among, variables), axis=0)
        members = int(self.member.sum())
        others = len(self.member) - members
        return np.asarray((ranks[self.member].sum(axis=0) - members * (members + 1) / 2.0) / (members * others))
