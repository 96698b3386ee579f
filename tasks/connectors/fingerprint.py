"""Digests of a table's content that do not depend on the order of its records or on how they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pandas as pd

# How files write a missing value.
MISSING = ["", "NA", "N/A", "NaN", "nan", "NULL", "null", "."]
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
_NOTHING = np.uint64(0x94D049BB133111EB)


class ContentDigest:
    """The digest of a table that is read in pieces: of its columns' names and of its records.

    The order of the records and the size of the pieces do not matter; how often a record occurs does.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._rows: list[np.ndarray] = []

    def add(self, frame: pd.DataFrame) -> None:
        """Add some more records; every piece has the same columns."""
        self._names = list(map(str, frame.columns))
        self._rows.append(content_hashes(frame))

    @property
    def records(self) -> int:
        """The number of records that were added."""
        return sum(map(len, self._rows))

    @property
    def digest(self) -> str:
        """The SHA-256 in hexadecimal."""
        rows = _sorted(self._rows)
        self._rows = [rows]
        return ordered_digest([rows], self._names)


def content_hashes(frame: pd.DataFrame) -> np.ndarray:
    """Return (N,) 64 bits of each record's content, as text."""
    texts = pd.DataFrame({at: _as_text(frame.iloc[:, at]) for at in range(frame.shape[1])}, index=frame.index)
    return pd.util.hash_pandas_object(texts, index=False).to_numpy()


def _as_text(column: pd.Series) -> pd.Series:
    """Return a column as text; of numbers, which recur, each is written out once."""
    if not pd.api.types.is_numeric_dtype(column):
        return column.astype("string")
    # Negative zero, which is the same number as zero, is another text.
    minus = ((column == 0) & np.signbit(column.to_numpy(np.float64, na_value=np.nan))).to_numpy(bool, na_value=False)
    codes, levels = pd.factorize((column.mask(minus, 0) if minus.any() else column).array)
    texts = pd.Series(levels).astype("string")
    if minus.any():
        codes, texts = np.where(minus, len(texts), codes), pd.concat([texts, pd.Series(["-0.0"], dtype="string")])
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(texts)), index=column.index)


def content_digest(frame: pd.DataFrame) -> str:
    """Return a SHA-256 of a table's content that does not depend on the order of its records."""
    content = ContentDigest()
    content.add(frame)
    return content.digest


def value_hashes(frame: pd.DataFrame) -> list[np.ndarray]:
    """Return (N,) 64 bits of each value of each column, the same however a file writes it.

    It does not matter whether a number is written 7, 7.0 or as text, nor how a missing value is written.
    """
    return [_values(frame.iloc[:, at]) for at in range(frame.shape[1])]


def record_digests(
    frame: pd.DataFrame, without: Collection[str] = (), hashes: Sequence[np.ndarray] | None = None
) -> np.ndarray:
    """Return (N,) 64 bits of each record, the same however a file writes it and whatever the order of its columns.

    Columns ``without`` do not count. ``hashes`` are those of `value_hashes`, where they are known.
    """
    names = sorted((str(name), at) for at, name in enumerate(frame.columns) if str(name) not in without)
    rows = np.zeros(len(frame), dtype=np.uint64)
    for name, at in names:
        own = pd.util.hash_array(np.array([name], dtype=object), categorize=False)[0]
        of_values = _values(frame.iloc[:, at]) if hashes is None else hashes[at]
        rows = (rows ^ (rows >> np.uint64(31))) * _MIX[0] + (of_values ^ own) * _MIX[1]
    return rows


def records_digest(pieces: Sequence[np.ndarray]) -> str:
    """Return the SHA-256 of records as `record_digests` gives them, in pieces, whatever their order."""
    return ordered_digest([_sorted(pieces)])


def _sorted(pieces: Sequence[np.ndarray]) -> np.ndarray:
    """Return 64 bits of all records, in order: beside the pieces, memory for one array of them."""
    rows = np.concatenate([np.empty(0, dtype=np.uint64), *pieces])
    rows.sort()
    return rows


def ordered_digest(pieces: Iterable[np.ndarray], names: Sequence[str] = ()) -> str:
    """Return the SHA-256 of 64 bits of each record in ascending order, in pieces, after the names of columns."""
    digest = hashlib.sha256("\x1f".join(names).encode())
    for piece in pieces:
        digest.update(piece.data)
    return digest.hexdigest()


def _values(column: pd.Series) -> np.ndarray:
    """Return (N,) 64 bits of each value, by its number where it is one."""
    if pd.api.types.is_numeric_dtype(column):
        return _numbers(column.to_numpy(dtype="float64", na_value=np.nan))
    codes, levels = pd.factorize(column.array)
    # The last is that of the code -1, which means missing.
    stripped = [*(str(level).strip() for level in levels), ""]
    texts = np.array(["" if text in MISSING else text for text in stripped], dtype=object)
    # Truth values count as the numbers that they become when a CSV file is read.
    as_numbers = [{"true": "1", "false": "0"}.get(text.lower(), text) for text in texts]
    numbers = pd.to_numeric(pd.Series(as_numbers, dtype=object), errors="coerce").to_numpy(dtype="float64")
    hashes = np.where(np.isnan(numbers), pd.util.hash_array(texts, categorize=False), _numbers(numbers))
    return np.asarray(np.where(texts == "", _NOTHING, hashes)[codes], dtype=np.uint64)


def _numbers(values: np.ndarray) -> np.ndarray:
    """Return (N,) 64 bits of each number; minus nought is nought."""
    return np.where(np.isnan(values), _NOTHING, pd.util.hash_array(values + 0.0, categorize=False))
