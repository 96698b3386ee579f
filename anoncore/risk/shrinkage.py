"""Shrinkage of a release towards its means, undone: what an attacker does who knows how it was masked."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anoncore.encoding import EncodedTables
from anoncore.kernels.principal_axes import symmetric_root
from anoncore.risk._checks import Floats, Indices

UNDONE = "shrinkage undone"
# Slopes of the released on the original number: below, rows say little of their records; above, there is nothing to
# undo.
_LEAST, _MOST = 0.2, 0.95
# Of the largest variance, that of directions in which numbers hardly vary.
_RIDGE = 1e-4


@dataclass(frozen=True, eq=False, repr=False)
class Shrinkage:
    """By how much released numbers are shrunk, and the units in which distances are measured once that is undone.

    Parameters
    ----------
    numbers : (m,) columns of the encoding that hold numbers
    slopes : (m,) of the released on the original number; 1 where there is nothing to undo
    middle : (m,) means of the released numbers
    units : (m, m) inverse root of their covariance
    """

    numbers: Indices
    slopes: Floats
    middle: Floats
    units: Floats

    @classmethod
    def of(cls, tables: EncodedTables, own: Indices) -> Shrinkage | None:
        """Estimate it, as `without_shrinkage` does; None without any."""
        numbers = np.array([b.start for b in tables.encoder.blocks if b.variable.kind == "continuous"], dtype=np.intp)
        linked = np.flatnonzero(own >= 0)
        if not len(numbers) or len(linked) < 2:
            return None
        source, rows = tables.x[linked][:, numbers], tables.y[own[linked]][:, numbers]
        centred = source - source.mean(axis=0)
        variation = np.einsum("ij,ij->j", centred, centred)
        slopes = np.einsum("ij,ij->j", centred, rows) / np.where(variation > 0.0, variation, np.inf)
        shrunk = (slopes >= _LEAST) & (slopes <= _MOST)
        if not shrunk.any():
            return None
        released = tables.y[:, numbers]
        width = len(numbers)
        covariance = np.cov(released, rowvar=False).reshape(width, width)
        covariance += _RIDGE * max(float(np.diag(covariance).max()), _RIDGE) * np.eye(width)
        units = symmetric_root(covariance, inverse=True)
        return cls(numbers, np.where(shrunk, slopes, 1.0), released.mean(axis=0), units)

    def undone(self, rows: Floats) -> Floats:
        """Return encoded released rows without it, in these units."""
        return self._moved(rows, self.slopes)

    def beside(self, people: Floats) -> Floats:
        """Return encoded records of people, who are not shrunk, in these units."""
        return self._moved(people, 1.0)

    def _moved(self, rows: Floats, by: Floats | float) -> Floats:
        moved = rows.copy()
        moved[:, self.numbers] = (rows[:, self.numbers] - self.middle) / by @ self.units
        return moved


def without_shrinkage(tables: EncodedTables, own: Indices) -> EncodedTables | None:
    """Return the tables with the shrinkage of released numbers undone, and in uncorrelated units; None without any.

    A method that adds noise and shrinks the sum by a factor below 1, so that variances stay, moves people far out by
    more than the noise does: they are not near their own rows. Parameters of methods are published, so anyone divides
    by the factor. It is the slope of the regression of the released on the original number over records and their own
    rows. Noise has the covariance of the numbers, so that distances are Mahalanobis's, by the released numbers; levels
    stay as they are.

    Parameters
    ----------
    tables : EncodedTables; original records and released rows that stem from them
    own : (N,) the row that stems from each record, −1 where none does

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore.microdata import Microdata, Schema, Variable
    >>> schema = Schema([Variable("x", "continuous")])
    >>> a, b = (Microdata(pd.DataFrame({"x": f * np.arange(9.0)}), schema) for f in (1.0, 0.5))
    >>> undone = without_shrinkage(EncodedTables.of(a, b, None), np.arange(9))
    >>> bool(np.allclose(undone.y - undone.y.mean(), undone.x - undone.x.mean()))
    True
    """
    shrinkage = Shrinkage.of(tables, own)
    if shrinkage is None:
        return None
    r = None if tables.r is None else shrinkage.beside(tables.r)
    return replace(tables, x=shrinkage.beside(tables.x), y=shrinkage.undone(tables.y), r=r)
