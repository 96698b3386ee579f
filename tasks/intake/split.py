"""Split off the reference sample, before anything is fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from anoncore.errors import AnonymizationError
from anoncore.kernels.rows import row_blocks
from anoncore.method import enough_left_out
from anoncore.microdata import Microdata, Variable
from anoncore.partitions.store import work_name
from tasks.common.errors import Refused, named
from tasks.common.hashes import among, in_ranges, placed, sides
from tasks.common.partitions import NAME, SIDE, VALUES, StoredPartitions
from tasks.common.run import Run
from tasks.common.sections import Section
from tasks.common.workspace import StoredArrays, StoredRecords
from tasks.intake.clusters import Clusters, clusters_of, grouped, strata_of, whole_clusters
from tasks.intake.columns import to_microdata
from tasks.intake.read import read
from tasks.intake.source import SourceSection
from tasks.intake.units import Declared, keys_of, named_keys, persistent_names, shares_key, units_of
from tasks.intake.validate import Checked
from tasks.record.dossier import SplitSummary

HALF = 0.5
# Of so many units one is left out of measures of utility by a key, and one by key and table, at most enough each.
ONE_IN = 10
LEFT_OUT = "left out"
# Statistical units of either side of the sub-table of a table in partitions.
SUB_TABLE = 20_000


class ReferenceSection(Section):
    """With which sample of the same population the risk of the release is compared.

    Parameters
    ----------
    kind : ``cross``: all records are released. Two random halves of the statistical units, the same in every run of a
        home, are each masked by the whole plan and tested with the other half as reference; the release, masked from
        all records, is compared with the rest of the source once more. ``holdout``: a random part of the units is set
        apart before masking and never released. ``file``: units from another table with the same columns.
        ``leave-one-out``: all records are released and each is compared with the rest of the source; membership
        inference cannot be tested then. Of a ``cross`` and a ``holdout`` whole sampling units are on one side, where
        ``sampling_units`` names them.
    share : Of the units that a ``holdout`` sets apart.
    source : The other table, with the keys of the plan's ``source``. Only with ``kind: file``.
    disjoint_by : How it is established that the file shares no unit with the source: by comparing identifiers, of
        which none may occur in both, or by the custodian's statement.
    sampling_units : The columns that together name the sampling unit of a record: each has the role excluded or
        sampling-unit, or stratum where units are numbered anew in each. Only with ``cross`` and ``holdout``.
    """

    kind: Literal["cross", "holdout", "file", "leave-one-out"] = "holdout"
    share: float = Field(default=HALF, ge=0.1, le=0.9)
    source: SourceSection | None = None
    disjoint_by: Literal["identifier", "custodian"] = "identifier"
    sampling_units: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _file_has_source(self) -> ReferenceSection:
        if (self.kind == "file") != (self.source is not None):
            raise ValueError("a reference of kind file needs a source, and only that kind has one")
        return self

    @model_validator(mode="after")
    def _holdout_has_share(self) -> ReferenceSection:
        if self.kind != "holdout" and self.share != HALF:
            raise ValueError("only a reference of kind holdout has a share")
        return self

    @model_validator(mode="after")
    def _cut_has_sampling_units(self) -> ReferenceSection:
        if self.sampling_units and self.kind not in ("cross", "holdout"):
            raise ValueError("only a reference of kind cross or holdout has sampling_units")
        return self

    @property
    def of_one_half(self) -> ReferenceSection:
        """The section for trials of settings, which mask one half of a ``cross`` and test it with the other."""
        return self.model_copy(update={"kind": "holdout"}) if self.kind == "cross" else self


@dataclass(frozen=True)
class Sides:
    """The original records and, unless each is left out in turn, the reference sample, by reference.

    Parameters
    ----------
    halves : those of a ``cross``, each with the other as its reference
    left_out : (N,) bool, "utility" and "risk": original records without which figures are published, of units that a
        key of the home draws, or of a stated seed; None where a sub-table has at most half of all, no record of
        utility where it lacks enough
    """

    original: StoredRecords
    reference: StoredRecords | None
    halves: tuple[Sides, ...] = ()
    left_out: StoredArrays | None = None

    def left_out_rows(self, of: Literal["utility", "risk"]) -> np.ndarray | None:
        """Return the original records, (N,) bool, that published figures leave out, read from the workspace."""
        return None if self.left_out is None else self.left_out.load()[of]


@dataclass(frozen=True, kw_only=True)
class Split(Sides):
    """The two sides of a plan's table.

    Parameters
    ----------
    sub_table : of large tables, the sides of a random part of the units, in memory: what compares records with records
        is measured of it, masked by the same plan; None where all records are measured
    """

    summary: SplitSummary
    sub_table: Sides | None = None


def split(
    run: Run,
    checked: Checked,
    section: ReferenceSection,
    declared: Declared,
    base: Path,
    most: int | None = None,
) -> Split:
    """Set the reference sample apart from the records that are masked.

    Whole statistical units are set apart, of every stratum the same share, and whole sampling units where the section
    names them; records whose values coincide by chance are counted apart. Of a table in memory a sub-table is drawn
    where more than ``most`` records are masked, each of them a unit of its own; the same one as of that table in
    partitions.
    """
    if isinstance(checked.data, StoredPartitions):
        return _split_partitions(run, checked.data, section)
    sides = _split(run, checked, section, declared, base, most)
    sub = sides.sub_table
    if sub is None:
        return replace(sides, left_out=_left_out(run, checked, sides.original))
    of, units = sub.original.load().n_units, sides.summary.original_units
    if 2 * of <= units:
        return sides
    left_out = _left_out(run, checked, sub.original, of_utility=not _lacks_enough(of, units))
    return replace(sides, sub_table=replace(sub, left_out=left_out))


def left_out_of(units: int) -> int:
    """Return how many of so many units are left out of measures of utility."""
    return enough_left_out(units // ONE_IN)


def _lacks_enough(of: int, units: int) -> bool:
    """Return whether a sub-table of so many units lacks enough of all that are masked by itself."""
    return units - of >= left_out_of(units)


def _left_out(run: Run, checked: Checked, stored: StoredRecords, *, of_utility: bool = True) -> StoredArrays:
    original = stored.load()
    known = _known(original, None if checked.keys is None else checked.keys.load())
    names = persistent_names(known, original.unit_codes, _hashed(original.frame))
    return _stored_left_out(run, names, original.unit_codes, of_utility)


def _stored_left_out(run: Run, names: np.ndarray, codes: np.ndarray, of_utility: bool) -> StoredArrays:
    """Store which records, of units with such codes, published figures leave out: of risk those of half of the units.

    Half of them are drawn by a key alone, so that they are the same in every run and do not average out; the others by
    the table, too, so that two tables differ by more than those who joined or left. The key is not that of the halves,
    whose order would tell.
    """
    streams, units = run.streams, len(names)
    purposes = (LEFT_OUT, f"{LEFT_OUT} {streams.data_digest}")
    orders = [_in_persistent_order(names, streams.persistent_key(purpose)) for purpose in purposes]
    drawn = {}
    for of, each in (("utility", left_out_of(units) if of_utility else 0), ("risk", units // 4)):
        chosen = np.zeros(units, dtype=np.bool_)
        for order in orders:
            chosen[order[~chosen[order]][:each]] = True
        drawn[of] = chosen[codes]
    return run.workspace.store_arrays("left-out", **drawn)


def _split(
    run: Run,
    checked: Checked,
    section: ReferenceSection,
    declared: Declared,
    base: Path,
    most: int | None,
) -> Split:
    source = checked.data.load()
    keys = None if checked.keys is None else checked.keys.load()
    dropped = None if checked.sampling_units is None else checked.sampling_units.load()
    clusters = clusters_of(source, dropped) if section.sampling_units else None
    most = None if clusters is not None else _above(most, source, section.kind)
    if section.kind == "leave-one-out":
        sub = None
        if most is not None and len(source) > most:
            order = _order(source, _known(source, keys), run.streams.persistent_key())
            sub = Sides(_first(run, "sub-table", source.take, order), None)
        return _leave_one_out(checked.data, len(source), source.n_units, sub)
    if section.kind == "cross":
        return _cross(run, checked.data, source, keys, clusters, most)
    sub = None
    sampling_units: tuple[int, ...] = ()
    if section.kind == "holdout":
        cut = _holdout(source, keys, clusters, run.streams.persistent_key(), section.share)
        original, reference, disjoint, sampling_units = cut.original, cut.reference, cut.disjoint, cut.sampling_units
        stored: StoredRecords = run.workspace.store("original", original)
        if most is not None and len(original) > most:
            sub = _sub_table(run, source.take, cut.first, cut.second, cross=False)
    else:
        reference, disjoint = _file(run, source, keys, section, declared, base)
        original, stored = source, checked.data
    summary = SplitSummary(
        kind=section.kind,
        original=len(original),
        reference=len(reference),
        unused=len(source) - len(original) - len(reference) if section.kind == "holdout" else 0,
        original_units=original.n_units,
        reference_units=reference.n_units,
        disjoint=disjoint,
        coinciding=_coinciding(_hashed(original.frame), _hashed(reference.frame)),
        sampling_units=sampling_units,
    )
    return Split(stored, run.workspace.store("reference", reference), summary=summary, sub_table=sub)


def _split_partitions(run: Run, source: StoredPartitions, section: ReferenceSection) -> Split:
    """Cut a table in partitions as one in memory is cut, and draw its sub-table.

    The same units are on the same side as in memory. The sub-table is of the first units of either side in the
    persistent order, so that every run draws the same ones.
    """
    units = len(source)
    if section.kind == "file":
        raise Refused("reference: tables beyond memory support no kind file; choose another, or engine: memory")
    if units < 4:
        raise Refused(f"reference: a holdout needs at least 4 statistical units, the source has {units}")
    cross, drawn, key = section.kind == "cross", work_name("drawn"), run.streams.persistent_key()
    order = source.with_chunks(drawn, (_drawn(names, key) for names in source.chunks(NAME)))
    hashes = partial(order.chunks, drawn)
    masked = units if section.kind == "leave-one-out" else _masked_units(units, section.share)
    used = 2 * masked if section.share == HALF and section.kind == "holdout" else units
    starts = [slice(start, min(start + SUB_TABLE, stop)) for start, stop in ((0, masked), (masked, used))]
    (first, _), second, left = placed(hashes, *starts, slice(used, used + 1))
    sided = source.with_chunks(SIDE, sides(hashes, [(rows[0], own[0]) for rows, own in (second, left) if len(rows)]))
    source.executor.store.remove(source.table.column(drawn))
    rows = np.sort(np.concatenate([first[:SUB_TABLE], second[0][:SUB_TABLE]]) if cross else first[:SUB_TABLE])
    left_out = None
    of_all = units if cross else masked
    if 2 * len(rows) > of_all:
        names, enough = np.concatenate([*source.chunks(NAME)])[rows], _lacks_enough(len(rows), of_all)
        left_out = _stored_left_out(run, names, np.arange(len(rows)), not enough)
    if section.kind == "leave-one-out":
        sub = Sides(_first(run, "sub-table", source.at, first), None, left_out=left_out)
        return _leave_one_out(source, units, units, sub)
    reference = used - masked
    summary = SplitSummary(
        kind=section.kind,
        original=units if cross else masked,
        reference=min(masked, reference) if cross else reference,
        unused=units - used,
        original_units=units if cross else masked,
        reference_units=min(masked, reference) if cross else reference,
        disjoint="no row number of the source is on both sides",
        coinciding=_coinciding_in_partitions(sided, max(masked, reference)),
    )
    sub = replace(_sub_table(run, source.at, first, second[0], cross=cross), left_out=left_out)
    if cross:
        return Split(source, None, summary=summary, sub_table=sub)
    return Split(sided.where("original", 0), sided.where("reference", 1), summary=summary, sub_table=sub)


def _sub_table(
    run: Run, at: Callable[[np.ndarray], Microdata], first: np.ndarray, second: np.ndarray, *, cross: bool
) -> Sides:
    """Return the sub-table of the first records of either side, which are in the persistent order."""
    one, other = (_first(run, f"sub-table-{number}", at, rows) for number, rows in enumerate((first, second), start=1))
    if not cross:
        return Sides(one, other)
    both = run.workspace.store("sub-table", at(np.sort(np.concatenate([first[:SUB_TABLE], second[:SUB_TABLE]]))))
    return Sides(both, None, (Sides(one, other), Sides(other, one)))


def _above(most: int | None, source: Microdata, kind: str) -> int | None:
    """Return above how many masked records a sub-table is drawn, no fewer than it has itself; None where none may be.

    A sub-table of all of them would be another release of them, attacked in place of the one that is published.
    """
    if most is None or source.units is not None or source.schema.with_role("stratum"):
        return None
    return max(most, 2 * SUB_TABLE if kind == "cross" else SUB_TABLE)


def _first(run: Run, name: str, at: Callable[[np.ndarray], Microdata], order: np.ndarray) -> StoredRecords:
    """Store the first records of an order, as many as a side of the sub-table has."""
    return run.workspace.store(name, at(np.sort(order[:SUB_TABLE])))


def _leave_one_out(source: StoredRecords, records: int, units: int, sub: Sides | None) -> Split:
    """Return the whole source, each of whose records is compared with the others."""
    disjoint = "each record is left out in turn"
    summary = SplitSummary("leave-one-out", records, records - 1, 0, units, units - 1, disjoint, 0)
    return Split(source, None, summary=summary, sub_table=sub)


def _masked_units(units: int, share: float) -> int:
    """Return how many of so many units are masked where a share of them is set apart."""
    return min(max(int(units * (1.0 - share)), 2), units - 2)


def _cross(
    run: Run,
    stored: StoredRecords,
    source: Microdata,
    keys: pd.DataFrame | None,
    clusters: Clusters | None,
    most: int | None,
) -> Split:
    """Cut the units in two halves, each of which is the other's reference; all records are masked."""
    cut = _holdout(source, keys, clusters, run.streams.persistent_key(), HALF, leaves_none=True)
    one, other = cut.original, cut.reference
    summary = SplitSummary(
        kind="cross",
        original=len(source),
        reference=min(len(one), len(other)),
        unused=0,
        original_units=source.n_units,
        reference_units=min(one.n_units, other.n_units),
        disjoint=cut.disjoint,
        coinciding=_coinciding(_hashed(one.frame), _hashed(other.frame)),
        sampling_units=cut.sampling_units,
    )
    if most is not None and len(source) > most:
        sub = _sub_table(run, source.take, cut.first, cut.second, cross=True)
        return Split(stored, None, summary=summary, sub_table=sub)
    first, second = run.workspace.store("half-1", one), run.workspace.store("half-2", other)
    return Split(stored, None, (Sides(first, second), Sides(second, first)), summary=summary)


