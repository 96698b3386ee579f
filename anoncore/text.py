"""Figures as plain text tables, for the summaries of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NOTHING = "–"


def text_table(head: Sequence[str], rows: Iterable[Sequence[str | float | None]]) -> str:
    """Return rows of a label and cells as aligned text; numbers with three digits that count.

    Examples
    --------
    >>> print(text_table(("measure", "value"), [("distance", 0.12345), ("k", 5), ("linkage", None)]))
    measure   value
    distance  0.123
    k             5
    linkage       –
    """
    lines = [tuple(head), *(tuple(map(_cell, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]).rstrip()
        for line in lines
    )


def _cell(value: str | float | None) -> str:
    return NOTHING if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
