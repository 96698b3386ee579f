"""Which keys a plan may state at a place, read off its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from flows.plan.file import Place

# Keys by whose value a step or a rule is known.
TAGS = ("method", "edit")


def keys_at(kind: Any, place: Place) -> tuple[str, ...]:
    """Return the keys of the section at a place.

    Parameters
    ----------
    kind : the model of the whole plan
    place : keys, positions, and the names of methods and kinds of edits, as pydantic's errors state them
    """
    for part in place:
        kind = _inside(kind, part)
    return tuple(_keys(kind))


def _inside(kind: Any, part: str | int) -> Any:
    """Return the type of what stands at one key, position or name in a value of a type."""
    origin, args = get_origin(kind), [one for one in get_args(kind) if one is not NoneType]
    if origin is Annotated or (origin in (Union, UnionType) and len(args) == 1):
        return _inside(args[0], part)
    if origin in (Union, UnionType):
        return next((one for one in args if part in [getattr(one, tag, None) for tag in TAGS]), None)
    if isinstance(part, int):
        return args[0] if args else None
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return args[1]
    return _keys(kind).get(part)


def _keys(kind: Any) -> Mapping[str, Any]:
    """Return the keys of a section with their types; none of what is no section."""
    args = [one for one in get_args(kind) if one is not NoneType]
    if get_origin(kind) in (Union, UnionType, Annotated) and args:
        return _keys(args[0]) if len(args) == 1 or get_origin(kind) is Annotated else {}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    if not is_dataclass(kind):
        return {}
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
