"""Risk where the population itself is a table: k-map, δ-presence, and records traced, without any estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from anoncore.errors import AnonymizationError
from anoncore.risk.population.frequencies import groups_of


@dataclass(frozen=True)
class KnownPopulationRisk:
    """The risk of records whose population is known.

    Parameters
    ----------
    n, population : records, and people of the population
    traced : Σ over records of 1/F, F people having the record's key
    k_map : fewest people with the key of a record
    presence_lower, presence_upper : smallest and largest share of the people with one key, among all keys of the
        population, who are in the data: δ-presence
    """

    n: int
    population: int
    traced: float
    k_map: int
    presence_lower: float
    presence_upper: float


def known_population_risk(keys: ArrayLike, population: ArrayLike) -> KnownPopulationRisk:
    """Compare the keys of records with those of the whole population.

    Parameters
    ----------
    keys : (N, m) int, levels from 0, −1 for a missing value, which is a level of its own
    population : (P, m) int, the same of the population, of which the records are part

    Returns
    -------
    KnownPopulationRisk

    Raises
    ------
    AnonymizationError
        When the tables do not fit together, or a key occurs more often among the records than in the population.

    Notes
    -----
    Claim: exact. Source: El Emam and Dankar (2008), *JAMIA* 15, 627–637, k-map; Nergiz, Atzori and Clifton (2007),
    *SIGMOD*, 665–676, δ-presence.

    Examples
    --------
    >>> found = known_population_risk([[0], [0], [1]], [[0], [0], [0], [1], [1], [2]])
    >>> found.k_map, found.presence_lower, round(found.presence_upper, 3), round(found.traced, 3)
    (2, 0.0, 0.667, 1.167)
    """
    records, people = (np.asarray(table, dtype=np.int64) for table in (keys, population))
    if records.ndim != 2 or people.ndim != 2 or records.shape[1:] != people.shape[1:] or not len(records):
        raise AnonymizationError("keys and population must be tables of the same columns, with at least one record")
    group = groups_of(np.concatenate([people, records]))
    size = int(group.max()) + 1
    there, here = (np.bincount(part, minlength=size) for part in (group[: len(people)], group[len(people) :]))
    if more := int((here > there).sum()):
        raise AnonymizationError(
            f"{more} key(s) occur more often among the records than in the population; give the whole population"
        )
    share, own = here / there, here > 0
    return KnownPopulationRisk(
        n=len(records),
        population=len(people),
        traced=float(share.sum()),
        k_map=int(there[own].min()),
        presence_lower=float(share.min()),
        presence_upper=float(share.max()),
    )