@dataclass(frozen=True, eq=False, repr=False)
class _Cut:
    """A table that was cut in two.

    Parameters
    ----------
    original, reference : the records to be masked, and the reference sample
    disjoint : how it is known that they share no unit
    first, second : the units of either side in the persistent order, by their codes
    sampling_units : how many are on either side, where the design has them
    """

    original: Microdata
    reference: Microdata
    disjoint: str
    first: np.ndarray
    second: np.ndarray
    sampling_units: tuple[int, ...] = ()


def _holdout(
    source: Microdata,
    keys: pd.DataFrame | None,
    clusters: Clusters | None,
    key: str,
    share: float,
    *,
    leaves_none: bool = False,
) -> _Cut:
    """Cut the units of a table into those that are masked and the reference sample."""
    codes = source.unit_codes
    units = int(codes.max(initial=-1)) + 1
    if units < 4:
        raise Refused(f"reference: a holdout needs at least 4 statistical units, the source has {units}")
    known, masked = _known(source, keys), _masked_units(units, share)
    order = _order(source, known, key)
    by = "row number" if units == len(source) else named_keys(known)
    if clusters is not None:
        order = grouped(order, clusters, _in_persistent_order(clusters.names, key))
        chosen, by = whole_clusters(order, clusters, strata_of(source), masked), f"{by} or {clusters.phrase}"
    else:
        # Of an odd number one is left over, where that makes the sides equal.
        equal = share == HALF and units == len(source) and not leaves_none
        order = order[: 2 * masked] if equal else order
        chosen = _in_every_stratum(order, source, masked)
    side = np.full(units, 2)
    side[order] = 1
    side[chosen] = 0
    original, reference = (source.take(np.flatnonzero(side[codes] == one)) for one in (0, 1))
    first, second = (order[side[order] == one] for one in (0, 1))
    sampling_units = () if clusters is None else (clusters.among(first), clusters.among(second))
    return _Cut(original, reference, f"no {by} of the source is on both sides", first, second, sampling_units)


