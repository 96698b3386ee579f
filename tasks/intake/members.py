"""Recognise the statistical units of a table in later tables, by keyed digests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
import pandas as pd

from anoncore.microdata import Microdata
from anoncore.partitions.store import ColumnStore, work_name
from tasks.common.hashes import Hashes, ranges_for
from tasks.common.partitions import IDENTIFIED, StoredPartitions
from tasks.common.run import Run
from tasks.common.secrets import secret
from tasks.common.workspace import StoredArrays
from tasks.connectors.fingerprint import record_digests
from tasks.intake.split import Sides
from tasks.intake.units import hashed_parts, names_with_values, persistent_names
from tasks.intake.validate import Checked
from tasks.record.members import AT_ONCE, Members

# Partitions that are cut into ranges of digests together: there are as many files as such groups times ranges.
TOGETHER = 4


def recognise(run: Run, checked: Checked, sides: Sides, shared: str | None = None) -> Members:
    """Store the `Members` of the records that are masked, which are read from the workspace when they are asked for.

    Where the plan declares no identifier, a unit is known by the values of its records: one that changes leaves and
    another joins.

    Parameters
    ----------
    shared : the name of a secret that other homes have, by which the units are known to them, too
    """
    if isinstance(sides.original, StoredPartitions):
        return _of_partitions(run, sides.original)
    original = sides.original.load()
    keys = None if checked.keys is None else checked.keys.load()
    members = recognised(run, original, keys, secret(shared, run.home) if shared else "")
    (identities,), (contents,) = members.identities(), members.contents()
    stored = run.workspace.store_arrays("members", identities=identities, contents=contents)
    return replace(
        members, identities=partial(_whole, stored, "identities"), contents=partial(_whole, stored, "contents")
    )


def _whole(stored: StoredArrays, name: str) -> list[np.ndarray]:
    """Return an array of those that were stored, as one piece."""
    return [stored.load()[name]]


def _of_partitions(run: Run, original: StoredPartitions) -> Members:
    """Return the units of a table in partitions, each of which is one record; they stay in its store."""
    names, contents = original.schema.masked, work_name("contents")
    nothing = np.empty(0, dtype=np.uint64)
    table = original.with_chunks(contents, (record_digests(part.frame[list(names)]) for part in original.parts()))
    parts = (
        Members.of(run.home, *units, names, named=0)
        for units in zip(names_with_values(table, contents), table.chunks(contents), strict=True)
    )
    store, ranges = table.executor.store, ranges_for(len(table), AT_ONCE)
    identities, kept = _in_ranges(store, parts, ranges)
    store.remove(table.table.column(contents))
    named = sum(int(np.count_nonzero(identified)) for identified in table.chunks(IDENTIFIED))
    members = Members.of(run.home, nothing, nothing, names, named=named)
    return replace(members, identities=identities, contents=kept, count=len(table), whole=False)


def _in_ranges(store: ColumnStore, parts: Iterable[Members], ranges: int) -> tuple[Hashes, Hashes]:
    """Keep the units of all parts in so many ranges of identities, each in order; return identities and contents."""
    spread, *columns = (work_name(purpose) for purpose in ("spread", "identities", "contents"))
    bounds = np.array([number * 2**64 // ranges for number in range(1, ranges)], dtype=np.uint64)
    stacked, written = (np.stack([*part.identities(), *part.contents()]) for part in parts), 0
    while some := list(islice(stacked, TOGETHER)):
        units = _ascending(np.concatenate(some, axis=1))
        for number, own in enumerate(np.split(units, np.searchsorted(units[0], bounds), axis=1)):
            store.write(f"{spread} {number}", written, own)
        written += 1
    for number in range(ranges):
        spread_out = [store.read(f"{spread} {number}", partition) for partition in range(written)]
        store.remove(f"{spread} {number}")
        units = _ascending(np.concatenate(spread_out, axis=1))
        for column, digests in zip(columns, units, strict=True):
            store.write(column, number, digests)
    identities, contents = columns
    return (
        lambda: (store.read(identities, number) for number in range(ranges)),
        lambda: (store.read(contents, number) for number in range(ranges)),
    )


def _ascending(units: np.ndarray) -> np.ndarray:
    """Return units, (2, n), in the order of their identities."""
    return units[:, np.argsort(units[0], kind="stable")]


def recognised(run: Run, original: Microdata, keys: pd.DataFrame | None, shared: str = "") -> Members:
    """Return the units of a table, given what joins its source's records; the first is that of the least number."""
    units = original.unit_codes
    known = pd.DataFrame(index=original.frame.index) if keys is None else keys.iloc[original.frame.index]
    names = original.schema.masked
    rows = record_digests(original.frame[list(names)])
    # Of a unit's records in any order; sums of 64 bits go round.
    contents = np.zeros(int(units.max(initial=-1)) + 1, dtype=np.uint64)
    np.add.at(contents, units, rows)
    identified = np.bincount(units[known.notna().any(axis=1).to_numpy()], minlength=len(contents)) > 0
    names_of = persistent_names(known, units, rows)
    members = Members.of(run.home, names_of, contents, names, named=int(identified.sum()))
    # Who has no identifier is known by the values: other homes could try values out, and do not get these digests.
    members = members.known_by(run.home, [*hashed_parts(known)])
    return members.shared_by(shared, hashed_parts(known, alike=True)) if shared else members
