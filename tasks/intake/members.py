"""Recognise the statistical units of a table in later tables, by keyed digests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from anoncore.microdata import Microdata
from tasks.common.partitions import IDENTIFIED, NAME, StoredPartitions
from tasks.common.run import Run
from tasks.common.secrets import secret
from tasks.common.workspace import StoredArrays
from tasks.connectors.fingerprint import record_digests
from tasks.intake.split import Sides
from tasks.intake.units import numbered, persistent_names
from tasks.intake.validate import Checked
from tasks.record.members import Members


def recognise(run: Run, checked: Checked, sides: Sides, shared: str | None = None) -> StoredArrays:
    """Store the `Members` of the records that are masked, in the order of their units, by reference.

    Where the plan declares no identifier, a unit is known by the values of its records: one that changes leaves and
    another joins.

    Parameters
    ----------
    shared : the name of a secret that other homes have, by which the units are known to them, too
    """
    if isinstance(sides.original, StoredPartitions):
        return run.workspace.store_arrays("members", **vars(_of_partitions(run, sides.original)))
    original = sides.original.load()
    keys = None if checked.keys is None else checked.keys.load()
    members = recognised(run, original, keys, secret(shared, run.home) if shared else "")
    return run.workspace.store_arrays("members", **vars(members))


def _of_partitions(run: Run, original: StoredPartitions) -> Members:
    """Return the units of a table in partitions, each of which is one record."""
    names = original.schema.masked
    contents = np.concatenate([record_digests(part.frame[list(names)]) for part in original.parts()])
    identified, identities = original.whole(IDENTIFIED), original.whole(NAME)
    identities[~identified] = numbered(contents[~identified])
    return Members.of(run.home, identities, contents, names, named=int(identified.sum()), secret="")


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
    members = Members.of(
        run.home, persistent_names(known, units, rows), contents, names, named=int(identified.sum()), secret=shared
    )
    if not shared:
        return members
    # Who has no identifier is known by the values: other homes could try values out, and do not get these digests.
    return replace(members, shared=np.where(identified, members.shared, members.identities))
