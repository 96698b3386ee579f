"""Limits of single numbers, for methods that would exceed them when they decode scores."""

from __future__ import annotations

import numpy as np

from anoncore.edits.kinds import BoundEdit, LinearEdit, RatioEdit
from anoncore.edits.levels import admissible
from anoncore.edits.model import EditSet
from anoncore.microdata import Microdata


def within_limits(data: Microdata, edits: EditSet) -> tuple[Microdata, float]:
    """Move numbers beyond the limits of bound edits to the nearest multiple of their precision within.

    Numbers that another edit ties to others stay for the repair step, which moves them together.

    Parameters
    ----------
    data : Microdata, N records
    edits : EditSet

    Returns
    -------
    Microdata, and the share of its numbers that were moved.

    Examples
    --------
    >>> within_limits(masked, EditSet([BoundEdit(name="age", variable="age", lower=0)]))[1]  # doctest: +SKIP
    0.02
    """
    tied = {
        name
        for edit in edits.within(data.schema.names).edits
        if isinstance(edit, LinearEdit | RatioEdit)
        for name in edit.variables
    }
    frame, numbers, moved = data.frame.copy(), 0, 0
    for edit in edits.edits:
        if not isinstance(edit, BoundEdit) or edit.variable not in data.schema or edit.variable in tied:
            continue
        variable = data.schema[edit.variable]
        if variable.is_categorical:
            continue
        before = frame[variable.name].to_numpy()
        after = np.clip(before, *admissible(edit, variable.precision))
        numbers += int(np.count_nonzero(~np.isnan(before)))
        moved += int(np.count_nonzero((before != after) & ~np.isnan(before)))
        frame[variable.name] = after
    return Microdata.trusted(frame, data.schema, data.units), moved / max(numbers, 1)


def limits_note(share: float) -> tuple[str, ...]:
    """Return a sentence on the numbers that were moved, for the notes of a method; none where there are none."""
    return (
        (f"{100 * share:.2g} % of the numbers lay beyond the limits of edits and were moved to them",) if share else ()
    )
