"""Recognise the statistical units of a table in later tables, by keyed digests."""

from __future__ import annotations

import numpy as np
import pandas as pd

from anoncore.microdata import Microdata
from tasks.common.run import Run
from tasks.common.workspace import StoredArrays
from tasks.connectors.fingerprint import record_digests
from tasks.intake.split import Sides
from tasks.intake.units import persistent_names
from tasks.intake.validate import Checked
from tasks.record.members import Members


def recognise(run: Run, checked: Checked, sides: Sides) -> StoredArrays:
    """Store the `Members` of the records that are masked, in the order of their units, by reference.

    Where the plan declares no identifier, a unit is known by the values of its records: one that changes leaves and
    another joins.
    """
    original = sides.original.load()
    keys = None if checked.keys is None else checked.keys.load()
    members = recognised(run, original, keys)
    return run.workspace.store_arrays("members", **vars(members))


def recognised(run: Run, original: Microdata, keys: pd.DataFrame | None) -> Members:
    """Return the units of a table, given what joins its source's records; the first is that of the least number."""
    units = original.unit_codes
    known = pd.DataFrame(index=original.frame.index) if keys is None else keys.iloc[original.frame.index]
    names = original.schema.masked
    rows = record_digests(original.frame[list(names)])
    # Of a unit's records in any order; sums of 64 bits go round.
    contents = np.zeros(int(units.max(initial=-1)) + 1, dtype=np.uint64)
    np.add.at(contents, units, rows)
    return Members.of(run.home, persistent_names(known, units, rows), contents, names)
