"""Spectral recursive histogram sanitization: microaggregate in the spectral basis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from anoncore.claims import KAnonymity
from anoncore.edits.model import EditSet
from anoncore.encoding import Encoder
from anoncore.errors import AnonymizationError
from anoncore.kernels import spectral
from anoncore.microdata import Microdata
from anoncore.release import Release


@dataclass(frozen=True, kw_only=True)
class SpectralRHS:
    """How to group.

    Parameters
    ----------
    k : int, at least 2
        Groups hold k … 2k − 1 records.
    representative : {"mean", "medoid"}
        What replaces the records of a group: their mean, or the record nearest to it. A medoid
        publishes one real record per group.
    released : {"calibrated", "mode"}
        How scores become levels, see `Encoder.decode`; whole groups always share a level.

    Notes
    -----
    Groups of identical records have ambiguity 1 and uncertainty 0, whatever the risk: these measures are
    void by design.
    """

    void_by_design: ClassVar[tuple[str, ...]] = ("ambiguity", "uncertainty")

    method: Literal["spectral-rhs"] = "spectral-rhs"
    k: int = 10
    representative: Literal["mean", "medoid"] = "mean"
    released: Literal["calibrated", "mode"] = "calibrated"

    def __post_init__(self) -> None:
        if self.k < 2:
            raise AnonymizationError(f"k must be at least 2, got {self.k}")


def anonymize(data: Microdata, params: SpectralRHS, *, edits: EditSet, rng: np.random.Generator) -> Release:
    """Replace groups of k … 2k − 1 records by copies of one representative.

    Claims k-anonymity on all released variables. Grouping is deterministic, so ``rng`` is not
    used; edits are for the repair step, which keeps identical records identical.

    Source: Lasko and Vinterbo 2010, section III-B2 and Figure 1. Departs from the figure's
    ``rows ≤ 2k``, which yields groups of 2k; a group of 2k records is split here.

    Raises
    ------
    AnonymizationError
        With fewer than k records.
    """
    if len(data) < params.k:
        raise AnonymizationError(f"spectral RHS with k = {params.k} needs as many records, got {len(data)}")
    encoder = Encoder.fit(data)
    grouped, groups = spectral.rhs(encoder.encode(data), k=params.k, representative=params.representative)
    return Release(
        data=encoder.decode(grouped, form=params.released, groups=groups, index=data.frame.index),
        claims=(KAnonymity(k=params.k),),
        keeps_records=True,
        notes=(
            f"records were grouped {params.k} to {2 * params.k - 1} at a time and replaced by their "
            f"group's {params.representative}; variances are therefore smaller than in the source",
        ),
        scores=grouped,
    )
