"""What edits say of ranges: a range keeps an edit when some value in it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from anoncore.boxes.reader import HIGH, LOW
from anoncore.edits.kinds import BoundEdit, LinearEdit
from anoncore.edits.model import Edit, EditSet

# Intervals shrink little after a few rounds, and each of them is valid.
_ROUNDS = 4
# Of the terms' size: what an edit allows for rounding, and a hair more.
_SLACK, _NOISE = 1.1e-9, 1e-11
# Of a unit; so near to a multiple is one.
_NEAR = 1e-6


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
    over: list[Edit] = [
        LinearEdit(name=f"{n} begins before it ends", terms={n + LOW: 1.0, n + HIGH: -1.0}, relation="<=")
        for n in known
    ]
    silent = []
    for edit in edits.edits:
        ranges = _range_edits(edit) if set(edit.variables) <= set(known) else []
        over += ranges
        silent += [] if ranges else [edit.name]
    return EditSet(over), tuple(silent)


def narrowed(
    lower: np.ndarray,
    upper: np.ndarray,
    names: Sequence[str],
    edits: Sequence[LinearEdit],
    units: Sequence[float | None],
) -> tuple[np.ndarray, np.ndarray]:
    """Narrow the ranges of boxes by what linear edits imply of values in them, as any reader could.

    Parameters
    ----------
    lower, upper : (B, n), finite, in the variables' units; NaN where a box has no range
    names : n variables
    edits : kept by every record; those under conditions, or about other variables, say nothing
    units : n units of which every value is a multiple; None where there is none

    Returns
    -------
    lower, upper : (B, n), new ends where they are further in. They lie half a unit beyond the last possible
        value, or beyond the edit's slack where there is no unit.

    Claim: every record in a box that keeps the edits is in the narrowed box. Not the narrowest such box: one
    edit is used at a time, in four rounds.

    Examples
    --------
    >>> total = LinearEdit(name="total", terms={"net": 1, "tax": 1, "gross": -1})
    >>> low, high = np.array([[0.0, 0.0, 99.5]]), np.array([[90.5, 20.5, 105.5]])
    >>> [ends.tolist() for ends in narrowed(low, high, ["net", "tax", "gross"], [total], [1.0, 1.0, 1.0])]
    [[[79.5, 9.5, 99.5]], [[90.5, 20.5, 105.5]]]
    """
    place = {n: at for at, n in enumerate(names)}
    first = np.stack([-_each(_last, -lower, units), _each(_last, upper, units)])
    low, high = first.copy()
    for _ in range(_ROUNDS):
        for edit in edits:
            if not edit.when and set(edit.terms) <= set(place):
                _narrow(low, high, [place[n] for n in edit.terms], edit, units)
    return (
        np.where(low > first[0], -_each(_above, -low, units), lower),
        np.where(high < first[1], _each(_above, high, units), upper),
    )


def _narrow(low: np.ndarray, high: np.ndarray, at: list[int], edit: LinearEdit, units: Sequence[float | None]) -> None:
    """Narrow columns ``at`` in place: each term is at most what the least of all others leaves."""
    size = np.array([abs(c) for c in edit.terms.values()]) * np.maximum(np.abs(low), np.abs(high))[:, at]
    total = size.sum(axis=1) + abs(edit.constant)
    slack = _SLACK * total if edit.tolerance is None else edit.tolerance + _NOISE * total
    for sign in {"==": (1.0, -1.0), "<=": (1.0,), ">=": (-1.0,)}[edit.relation]:
        c = sign * np.array(list(edit.terms.values()))
        least = np.where(c > 0, c * low[:, at], c * high[:, at])
        bounds = ((sign * edit.constant + slack - least.sum(axis=1))[:, None] + least) / c
        for j, positive, bound in zip(at, c > 0, bounds.T, strict=True):
            if positive:
                high[:, j] = np.where(bound < high[:, j], _last(bound, units[j]), high[:, j])
            else:
                low[:, j] = np.where(bound > low[:, j], -_last(-bound, units[j]), low[:, j])


def _each(
    function: Callable[[np.ndarray, float | None], np.ndarray],
    bounds: np.ndarray,
    units: Sequence[float | None],
) -> np.ndarray:
    return np.column_stack([function(own, unit) for own, unit in zip(bounds.T, units, strict=True)])


def _last(bound: np.ndarray, unit: float | None) -> np.ndarray:
    """Return the last multiple of the unit that is at or below a bound, or but for rounding would be."""
    return bound if unit is None else _multiple(_steps(bound, unit), unit)


def _above(bound: np.ndarray, unit: float | None) -> np.ndarray:
    """Return half a unit above the last multiple, where no value is."""
    return bound if unit is None else _multiple(_steps(bound, unit) + 0.5, unit)


def _steps(bound: np.ndarray, unit: float) -> np.ndarray:
    steps = bound / unit
    return np.asarray(np.floor(steps + _NEAR + _NOISE * np.abs(steps)))


def _multiple(steps: np.ndarray, unit: float) -> np.ndarray:
    # Dividing by a power of ten gives the double nearest to the decimal.
    whole = np.rint(1.0 / unit)
    decimal = whole >= 1.0 and abs(1.0 / unit - whole) <= _NOISE * whole
    return np.asarray(steps / whole if decimal else steps * unit)


def _range_edits(edit: Edit) -> list[Edit]:
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
            LinearEdit(name=f"{edit.name} (most)", terms=most, relation=">=", constant=edit.constant, tolerance=slack)
        )
    return sides
