"""The largest tables and texts that are read, and what is refused beyond them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tasks.common.errors import Refused, named

# A line of text, and so a field that is not quoted, is never held in memory beyond this.
MAX_LINE = 1 << 24
MAX_FIELD = 131_072
MAX_COLUMNS = 5_000
MAX_CELLS = 1_000_000_000
MAX_TEXT = 4_000_000_000
# The first bytes of packed files.
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
UNSUPPORTED = (
    "{} has columns that hold neither numbers nor text, but dates that no temporal declares, bytes or lists: {}; "
    "convert them"
)
LONG_FIELD = f"{{}} holds a field of more than {MAX_FIELD} characters, in {{}}; check quotes and line ends"
LONG_LINE = f"{{}} holds a line of more than {MAX_LINE >> 20} million characters; check its line ends"


def check_size(records: int, columns: int, shown: str) -> None:
    """Refuse a table with more columns or cells than are read."""
    if columns > MAX_COLUMNS:
        raise Refused(f"{shown} has {columns} columns; a table may have {MAX_COLUMNS}: leave some out")
    if records * columns > MAX_CELLS:
        raise Refused(
            f"{shown} holds {records} records of {columns} columns, more than {MAX_CELLS // 10**6} million "
            "cells; divide it"
        )


def is_packed(head: bytes) -> bool:
    """Return whether a file that begins so is a gz or zip file."""
    return head.startswith((GZIP, ZIP))


def check_table(frame: pd.DataFrame, shown: str) -> None:
    """Refuse a table, of whatever format, that is larger or holds longer text than is read."""
    check_size(*frame.shape, shown)
    characters = 0.0
    for name, column in frame.items():
        lengths = _lengths(column)
        if lengths.max(initial=0.0) > MAX_FIELD:
            raise Refused(LONG_FIELD.format(shown, named([str(name)])))
        characters += float(lengths.sum())
    if characters > MAX_TEXT:
        raise Refused(f"{shown} holds more than {MAX_TEXT // 10**9} GB of text; divide it")


def _lengths(column: pd.Series) -> np.ndarray:
    """Return how many characters each text of a column has; levels count once."""
    values = column.cat.categories.to_series() if isinstance(column.dtype, pd.CategoricalDtype) else column
    if values.dtype == object:
        return np.array([len(value) for value in values if isinstance(value, str)], dtype="float64")
    if not isinstance(values.dtype, pd.StringDtype):
        return np.zeros(0)
    return values.dropna().str.len().to_numpy("float64")


class LineCheck:
    """Checks text that passes by in blocks, in an encoding that has one byte for a line's end; packed text passes."""

    def __init__(self, shown: str) -> None:
        self._shown, self._open = shown, 0
        self._packed: bool | None = None

    def add(self, block: bytes) -> None:
        """Check the next block.

        Raises
        ------
        Refused
            When it holds NUL bytes, or a line that is too long.
        """
        if self._packed is None:
            self._packed = is_packed(block)
        if self._packed:
            return
        if b"\0" in block:
            raise Refused(f"{self._shown} holds NUL bytes; state its encoding or repair it")
        ends = [at for at in (block.find(b"\n"), block.find(b"\r")) if at >= 0]
        if self._open + min(ends, default=len(block)) > MAX_LINE:
            raise Refused(LONG_LINE.format(self._shown))
        last = max(block.rfind(b"\n"), block.rfind(b"\r"))
        self._open = self._open + len(block) if last < 0 else len(block) - last - 1
