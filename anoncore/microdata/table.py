"""A table of records with its schema, in canonical form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from anoncore.errors import AnonymizationError
from anoncore.microdata.canonical import canonical, check_columns, ordinary
from anoncore.microdata.schema import Schema
from anoncore.microdata.units import Units, unit_codes
from anoncore.microdata.variable import Role, Variable
from anoncore.summary import Summarised, SummaryTable

# Columns up to which a frame keeps each by itself: of more, pandas warns, and rows are taken slowly.
_SEPARATE = 50


@dataclass(frozen=True, eq=False, repr=False)
class Microdata(Summarised):
    """A table of records with its schema, in canonical form.

    This is the one place that checks input. Behind it every column has a canonical form: continuous
    variables are ``float64`` with NaN for missing, all others are pandas ``Categorical`` whose
    categories are the variable's levels in their stated order.

    The frame given is never modified; its index is kept, because it identifies records while
    they are split and compared. It is never released.

    Parameters
    ----------
    frame : DataFrame, (N, n)
        One row per record. Columns that the schema does not name are refused.
    schema : Schema
        Completed here: levels and precision that it leaves open are observed from the data, and
        missing codes, which have become missing values, are dropped.
    units : (N,) int, optional
        The statistical unit (person, household, enterprise) of each record, see `joined_units`; None where each
        record is a unit of its own. Like the index it is never released, and no ``repr`` shows it.

    Raises
    ------
    AnonymizationError
        For missing, surplus or duplicate columns, text where numbers are declared, infinite
        values and values outside the stated levels. The message names the variable and counts
        records; it never shows a value. Neither does ``repr``.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": [31, 64], "sex": ["f", "m"]})
    >>> data = Microdata(frame, Schema([Variable("age", "continuous"), Variable("sex", "binary")]))
    >>> data
    Microdata(2 records, 2 variables)
    >>> data.schema["sex"].levels
    ('f', 'm')
    """

    frame: pd.DataFrame
    schema: Schema
    units: Units | None = None

    def __post_init__(self) -> None:
        check_columns(self.frame, self.schema.names)
        columns: dict[str, pd.Series] = {}
        completed: list[Variable] = []
        problems: list[str] = []
        for variable in self.schema:
            try:
                columns[variable.name], observed = canonical(self.frame[variable.name], variable)
                completed.append(observed)
            except AnonymizationError as error:
                problems.append(str(error))
        if problems:
            raise AnonymizationError("\n".join(problems))
        # The columns are new, or shared with the given frame under copy-on-write: few ones need not be copied again.
        copied = len(columns) > _SEPARATE
        object.__setattr__(self, "frame", pd.DataFrame(columns, index=self.frame.index, copy=copied))
        object.__setattr__(self, "schema", Schema(completed))
        object.__setattr__(self, "units", _checked_units(self.units, len(self.frame)))

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, schema: Schema | None = None) -> Microdata:
        """Return the microdata of a data frame, with a schema that is inferred where none is given.

        Parameters
        ----------
        frame : DataFrame, (N, n)
        schema : Schema, optional
            That of `Schema.infer` when None; look at it before anything is released.

        Raises
        ------
        AnonymizationError
            As for the class, and as for `Schema.infer`.

        Examples
        --------
        >>> heights = np.arange(150, 210) / 100
        >>> Microdata.from_frame(pd.DataFrame({"height": heights})).schema["height"].precision
        0.01
        """
        return cls(frame, Schema.infer(frame) if schema is None else schema)

    @classmethod
    def trusted(cls, frame: pd.DataFrame, schema: Schema, units: Units | None = None) -> Microdata:
        """Wrap a frame that is in canonical form already, under a completed schema, without checking."""
        data = object.__new__(cls)
        object.__setattr__(data, "frame", frame)
        object.__setattr__(data, "schema", schema)
        object.__setattr__(data, "units", units)
        return data

    def with_units(self, units: ArrayLike | None) -> Microdata:
        """Return the table with the statistical unit of each record, (N,) int; None for each its own."""
        return Microdata.trusted(self.frame, self.schema, _checked_units(units, len(self)))

    def with_units_of(self, source: Microdata) -> Microdata:
        """Return the table with the units of the source's records from which its own stem, by index label."""
        if source.units is None:
            return self.with_units(None)
        return self.with_units(source.units[source.frame.index.get_indexer(self.frame.index)])

    @property
    def n_units(self) -> int:
        """The number of statistical units."""
        return len(self) if self.units is None else len(np.unique(self.units))

    @property
    def unit_codes(self) -> NDArray[np.intp]:
        """The statistical unit of each record, as codes from 0."""
        return unit_codes(self.units, len(self))

    def role_codes(self, *roles: Role) -> NDArray[np.intp] | None:
        """Return (N,) codes of the values that the variables of some roles hold together; None without such variables.

        A missing value is a value like any other.
        """
        names = [name for name in self.schema.with_role(*roles) if name in self.frame]
        if not names:
            return None
        grouped = self.frame.groupby(names, dropna=False, observed=True, sort=False)
        return np.asarray(grouped.ngroup(), dtype=np.intp)

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        return f"Microdata({len(self)} records, {len(self.schema)} variables)"

    def select(self, names: Sequence[str]) -> Microdata:
        """Return the variables ``names`` alone, in their order."""
        return Microdata.trusted(self.frame[list(names)], self.schema.select(names), self.units)

    def take(self, rows: np.ndarray) -> Microdata:
        """Return the records at positions ``rows``; levels and precision stay those of the whole table."""
        units = None if self.units is None else self.units[rows]
        return Microdata.trusted(self.frame.iloc[rows], self.schema, units)

    def level_counts(self, name: str) -> dict[Any, int]:
        """Return the number of records at each level of a categorical variable, absent levels included."""
        levels = self.schema[name].levels or ()
        codes = np.asarray(self.frame[name].cat.codes)
        return dict(zip(levels, np.bincount(codes[codes >= 0], minlength=len(levels)).tolist(), strict=True))

    def level_units(self, name: str) -> dict[Any, int]:
        """Return the number of statistical units that hold each level of a categorical variable."""
        if self.units is None:
            return self.level_counts(name)
        levels = self.schema[name].levels or ()
        codes = np.asarray(self.frame[name].cat.codes)
        held = pd.DataFrame({"level": codes, "unit": self.units})[codes >= 0].drop_duplicates()["level"]
        return dict(zip(levels, np.bincount(held, minlength=len(levels)).tolist(), strict=True))

    def records_of(self, units: int) -> int:
        """Return the number of records that are of so many statistical units, whichever records they are."""
        if self.units is None or units < 1:
            return units
        sizes = np.sort(np.unique(self.units, return_counts=True)[1])
        return 1 + int(sizes[::-1][: units - 1].sum())

    def plain(self) -> pd.DataFrame:
        """Return the table with ordinary columns: numbers, or text, with missing cells empty.

        Whole numbers come as pandas ``Int64``, so that a missing value does not turn them into decimals.
        """
        return pd.DataFrame({v.name: ordinary(self.frame[v.name], v) for v in self.schema}, index=self.frame.index)

    def summary_tables(self) -> Iterator[SummaryTable]:
        """Return one table: kind, role, number of levels and of missing values of each variable."""
        missing = self.frame.isna().sum()
        header = ("variable", "kind", "role", "levels", "missing")
        rows = [(v.name, v.kind, v.role, v.levels and len(v.levels), int(missing[v.name])) for v in self.schema]
        yield SummaryTable(f"Microdata of {len(self)} records and {len(self.schema)} variables", header, rows)


def _checked_units(units: ArrayLike | None, records: int) -> Units | None:
    if units is None:
        return None
    numbers = np.array(units)
    if numbers.shape != (records,) or numbers.dtype.kind not in "iu":
        raise AnonymizationError(f"units must hold {records} whole numbers, one for each record")
    return numbers.astype(np.int64)
