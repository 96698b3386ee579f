"""Blocks of rows: no step on a long table needs more than a few of them beside its result."""

from __future__ import annotations

from collections.abc import Iterator

BLOCK_ROWS = 32_768


def row_blocks(n_records: int) -> Iterator[slice]:
    """Yield slices that cover ``n_records`` rows in order.

    Examples
    --------
    >>> list(row_blocks(40_000))
    [slice(0, 32768, None), slice(32768, 40000, None)]
    """
    for start in range(0, n_records, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, n_records))
