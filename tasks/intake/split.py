"""Split off the reference sample, before anything is fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import model_validator

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Variable
from tasks.common.errors import Refused
from tasks.common.run import Run
from tasks.common.sections import Section
from tasks.common.workspace import StoredMicrodata, StoredTable
from tasks.intake.columns import identities, to_microdata
from tasks.intake.read import read
from tasks.intake.source import SourceSection
from tasks.intake.validate import Checked
from tasks.record.dossier import SplitSummary


class ReferenceSection(Section):
    """With which sample of the same population the risk of the release is compared.

    Parameters
    ----------
    kind : ``holdout``: half of the people, the same in every run of a home, is set apart before masking and never
        released. ``file``: people from another table with the same columns. ``leave-one-out``: all records are
        released and each is compared with the rest of the source; membership inference cannot be tested then.
    source : The other table, with the keys of the plan's ``source``. Only with ``kind: file``.
    disjoint_by : How it is established that the file shares no person with the source: by comparing identifiers, or
        by the custodian's statement.
    """

    kind: Literal["holdout", "file", "leave-one-out"] = "holdout"
    source: SourceSection | None = None
    disjoint_by: Literal["identifier", "custodian"] = "identifier"

    @model_validator(mode="after")
    def _file_has_source(self) -> ReferenceSection:
        if (self.kind == "file") != (self.source is not None):
            raise ValueError("a reference of kind file needs a source, and only that kind has one")
        return self


@dataclass(frozen=True)
class Sides:
    """The original records and, unless each is left out in turn, the reference sample, by reference."""

    original: StoredMicrodata
    reference: StoredMicrodata | None


@dataclass(frozen=True)
class Split(Sides):
    """The two sides of a plan's table."""

    summary: SplitSummary


def split(run: Run, checked: Checked, section: ReferenceSection, variables: tuple[Variable, ...], base: Path) -> Split:
    """Set the reference sample apart from the records that are masked.

    Non-overlap is a property of people, shown by household or identifier where one repeats, else by row
    number; records whose values coincide by chance are counted apart.
    """
    source = checked.data.load()
    if section.kind == "leave-one-out":
        summary = SplitSummary(section.kind, len(source), len(source) - 1, 0, "each record is left out in turn", 0)
        return Split(checked.data, None, summary)
    if section.kind == "holdout":
        original, reference, disjoint = _holdout(source, checked.identifiers, run.streams.persistent_key())
        stored = run.workspace.store("original", original)
    else:
        reference, disjoint = _file(run, source, checked.identifiers, section, variables, base)
        original, stored = source, checked.data
    unused = len(source) - len(original) - len(reference) if section.kind == "holdout" else 0
    coinciding = _coinciding(original, reference)
    summary = SplitSummary(section.kind, len(original), len(reference), unused, disjoint, coinciding)
    return Split(stored, run.workspace.store("reference", reference), summary)


def _holdout(source: Microdata, identifiers: StoredTable | None, key: str) -> tuple[Microdata, Microdata, str]:
    """Return the records to be masked, the reference sample, and how it is known that they share no person."""
    half = len(source) // 2
    if half < 2:
        raise Refused(f"reference: a holdout needs at least 4 records, the source has {len(source)}")
    people, names, by = _people(source, identifiers)
    order = _in_persistent_order(people, names, key)
    cut = half
    while cut < len(order) and people[order[cut]] == people[order[cut - 1]]:
        cut += 1
    if len(order) - cut < 2:
        raise Refused(f"reference: a holdout by {by} leaves no second half; choose a file or leave-one-out")
    sides = order[:cut], order[cut : 2 * cut if by == "row number" else len(order)]
    if set(people[sides[0]]) & set(people[sides[1]]):
        raise Refused("reference: the two sides share people")
    original, reference = (source.take(np.sort(side)) for side in sides)
    return original, reference, f"no {by} of the source is on both sides"


def _people(source: Microdata, identifiers: StoredTable | None) -> tuple[np.ndarray, np.ndarray, str]:
    """Return (N,) whose record each is, (N,) what stays the same of them, and by what that is known.

    A record stands for itself where neither household nor identifier repeats: then its identifiers stay the
    same, or without any its values, with equal ones numbered.
    """
    households = source.schema.with_role("household")
    if households:
        known = source.frame[list(households)].astype("string").fillna("")
        return pd.MultiIndex.from_frame(known).factorize()[0], _hashed(known), " and ".join(households)
    everybody = np.arange(len(source))
    if identifiers is None:
        return everybody, _numbered(_hashed(source.frame)), "row number"
    known = identifiers.load().iloc[source.frame.index]
    codes = pd.MultiIndex.from_frame(known.fillna("")).factorize()[0]
    nameless = known.isna().all(axis=1).to_numpy()
    codes[nameless] = codes.max(initial=0) + 1 + np.arange(nameless.sum())
    # Who has no identifier is known by the values alone.
    names = np.where(nameless, _hashed(source.frame), _hashed(known.fillna("")))
    if len(np.unique(codes)) < len(codes):
        names[nameless] = _numbered(names[nameless])
        return codes, names, " and ".join(known.columns)
    return everybody, _numbered(names), "row number"