def _known(source: Microdata, keys: pd.DataFrame | None) -> pd.DataFrame:
    """Return the keys of the records."""
    return pd.DataFrame(index=source.frame.index) if keys is None else keys.iloc[source.frame.index]


def _order(source: Microdata, known: pd.DataFrame, key: str) -> np.ndarray:
    """Return the units of a table in memory in the persistent order."""
    return _in_persistent_order(persistent_names(known, source.unit_codes, _hashed(source.frame)), key)


def _in_every_stratum(order: np.ndarray, source: Microdata, masked: int) -> np.ndarray:
    """Return so many of the units, the first of every stratum and the same share of each but for rounding."""
    strata = strata_of(source)
    if strata is None:
        return order[:masked]
    of_unit = strata[order]
    size = np.bincount(of_unit)
    due = size * masked / len(order)
    number = np.floor(due).astype(np.intp)
    number[np.argsort(number - due, kind="stable")[: masked - int(number.sum())]] += 1
    by_stratum = np.argsort(of_unit, kind="stable")
    place = np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size)
    return order[by_stratum[place < np.repeat(number, size)]]


def _hashed(frame: pd.DataFrame) -> np.ndarray:
    """Return (N,) what depends on a record's values alone, whatever its place in the file."""
    return pd.util.hash_pandas_object(frame, index=False).to_numpy()


