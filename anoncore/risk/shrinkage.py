"""Shrinkage of a release towards its means, undone: what an attacker does who knows how it was masked."""

from __future__ import annotations

import numpy as np

from anoncore.encoding import EncodedTables
from anoncore.risk._checks import Floats, Indices

# Slopes of the released on the original number: below, rows say little of their records; above, there is nothing to
# undo.
_LEAST, _MOST = 0.2, 0.95


def without_shrinkage(tables: EncodedTables, own: Indices) -> Floats | None:
    """Return the encoded release (M, n) with the shrinkage of its numbers undone; None where there is none.

    A method that adds noise and shrinks the sum by a factor below 1, so that variances stay, moves people far out by
    more than the noise does: they are not near their own rows. Parameters of methods are published, so anyone divides
    by the factor. It is the slope of the regression of the released on the original number over records and their own
    rows; levels stay.

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
    >>> tables = EncodedTables.of(a, b, None)
    >>> back = without_shrinkage(tables, np.arange(9))
    >>> bool(np.allclose(back - back.mean(), tables.x))
    True
    """
    numbers = np.array([b.start for b in tables.encoder.blocks if b.variable.kind == "continuous"], dtype=np.intp)
    linked = np.flatnonzero(own >= 0)
    if not len(numbers) or not len(linked):
        return None
    source, rows = tables.x[linked][:, numbers], tables.y[own[linked]][:, numbers]
    centred = source - source.mean(axis=0)
    variation = np.einsum("ij,ij->j", centred, centred)
    slopes = np.einsum("ij,ij->j", centred, rows) / np.where(variation > 0.0, variation, np.inf)
    shrunk = (slopes >= _LEAST) & (slopes <= _MOST)
    if not shrunk.any():
        return None
    back = tables.y.copy()
    columns = numbers[shrunk]
    middle = back[:, columns].mean(axis=0)
    back[:, columns] = middle + (back[:, columns] - middle) / slopes[shrunk]
    return back
