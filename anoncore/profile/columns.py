"""One column, counted: what sort of values it holds, and in how many records."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from anoncore.profile.findings import MAX_LISTED, MIN_COUNT
from anoncore.profile.vocabulary import GAPS

NESTED = "holds lists or structures"

Sort = Literal["empty", "number", "text", "truth", "date", "other"]


@dataclass(frozen=True, eq=False)
class Facts:
    """One column, counted.

    ``counts`` maps each known value to its records, ``gaps`` each text that stands for a missing
    number; ``native`` numbers have a dtype of numbers, ``spelled`` ones are text, ``padded`` text
    is numbers with leading zeros.
    """

    name: str
    sort: Sort
    records: int
    counts: dict[Any, int]
    gaps: dict[str, int]
    ordered: bool = False
    native: bool = True
    padded: bool = False
    spelled: bool = False
    bad: str = ""

    @cached_property
    def known(self) -> int:
        """Records with a value."""
        return sum(self.counts.values())

    @cached_property
    def values(self) -> np.ndarray:
        """The distinct numbers, sorted."""
        return np.sort(np.array([float(v) for v in self.counts]))

    @cached_property
    def whole(self) -> bool:
        """Whether every value is a whole number."""
        return self.sort == "number" and bool(np.all(self.values == np.round(self.values)))

    @property
    def distinct(self) -> float:
        """Distinct values per known record, in [0, 1]."""
        return len(self.counts) / max(1, self.known)

    @cached_property
    def words(self) -> set[str]:
        """The words of the column's name, and all of them in one."""
        return words_of(self.name)

    @property
    def may_add_up(self) -> bool:
        """Whether the column may take part in a sum: numbers, neither too few nor beyond measure."""
        return self.sort == "number" and len(self.counts) >= 3 and bool(np.abs(self.values).max() < 1e100)

    @property
    def levels(self) -> tuple[Any, ...] | None:
        """The levels where they may be written down, else None."""
        shown = tuple(tidy(v) for v in self.counts)
        frequent = min(self.counts.values(), default=0) >= MIN_COUNT
        short = all(len(str(v)) <= 60 for v in shown)
        if not frequent or not short or len(shown) > MAX_LISTED:
            return None
        return shown if self.ordered else tuple(sorted(shown))

    def spread(self, column: pd.Series) -> np.ndarray:
        """Return the column as (N,) float64, NaN where missing."""
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.astype(object)
        return pd.to_numeric(column, errors="coerce").to_numpy(dtype="float64", na_value=np.nan)


def words_of(name: str) -> set[str]:
    """Return the words of a column's name, and all of them in one."""
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).casefold()
    found = [w for w in re.split(r"[\W_\d]+", parts) if w]
    return {*found, "".join(found), *re.split(r"[\W_]+", parts)}


def facts_of(column: pd.Series) -> Facts:
    """Count the values of one column, and say what sort they are of."""
    name, records = str(column.name), len(column)
    ordered = isinstance(column.dtype, pd.CategoricalDtype) and bool(column.dtype.ordered)
    try:
        counted = column.dropna().value_counts(sort=False)
        if isinstance(counted.index, pd.CategoricalIndex):
            counted = counted.sort_index()
        counts = {v: int(n) for v, n in zip(counted.index.tolist(), counted.tolist(), strict=True) if n > 0}
    except (TypeError, ValueError):
        return Facts(name, "other", records, {}, {}, bad=NESTED)
    native = pd.api.types.is_numeric_dtype(
        column.cat.categories.dtype if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    )
    facts = Facts(name, "empty", records, counts, {}, ordered, native)
    return facts if not counts else _sorted_out(facts)


def _sorted_out(facts: Facts) -> Facts:
    """Say what sort of values a column holds."""
    kinds = {type(v) for v in facts.counts}
    if all(issubclass(k, bool | np.bool_) for k in kinds):
        return replace(facts, sort="truth")
    if all(issubclass(k, date | timedelta | pd.Timestamp | pd.Timedelta | pd.Period) for k in kinds):
        return replace(facts, sort="date")
    if all(issubclass(k, str) for k in kinds):
        return _text_or_numbers(facts)
    if any(issubclass(k, str) for k in kinds):
        return replace(facts, sort="other", bad="mixes numbers and text")
    try:
        numbers = np.array([float(v) for v in facts.counts])
    except (TypeError, ValueError, OverflowError):
        return replace(facts, sort="other", bad="holds values that are neither numbers nor text")
    if not np.isfinite(numbers).all():
        return replace(facts, sort="other", bad="holds infinite values")
    return replace(facts, sort="number")


def _text_or_numbers(facts: Facts) -> Facts:
    """Tell text from numbers among which a few words say that one is missing."""
    texts = pd.Series(list(facts.counts), dtype="str")
    if len(texts) <= 2 and texts.str.casefold().isin(["true", "false"]).all():
        return replace(facts, sort="truth")
    gaps = {v: n for v, n in facts.counts.items() if v.strip().casefold() in GAPS}
    rest = texts[~texts.isin(gaps)]
    numbers = pd.to_numeric(rest, errors="coerce").to_numpy(dtype="float64")
    if rest.empty or np.isnan(numbers).any():
        return replace(facts, sort="text")
    if np.isinf(numbers).any():
        return replace(facts, sort="other", bad="holds infinite values")
    # 01 is another code than 1, and a float does not hold more than 15 digits.
    padded = bool(rest.str.match(r"\s*[-+]?0\d").any())
    if padded or rest.str.match(r"\s*[-+]?\d{16}").any():
        return replace(facts, sort="text", padded=padded)
    merged: dict[float, int] = {}
    for value, text in zip(numbers.tolist(), rest, strict=True):
        merged[value] = merged.get(value, 0) + facts.counts[text]
    return replace(facts, sort="number", counts=merged, gaps=gaps, spelled=True)


def tidy(value: Any) -> Any:
    """Return a truth value or text as it is, a whole number as int, any other as float."""
    if isinstance(value, bool | np.bool_ | str):
        return value
    number = float(value)
    return int(number) if number.is_integer() else number
