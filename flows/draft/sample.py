"""The records of a folder's Parquet files from which a plan is drafted, where these are more than a draft looks at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from tasks.common.errors import Refused
from tasks.connectors.copies import parquet_names
from tasks.connectors.parquet import batches, count_records
from tasks.connectors.storage import Location

MOST = 100_000  # records that are looked at, beside those with the largest and smallest numbers and with rare levels
PIECE = 500_000  # records read at a time
# Records with each extreme and each level: a draft rounds and lists by whether five units hold them.
DECIDING = 25
LEVELS = 1000  # more are no list of levels
PARTITIONED = (
    "source: {0} is partitioned by folders called name=value; draft from one of its files, then set source.path to {0} "
    "and declare those columns"
)


def files_of(folder: Location) -> list[tuple[str, Path]]:
    """Return the names and paths of a folder's Parquet files; raises `Refused` as a run would."""
    assert folder.local is not None
    names = parquet_names(folder)
    if any("=" in name for name in names):
        raise Refused(PARTITIONED.format(folder.shown))
    return [(name, folder.local / name) for name in names]


def sample(files: Sequence[tuple[str, Path]], shown: str) -> tuple[pd.DataFrame, int]:
    """Return the records from which a draft is made, and how many there are in all.

    All files are read. Of many records those are taken that stand one after the other at a random place of each piece,
    so that records of a household or a person stay together; and of the others ``DECIDING`` with the smallest and the
    largest numbers of each column, and with each of its levels: limits and lists of levels are those of all files.

    Raises `Refused` as reading the files in a run would.
    """
    total, rng = sum(count_records(path, name) for name, path in files), np.random.default_rng(0)
    share = min(1.0, MOST / max(total, 1))
    together: list[pd.DataFrame] = []
    deciding: list[pd.DataFrame] = []
    for piece in batches(files, PIECE, shown):
        length = int(np.ceil(share * len(piece)))
        begin = int(rng.integers(len(piece) - length + 1))
        together.append(piece[begin : begin + length])
        rest = pd.concat([piece[:begin], piece[begin + length :]])
        deciding = [_deciding(pd.concat([*deciding, _deciding(rest)]))]
    whole = [part for part in (*together, *deciding) if len(part)]
    return pd.concat(whole, ignore_index=True) if whole else pd.DataFrame(), total


def _deciding(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the records with extreme numbers of each column, and some with each of its levels."""
    taken = np.zeros(len(frame), dtype=bool)
    for name in frame if len(frame) else ():
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
            values = column.to_numpy(dtype="float64", na_value=np.nan)
            for signed in (values, -values):
                # Those without a value are sorted last.
                taken[np.argpartition(signed, min(DECIDING, len(signed)) - 1)[:DECIDING]] = True
        codes, levels = pd.factorize(column)
        if len(levels) <= LEVELS:
            taken |= pd.Series(codes).groupby(codes).cumcount().to_numpy() < DECIDING
    return frame[taken]
