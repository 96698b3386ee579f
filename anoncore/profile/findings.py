"""A rule that the records of a table never break, and the limits that the search for rules observes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anoncore.edits.model import Edit

MIN_ROWS = 30  # complete records behind a sum


@dataclass(frozen=True)
class Finding:
    """One rule, a remark, whether it is safe to use without asking, and how many records break it."""

    edit: Edit
    reason: str = ""
    active: bool = True
    broken: int = 0


def sources(names: Iterable[str], parts_of: Mapping[str, Iterable[str]]) -> set[str]:
    """Return ``names`` and all variables that they are computed from, at any remove."""
    waiting, seen = list(names), set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += parts_of.get(name, ())
    return seen
