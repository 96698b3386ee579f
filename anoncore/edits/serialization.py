"""Edits as plain JSON types, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit, RatioEdit, SetEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.model import Edit
from anoncore.edits.product import ProductEdit
from anoncore.errors import AnonymizationError

EDITS: dict[str, type[Any]] = {
    "linear": LinearEdit,
    "bound": BoundEdit,
    "set": SetEdit,
    "conditional": ConditionalEdit,
    "ratio": RatioEdit,
    "lookup": LookupEdit,
    "product": ProductEdit,
}


def to_dict(edit: Edit) -> dict[str, Any]:
    """Return an edit as plain JSON types, without what it leaves open, and without what a lookup has learned."""
    stated = {f.name: getattr(edit, f.name) for f in fields(EDITS[edit.edit])}
    return {key: value for key, value in _plain(stated).items() if value not in (None, [])}


def from_dict(stated: Mapping[str, Any]) -> Edit:
    """Return the edit that `to_dict` wrote.

    Raises
    ------
    AnonymizationError
        When the kind is unknown or a field is missing, surplus or out of range.
    """
    rest = dict(stated)
    kind = rest.pop("edit", None)
    if kind not in EDITS:
        raise AnonymizationError(f"edit: kind must be one of {', '.join(EDITS)}")
    known = {f.name for f in fields(EDITS[kind])}
    surplus = sorted(set(rest) - known)
    if surplus:
        raise AnonymizationError(f"{kind} edit has no field called {', '.join(surplus)}")
    try:
        if "when" in rest:
            rest["when"] = tuple(Condition(**c) for c in rest["when"])
        if "then" in rest:
            rest["then"] = Condition(**rest["then"])
        edit: Edit = EDITS[kind](**rest)
    except TypeError:
        failed = AnonymizationError(f"{kind} edit {rest.get('name')!r}: a field is missing or not a field")
    else:
        return edit
    raise failed


def _plain(value: Any) -> Any:
    if isinstance(value, Condition):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value
