"""Whole sampling units on one side of a cut: an attacker compares with people of units that were not drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from anoncore.microdata import Microdata, joined_units
from tasks.common.errors import Refused, named
from tasks.intake.columns import identities

# Statistical units that each side has at least.
FEWEST = 2


@dataclass(frozen=True, eq=False, repr=False)
class Clusters:
    """The sampling units of a table; those that share a statistical unit are one.

    Parameters
    ----------
    of_unit : (U,) the cluster of each statistical unit, 0 … C − 1
    names : (C,) uint64, what stays the same of each cluster, whatever else the table holds
    variables : by whose values they are known, within their stratum where they are released
    """

    of_unit: np.ndarray
    names: np.ndarray
    variables: tuple[str, ...]

    @property
    def phrase(self) -> str:
        """The clusters, as a sentence names them."""
        return f"sampling unit ({named(self.variables)})"

    def among(self, units: np.ndarray) -> int:
        """Return in how many clusters some units are."""
        return len(np.unique(self.of_unit[units]))


def clusters_of(source: Microdata, dropped: pd.DataFrame | None = None) -> Clusters | None:
    """Return the sampling units of a table; None where no variable has that role and no dropped column names them.

    Parameters
    ----------
    dropped : text of the columns that together name sampling units and are not released, of every record that was read
    """
    units, variables = source.unit_codes, [n for n in source.schema.with_role("sampling-unit") if n in source.frame]
    named_by: list[pd.DataFrame] = []
    if variables:
        strata = [n for n in source.schema.with_role("stratum") if n in source.frame]
        named_by.append(identities(source.frame, [*variables, *strata]))
    if dropped is not None:
        named_by.append(dropped.iloc[source.frame.index])
    if not named_by:
        return None
    hashed = [_hashed(texts) for texts in named_by]
    of_record = joined_units([*(pd.factorize(values)[0] for values in hashed), units], len(source))
    names = np.full(int(of_record.max(initial=-1)) + 1, np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(names, of_record, hashed[-1])
    of_unit = np.zeros(source.n_units, dtype=np.intp)
    of_unit[units] = of_record
    return Clusters(of_unit, names, (*variables, *([] if dropped is None else map(str, dropped.columns))))


def _hashed(texts: pd.DataFrame) -> np.ndarray:
    """Return (N,) uint64 hashes of the values that name the sampling unit of each record; a missing one is a value."""
    return pd.util.hash_pandas_object(texts.astype(object).fillna(""), index=False).to_numpy()


def strata_of(source: Microdata) -> np.ndarray | None:
    """Return (U,) the stratum of each unit's first record; None where no variable has the role stratum."""
    strata = source.role_codes("stratum")
    if strata is None:
        return None
    of_unit = np.zeros(source.n_units, dtype=np.intp)
    of_unit[source.unit_codes[::-1]] = strata[::-1]
    return of_unit


def grouped(order: np.ndarray, clusters: Clusters, drawn: np.ndarray) -> np.ndarray:
    """Return units in the order of their clusters, those of one cluster in the order they had.

    Parameters
    ----------
    order : (U,) the units
    drawn : (C,) the clusters in the persistent order
    """
    place = np.empty_like(drawn)
    place[drawn] = np.arange(len(drawn))
    return order[np.argsort(place[clusters.of_unit[order]], kind="stable")]


def whole_clusters(order: np.ndarray, clusters: Clusters, strata: np.ndarray | None, masked: int) -> np.ndarray:
    """Return the units of the first clusters of every stratum, about so many and the same share but for one cluster.

    Of each stratum those clusters are taken that lie within its share. The next one of each is taken by the part of it
    that is still due, the largest first, until the number of units is as near as it comes.

    Parameters
    ----------
    order : (U,) the units as of `grouped`
    strata : (U,) by unit; a cluster is of the stratum of its first unit

    Raises
    ------
    Refused
        When the clusters are too few for two sides of two units each.
    """
    starts, sizes = _runs(clusters.of_unit[order])
    stratum = np.zeros(len(starts), dtype=np.intp) if strata is None else strata[order[starts]]
    within = np.argsort(stratum, kind="stable")
    totals = np.bincount(stratum, weights=sizes)
    before = np.empty(len(starts))
    before[within] = np.cumsum(sizes[within]) - sizes[within] - (np.cumsum(totals) - totals)[stratum[within]]
    # Of a cluster this share is due: all of the first ones, none of the last. Exact quotients keep ties in order.
    due = (totals[stratum] * masked - before * len(order)) / (sizes * len(order))
    taken = due >= 1.0
    partly = np.flatnonzero((due > 0.0) & ~taken)
    partly = partly[np.argsort(-due[partly], kind="stable")]
    reached = int(sizes[taken].sum()) + np.concatenate([[0], np.cumsum(sizes[partly])])
    possible = np.flatnonzero((reached >= FEWEST) & (reached <= len(order) - FEWEST))
    if not len(possible):
        raise Refused(_too_few(len(starts), clusters))
    taken[partly[: possible[np.argmin(np.abs(reached[possible] - masked))]]] = True
    chosen: np.ndarray = order[np.repeat(taken, sizes)]
    return chosen


def _runs(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where runs of equal codes start, and how long they are."""
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    return starts, np.diff(starts, append=len(codes))


def _too_few(number: int, clusters: Clusters) -> str:
    by = named(clusters.variables)
    return (
        f"reference: whole sampling units ({by}) are set apart, and {number} of them that share no statistical unit "
        f"cannot be divided into two sides of at least {FEWEST} units each; choose kind: file, with people of other "
        f"sampling units, or let neither the role sampling-unit nor sampling_units name {by}: the reference then holds "
        "people of the same sampling units, and attacks do not see what these give away"
    )
