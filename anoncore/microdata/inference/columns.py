"""Counts of one column's values, and what type of content they are."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import date, time, timedelta
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types

from anoncore.microdata.inference.vocabulary import MISSING_TEXTS
from anoncore.microdata.precision import MIN_COUNT

MAX_LISTED = 20  # levels that are listed
MAX_LEVEL_LENGTH = 60
NESTED = "holds lists or structures"
INFINITE = "holds infinite values"
LEADING_ZERO, LONG_NUMBER = re.compile(r"^\s*[-+]?0\d", re.M), re.compile(r"^\s*[-+]?\d{16}", re.M)

Content = Literal["empty", "number", "text", "boolean", "date", "other"]


@dataclass(frozen=True, eq=False)
class ColumnFacts:
    """Counts of one column's values.

    Parameters
    ----------
    name : of the column
    content : what its values are
    records : of the table
    counts : records of each value; of numbers that are spelled as text, of each number
    missing_texts : records of each text that stands for a missing number
    ordered : whether it is a categorical column with an order
    numeric_dtype : whether its dtype is one of numbers
    leading_zeros : whether text is numbers with leading zeros, which are codes
    parsed : whether its numbers are spelled as text
    rises : whether its numbers rise from record to record or stay, none missing
    problem : why it cannot be used, "" when it can
    """

    name: str
    content: Content
    records: int
    counts: dict[Any, int] = field(repr=False)
    missing_texts: dict[str, int] = field(default_factory=dict, repr=False)
    ordered: bool = False
    numeric_dtype: bool = True
    leading_zeros: bool = False
    parsed: bool = False
    rises: bool = False
    problem: str = ""

    @cached_property
    def present(self) -> int:
        """Number of records with a value."""
        return sum(self.counts.values())

    @cached_property
    def numbers(self) -> np.ndarray:
        """The distinct numbers, sorted."""
        return np.sort(np.array([float(v) for v in self.counts]))

    @cached_property
    def all_whole(self) -> bool:
        """Whether every value is a whole number."""
        return self.content == "number" and bool(np.all(self.numbers == np.round(self.numbers)))

    @property
    def distinct_share(self) -> float:
        """Distinct values per record with a value, in [0, 1]."""
        return len(self.counts) / max(1, self.present)

    @cached_property
    def words(self) -> set[str]:
        """The words of the column's name, and all of them in one."""
        return words_of(self.name)

    @property
    def may_add_up(self) -> bool:
        """Whether the column may take part in a sum: at least three numbers, none of them beyond 1e100."""
        return self.content == "number" and len(self.counts) >= 3 and bool(np.abs(self.numbers).max() < 1e100)

    @property
    def listable_levels(self) -> tuple[Any, ...] | None:
        """The levels if they are few, short, and each held by `MIN_COUNT` records; else None."""
        if len(self.counts) > MAX_LISTED or min(self.counts.values(), default=0) < MIN_COUNT:
            return None
        levels = tuple(as_number_or_text(v) for v in self.counts)
        if any(len(str(v)) > MAX_LEVEL_LENGTH for v in levels):
            return None
        return levels if self.ordered else tuple(sorted(levels))

    @property
    def frequent_levels(self) -> tuple[Any, ...]:
        """The values that `MIN_COUNT` records hold."""
        return tuple(as_number_or_text(value) for value, count in self.counts.items() if count >= MIN_COUNT)

    def to_numbers(self, column: pd.Series) -> np.ndarray:
        """Return the column as (N,) float64, NaN where missing."""
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.astype(object)
        return pd.to_numeric(column, errors="coerce").to_numpy(dtype="float64", na_value=np.nan)


def words_of(name: str) -> set[str]:
    """Return the words of a column's name, and all of them in one."""
    words = words_in_order(name)
    return {*words, "".join(words), *re.split(r"[\W_]+", _spaced(name))}


def words_in_order(name: str) -> list[str]:
    """Return the words of a column's name, without numbers."""
    return [w for w in re.split(r"[\W_\d]+", _spaced(name)) if w]


def _spaced(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).casefold()


def facts_of(column: pd.Series) -> ColumnFacts:
    """Count the values of one column, and determine their content."""
    name, records = str(column.name), len(column)
    kind = column.cat.categories.dtype if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    try:
        counted = column.dropna().value_counts(sort=False)
        if isinstance(counted.index, pd.CategoricalIndex):
            counted = counted.sort_index()
        counts = {v: int(n) for v, n in zip(counted.index.tolist(), counted.tolist(), strict=True) if n > 0}
    except (TypeError, ValueError):
        return ColumnFacts(name, "other", records, {}, problem=NESTED)
    ordered = isinstance(column.dtype, pd.CategoricalDtype) and bool(column.dtype.ordered)
    numeric = types.is_numeric_dtype(kind)
    rises = numeric and not types.is_bool_dtype(kind) and not column.isna().any() and column.is_monotonic_increasing
    facts = ColumnFacts(name, "empty", records, counts, ordered=ordered, numeric_dtype=numeric, rises=bool(rises))
    return _with_content(facts) if counts else facts


def _with_content(facts: ColumnFacts) -> ColumnFacts:
    """Determine the content of a column from the types of its values."""
    kinds = {type(v) for v in facts.counts}
    if all(issubclass(k, bool | np.bool_) for k in kinds):
        return replace(facts, content="boolean")
    if all(issubclass(k, date | time | timedelta | pd.Timestamp | pd.Timedelta | pd.Period) for k in kinds):
        return replace(facts, content="date")
    if all(issubclass(k, str) for k in kinds):
        return _text_or_numbers(facts)
    if any(issubclass(k, str) for k in kinds):
        return replace(facts, content="other", problem="mixes numbers and text")
    try:
        finite = np.isfinite(np.array([float(v) for v in facts.counts])).all()
    except (TypeError, ValueError, OverflowError):
        return replace(facts, content="other", problem="holds values that are neither numbers nor text")
    return replace(facts, content="number") if finite else replace(facts, content="other", problem=INFINITE)


def _text_or_numbers(facts: ColumnFacts) -> ColumnFacts:
    """Distinguish text from numbers among which a few words stand for a missing one."""
    texts = pd.Series(list(facts.counts), dtype="str")
    if len(texts) <= 2 and texts.str.casefold().isin(["true", "false"]).all():
        return replace(facts, content="boolean")
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(dtype="float64")
    none = np.isnan(numbers)
    missing = {v: facts.counts[v] for v in texts[none] if v.strip().casefold() in MISSING_TEXTS}
    if none.all() or len(missing) < none.sum():
        return replace(facts, content="text")
    rest, numbers = texts[~none], numbers[~none]
    if np.isinf(numbers).any():
        return replace(facts, content="other", problem=INFINITE)
    # 01 is another code than 1, and a float does not hold more than 15 digits.
    lines = "\n".join(rest)
    leading_zeros = LEADING_ZERO.search(lines) is not None
    if leading_zeros or LONG_NUMBER.search(lines) is not None:
        return replace(facts, content="text", leading_zeros=leading_zeros)
    merged: dict[float, int] = {}
    for value, text in zip(numbers.tolist(), rest, strict=True):
        merged[value] = merged.get(value, 0) + facts.counts[text]
    return replace(facts, content="number", counts=merged, missing_texts=missing, parsed=True)


def as_number_or_text(value: Any) -> Any:
    """Return a boolean or text as it is, a whole number as int, any other as float."""
    if isinstance(value, bool | np.bool_ | str):
        return value
    number = float(value)
    return int(number) if number.is_integer() else number
