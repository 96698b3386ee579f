"""Which function carries out which parameters: a dictionary written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.methods import (
    MDAV,
    RHS,
    AdditiveNoise,
    DataShuffling,
    ExtremeRecords,
    FuzzyMicroaggregation,
    GroupAnonymity,
    OptimalBoxes,
    RareLevels,
    SpectralRHS,
    SpectralSwap,
    additive_noise,
    data_shuffling,
    extreme_records,
    fuzzy_microaggregation,
    group_anonymity,
    mdav,
    optimal_boxes,
    rare_levels,
    rhs,
    spectral_rhs,
    spectral_swap,
)
from anoncore.microdata import Microdata
from anoncore.release import Release

Parameters: TypeAlias = (
    SpectralSwap
    | SpectralRHS
    | AdditiveNoise
    | DataShuffling
    | RHS
    | FuzzyMicroaggregation
    | MDAV
    | OptimalBoxes
    | GroupAnonymity
    | RareLevels
    | ExtremeRecords
)

METHODS: dict[type, Callable[..., Release]] = {
    SpectralSwap: spectral_swap.anonymize,
    SpectralRHS: spectral_rhs.anonymize,
    AdditiveNoise: additive_noise.anonymize,
    DataShuffling: data_shuffling.anonymize,
    RHS: rhs.anonymize,
    FuzzyMicroaggregation: fuzzy_microaggregation.anonymize,
    MDAV: mdav.anonymize,
    OptimalBoxes: optimal_boxes.anonymize,
    GroupAnonymity: group_anonymity.anonymize,
    RareLevels: rare_levels.anonymize,
    ExtremeRecords: extreme_records.anonymize,
}

# What these leave of a single record is what it was; the others mask every record.
PREPARATORY = (RareLevels, ExtremeRecords, GroupAnonymity)


def anonymize(microdata: Microdata, params: Any, *, rng: np.random.Generator, edits: EditSet | None = None) -> Release:
    """Mask ``microdata`` with the method that ``params`` belong to.

    Parameters
    ----------
    microdata : Microdata, N records
        Never modified.
    params : parameter object of one of the methods
    rng : numpy Generator
        Required; its seed is a secret, since whoever has it can undo swaps.
    edits : EditSet, optional
        For methods that honour edits while they mask.

    Returns
    -------
    Release
        Rows in input order where the method keeps records; shuffle them before publishing.

    Raises
    ------
    AnonymizationError
        When the parameters belong to no method, or the data do not suit it.

    Examples
    --------
    >>> import pandas as pd
    >>> from anoncore import Schema, Variable
    >>> data = Microdata(pd.DataFrame({"x": [1.0, 2.0, 4.0]}), Schema([Variable("x", "continuous")]))
    >>> len(anonymize(data, SpectralSwap(), rng=np.random.default_rng(0)).data)
    3
    """
    method = METHODS.get(type(params))
    if method is None:
        known = ", ".join(sorted(cls.__name__ for cls in METHODS))
        raise AnonymizationError(f"no method takes parameters of type {type(params).__name__}; known are {known}")
    return method(microdata, params, edits=edits or EditSet(), rng=rng)