def _in_persistent_order(names: np.ndarray, key: str) -> np.ndarray:
    """Return the units in an order as random as the key.

    The order of two units never changes while the key is kept, whatever else the table holds. Of one table
    the same units are set apart always; the cut moves a little when units come or go, and whose values
    name them is drawn anew when values or the variables declared change.
    """
    return np.argsort(_drawn(names, key), kind="stable")


def _drawn(names: np.ndarray, key: str) -> np.ndarray:
    """Return (N,) uint64 by which units are put in the persistent order."""
    drawn = np.empty(len(names), dtype=np.uint64)
    for rows in row_blocks(len(names)):
        drawn[rows] = pd.util.hash_array(names[rows].astype(str).astype(object), hash_key=key, categorize=False)
    return drawn


def _file(
    run: Run, source: Microdata, keys: pd.DataFrame | None, section: ReferenceSection, declared: Declared, base: Path
) -> tuple[Microdata, str]:
    """Return the reference sample of another file, and how it is known that it shares no unit with the source."""
    assert section.source is not None
    frame, _ = read(run, section.source, declared.variables, base)
    reference = _like(source, frame, declared.variables)
    asked = keys_of(frame, declared.keys)
    if len(asked.columns):
        reference = reference.with_units(units_of(asked))
    disjoint = "vouched for by the custodian; not proven"
    if section.disjoint_by == "identifier":
        disjoint = _proven_disjoint(asked, keys)
    return _units_drawn(reference, source.n_units, run.rng("split")), disjoint


