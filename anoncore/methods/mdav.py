"""MDAV: crisp microaggregation, the baseline that users know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from anoncore.aggregation import PLACED, block_problems, blocks, joined
from anoncore.claims import BlockwiseKAnonymity, Claim, KAnonymity
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.kernels import mdav, spectral
from anoncore.microdata import Microdata, Schema
from anoncore.release import Release


@dataclass(frozen=True, kw_only=True)
class MDAV:
    """How to group.

    Parameters
    ----------
    k : int, at least 2
        Groups hold k … 2k − 1 records.
    blocks : tuple of tuples of variable names
        Variables that are aggregated apart from the others, those in no block being one more; empty
        for all together. Blocks lose less information and hold k only one by one.
    released : {"calibrated", "mode"}
        How scores become levels, see `Encoder.decode`; whole groups always share a level.

    Notes
    -----
    Groups of identical records have ambiguity 1 and uncertainty 0, whatever the risk: these measures are
    void by design.
    """

    void_by_design: ClassVar[tuple[str, ...]] = ("ambiguity", "uncertainty")

    method: Literal["mdav"] = "mdav"
    k: int = 10
    blocks: tuple[tuple[str, ...], ...] = ()
    released: Literal["calibrated", "mode"] = "calibrated"

    def __post_init__(self) -> None:
        if self.k < 2:
            raise AnonymizationError(f"k must be at least 2, got {self.k}")

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        return block_problems(schema, self.blocks, edits)


def anonymize(data: Microdata, params: MDAV, *, edits: EditSet, rng: np.random.Generator) -> Release:
    """Replace groups of k … 2k − 1 records by their mean, made to satisfy the edits.

    Distances are Euclidean on standardised numbers, the codes of ordinal variables and the {−1, +1} columns
    of the others; a variable with gaps has a column for them, the gap itself counting as the mean, and a
    group is released with a gap or without one as a whole. Grouping is deterministic; ``rng`` serves
    edits that only a draw can settle.

    Claims k-anonymity, on all released variables or block by block. Who knows the groups' centres assigns
    nearly every record to its own: nothing here resists that, see fuzzy microaggregation.

    Source: Domingo-Ferrer and Torra 2005 (MDAV-generic). Beyond it: mixed data through the encoding, edits.

    Raises
    ------
    AnonymizationError
        With fewer than k records, or an edit that spans blocks.
    InfeasibleError
        When edits contradict each other.
    """
    if len(data) < params.k:
        raise AnonymizationError(f"MDAV with k = {params.k} needs as many records, got {len(data)}")
    parts, before, after = [], [], []
    for block in blocks(data, params.blocks, edits):
        labels = mdav.mdav(block.matrix, params.k)
        centres = spectral.group_means(block.matrix, labels)
        if block.constrain is not None:
            centres = block.constrain(centres)
        parts.append(block.given_back(centres, labels, params.released, rng))
        before.append(block.matrix)
        after.append(centres[labels])
    loss = mdav.information_loss(np.hstack(before), np.hstack(after))
    names = tuple(part.schema.names for part in parts)
    claim: Claim = KAnonymity(k=params.k) if len(parts) == 1 else BlockwiseKAnonymity(k=params.k, blocks=names)
    return Release(
        data=joined(parts, data.schema),
        claims=(claim,),
        keeps_records=True,
        notes=(
            f"records were grouped {params.k} to {2 * params.k - 1} at a time and replaced by their group's "
            f"mean, in {len(parts)} block(s) of variables; before rounding, {loss:.3g} % of the variation "
            "was lost (100·SSE/SST), so variances are smaller than in the source",
            *((PLACED,) if len(edits) else ()),
        ),
        figures={"information_loss": loss},
    )
