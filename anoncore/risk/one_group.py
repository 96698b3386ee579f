"""Whether the members of one group of people stand out, by any of several scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from scipy.stats import beta, norm

from anoncore.kernels.left_out import MISSING
from anoncore.microdata.units import unit_codes
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import Flags
from anoncore.risk.coded_people import CodedPeople, distance_ratios
from anoncore.risk.scores import ACCEPTED_AREA, Certainty, TopScores

_FEWEST = 20  # units of a side in a group
_MISSING = 0.5  # share of people without a number, in a group that is compared by others
_OPERATIONS = 2e9  # of the distances within the levels of one variable
_LARGEST = 0.5  # share of all units: a larger group changes the area of all people

Grouping: TypeAlias = tuple[Indices, Floats | None]


def groupings(coded: CodedPeople, halves: Sequence[Indices], rng: np.random.Generator) -> Iterator[Grouping]:
    """Give groups of people, those by the levels of one variable with ratios of distances among the records of each.

    Parameters
    ----------
    coded : people and rows
    halves : of the people, each of which is compared with people of the other
    rng : Generator, draws pairs of variables
    """
    people, rows = coded.levels
    own = {int(at): place for place, at in enumerate(np.flatnonzero(~coded.numeric))}
    for at, codes in coded.groups(rng):
        place = None if at is None else own.get(at)
        yield codes, None if place is None else _within(coded, halves, people[:, place], rows[:, place])


def _within(coded: CodedPeople, halves: Sequence[Indices], codes: Indices, of_rows: Indices) -> Floats | None:
    """Return (P,) ratios of distances to people of the other half and to rows with the same level.

    By the numbers that at least half of those with the level have; 0 of levels that hardly anyone or most people have,
    and None where all others take too long.
    """
    held, there = np.bincount(codes, minlength=1), np.bincount(of_rows, minlength=int(codes.max(initial=0)) + 1)
    levels = np.flatnonzero((held >= 2 * _FEWEST) & (held <= _LARGEST * len(codes)))
    numbers = int(coded.numeric.sum())
    searched = float((held[levels] * (there[levels] + held[levels] / 2.0)).sum()) * numbers
    if numbers < 2 or searched > _OPERATIONS:
        return None
    scores = np.zeros(len(codes))
    for level in levels:
        known = coded.numeric & ((coded.people[codes == level] == MISSING).mean(axis=0) < _MISSING)
        rows = coded.rows[np.ix_(known, of_rows == level)]
        sides = [half[codes[half] == level] for half in halves]
        for asked, beside in (sides, sides[::-1]):
            if len(asked) and len(beside) and rows.size:
                one, other = (coded.people[np.ix_(side, known)] for side in (asked, beside))
                scores[asked] = distance_ratios(one, rows, other)
    return scores


def in_one_group(
    scores: Mapping[str, Floats],
    groups: Iterable[Grouping],
    n_members: int,
    certainty: Certainty,
    rng: np.random.Generator,
) -> TopScores:
    """Look for the group of people in which members score most above non-members.

    A leak that concerns one group of a hundred in thousands hardly moves the area under the curve of all, nor are its
    scores the highest. In each group, and by each score, the area is tested by the sum of ranks.

    Parameters
    ----------
    scores : by name, (P,) each, members first
    groups : for each division of the people (P,) codes of groups, and (P,) scores of its own or None
    n_members : of the people
    certainty : of the lower bound, over all scores and groups; with the units of the people, who have their best score
        in a group
    rng : Generator, breaks ties

    Returns
    -------
    TopScores of the higher half of the scores in the group that chance explains least, with p-values of the areas over
    all groups and scores, and the share of members among all people: that among the people of a group tells how many
    they are. Of no one, with p-values of 1, where no group has 20 units on either side and at most half of all

    Notes
    -----
    Ties are broken at random, so that the sum of ranks has no ties; its normal approximation is conservative far out,
    where it is used, if scores do not depend on membership. For an area of 0.55 the same variance is taken. Counts only
    what is more than an attack shows that is accepted, as in `anoncore.risk.scores.top_scores`. Source: Mann and
    Whitney 1947, *Ann. Math. Stat.* 18, 50-60, corrected as by Bonferroni.

    Examples
    --------
    >>> draw = np.random.default_rng(0)
    >>> score, group = draw.normal(size=1200), np.arange(1200) % 6
    >>> score[:600][group[:600] == 2] += 2.0
    >>> in_one_group({"a": score}, [(group, None)], 600, Certainty(), draw).p < 1e-6
    True
    """
    units = _unit_codes(certainty, n_members, len(next(iter(scores.values()))))
    table, member = np.array(list(scores.values())), np.arange(len(units)) < n_members
    most = _LARGEST * (int(units.max()) + 1)
    found = [
        one
        for codes, own in groups
        for one in _in_groups(table if own is None else np.vstack([table, own]), member, codes, (units, most), rng)
    ]
    baseline = n_members / len(units)
    if not found:
        return TopScores(0, 0, 0.0, 0.0, 1.0, 1.0, baseline)
    areas, hits, half, members, size = np.concatenate(found, axis=1)
    error, tests = np.sqrt((size + 1.0) / (12.0 * members * (size - members))), len(areas)
    by_chance, by_accepted = (norm.sf((areas - area) / error) for area in (0.5, ACCEPTED_AREA))
    counts = areas > ACCEPTED_AREA
    worst = int(np.lexsort((by_chance, ~counts))[0])
    p, accepted_p = (min(1.0, float(each[counts].min(initial=1.0)) * tests) for each in (by_chance, by_accepted))
    n, above = int(half[worst]), int(hits[worst])
    level = (1.0 - certainty.confidence) / certainty.tests / tests
    lower = float(beta.ppf(level, above, n - above + 1)) if above else 0.0
    return TopScores(n, above, above / n, lower, p, accepted_p, baseline)


def _unit_codes(certainty: Certainty, members: int, people: int) -> Indices:
    together = certainty.units.together(members, people - members)
    return np.arange(people) if together is None else unit_codes(together, people)


def _in_groups(
    table: Floats, member: Flags, codes: Indices, sides: tuple[Indices, float], rng: np.random.Generator
) -> Iterator[Floats]:
    """Give, for each group, (5, S) area, members in the higher half, size of it, members and units, by each score.

    ``sides`` are the unit of each person, and how many units a group may have.
    """
    units, most = sides
    order = np.lexsort((units, codes))
    for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        starts = np.append(True, units[rows][1:] != units[rows][:-1])
        own, size = member[rows][starts], int(starts.sum())
        n = int(own.sum())
        if min(n, size - n) < _FEWEST or size > most:
            continue
        shuffled = rng.permutation(size)
        best = np.maximum.reduceat(table[:, rows], np.flatnonzero(starts), axis=1)[:, shuffled]
        ascending = own[shuffled][np.argsort(best, axis=1, kind="stable")]
        half = size // 2
        below = (ascending * np.arange(1, size + 1)).sum(axis=1) - n * (n + 1) / 2.0
        each = np.ones(len(table))
        yield np.stack([below / (n * (size - n)), ascending[:, -half:].sum(axis=1), half * each, n * each, size * each])
