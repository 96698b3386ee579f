"""The folders in which our own source files are installed."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("anoncore", "expectations", "tasks", "flows")


@cache
def source_folders() -> tuple[Path, ...]:
    """Return the folder of each of our packages; a wheel installs the library apart from the others."""
    specs = [find_spec(name) for name in PACKAGES]
    return tuple(Path(spec.origin).resolve().parent for spec in specs if spec is not None and spec.origin)
