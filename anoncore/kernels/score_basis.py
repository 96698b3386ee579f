"""Bases in which a table is masked: scores of the records, and the way back from moved scores to records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.independent_axes import independent_axes
from anoncore.kernels.principal_axes import Basis, basis, principal_scores
from anoncore.kernels.rows import row_blocks

Floats = NDArray[np.float64]
Axes = Literal["principal", "independent"]


# No repr: scores and loadings must not reach a log or a traceback.
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ScoreBasis:
    """Scores of a table on uncorrelated axes, and the map back. All of it is secret.

    Parameters
    ----------
    frame : Basis
        Center, axes and their lengths; axes of length 0 are not used.
    scores : (N, n) float
        One column per axis, axes contiguous, of mean 0; 0 along axes that are not used.
    back : (n, n) float
        From scores to centred records.
    """

    frame: Basis
    scores: Floats
    back: Floats

    @property
    def live(self) -> NDArray[np.intp]:
        """The axes that are used."""
        return np.flatnonzero(self.frame.live)

    def records(
        self, moved: Floats, back: Floats | None = None, *, mean: Floats | None = None, in_place: bool = False
    ) -> Floats:
        """Return (M, n) records of moved scores (M, n), by another map if one is given, as if ``mean`` (n,) were 0.

        ``in_place`` overwrites ``moved``, which saves a second table.
        """
        back = self.back if back is None else back
        shift = self.frame.center if mean is None else self.frame.center - mean @ back
        result = moved if in_place else np.empty(moved.shape)
        for rows in row_blocks(len(moved)):
            np.matmul(moved[rows], back, out=result[rows])
            result[rows] += shift
        return result


def score_basis(x: Floats, axes: Axes = "principal", leading: float = 1.0) -> ScoreBasis:
    """Return the scores of a table and the way back.

    Parameters
    ----------
    x : (N, n) float
        Records in rows, columns of comparable scale (standardised). No missing values.
    axes : {"principal", "independent"}
        Principal axes, or independent components.
    leading : float, above 0 and at most 1
        Share of the variance: the fewest longest principal axes that hold it are used, the others left out. Independent
        components are all of one length.

    Returns
    -------
    ScoreBasis

    Notes
    -----
    Claim: with ``leading`` 1, ``records(scores)`` is ``x`` up to rounding; else the nearest table of that rank.

    Source: Lasko & Vinterbo (2010), section III-A, and V for other bases; the nearest table: Eckart and Young 1936.

    Examples
    --------
    >>> x = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.5]])
    >>> both, first = score_basis(x), score_basis(x, leading=0.9)
    >>> len(both.live), len(first.live), bool(np.allclose(both.records(both.scores), x))
    (2, 1, True)
    """
    frame = basis(x)
    back = frame.loadings.T
    if axes == "independent":
        frame, back = independent_axes(x, frame)
    # Axes contiguous: a permutation touches one column at a time.
    scores = principal_scores(x, frame, order="F")
    if leading < 1:
        held = np.square(frame.singular_values)
        left_out = np.cumsum(held) - held >= leading * held.sum()
        scores[:, left_out] = 0.0
        frame = replace(frame, singular_values=np.where(left_out, 0.0, frame.singular_values))
    return ScoreBasis(frame=frame, scores=scores, back=back)
