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
    if type(params) not in METHODS.values():
        known = ", ".join(sorted(cls.__name__ for cls in METHODS.values()))
        raise AnonymizationError(f"no method takes parameters of type {type(params).__name__}; known are {known}")
    release = params.anonymize(microdata, edits=edits or EditSet(), rng=rng)
    # Where rows do not stem from records, they are of no unit.
    of_units = release.data.with_units_of(microdata) if release.keeps_records else release.data.with_units(None)
    release = replace(release, data=of_units)
    reason = params.publishes_source_values
    return replace(release, notes=(*release.notes, reason)) if reason else release
