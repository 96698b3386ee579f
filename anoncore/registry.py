"""The registered methods by name, and the one function that carries them out."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from anoncore import methods
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.method import Method
from anoncore.microdata import Microdata
from anoncore.partitions.release import PartitionedRelease
from anoncore.partitions.store import Executor
from anoncore.partitions.table import PartitionedTable
from anoncore.release import Release

# The parameter classes that `anoncore.methods` lists, by the name that plans use.
METHODS: dict[str, type[Method]] = {
    str(listed.method): cast(type[Method], listed) for listed in vars(methods).values() if hasattr(listed, "method")
}


def anonymize(
    microdata: Microdata, params: Method, *, rng: np.random.Generator, edits: EditSet | None = None
) -> Release:
    """Mask ``microdata`` with the method that ``params`` belong to.

    Parameters
    ----------
    microdata : Microdata, N records
        Never modified.
    params : parameter object of one of the methods
    rng : numpy Generator
        Required; its seed is a secret, since an attacker who has it can undo swaps.
    edits : EditSet, optional
        For methods that honour edits while they mask.

    Returns
    -------
    Release
        Rows in input order where the method keeps records, and of the same units; shuffle them before publishing.

    Raises
    ------
    AnonymizationError
        When the parameters belong to no method, or the data do not suit it.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore import Schema, Variable
    >>> from anoncore.methods import SpectralSwap
    >>> data = Microdata(pd.DataFrame({"x": [1.0, 2.0, 4.0]}), Schema([Variable("x", "continuous")]))
    >>> len(anonymize(data, SpectralSwap(), rng=np.random.default_rng(0)).data)
    3
    """
    _check_registered(params)
    release = params.anonymize(microdata, edits=edits or EditSet(), rng=rng)
    # Where rows do not stem from records, they are of no unit.
    of_units = release.data.with_units_of(microdata) if release.keeps_records else release.data.with_units(None)
    release = replace(release, data=of_units)
    reason = params.publishes_source_values
    return replace(release, notes=(*release.notes, reason)) if reason else release


def anonymize_partitioned(
    run: Executor,
    table: PartitionedTable,
    params: Method,
    *,
    name: str,
    rng: np.random.Generator,
    edits: EditSet | None = None,
) -> PartitionedRelease:
    """Mask a table in partitions, all records at once, with the method that ``params`` belong to.

    Parameters
    ----------
    run : Executor
        Carries out the tasks; the result does not depend on it.
    table : PartitionedTable
        Never modified.
    params : parameter object of one of the methods
    name : str
        Name of the released table in the store.
    rng : numpy Generator
        As for `anonymize`: the release is that of `anonymize` under a generator of the same seed.
    edits : EditSet, optional
        For methods that honour edits while they mask.

    Raises
    ------
    AnonymizationError
        When the parameters belong to no method, or the method needs the whole table in memory.
    """
    _check_registered(params)
    release = params.anonymize_partitioned(run, table, name=name, edits=edits or EditSet(), rng=rng)
    reason = params.publishes_source_values
    return replace(release, notes=(*release.notes, reason)) if reason else release


def _check_registered(params: Method) -> None:
    if not isinstance(params, tuple(METHODS.values())):
        known = ", ".join(sorted(cls.__name__ for cls in METHODS.values()))
        raise AnonymizationError(f"no method takes parameters of type {type(params).__name__}; known are {known}")
