"""Parts of a release and of other people's records that are as large as each other."""

from __future__ import annotations

import numpy as np

from anoncore.risk._checks import Indices

_FEWEST = 20  # units, fewer of which are not thinned
_LARGER = 1.1  # times as many rows of a release, from which on the others are thinned to one record of each unit


def equal_sizes(
    released: int, others: int, units: Indices | None, rng: np.random.Generator
) -> tuple[Indices | None, Indices | None]:
    """Return which rows of a release, and of others, to compare; None for all.

    Random rows of a larger release are of more units than as many records of the others, of whose units several are
    there: they would come nearer to more people by chance. Of the others one record of each unit is taken then. Of
    larger others whole units are.

    Parameters
    ----------
    released, others : numbers of rows
    units : (others,) statistical unit of each record of the others; None where each is its own
    rng : Generator; not used where the numbers are equal
    """
    if released == others:
        return None, None
    if units is not None and (size := searched(released, others, units)) < min(released, others):
        order = rng.permutation(others)
        kept = np.sort(order[np.unique(units[order], return_index=True)[1]])
        return np.sort(rng.choice(released, size, replace=False)), kept
    size = min(released, others)
    if units is not None and others > size:
        codes = np.unique(units, return_inverse=True)[1]
        place = rng.permutation(int(codes.max()) + 1)[codes]
        return None, np.sort(np.argsort(place, kind="stable")[:size])
    of_release, of_others = (None if n == size else rng.choice(n, size, replace=False) for n in (released, others))
    return of_release, of_others


def searched(released: int, others: int, units: Indices | None) -> int:
    """Return how many rows of either side `equal_sizes` takes."""
    if units is not None and released > _LARGER * others:
        n_units = len(np.unique(units))
        return n_units if n_units >= _FEWEST else others
    return min(released, others)
