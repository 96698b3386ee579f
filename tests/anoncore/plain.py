"""Results as plain values: dicts, lists, numbers and texts, which tests can walk and compare."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any


def plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return value.tolist() if hasattr(value, "tolist") else value
