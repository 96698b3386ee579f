"""Whether the members of one group of people stand out, by any of several scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from scipy.stats import beta, hypergeom

from anoncore.microdata.units import unit_codes
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import Flags
from anoncore.risk.scores import Certainty, TopScores, accepted_share

_FEWEST = 20  # units of a side in a group
_LARGEST = 0.5  # share of all units: a larger group is seen by everybody's area
_SHARES = (0.25, 0.5)  # of the highest scores of a group


def in_one_group(
    scores: Mapping[str, Floats], groups: Iterable[Indices], n_members: int, certainty: Certainty
) -> TopScores | None:
    """Count members among the highest quarter and half of the scores of each group of people.

    A leak that concerns one group of a hundred in thousands hardly moves the area under the curve of all, nor are its
    scores the highest. In a group, members are above a score as if drawn, when scores do not depend on membership.

    Parameters
    ----------
    scores : by name, (P,) each, members first
    groups : (P,) codes of groups, for each division of the people
    n_members : of the people
    certainty : of the lower bound, over all scores, groups and shares; with the units of the people, who have their
        best score in a group

    Returns
    -------
    TopScores of the group and score that chance explains least, its p-values for all together; None where no group
    has 20 units on either side and at most half of all

    Notes
    -----
    Counts only what is more than an attack shows that is accepted, as in `anoncore.risk.scores.top_scores`. Source:
    hypergeometric test, corrected as by Bonferroni.

    Examples
    --------
    >>> draw = np.random.default_rng(0).normal
    >>> score, group = np.concatenate([draw(size=600), draw(size=600)]), np.arange(1200) % 6
    >>> score[:600][group[:600] == 2] += 2.0
    >>> in_one_group({"a": score}, [group], 600, Certainty()).p < 1e-6
    True
    """
    units = _unit_codes(certainty, n_members, len(next(iter(scores.values()))))
    table, member = np.array(list(scores.values())), np.arange(len(units)) < n_members
    most = _LARGEST * (int(units.max()) + 1)
    counted = [one for codes in groups for one in _in_groups(table, member, codes, units, most)]
    if not counted:
        return None
    looked_at, hits, members, size = np.array(counted).reshape(-1, 4).T
    base = members / size
    accepted = accepted_share(looked_at / size, base)
    by_chance, by_accepted = (
        np.asarray(hypergeom.sf(hits - 1, size, np.rint(size * share), looked_at)) for share in (base, accepted)
    )
    counts, tests = hits > looked_at * accepted, len(hits)
    worst = int(np.lexsort((by_chance, ~counts))[0])
    p, accepted_p = (min(1.0, float(values[counts].min(initial=1.0)) * tests) for values in (by_chance, by_accepted))
    n, found = int(looked_at[worst]), int(hits[worst])
    level = (1.0 - certainty.confidence) / certainty.tests / tests
    lower = float(beta.ppf(level, found, n - found + 1)) if found else 0.0
    return TopScores(n, found, found / n, lower, p, accepted_p, float(base[worst]))


def _unit_codes(certainty: Certainty, members: int, people: int) -> Indices:
    together = certainty.units.together(members, people - members)
    return np.arange(people) if together is None else unit_codes(together, people)


def _in_groups(
    table: Floats, member: Flags, codes: Indices, units: Indices, most: float
) -> Iterator[list[tuple[int, int, int, int]]]:
    """Give, for each group, the highest scores, the members among them, members and units, for each score and share."""
    order = np.lexsort((units, codes))
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    for rows in np.split(order, ends):
        starts = np.append(True, units[rows][1:] != units[rows][:-1])
        own, size = member[rows][starts], int(starts.sum())
        n = int(own.sum())
        if min(n, size - n) < _FEWEST or size > most:
            continue
        best = np.maximum.reduceat(table[:, rows], np.flatnonzero(starts), axis=1)
        found = []
        for share in _SHARES:
            at = max(int(share * size), 1)
            least = np.partition(best, size - at, axis=1)[:, size - at, None]
            above = best >= least
            found += [
                (int(k), int(hits), n, size)
                for k, hits in zip(above.sum(axis=1), (above & own).sum(axis=1), strict=True)
            ]
        yield found
