"""What edits say of ranges: a range keeps an edit when some value in it does."""

from __future__ import annotations

from collections.abc import Iterable

from anoncore.boxes import HIGH, LOW
from anoncore.edits import BoundEdit, Edit, EditSet, LinearEdit


def over_ranges(edits: EditSet, names: Iterable[str]) -> tuple[EditSet, tuple[str, ...]]:
    """Return the edits that ranges must satisfy so that a record within them can satisfy the original ones.

    Parameters
    ----------
    edits : EditSet, about single values
    names : variables v released as ``v_lo`` and ``v_hi``

    Returns
    -------
    EditSet about the bounds, and the names of edits that say nothing of ranges: those about levels, ratios
    or cells that are empty, and those that apply under conditions.

    Claim: necessary for each edit alone; a range can admit a record for every edit and none for all at once.

    Examples
    --------
    >>> total = LinearEdit(name="total", terms={"net": 1, "tax": 1, "gross": -1})
    >>> [e.name for e in over_ranges(EditSet([total]), ["net", "tax", "gross"])[0].edits][-2:]
    ['total (least)', 'total (most)']
    """
    known = list(names)
    found: list[Edit] = [
        LinearEdit(name=f"{n} begins before it ends", terms={n + LOW: 1.0, n + HIGH: -1.0}, relation="<=")
        for n in known
    ]
    silent = []
    for edit in edits.edits:
        told = _told(edit) if set(edit.variables) <= set(known) else []
        found += told
        silent += [] if told else [edit.name]
    return EditSet(found), tuple(silent)


def _told(edit: Edit) -> list[Edit]:
    if isinstance(edit, BoundEdit):
        ends = (
            (edit.variable + HIGH, edit.lower, None, "least"),
            (edit.variable + LOW, None, edit.upper, "most"),
        )
        return [
            BoundEdit(name=f"{edit.name} ({which})", variable=name, lower=low, upper=high)
            for name, low, high, which in ends
            if low is not None or high is not None
        ]
    if not isinstance(edit, LinearEdit) or edit.when:
        return []
    least = {n + (LOW if c > 0 else HIGH): c for n, c in edit.terms.items()}
    most = {n + (HIGH if c > 0 else LOW): c for n, c in edit.terms.items()}
    slack = edit.tolerance
    sides: list[Edit] = []
    if edit.relation in ("==", "<="):
        sides.append(
            LinearEdit(
                name=f"{edit.name} (least)",
                terms=least,
                relation="<=",
                constant=edit.constant,
                tolerance=slack,
            )
        )
    if edit.relation in ("==", ">="):
        sides.append(
            LinearEdit(
                name=f"{edit.name} (most)", terms=most, relation=">=", constant=edit.constant, tolerance=slack
            )
        )
    return sides
