"""Recursive histogram sanitization on the variables themselves: the non-spectral baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from anoncore.claims import Claim, KAnonymity, NoFormalGuarantee
from anoncore.edits.model import EditSet
from anoncore.encoding import Decoding, Encoder
from anoncore.errors import AnonymizationError
from anoncore.kernels.recursive_bisection import recursive_bisection
from anoncore.method import IDENTICAL_GROUPS, MEDOID_NOTE, Method, OverPartitions, probability_problems
from anoncore.microaggregation import of_k_units, pooled_note, represented, units_note
from anoncore.microdata import Microdata, Schema
from anoncore.parameters import not_below
from anoncore.release import Release

EVIDENCE = (
    "no record alone in its cell, which it is released from as it was; with many variables nearly every record is"
)


@dataclass(frozen=True, kw_only=True)
class RHS(Method):
    """Recursive histogram sanitization: the records of a histogram cell become copies of one representative.

    Claims k-anonymity on all released variables with ``small: join``, where groups of fewer than k statistical units
    are joined with the nearest, and nothing with "keep". Grouping is deterministic; edits are for the repair step,
    which keeps identical records identical. With "join" ambiguity and uncertainty are void by design.

    Source: Chawla et al. 2005, as described by Lasko and Vinterbo 2010, section III-B2. Beyond them:
    ``small: join``, without which the algorithm leaves nearly every record of a wide table alone.

    Parameters
    ----------
    k : int, at least 2
        Groups of 2k records or more are cut.
    small : {"join", "keep"}
        "join" leaves out cuts that would separate fewer than k records from the rest; "keep" makes every cut, as
        the published algorithm does, and does not protect a record that is alone in its cell.
    representative : {"mean", "medoid"}
        What replaces the records of a group: their mean, or the record nearest to it. A medoid
        publishes one real record per group.
    released : {"calibrated", "mode", "probabilities"}
        How scores become levels, see `Encoder.decode`; whole groups always share a level.
    """

    title: ClassVar[str] = "Microaggregation by histogram cells (RHS)"
    description: ClassVar[str] = (
        "People were grouped by cuts at the medians of the variables, and every member of a group is replaced by the "
        "group’s representative."
    )

    over_partitions: ClassVar[OverPartitions] = "blocks"
    method: Literal["rhs"] = "rhs"
    k: int = 10
    small: Literal["join", "keep"] = "join"
    representative: Literal["mean", "medoid"] = "mean"
    released: Decoding = "calibrated"

    def __post_init__(self) -> None:
        not_below(2, k=self.k)

    @property
    def void_by_design(self) -> tuple[str, ...]:
        """Ambiguity and uncertainty, where every group has k records."""
        return IDENTICAL_GROUPS if self.small == "join" else ()

    @property
    def publishes_source_values(self) -> str:
        """Why numbers that a single record holds are published: medoids, and records alone in their cell."""
        if self.representative == "medoid":
            return MEDOID_NOTE
        alone = "every record that is alone in its cell is published as it is, with numbers that no one else has"
        return alone if self.small == "keep" else ""

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
            raise AnonymizationError(f"RHS with k = {self.k} needs as many records, got {len(data)}")
        encoder = Encoder.fit(data)
        matrix = encoder.encode(data)
        groups = recursive_bisection(matrix, self.k, small=self.small)
        if self.small == "join":
            groups = of_k_units(data, matrix, groups, self.k)
        grouped, pooled = represented(data, encoder, matrix, groups, self.representative, self.k)
        sizes = np.bincount(groups)
        below = float(sizes[sizes < self.k].sum() / len(data))
        claim: Claim = KAnonymity(k=self.k) if self.small == "join" else NoFormalGuarantee(evidence=EVIDENCE)
        grouping = (
            f"records were grouped at least {self.k} at a time by cuts at the medians of the variables"
            if self.small == "join"
            else f"records were grouped by cuts at the medians of all variables at once, and {below:.1%} of them "
            f"stand in groups of fewer than {self.k}"
        )
        return Release(
            data=encoder.decode(grouped, form=self.released, groups=groups, index=data.frame.index),
            claims=(claim,),
            keeps_records=True,
            notes=(
                f"{grouping}; they were replaced by their group's {self.representative}, so variances are smaller "
                "than in the source",
                *(units_note(data, self.k) if self.small == "join" else ()),
                *pooled_note(pooled),
            ),
            figures={"groups": float(len(sizes)), "share_below_k": below},
            scores=grouped,
        )
