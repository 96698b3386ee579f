"""Two halves that are each other's non-members: how far the errors of their areas cancel, or add up."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np

from anoncore.risk.membership import MembershipAttack

T = TypeVar("T")

_LEAST = 20  # people on each side
_FLOOR = 0.2  # errors of a few hundred people do not cancel for certain


def with_error_ratios(one: T, other: T) -> tuple[T, T]:
    """Return what was measured of two halves, with how far the errors of each pair of areas cancel or add up.

    Parameters
    ----------
    one, other : results of the same measures, dataclasses or tuples of them: the members of one are the non-members of
        the other, in the same order

    Returns
    -------
    tuple of both
        With `MembershipAttack.error_ratio` where an attack scored the same people in both; else as they were

    Notes
    -----
    A person is a member of one area, with the placement v among its non-members, and a non-member of the other, with
    the share w of members above. The mean of both areas has the variance Σ var(v + w) / 4n over both halves, where
    independent errors have Σ (var v + var w) / 4n. Whose record is common scores high in both, so that v is large and w
    small: of distances to releases of two surveys and NHEFS the correlation was −0.6 to −0.9. Attacks that compare the
    release with the non-members have errors that add up: of one variable's values, or trees that learned to tell
    release and non-members apart, both areas err alike, and the ratio is √2 at most.

    Source: the decomposition of DeLong, DeLong and Clarke-Pearson 1988, *Biometrics* 44, eqs. 3–5, by person.
    """
    if type(one) is not type(other):
        return one, other
    if isinstance(one, MembershipAttack) and isinstance(other, MembershipAttack):
        share = _share(one, other)
        return replace(one, error_ratio=share), replace(other, error_ratio=share)
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        pairs = [with_error_ratios(*pair) for pair in zip(one, other, strict=True)]
        return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)  # type: ignore[return-value]
    if not is_dataclass(one) or getattr(one, "name", "") != getattr(other, "name", ""):
        return one, other
    changed: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for name in (field.name for field in fields(one) if field.init):
        changed[0][name], changed[1][name] = with_error_ratios(getattr(one, name), getattr(other, name))
    return replace(one, **changed[0]), replace(other, **changed[1])  # type: ignore[type-var]


def _share(one: MembershipAttack, other: MembershipAttack) -> float:
    """Return the standard error of the mean area as a share of that of independent errors, rounded up."""
    if one.placements is None or other.placements is None:
        return 1.0
    halves = [(one.placements[0], other.placements[1]), (other.placements[0], one.placements[1])]
    if any(len(v) != len(w) or len(v) < _LEAST for v, w in halves):
        return 1.0
    independent = sum((float(np.var(v)) + float(np.var(w))) / len(v) for v, w in halves)
    joint = sum(float(np.var(v + w)) / len(v) for v, w in halves)
    if not independent:
        return 1.0
    return max(_FLOOR, math.ceil(100.0 * math.sqrt(joint / independent)) / 100.0)