def _units_drawn(reference: Microdata, most: int, rng: np.random.Generator) -> Microdata:
    """Return a random part of at most as many units."""
    return reference if reference.n_units <= most else draw_units(reference, most, rng)[0]


def draw_units(data: Microdata, units: int, rng: np.random.Generator) -> tuple[Microdata, Microdata]:
    """Return the records of a random part of at most so many units, and the others."""
    chosen = np.isin(data.unit_codes, rng.choice(data.n_units, min(units, data.n_units), replace=False))
    return data.take(np.flatnonzero(chosen)), data.take(np.flatnonzero(~chosen))


def _like(source: Microdata, frame: pd.DataFrame, variables: tuple[Variable, ...]) -> Microdata:
    """Return the file as microdata whose levels are the source's."""
    levels = {v.name: v.levels for v in source.schema}
    try:
        reference = to_microdata(frame, tuple(replace(v, levels=levels.get(v.name)) for v in variables))[0]
    except (AnonymizationError, Refused) as error:
        problem = str(error)
    else:
        require_values(source, reference)
        return reference
    raise Refused(f"reference: {problem}")


def require_values(source: Microdata, reference: Microdata) -> None:
    """Refuse a reference that has no value of a variable that the source has values of: it is no such population."""
    both = [name for name in source.schema.masked if name in reference.schema]
    empty = [n for n in both if reference.frame[n].isna().all() and source.frame[n].notna().any()]
    if empty and len(reference):
        raise Refused(
            f"reference: no values of {named(empty)}, although the original has some, so that people of both cannot be "
            "compared; complete the reference, or leave the variable out"
        )