def _hashed(frame: pd.DataFrame) -> np.ndarray:
    """Return (N,) what depends on a record's values alone, whatever its place in the file."""
    return pd.util.hash_pandas_object(frame, index=False).to_numpy()


def _numbered(names: np.ndarray) -> np.ndarray:
    """Return the names with equal ones numbered in their order."""
    return names + pd.Series(names).groupby(names).cumcount().to_numpy().astype(np.uint64)


def _in_persistent_order(people: np.ndarray, names: np.ndarray, key: str) -> np.ndarray:
    """Return the records, people in an order as random as the key, and the records of one person together.

    The order of two people never changes while the key is kept, whatever else the table holds. Of one table
    the same people are set apart always; the cut moves a little when people come or go, and whose values
    name them is drawn anew when values or the variables declared change.
    """
    drawn = pd.util.hash_array(names.astype(str).astype(object), hash_key=key, categorize=False)
    first = np.zeros(int(people.max(initial=0)) + 1, dtype=np.uint64)
    first[people[::-1]] = drawn[::-1]
    return np.lexsort((people, first[people]))


def _file(
    run: Run,
    source: Microdata,
    identifiers: StoredTable | None,
    section: ReferenceSection,
    variables: tuple[Variable, ...],
    base: Path,
) -> tuple[Microdata, str]:
    """Return the reference sample of another file, and how it is known that it shares no person with the source."""
    assert section.source is not None
    frame, _ = read(run, section.source, variables, base)
    reference = _like(source, frame, variables)
    disjoint = "vouched for by the custodian; not proven"
    if section.disjoint_by == "identifier":
        disjoint = _proven_disjoint(frame, identifiers)
    smaller = min(len(source), len(reference))
    rng = run.rng("split")
    if len(reference) > smaller:
        reference = reference.take(np.sort(rng.choice(len(reference), smaller, replace=False)))
    return reference, disjoint


def _like(source: Microdata, frame: pd.DataFrame, variables: tuple[Variable, ...]) -> Microdata:
    """Return the file as microdata whose levels are the source's."""
    levels = {v.name: v.levels for v in source.schema}
    try:
        return to_microdata(frame, tuple(replace(v, levels=levels.get(v.name)) for v in variables))[0]
    except (AnonymizationError, Refused) as error:
        problem = str(error)
    raise Refused(f"reference: {problem}")


def _proven_disjoint(frame: pd.DataFrame, identifiers: StoredTable | None) -> str:
    """Refuse a file that may hold a person of the source; else return why it cannot."""
    vouch = "or state disjoint_by: custodian"
    if identifiers is None:
        raise Refused(
            "reference: no identifier is declared, so it cannot be shown that the file shares no record "
            f"with the source; declare one, {vouch}"
        )
    known = identifiers.load()
    names = list(known.columns)
    asked = identities(frame, names)
    nameless = int(known.isna().all(axis=1).sum()) + int(asked.isna().all(axis=1).sum())
    if nameless:
        raise Refused(
            f"reference: {nameless} record(s) of source and file have no identifier, so it cannot be shown "
            f"that the two share no record; complete or remove them, {vouch}"
        )
    shared = int(matches_known(asked, known).sum())
    if shared:
        raise Refused(f"reference: {shared} record(s) of the file are in the source, too; remove them")
    return f"no {', '.join(names)} of the source occurs in the reference file"


def matches_known(asked: pd.DataFrame, known: pd.DataFrame) -> np.ndarray:
    """Return (N,) bool: which records have all identifiers of a known one, or one that no other known one has.

    Parameters
    ----------
    asked, known : as `tasks.intake.columns.identities` returns them; a record without any identifier matches none
    """
    rows = [pd.MultiIndex.from_frame(frame.fillna("")) for frame in (asked, known)]
    matches = np.asarray(rows[0].isin(rows[1])) & asked.notna().any(axis=1).to_numpy(dtype=bool)
    for name in known.columns:
        own = known[name].dropna()
        if own.is_unique:
            matches |= asked[name].isin(own).to_numpy(dtype=bool)
    return matches


def _coinciding(original: Microdata, reference: Microdata) -> int:
    """Count the records of the original whose values all stand in some record of the reference too."""
    both = [pd.util.hash_pandas_object(d.frame.astype("string"), index=False) for d in (original, reference)]
    return int(both[0].isin(both[1]).sum())
