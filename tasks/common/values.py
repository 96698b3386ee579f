"""Frozen dataclasses to JSON and back: the one conversion that every stored value goes through.

Standard library only; NumPy is imported where a value holds arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_json(value: Any, *, whole: bool = False) -> Any:
    """Return the JSON form of a value; a dataclass leaves out fields that have their default, unless ``whole``."""
    if is_dataclass(value):
        kept = (f for f in fields(value) if whole or not _has_default(value, f))
        return {f.name: to_json(getattr(value, f.name), whole=whole) for f in kept}
    if isinstance(value, Mapping):
        return {key: to_json(one, whole=whole) for key, one in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    return [to_json(one, whole=whole) for one in value] if isinstance(value, tuple | list) else value


def from_json(kind: type[T], value: Any) -> T:
    """Return the value of type ``kind`` that a JSON form holds.

    Claim: nothing is converted, added or dropped, save that JSON has lists for tuples and whole numbers for floats.

    Raises
    ------
    ValueError
        If the form is not exactly one of that type; the message names types and fields, never a value.
    """
    return cast(T, _decoded(kind, value))


def _decoded(kind: Any, value: Any) -> Any:
    kind, origin, arguments = _parts(kind)
    if origin in (Union, UnionType):
        return _decoded_union(arguments, value)
    if origin is Literal and any(value == one and type(value) is type(one) for one in arguments):
        return value
    if origin is tuple and isinstance(value, list):
        kinds = arguments[:1] * len(value) if arguments[-1:] == (...,) else arguments
        if len(kinds) == len(value):
            return tuple(_decoded(one, part) for one, part in zip(kinds, value, strict=True))
    if origin in (dict, Mapping) and isinstance(value, dict):
        return {key: _decoded(arguments[1], part) for key, part in value.items()}
    if is_dataclass(kind) and isinstance(value, dict):
        return _decoded_dataclass(kind, value)
    if getattr(origin, "__name__", "") == "ndarray" and isinstance(value, list):
        return _decoded_array(arguments, value)
    if kind is Any or type(value) is kind or (kind is NoneType and value is None):
        return value
    if kind is float and type(value) is int:
        return float(value)
    raise ValueError(f"{type(value).__name__} is not {getattr(kind, '__name__', kind)}")


@cache
def _parts(kind: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return a type, what it is generic of (itself, where it is not), and its arguments."""
    kind = _named_by(kind)
    return kind, get_origin(kind) or kind, get_args(kind)


def _named_by(kind: Any) -> Any:
    """Return what an alias by a `type` statement names, as NumPy has them from Python 3.12 on; else the type itself."""
    alias, arguments = get_origin(kind) or kind, get_args(kind)
    if not hasattr(alias, "__value__"):
        return kind
    return _named_by(alias.__value__[arguments] if arguments else alias.__value__)


def _decoded_union(kinds: tuple[Any, ...], value: Any) -> Any:
    for kind in kinds:
        try:
            return _decoded(kind, value)
        except ValueError:
            continue
    raise ValueError(f"{type(value).__name__} is none of {', '.join(getattr(k, '__name__', str(k)) for k in kinds)}")


def _decoded_dataclass(kind: Any, value: dict[str, Any]) -> Any:
    kinds = _kinds(kind)
    required = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    if wrong := sorted((value.keys() - kinds.keys()) | (required - value.keys())):
        raise ValueError(f"{kind.__name__} has other fields: {len(wrong)} are missing or unknown")
    return kind(**{name: _decoded(kinds[name], part) for name, part in value.items()})


def _decoded_array(arguments: tuple[Any, ...], value: list[Any]) -> Any:
    import numpy as np

    array = np.array(value, dtype=get_args(arguments[1])[0])
    array.setflags(write=False)
    return array


@cache
def _kinds(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _has_default(value: Any, field: Field[Any]) -> bool:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    held = getattr(value, field.name)
    return type(held) is type(default) and bool(held == default)
