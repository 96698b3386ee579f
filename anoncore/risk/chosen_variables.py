"""Membership by densities in a few variables, which are chosen with one half of the people and tried on the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from anoncore.kernels.left_out import MISSING, Codes, nearest_with_each, nearest_without_each
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import Flags
from anoncore.risk.coded_people import UNIT, CodedPeople, distance_ratios, log_ratios
from anoncore.risk.contrasts import KEPT, Contrasts, areas_under_curve

CHOSEN = "density ratio, variables chosen by the other half of the people"
IN_BOTH_HALVES = 20  # tests for which the scores count, since both halves may choose one combination
_APART = np.int32(-(2**29))  # as far from every value as a missing one
_FEWEST, _MOST = 20, 2000  # people of a side in a half, at least; people to choose with, at most
_LEAST = 300  # people to choose with where there are so many; where they take too long fewer variables are offered
_OPERATIONS = 12e9  # of the distances that a choice takes, which limits the people to choose with
_VARIABLES = 40  # of more a random choice
_WIDENED, _WIDEST = 4, 5  # the best combinations that are extended, and the variables they reach
_SEARCHES = 50  # for nearest rows that a choice takes, about


@dataclass(frozen=True, eq=False, repr=False)
class ChosenVariables:
    """Scores by variables that each half chose for the other.

    Parameters
    ----------
    scores : (P,) mean rank in the own half over its size
    names : the variables that either half chose, also those of sums and differences
    """

    scores: Floats
    names: tuple[str, ...]


def by_chosen_variables(
    coded: CodedPeople, halves: Sequence[Indices], rng: np.random.Generator
) -> ChosenVariables | None:
    """Score people by the ratio of distances in the variables that distinguish members best in the other half.

    A release may keep a few variables of each person beside others' values, by which no record is near. The distance is
    Σ_j min(|x_j − y_j|, 1), numbers by their place in the distribution of all people and levels 1 apart; the score, the
    logarithm of the distance to the nearest person of the other half less that to the nearest released row. In one half
    the area under the curve is computed for all variables but one; the third without which it is largest is removed,
    and so on; and for pairs with a number, of which the best are extended by one variable at a time, to five, and for
    the sums below alone. The combination with the largest area scores the other half. Among the variables are four by
    which by themselves the area is largest in that half, of the sums of numbers and logarithms that
    `anoncore.risk.contrasts` tries and of numbers less what a linear regression on all other variables says (of at most
    eight numbers all of these): an offset or a factor that is the same for several numbers of a person keeps
    differences or ratios, some methods keep totals, and some residuals.

    Parameters
    ----------
    coded : people and rows
    halves : of the people, no unit in both
    rng : Generator, draws the people to choose with, and variables where there are many

    Returns
    -------
    ChosenVariables; None with fewer than 20 on a side of a half, or one variable

    Notes
    -----
    No person is scored by a choice that looked at their membership, so that without a leak all score alike in each
    half. But where a combination has a large area by chance in both halves, both choose it, so that areas of the halves
    are not independent: of K independent combinations P(z) of the mean becomes about P(z) + K·P(z/√2)², at z = 4 for K
    = 10 three times as much. Measured on tables of eight variables (150 draws of 600 people) the standard error is 1.06
    times that of independent scores, the fourth moment 4.0 in place of 3. So lower bounds and p-values are those of
    `IN_BOTH_HALVES` tests. Source: docs/explanation/risk.md; ratio of distances as in `anoncore.risk.density`. O(P·M·n)
    for each of about 50 searches, with at most 2000 people.
    """
    member = np.arange(len(coded.people)) < coded.n_members
    fewest = min(int(np.bincount(member[half].astype(int), minlength=2).min()) for half in halves)
    search = (coded.rows.shape[1] + len(halves[0])) * _SEARCHES
    affordable = max(int(_OPERATIONS / (search * _LEAST)) - KEPT, 0)
    drawn = np.sort(rng.permutation(coded.people.shape[1])[: min(_VARIABLES, affordable)])
    most = int(np.clip(_OPERATIONS / (search * (len(drawn) + KEPT)), _LEAST, _MOST))
    if fewest < _FEWEST or coded.people.shape[1] < 2:
        return None
    scores, contrasts = np.empty(len(member)), Contrasts.of(coded, rng)
    numbers, used = np.flatnonzero(coded.numeric), set[int]()
    for learned, scored in (halves, halves[::-1]):
        asked = _balanced(learned, member, most, rng)
        kept = contrasts.best(asked, scored, member)
        if len(drawn) + len(kept) < 2:
            return None
        people = np.column_stack([coded.people[:, drawn], *(one.people for one in kept)])
        rows = np.stack([*coded.rows[drawn], *(one.rows for one in kept)])
        numeric = np.append(coded.numeric[drawn], np.ones(len(kept), dtype=bool))
        # The search without a variable passes over rows that have no value there.
        present, there = (np.where(table == MISSING, _APART, table) for table in (people, rows))
        beside = np.ascontiguousarray(present[scored].T)
        alone = {frozenset({len(drawn) + at}): one.area for at, one in enumerate(kept)}
        chosen = _Choice(present[asked], there, beside, member[asked]).best(numeric, alone)
        # The nearest person is of the other half, so that no person is their own nearest neighbour.
        ratios = distance_ratios(people[scored][:, chosen], rows[chosen], people[learned][:, chosen])
        scores[scored] = rankdata(ratios) / len(ratios)
        of_each = [*drawn[:, None], *(numbers[list(one.numbers)] for one in kept)]
        used |= {int(j) for at in np.flatnonzero(chosen) for j in of_each[at]}
    return ChosenVariables(scores, tuple(coded.names[j] for j in sorted(used)))


def _balanced(half: Indices, member: Flags, most: int, rng: np.random.Generator) -> Indices:
    """Draw as many members as non-members."""
    sides = half[member[half]], half[~member[half]]
    size = min(most // 2, *map(len, sides))
    return np.concatenate([rng.choice(side, size, replace=False) for side in sides])


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

    def best(self, numeric: Flags, alone: Mapping[frozenset[int], float]) -> Flags:
        """Return the combination of variables with the largest area, of single ones those that are known."""
        # Of two variables that are no numbers, nothing else is tried.
        areas = {frozenset(range(len(self.rows))): 0.0} | dict(alone)
        for combinations in (self._narrowed(), self._widened(np.flatnonzero(numeric))):
            for found in combinations:
                areas |= found
        best = max(areas, key=lambda one: areas[one])
        return self._flags(best)

    def _flags(self, variables: frozenset[int]) -> Flags:
        return np.isin(np.arange(len(self.rows)), list(variables))

    def _narrowed(self) -> Iterator[dict[frozenset[int], float]]:
        """Remove a third of the variables at a time; give the areas of what is left, two variables at least."""
        known = np.ones(len(self.rows), dtype=bool)
        while (size := int(known.sum())) > 2:
            caps = np.ascontiguousarray(np.broadcast_to(np.where(known, UNIT, 0), self.people.shape).astype(np.int32))
            near, among = (nearest_without_each(self.people, caps, table)[0] for table in (self.rows, self.beside))
            at = np.flatnonzero(known)
            areas = self._areas(near[:, at], among[:, at], size - 1)
            whole = frozenset(at.tolist())
            yield {whole - {int(j)}: float(area) for j, area in zip(at, areas, strict=True)}
            known[at[np.argsort(-areas, kind="stable")[: min(-(-size // 3), size - 2)]]] = False

    def _widened(self, first: Indices) -> Iterator[dict[frozenset[int], float]]:
        """Give the areas of pairs with one of the first variables, and of the best combinations with one more."""
        found: dict[frozenset[int], float] = {}
        for j in first.tolist():
            found |= self._with_each(frozenset({j}))
        yield found
        for _ in range(2, _WIDEST):
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
        return areas_under_curve(self.member, log_ratios(near, among, variables))
