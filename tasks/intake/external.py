"""Prepare externally produced releases for assessment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from tasks.common.errors import Refused, visible
from tasks.common.run import Run
from tasks.intake.columns import identities, to_microdata
from tasks.intake.read import read
from tasks.intake.source import SourceSection
from tasks.intake.split import Sides, matches_known
from tasks.masking.anonymize import Masked


@dataclass(frozen=True)
class File:
    """A file, and how it is read."""

    path: Path
    source: SourceSection


@dataclass(frozen=True)
class Prepared:
    """The tables that are assessed, and what the assessment cannot see in them.

    Parameters
    ----------
    sides, masked : what the assessment takes
    left_out, unknown : variables that the release lacks, and released columns that are not measured
    named_released, named_reference : rows of either that carry an identifier of the original
    """

    sides: Sides
    masked: Masked
    left_out: tuple[str, ...]
    unknown: tuple[str, ...]
    named_released: int
    named_reference: int


def prepare(
    run: Run,
    released: File,
    original: File,
    reference: File | None,
    variables: tuple[Variable, ...],
    *,
    aligned: bool,
) -> Prepared:
    """Read the tables for the assessment, and look at what it will not see.

    Raises
    ------
    Refused
        When a file cannot be read as microdata, or the files do not fit together; no message holds a value.
    """
    people = _table(run, original, variables)
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
        others = store("reference", _table(run, reference, tuple(known[n] for n in shared), extra=True))
    return Prepared(
        sides=Sides(store("original", people.select(shared)), others),
        masked=Masked(released=store("released", masked), keeps_records=aligned),
        left_out=tuple(n for n in known if n not in shared),
        unknown=tuple(n for n in header if n not in known),
        named_released=_named(run, released, original, variables),
        named_reference=0 if reference is None else _named(run, reference, original, variables),
    )


def _named(run: Run, file: File, original: File, variables: tuple[Variable, ...]) -> int:
    """Return how many rows of a file carry an identifier of the original.

    Of several identifiers a part, such as a number within a household, names only whom it is alone.
    """
    header = _columns(run, file)
    whole = [v.name for v in variables if v.role == "identifier"]
    names = [n for n in whole if n in header]
    if not names:
        return 0
    asked, known = (
        identities(read(run, side.source, declared, side.path.parent.resolve())[0], names)
        for side, declared in ((file, [v for v in variables if v.name in names]), (original, variables))
    )
    if names != whole:
        names = [n for n in names if known[n].dropna().is_unique]
    return int(matches_known(asked[names], known[names]).sum()) if names else 0


def with_levels_of(run: Run, reference: File, original: File, variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
    """Return guessed variables with the levels that only people of the reference have."""
    people = _table(run, original, variables)
    header = _columns(run, reference)
    open_ = tuple(replace(v, levels=None) for v in people.schema if v.name in header and v.levels)
    if not open_:
        return variables
    others = _table(run, reference, open_, extra=True)
    checked = []
    for variable in variables:
        levels = people.schema[variable.name].levels if variable.name in people.schema else None
        more = others.schema[variable.name].levels if levels and variable.name in others.schema else None
        whole = tuple(dict.fromkeys((*(levels or ()), *(more or ()))))
        if more and len(whole) > len(levels or ()):
            kind = "nominal" if variable.kind == "binary" and len(whole) > 2 else variable.kind
            variable = replace(variable, levels=whole, kind=kind)
        checked.append(variable)
    return tuple(checked)


def _columns(run: Run, file: File) -> list[str]:
    frame, _ = read(run, file.source, (), file.path.parent.resolve())
    return [str(c) for c in frame.columns]


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
