"""Columns that add up to one number in every record: shares of a whole, percentages, hours of a day."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from anoncore.edits.kinds import LinearEdit, linear_holds
from anoncore.microdata.precision import outward
from anoncore.profile.findings import Finding
from anoncore.profile.relations import deviation

FEWEST_TERMS = 3
FEWEST_VALUES = 20  # of each column: codes that add up, such as ranks, are no amounts
SAMPLE = 2000  # records on which coefficients are fitted; what fits is checked on all
NOISE = 1e-6  # of the sum: shares that were stored with single precision


def constant_sum(values: np.ndarray, names: Sequence[str], used: Collection[int]) -> tuple[Finding, ...]:
    """Find the columns without missing values that add up to one whole number other than 0.

    Parameters
    ----------
    values : (N, n) float64, NaN where missing
    names : n
    used : columns of other sums, which take no part

    Returns
    -------
    tuple of Finding
        At most one, with the largest term as its dependent, which is the least likely to fall below 0 when it is
        computed from masked ones.

    Examples
    --------
    >>> shares = np.random.default_rng(0).dirichlet([2, 2, 3], 200)
    >>> constant_sum(shares, ["food", "rent", "rest"], ())[0].edit.constant
    1.0
    """
    columns = np.array([j for j in range(len(names)) if j not in used and _is_amount(values[:, j])], dtype=int)
    if not FEWEST_TERMS <= len(columns) <= len(values) / 2:
        return ()
    block = values[:: max(1, len(values) // max(SAMPLE, 4 * len(columns)))][:, columns]
    scale = np.sqrt((block**2).mean(axis=0))
    fit, _, rank, _ = np.linalg.lstsq(block / scale, np.ones(len(block)), rcond=None)
    if rank < len(columns):
        return ()
    terms = np.abs(fit) > 1e-4
    total = 1 / float((fit / scale)[terms].mean()) if terms.sum() >= FEWEST_TERMS else 0.0
    constant = float(round(total))
    if constant <= 0 or np.abs(fit / scale * constant - 1).max(where=terms, initial=0.0) > 0.01:
        return ()
    chosen = columns[terms]
    gap = float(np.abs(values[:, chosen].sum(axis=1) - constant).max())
    if gap > NOISE * constant or not np.isfinite(deviation(values, (tuple(chosen.tolist()), (1.0,) * len(chosen)))):
        return ()
    exact = linear_holds(values[:, chosen], np.ones(len(chosen)), "==", constant).all()
    dependent = names[int(chosen[np.argmax(values[:, chosen].mean(axis=0))])]
    edit = LinearEdit(
        name=f"{dependent} and others add up to {constant:.0f}",
        terms={names[j]: 1.0 for j in chosen},
        constant=constant,
        dependent=dependent,
        tolerance=None if exact else outward(gap, upward=True),
    )
    return (Finding(edit),)


def _is_amount(column: np.ndarray) -> bool:
    """Whether a column (N,) has no missing value, none below 0, and many values."""
    return not np.isnan(column).any() and bool((column >= 0).all()) and len(np.unique(column)) >= FEWEST_VALUES