def _proven_disjoint(asked: pd.DataFrame, known: pd.DataFrame | None) -> str:
    """Refuse a file that may hold a unit of the source; else return why it cannot."""
    vouch = "or state disjoint_by: custodian"
    if known is None:
        raise Refused(
            "reference: no identifier is declared, so it cannot be shown that the file shares no record "
            f"with the source; declare one, {vouch}"
        )
    nameless = int(known.isna().all(axis=1).sum()) + int(asked.isna().all(axis=1).sum())
    if nameless:
        raise Refused(
            f"reference: {nameless} record(s) of source and file have no identifier, so it cannot be shown "
            f"that the two share no record; complete or remove them, {vouch}"
        )
    shared = int(shares_key(asked, known).sum())
    if shared:
        raise Refused(f"reference: {shared} record(s) of the file are of units of the source, too; remove them")
    return f"no {named_keys(known)} of the source occurs in the reference file"


def _coinciding(original: np.ndarray, reference: np.ndarray) -> int:
    """Count the records of the original whose values all stand in some record of the reference too, by their hashes."""
    return int(among(np.sort(original), np.sort(reference)).sum())


def _coinciding_in_partitions(sided: StoredPartitions, most: int) -> int:
    """Count them of a table in partitions with a column of sides, neither with more than so many records."""

    def of(side: int) -> Iterator[np.ndarray]:
        parts = zip(sided.chunks(VALUES), sided.chunks(SIDE), strict=True)
        return (values[own == side] for values, own in parts)

    return sum(map(_coinciding, in_ranges(partial(of, 0), most), in_ranges(partial(of, 1), most)))
