"""Spectral recursive histogram sanitization: microaggregate in the spectral basis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from anoncore.claims import KAnonymity
from anoncore.edits.model import EditSet
from anoncore.encoding import Decoding, Encoder
from anoncore.errors import AnonymizationError
from anoncore.kernels.spectral_groups import spectral_groups
from anoncore.method import IDENTICAL_GROUPS, MEDOID_NOTE, Method, OverPartitions, probability_problems
from anoncore.microaggregation import of_k_units, pooled_note, represented, units_note
from anoncore.microdata import Microdata, Schema
from anoncore.parameters import not_below
from anoncore.release import Release


@dataclass(frozen=True, kw_only=True)
class SpectralRHS(Method):
    """Spectral recursive histogram sanitization: groups of similar principal scores share one representative.

    Groups hold k … 2k − 1 records; those of fewer than k statistical units are joined with the nearest. Claims
    k-anonymity on all released variables. Grouping is deterministic; edits are for the repair step, which keeps
    identical records identical. Ambiguity and uncertainty are void by design.

    Source: Lasko and Vinterbo 2010, section III-B2 and Figure 1. Departs from the figure's
    ``rows ≤ 2k``, which yields groups of 2k; a group of 2k records is split here. Its section III-A says that
    axes may be emphasised; the power is ours.

    Parameters
    ----------
    k : int, at least 2
        Groups hold k … 2k − 1 records.
    emphasis : float, 0 or more
        Power of their lengths with which axes count when groups are cut: 1 in the paper; 0 cuts all axes alike, so
        that groups are wider along the long ones and hide their members better; more cuts the longest more.
    representative : {"mean", "medoid"}
        What replaces the records of a group: their mean, or the record nearest to it. A medoid
        publishes one real record per group.
    released : {"calibrated", "mode", "probabilities"}
        How scores become levels, see `Encoder.decode`; whole groups always share a level.
    """

    title: ClassVar[str] = "Spectral microaggregation (RHS)"
    description: ClassVar[str] = (
        "People who resemble each other in the principal scores are put into groups of at least k, and every member of "
        "a group is replaced by the group’s representative."
    )
    void_by_design: ClassVar[tuple[str, ...]] = IDENTICAL_GROUPS

    over_partitions: ClassVar[OverPartitions] = "blocks"
    method: Literal["spectral-rhs"] = "spectral-rhs"
    k: int = 10
    emphasis: float = 1.0
    representative: Literal["mean", "medoid"] = "mean"
    released: Decoding = "calibrated"

    def __post_init__(self) -> None:
        not_below(2, k=self.k)
        if not 0 <= self.emphasis < np.inf:
            raise AnonymizationError(f"emphasis must be 0 or more and finite, got {self.emphasis}")

    @property
    def publishes_source_values(self) -> str:
        """Why numbers that a single record holds are published: a medoid is one person's record."""
        return MEDOID_NOTE if self.representative == "medoid" else ""

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return the edits that read variables which ``released: probabilities`` replaces."""
        return probability_problems(self.released, schema, edits)

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Group the records and replace them.

        Raises
        ------
        AnonymizationError
            With fewer than k records.
        """
        if len(data) < self.k:
            raise AnonymizationError(f"spectral RHS with k = {self.k} needs as many records, got {len(data)}")
        encoder = Encoder.fit(data)
        matrix = encoder.encode(data)
        groups = of_k_units(data, matrix, spectral_groups(matrix, self.k, self.emphasis), self.k)
        grouped, pooled = represented(data, encoder, matrix, groups, self.representative, self.k)
        return Release(
            data=encoder.decode(grouped, form=self.released, groups=groups, index=data.frame.index),
            claims=(KAnonymity(k=self.k),),
            keeps_records=True,
            notes=(
                f"records were grouped {self.k} to {2 * self.k - 1} at a time and replaced by their "
                f"group's {self.representative}; variances are therefore smaller than in the source",
                *units_note(data, self.k),
                *pooled_note(pooled),
            ),
            scores=grouped,
        )
