"""Variables that edits compute or look up: left out of masking, and added again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from anoncore.edits.kinds import LinearEdit
from anoncore.edits.lookup import LearnedLookup
from anoncore.edits.model import Computing, EditSet
from anoncore.edits.product import ProductEdit
from anoncore.errors import AnonymizationError, InfeasibleError
from anoncore.microdata import MAX_DECIMALS, Microdata, Schema, Variable, round_to


def without_dependents(data: Microdata, edits: EditSet) -> Microdata:
    """Return the data without the variables that edits compute from others.

    Parameters
    ----------
    data : Microdata, N records
    edits : EditSet

    Returns
    -------
    Microdata

    Raises
    ------
    AnonymizationError
        When nothing would be left.

    Examples
    --------
    >>> without_dependents(data, edits).schema.names  # doctest: +SKIP
    ('wages', 'benefits')
    """
    computed = {e.dependent for e in edits.dependents}
    return data.select([n for n in data.schema.names if n not in computed])


def complete(data: Microdata, edits: EditSet, schema: Schema) -> Microdata:
    """Add the variables that edits compute, from their parts; missing where a part is missing.

    A computed column is rounded to the precision that ``schema`` states when the edit then still
    holds for every record, else to the coarsest decimal unit with which it does, else not at all;
    the schema of the result states the precision that was used.

    Parameters
    ----------
    data : Microdata, N records
    edits : EditSet
    schema : Schema, of the table with its computed variables, completed

    Returns
    -------
    Microdata, in the column order of ``schema``.

    Raises
    ------
    AnonymizationError
        When a part is absent.
    InfeasibleError
        When a computed variable has levels and a sum is none of them.

    Claim: every edit with a dependent holds for every record.

    Examples
    --------
    >>> complete(masked, edits, original.schema).schema.names  # doctest: +SKIP
    ('wages', 'benefits', 'income')
    """
    columns = {name: data.frame[name] for name in data.schema.names}
    variables = {v.name: v for v in data.schema}
    for edit in edits.dependents:
        name = str(edit.dependent)
        absent = [n for n in edit.parts if n not in columns]
        if absent:
            raise AnonymizationError(
                f"edit {edit.name!r}: {name!r} cannot be computed, the data lack {', '.join(absent)}; "
                "keep the parts or drop the edit"
            )
        columns[name], variables[name] = dependent(edit, pd.DataFrame(columns), schema[name])
    names = [n for n in schema.names if n in columns]
    return Microdata(pd.DataFrame({n: columns[n] for n in names}), Schema(variables[n] for n in names))


def dependent(edit: Computing, frame: pd.DataFrame, variable: Variable) -> tuple[pd.Series, Variable]:
    """Return the dependent of an edit, and its variable with the precision that was used."""
    if isinstance(edit, LinearEdit | ProductEdit):
        return _computed(edit, frame, variable)
    if not isinstance(edit, LearnedLookup):
        raise AnonymizationError(
            f"edit {edit.name!r}: the table of {edit.dependent!r} has not been learned; use EditSet.learned"
        )
    values = edit.look_up(frame)
    if variable.levels is None:
        return pd.Series(values.astype("float64"), index=frame.index), variable
    coded = pd.Categorical(values, categories=list(variable.levels), ordered=variable.kind == "ordinal")
    return pd.Series(coded, index=frame.index), variable


def _computed(edit: LinearEdit | ProductEdit, frame: pd.DataFrame, variable: Variable) -> tuple[pd.Series, Variable]:
    values = edit.solve(frame) + 0.0  # no negative zeros
    if variable.levels is not None:
        return _computed_levels(edit, values, frame.index, variable), variable
    finer = [10.0**-d for d in range(MAX_DECIMALS + 1)]
    units = [u for u in [variable.precision, *finer] if u is not None and u <= (variable.precision or 0.0)]
    for unit in units:
        column = pd.Series(round_to(values, unit), index=frame.index)
        if edit.holds(frame.assign(**{variable.name: column})).all():
            return column, replace(variable, precision=unit)
    return pd.Series(values, index=frame.index), replace(variable, precision=None)


def _computed_levels(
    edit: LinearEdit | ProductEdit, values: np.ndarray, index: pd.Index, variable: Variable
) -> pd.Series:
    levels = np.asarray(variable.levels, dtype="float64")
    nearest = np.abs(levels[None, :] - values[:, None]).argmin(axis=1)
    known = ~np.isnan(values)
    wrong = known & (np.abs(levels[nearest] - values) > 1e-9 * np.maximum(1.0, np.abs(levels[nearest])))
    if wrong.any():
        raise InfeasibleError(
            f"edit {edit.name!r}: {int(wrong.sum())} record(s) give a sum that is none of the "
            f"{len(levels)} levels of {variable.name!r}; declare it continuous or list every possible sum"
        )
    dtype = pd.CategoricalDtype(list(variable.levels or ()), ordered=variable.kind == "ordinal")
    return pd.Series(pd.Categorical.from_codes(np.where(known, nearest, -1), dtype=dtype), index=index)
