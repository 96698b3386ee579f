"""Prepare externally produced releases for assessment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk import IdentifierMatches, proportion
from tasks.common.errors import Refused, named, visible
from tasks.common.run import Run
from tasks.intake import units
from tasks.intake.columns import identities, to_microdata
from tasks.intake.read import header_of, read
from tasks.intake.source import SourceSection
from tasks.intake.split import Sides, require_values
from tasks.intake.units import keys_of, shares_key, units_of
from tasks.masking.anonymize import Masked


@dataclass(frozen=True)
class File:
    """A file, and how it is read."""

    path: Path
    source: SourceSection


@dataclass(frozen=True)
class DeclaredFiles:
    """The variables of the files, and which identifiers among them are a guess that no one has confirmed."""

    variables: tuple[Variable, ...]
    unit: tuple[str, ...] = ()
    guessed: frozenset[str] = frozenset()
    stated: bool = True

    @classmethod
    def guessed_from(cls, variables: Iterable[Variable]) -> DeclaredFiles:
        """Return variables of which every identifier is a guess."""
        known = tuple(variables)
        return cls(known, guessed=frozenset(v.name for v in known if v.role == "identifier"), stated=False)

    def with_identifiers(self, names: Iterable[str]) -> DeclaredFiles:
        """Return the variables of which a person says that these name people.

        Raises
        ------
        Refused
            When the original has no such column.
        """
        stated = set(names)
        if absent := sorted(stated - {v.name for v in self.variables}):
            raise Refused(f"--identifier: the original has no column {named(absent)}; check the spelling")
        variables = [Variable(v.name, "nominal", role="identifier") if v.name in stated else v for v in self.variables]
        return replace(self, variables=tuple(variables), guessed=self.guessed - stated)

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The columns by which records are one unit: of identifiers those that a plan or a person states."""
        # Where identifiers are guessed, so are households.
        confirmed = tuple(
            v for v in self.variables if v.name not in self.guessed and (self.stated or v.role == "identifier")
        )
        return units.Declared(confirmed, self.unit).keys


@dataclass(frozen=True)
class Prepared:
    """The tables that are assessed, and what the assessment cannot see in them.

    Parameters
    ----------
    sides, masked : what the assessment takes
    left_out, unknown : variables that the release lacks, and released columns that are not measured
    named_released, named_reference : rows of either that carry a confirmed identifier of the original
    supposed : released columns that look like identifiers, with the values that are the original's
    """

    sides: Sides
    masked: Masked
    left_out: tuple[str, ...]
    unknown: tuple[str, ...]
    named_released: int
    named_reference: int
    supposed: tuple[IdentifierMatches, ...]


def prepare(
    run: Run,
    released: File,
    original: File,
    reference: File | None,
    declared: DeclaredFiles,
    *,
    aligned: bool,
) -> Prepared:
    """Read the tables for the assessment, and look at what it will not see.

    Raises
    ------
    Refused
        When a file cannot be read as microdata, or the files do not fit together; no message holds a value.
    """
    people = _with_units(run, original, declared, _table(run, original, declared.variables))
    known = {v.name: v for v in people.schema}
    header = _columns(run, released)
    shared = [n for n in known if n in header]
    if not shared:
        raise Refused(
            f"none of the {len(known)} variables of the original is among the {len(header)} columns of "
            f"{visible(released.path.name)}; released variables must keep their names"
        )
    # Levels may have been merged or emptied, and numbers rounded: they are what the release holds.
    open_ = tuple(replace(known[n], levels=None, precision=None, missing=()) for n in shared)
    masked = _as_levels(_table(run, released, open_, extra=True), people.select(shared))
    if aligned and len(masked) != len(people):
        raise Refused(
            f"the release has {len(masked)} rows and the original {len(people)}; rows that correspond must be as many"
        )
    store, others = run.workspace.store, None
    if reference is not None:
        apart = _table(run, reference, tuple(known[n] for n in shared), extra=True)
        require_values(people, apart)
        others = store("reference", _with_units(run, reference, declared, apart))
    return Prepared(
        sides=Sides(store("original", people.select(shared)), others),
        masked=Masked(
            released=store("released", masked.with_units(people.units if aligned else None)), keeps_records=aligned
        ),
        left_out=tuple(n for n in known if n not in shared),
        unknown=tuple(n for n in header if n not in known),
        named_released=_named(run, released, original, declared),
        named_reference=0 if reference is None else _named(run, reference, original, declared),
        supposed=tuple(
            _matches(run, name, released, original, reference) for name in header if name in declared.guessed
        ),
    )


