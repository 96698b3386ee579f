"""MDAV: crisp microaggregation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from anoncore.claims import BlockwiseKAnonymity, Claim, KAnonymity
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.kernels import mdav
from anoncore.kernels.groups import group_means
from anoncore.method import IDENTICAL_GROUPS, MEANS, Method
from anoncore.microaggregation import ROUNDING_NOTE, block_problems, blocks, joined, of_k_units, units_note
from anoncore.microdata import Microdata, Schema
from anoncore.release import Release


@dataclass(frozen=True, kw_only=True)
class MDAV(Method):
    """MDAV microaggregation: groups of k … 2k − 1 similar records are replaced by their mean.

    Distances are Euclidean on standardised numbers, the codes of ordinal variables and the {−1, +1} columns
    of the others; a variable with missing values has a column for them, where they count as the mean, and a
    group is released with or without the value as a whole. Means satisfy the edits. Grouping is deterministic. Groups
    of records of fewer than k statistical units are joined with the nearest.

    Claims k-anonymity, on all released variables or block by block. An attacker who knows the groups' centres
    assigns nearly every record to its own: nothing here resists that, see fuzzy microaggregation. Ambiguity and
    uncertainty are void by design.

    Source: Domingo-Ferrer and Torra 2005 (MDAV-generic). Beyond it: mixed data through the encoding, edits.

    Parameters
    ----------
    k : int, at least 2
        Groups hold k … 2k − 1 records.
    blocks : tuple of tuples of variable names
        Variables that are aggregated apart from the others, those in no block being one more; empty
        for all together. Blocks lose less information and hold k only one by one.
    released : {"calibrated", "mode"}
        How scores become levels, see `Encoder.decode`; whole groups always share a level.
    """

    title: ClassVar[str] = "Microaggregation (MDAV)"
    description: ClassVar[str] = (
        "People who resemble each other are put into groups of at least k, starting from those farthest from the "
        "middle, and every member of a group is replaced by the group’s mean."
    )
    void_by_design: ClassVar[tuple[str, ...]] = IDENTICAL_GROUPS

    method: Literal["mdav"] = "mdav"
    k: int = 10
    blocks: tuple[tuple[str, ...], ...] = ()
    released: Literal["calibrated", "mode"] = "calibrated"

    def __post_init__(self) -> None:
        if self.k < 2:
            raise AnonymizationError(f"k must be at least 2, got {self.k}")

    @property
    def invariants(self) -> tuple[str, ...]:
        """The mean of each number: every group is replaced by its mean."""
        return (MEANS,)

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        return block_problems(schema, self.blocks, edits)

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Group the records and replace them; ``rng`` serves edits that only a random draw can satisfy.

        Raises
        ------
        AnonymizationError
            With fewer than k records, or an edit that spans blocks.
        InfeasibleError
            When edits contradict each other.
        """
        if len(data) < self.k:
            raise AnonymizationError(f"MDAV with k = {self.k} needs as many records, got {len(data)}")
        parts, before, after = [], [], []
        for block in blocks(data, self.blocks, edits):
            labels = of_k_units(data, block.matrix, mdav.mdav(block.matrix, self.k), self.k)
            centres = group_means(block.matrix, labels)
            if block.constrain is not None:
                centres = block.constrain(centres)
            parts.append(block.decode_centres(centres, labels, self.released, rng))
            before.append(block.matrix)
            after.append(centres[labels])
        loss = mdav.information_loss(np.hstack(before), np.hstack(after))
        names = tuple(part.schema.names for part in parts)
        claim: Claim = KAnonymity(k=self.k) if len(parts) == 1 else BlockwiseKAnonymity(k=self.k, blocks=names)
        return Release(
            data=joined(parts, data.schema),
            claims=(claim,),
            keeps_records=True,
            notes=(
                f"records were grouped {self.k} to {2 * self.k - 1} at a time and replaced by their group's "
                f"mean, in {len(parts)} block(s) of variables; before rounding, {loss:.3g} % of the variation "
                "was lost (100·SSE/SST), so variances are smaller than in the source",
                *units_note(data, self.k),
                *((ROUNDING_NOTE,) if len(edits) else ()),
            ),
            figures={"information_loss": loss},
        )
