"""Figures and texts as people read them, for pages and for Markdown."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

NOTHING = "–"
MINUS = "−"
# From this number of records on an expected number is shown whole.
WHOLE_FROM = 10


class Interval(Protocol):
    """What has a lower and an upper bound."""

    @property
    def lower(self) -> float:
        """The lower bound."""

    @property
    def upper(self) -> float:
        """The upper bound."""


def to_minute(time: str) -> str:
    """Return a time of the ledger to the minute, in UTC as there."""
    return time[:16].replace("T", " ")


def count(value: float | None) -> str:
    """Return a count with thousands apart."""
    return NOTHING if value is None else f"{value:,}"


def amount(value: float | None) -> str:
    """Return an expected number of records: whole where it is large."""
    return NOTHING if value is None else f"{value:,.0f}" if abs(value) >= WHOLE_FROM else f"{value:.1f}"


def number(value: float | None, digits: int = 3) -> str:
    """Return a figure with a real minus sign; a dash where there is none."""
    if value is None:
        return NOTHING
    if not math.isfinite(value):
        return "not defined"
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def significant(value: float | None) -> str:
    """Return a figure with three digits that count; of tiny ones, as many as six decimals show."""
    if not value or not math.isfinite(value):
        return "0" if value == 0 else number(value)
    return number(value, min(6, max(0, 2 - math.floor(math.log10(abs(value))))))


def percent(value: float | None, digits: int = 1) -> str:
    """Return a share as percentage."""
    return NOTHING if value is None else f"{number(100 * value, digits)}\u00a0%"


def shares(bounds: Interval) -> str:
    """Return an interval of a share in whole per cent, never narrower than it may be."""
    low, high = bounds.lower, bounds.upper
    # Rounded first: 0.29 · 100 is 28.999999999999996.
    below, above = (end(np.round(100 * one, 9)) / 100 for end, one in ((np.floor, low), (np.ceil, high)))
    first = ">\u00a099.5\u00a0%" if low >= 0.995 else percent(below, 0)
    last = "<\u00a00.5\u00a0%" if high < 0.005 else percent(above, 0)
    return f"{first} to {last}"


def points(value: float) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    text = number(100 * value, 0)
    return text if text == "0" or text.startswith(MINUS) else f"+{text}"


def pvalue(value: float | None) -> str:
    """Return a p-value, never as 0."""
    if value is None:
        return NOTHING
    return "< 0.001" if value < 0.001 else number(value)


def size(value: int) -> str:
    """Return a file size for people."""
    for unit, least in (("MB", 1_000_000), ("kB", 1_000)):
        if value >= least:
            return f"{value / least:.1f} {unit}"
    return f"{value} bytes"


def plain(value: Any) -> str:
    """Return a parameter's value in words."""
    if value is None:
        return "not used"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_inner(one)}" for key, one in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_inner, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _inner(value: Any) -> str:
    return f"({plain(value)})" if isinstance(value, list | tuple | Mapping) else plain(value)


def pairs_of_variables(looked: int, possible: int) -> str:
    """Return how many pairs were looked at; of how many, where a wide table has too many."""
    drawn = "" if looked == possible else f", drawn from {count(possible)}"
    return f"{count(looked)} pair{'' if looked == 1 else 's'} of variables{drawn}"


def sentence(text: str) -> str:
    """Return the text with a capital at its start and a stop at its end."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".") if text else text


def markdown_cell(value: Any) -> str:
    """Return text that stays text inside a Markdown table: no markup, no link, no line break."""
    text = "".join(" " if unicodedata.category(c)[0] == "C" else c for c in str(value))
    return re.sub(r"([\\`*_\[\]<>#|~&$@]|(?i:(?<=www))\.)", r"\\\1", text).replace("://", r":\//")


def markdown_table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a Markdown table; the content of its cells stays text."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *([markdown_cell(c) for c in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