def _matches(run: Run, name: str, released: File, original: File, reference: File | None) -> IdentifierMatches:
    """Count how many of the different values of a column are the original's, in the release and in the reference."""

    def values(file: File) -> set[str]:
        frame, _ = read(run, file.source, [Variable(name, "nominal", role="identifier")], file.path.parent.resolve())
        return set(identities(frame, [name])[name].dropna()) if name in frame else set()

    known = values(original)
    shares = [
        None if file is None else proportion(len(known & own), len(own))
        for file in (released, reference)
        for own in [set() if file is None else values(file)]
    ]
    assert shares[0] is not None
    return IdentifierMatches(name, shares[0], shares[1])


def _named(run: Run, file: File, original: File, declared: DeclaredFiles) -> int:
    """Return how many rows of a file carry a confirmed identifier of the original.

    Of the columns that together name a unit, such as a number within a household, a part names nobody.
    """
    header = set(_columns(run, file))
    households = {v.name for v in declared.variables if v.role == "household"}
    keys = [key for key in declared.keys if set(key) <= header and not set(key) <= households]
    if not keys:
        return 0
    names = {name for key in keys for name in key}
    asked, known = (
        keys_of(read(run, side.source, variables, side.path.parent.resolve())[0], keys)
        for side, variables in (
            (file, [v for v in declared.variables if v.name in names]),
            (original, declared.variables),
        )
    )
    return int(shares_key(asked, known).sum())


def with_levels_of(run: Run, reference: File, original: File, declared: DeclaredFiles) -> DeclaredFiles:
    """Return guessed variables with the levels that only people of the reference have."""
    people = _table(run, original, declared.variables)
    header = _columns(run, reference)
    open_ = tuple(replace(v, levels=None) for v in people.schema if v.name in header and v.levels)
    if not open_:
        return declared
    levels = {v.name: v.levels or () for v in _table(run, reference, open_, extra=True).schema}
    known = {v.name: v.levels or () for v in people.schema}
    both = {name: tuple(dict.fromkeys((*known[name], *more))) for name, more in levels.items()}
    wider = {name: _in_order(all_) for name, all_ in both.items() if len(all_) > len(known[name])}
    return replace(
        declared,
        variables=tuple(replace(v, levels=wider[v.name]) if v.name in wider else v for v in declared.variables),
    )


def _in_order(levels: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return numbers in their order, and texts as they are."""
    return levels if any(isinstance(level, str) for level in levels) else tuple(sorted(levels))


def _with_units(run: Run, file: File, declared: DeclaredFiles, table: Microdata) -> Microdata:
    """Return the table of a file with its statistical units, by those keys whose columns it has."""
    header = set(_columns(run, file))
    keys = [key for key in declared.keys if set(key) <= header]
    if not keys:
        return table
    variables = [v for v in declared.variables if v.name in header]
    frame, _ = read(run, file.source, variables, file.path.parent.resolve())
    return table.with_units(units_of(keys_of(frame, keys)))


def _columns(run: Run, file: File) -> list[str]:
    """Return the columns of a file, of which records are read only where its format has no header."""
    base = file.path.parent.resolve()
    header = header_of(file.source, base)
    return [str(c) for c in (read(run, file.source, (), base)[0].columns if header is None else header)]


def _table(
    run: Run,
    file: File,
    variables: tuple[Variable, ...],
    *,
    extra: bool = False,
) -> Microdata:
    """Read a file as microdata; with ``extra``, columns that are not declared are left out."""
    frame, _ = read(run, file.source, variables, file.path.parent.resolve())
    names = [v.name for v in variables]
    if extra:
        frame = frame[[n for n in names if n in frame.columns]]
    try:
        return to_microdata(frame, variables)[0]
    except (AnonymizationError, Refused) as error:
        problem = str(error)
    raise Refused(f"{visible(file.path.name)}: {problem}")


def _as_levels(released: Microdata, original: Microdata) -> Microdata:
    """Return the release with the original's levels where they suffice, so that levels keep their order."""
    columns, variables = {}, []
    for variable in released.schema:
        own = original.schema[variable.name]
        column = released.frame[variable.name]
        known = own.levels
        if known is not None and variable.levels is not None and set(variable.levels) <= set(known):
            dtype = pd.CategoricalDtype(list(known), ordered=own.kind == "ordinal")
            column = column.astype(dtype)
            variable = replace(variable, levels=known)
        columns[variable.name] = column
        variables.append(variable)
    return Microdata(pd.DataFrame(columns), Schema(variables))
