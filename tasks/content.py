"""What a table holds, in one digest, however its records are ordered and however they arrive."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd


class Content:
    """The digest of a table that arrives in pieces: of its columns' names and of its records as a bag.

    The order of the records and the size of the pieces do not matter; how often a record stands there does.
    """

    def __init__(self) -> None:
        self._header = b""
        self._rows: list[np.ndarray] = []

    def add(self, frame: pd.DataFrame) -> None:
        """Take some more records; every piece has the same columns."""
        self._header = "\x1f".join(map(str, frame.columns)).encode()
        self._rows.append(pd.util.hash_pandas_object(frame.astype("string"), index=False).to_numpy())

    @property
    def records(self) -> int:
        """How many records were taken."""
        return sum(map(len, self._rows))

    @property
    def digest(self) -> str:
        """The SHA-256 in hexadecimal."""
        rows = np.sort(np.concatenate(self._rows)) if self._rows else np.empty(0, dtype="uint64")
        return hashlib.sha256(self._header + rows.tobytes()).hexdigest()


def content_digest(frame: pd.DataFrame) -> str:
    """Return a SHA-256 of a table's content that does not depend on the order of its records."""
    content = Content()
    content.add(frame)
    return content.digest
