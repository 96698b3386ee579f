"""The last resort of repair: all variables that edits tie together, from one record that satisfies them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from anoncore.edits.levels import Source, cells, empty
from anoncore.edits.model import Edit

# Donors among which the nearest is sought, drawn anew for each set of variables.
CANDIDATES = 1000


def from_donors(violated: Edit, frame: pd.DataFrame, source: Source) -> dict[str, np.ndarray]:
    """Return cells of every variable that edits tie to those of a violated one, of the nearest sound record.

    Parameters
    ----------
    violated : an edit that the records violate
    frame : DataFrame, (M, n), the records; any number, none included
    source : what to draw from; only records without any violation are donors

    Returns
    -------
    (M,) cells of each variable tied, directly or through other edits; nothing where no record is sound.

    Claim: the records satisfy every edit about the variables replaced: none reads another variable beside.
    Distance: a level that differs counts 1, a number its difference in standard deviations, at most 1.

    Examples
    --------
    >>> from_donors(married, frame, source)  # doctest: +SKIP
    {'age': array([31.]), 'married': array([1])}
    """
    tied = set(violated.variables)
    for _ in source.edits.edits:
        reached = tied.union(*(set(e.variables) for e in source.edits.edits if tied & set(e.variables)))
        if reached == tied:
            break
        tied = reached
    sound = np.flatnonzero(source.sound)
    if not len(sound) or not len(frame):
        return {}
    donors = np.sort(source.rng.choice(sound, size=min(len(sound), CANDIDATES), replace=False))
    names = [name for name in frame.columns if name in tied]
    distance = np.zeros((len(frame), len(donors)))
    for name in names:
        own, there = cells(frame[name]), cells(source.file[name])
        distance += _distance(own, there[donors], there)
    nearest = donors[distance.argmin(axis=1)]
    return {name: cells(source.file[name])[nearest] for name in names}


def _distance(own: np.ndarray, donors: np.ndarray, file: np.ndarray) -> np.ndarray:
    """Return (M, D) distances in one variable, from 0 to 1."""
    if own.dtype.kind != "f":
        return np.asarray(own[:, None] != donors[None, :], dtype=float)
    known = file[~empty(file)]
    scale = (known.std() if len(known) else 0.0) or 1.0
    apart = np.minimum(np.abs(own[:, None] - donors[None, :]) / scale, 1.0)
    return np.where(np.isnan(own)[:, None] & np.isnan(donors)[None, :], 0.0, np.nan_to_num(apart, nan=1.0))
