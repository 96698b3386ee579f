"""SHA-256 digests of files and of JSON values in canonical form."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a JSON value in canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=jsonable)
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: Any) -> Any:
    """Return a value as it comes back from JSON: no tuples, no NumPy types."""
    return json.loads(json.dumps(value, default=jsonable))


def jsonable(value: Any) -> Any:
    """Return the JSON form of what `json` does not know; also the canonical form that is hashed."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
