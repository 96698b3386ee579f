"""Columns in canonical form: checked against their declaration, and back to ordinary columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from anoncore.errors import AnonymizationError
from anoncore.microdata.precision import observed_precision
from anoncore.microdata.temporal import from_numbers, to_numbers
from anoncore.microdata.variable import Variable


def check_columns(frame: pd.DataFrame, declared: Sequence[str]) -> None:
    """Refuse columns that occur twice, are absent or are not declared."""
    names = pd.Index(frame.columns.map(str))
    if not names.is_unique:
        repeated = ", ".join(sorted(names[names.duplicated()].unique()))
        raise AnonymizationError(f"the data hold columns twice: {repeated}; rename or remove one")
    if absent := [name for name in declared if name not in names]:
        raise AnonymizationError(f"declared variables are not in the data: {', '.join(absent)}")
    if surplus := list(names.difference(list(declared), sort=False)):
        raise AnonymizationError(
            f"columns without a declaration: {', '.join(surplus)}; declare them, as excluded to drop them"
        )


def canonical(column: pd.Series, variable: Variable) -> tuple[pd.Series, Variable]:
    """Return one column in canonical form, and its variable with levels or precision completed."""
    if variable.missing:
        column = column.mask(_matches(column, variable.missing))
        # The codes end here: a masked value that happens to equal one is a value.
        variable = replace(variable, missing=())
    if variable.temporal is not None:
        if not variable.is_masked:
            return column.copy(), variable
        column = to_numbers(column, variable.temporal, variable.name)
    if variable.kind == "continuous":
        numbers = _to_numbers(column, variable.name)
        unit = variable.precision if variable.precision is not None else observed_precision(numbers)
        return pd.Series(numbers, index=column.index), replace(variable, precision=unit)
    if not variable.is_masked and variable.levels is None:
        # A view would hold all columns of the given frame.
        return column.copy(), variable
    return _to_levels(column, variable)


def ordinary(column: pd.Series, variable: Variable) -> pd.Series:
    """Return a canonical column as numbers, text, or dates and times, whole numbers as ``Int64``."""
    if variable.temporal is not None:
        return from_numbers(column, variable.temporal) if variable.is_masked else column
    if variable.kind == "continuous":
        whole = variable.precision is not None and float(variable.precision).is_integer()
        values = column.to_numpy()
        exact = whole and np.all(np.abs(values[~np.isnan(values)]) < 2**53)
        return column.round().astype("Int64") if exact else column
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column
    kind = column.cat.categories.dtype
    return column.astype(
        "Int64" if types.is_integer_dtype(kind) else "float64" if types.is_numeric_dtype(kind) else "string"
    )


def _matches(column: pd.Series, codes: tuple[Any, ...]) -> pd.Series:
    matches = column.isin(codes)
    if not types.is_numeric_dtype(column):
        matches |= column.astype("string").isin([str(code) for code in codes]).fillna(False).astype(bool)
    return matches


def _to_numbers(column: pd.Series, name: str) -> np.ndarray:
    """Return (N,) float64; NaN where missing."""
    column = _uncategorised(column)
    if types.is_datetime64_any_dtype(column) or types.is_complex_dtype(column):
        raise AnonymizationError(
            f"variable {name!r} is declared continuous but holds dates or complex numbers; state temporal: date, "
            "or convert it to numbers"
        )
    numbers = pd.to_numeric(column, errors="coerce")
    if unreadable := int((numbers.isna() & column.notna()).sum()):
        raise AnonymizationError(
            f"variable {name!r} is declared continuous but {unreadable} record(s) hold something that is not "
            "a number; declare a missing code or another kind"
        )
    values = numbers.to_numpy(dtype="float64", na_value=np.nan, copy=True)
    if infinite := int(np.isinf(values).sum()):
        raise AnonymizationError(
            f"variable {name!r}: {infinite} record(s) hold an infinite value; correct them or declare a missing code"
        )
    return values


def _to_levels(column: pd.Series, variable: Variable) -> tuple[pd.Series, Variable]:
    if _is_canonical(column, variable):
        return column, variable
    column = _uncategorised(column).infer_objects()
    if types.is_bool_dtype(column):
        column = column.astype("Int64")
    levels = _observed_levels(column, variable) if variable.levels is None else variable.levels
    if levels and isinstance(levels[0], str) and not types.is_string_dtype(column):
        column = column.map(lambda v: v if pd.isna(v) else str(_as_whole(v)))
    elif levels and not isinstance(levels[0], str) and not types.is_numeric_dtype(column):
        # What is not a number becomes infinite, which is no level, and so is counted as outside.
        numbers = pd.to_numeric(column, errors="coerce").astype("float64")
        column = numbers.mask(numbers.isna() & column.notna(), np.inf)
    codes, seen = pd.factorize(column)
    of_seen = pd.Categorical(seen, categories=list(levels), ordered=variable.kind == "ordinal")
    coded = of_seen.take(codes, allow_fill=True)
    if outside := int((pd.isna(coded) & (codes >= 0)).sum()):
        raise AnonymizationError(
            f"variable {variable.name!r}: {outside} record(s) hold a value that is not among its "
            f"{len(levels)} levels; add it to levels or to missing"
        )
    return pd.Series(coded, index=column.index), replace(variable, levels=levels)


def _is_canonical(column: pd.Series, variable: Variable) -> bool:
    return (
        isinstance(column.dtype, pd.CategoricalDtype)
        and variable.levels is not None
        and column.cat.ordered == (variable.kind == "ordinal")
        and list(column.cat.categories) == list(variable.levels)
    )


def _uncategorised(column: pd.Series) -> pd.Series:
    """Return the values themselves; whole numbers with missing values become floats."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column
    kind = column.cat.categories.dtype
    return column.astype("float64" if types.is_numeric_dtype(kind) and column.isna().any() else kind)


def _observed_levels(column: pd.Series, variable: Variable) -> tuple[Any, ...]:
    try:
        levels = tuple(_as_whole(v) for v in sorted(column.dropna().unique().tolist()))
    except TypeError:
        raise AnonymizationError(
            f"variable {variable.name!r} mixes numbers and text; state its levels or clean the column"
        ) from None
    if variable.kind == "binary" and len(levels) > 2:
        raise AnonymizationError(
            f"variable {variable.name!r} is declared binary but holds {len(levels)} different values; "
            "declare it nominal or ordinal, or list the missing codes"
        )
    return levels


def _as_whole(value: Any) -> Any:
    """Return 1 for 1.0, so that a missing value in a column of whole codes does not change the codes."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
