"""MDAV: crisp microaggregation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from anoncore.claims import BlockwiseKAnonymity, Claim, KAnonymity
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.kernels import mdav
from anoncore.kernels.groups import group_means
from anoncore.method import IDENTICAL_GROUPS, MEANS, Method, OverPartitions
from anoncore.microaggregation import (
    ROUNDING_NOTE,
    block_problems,
    blocks,
    blocks_note,
    joined,
    linked_across_blocks,
    of_k_units,
    pooled_note,
    units_note,
    unmixed_problems,
    unmixed_strata,
    variances_kept,
    variances_note,
    without,
)
from anoncore.microdata import Microdata, Schema
from anoncore.parameters import not_below
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
    within : tuple of variable names
        Variables with levels that groups do not mix: each combination of their levels is grouped by itself, and
        keeps them, so that their joint counts stay. Each must have k statistical units.
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
    within: tuple[str, ...] = ()
    released: Literal["calibrated", "mode"] = "calibrated"

    def __post_init__(self) -> None:
        not_below(2, k=self.k)

    @property
    def invariants(self) -> tuple[str, ...]:
        """The mean of each number: every group is replaced by its mean."""
        return (MEANS,)

    def treated(self, schema: Schema) -> tuple[str, ...]:
        """Return the variables that groups mix."""
        return without(schema, self.within)

    @property
    def unmixed_variables(self) -> tuple[str, ...]:
        """Those of ``within``."""
        return self.within

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        problems = unmixed_problems(schema, self.within, edits)
        return problems or block_problems(schema.select(without(schema, self.within)), self.blocks, edits)

    @property
    def over_partitions(self) -> OverPartitions:
        """In random blocks, which may hold too few records of a combination of levels that groups do not mix."""
        return "none" if self.within else "blocks"

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Group the records and replace them; ``rng`` serves edits that only a random draw can satisfy.

        Raises
        ------
        AnonymizationError
            With fewer than k records, or an edit that spans blocks.
        InfeasibleError
            When edits contradict each other, or a combination of levels that may not be mixed has fewer than k units.
        """
        if problems := self.problems(data.schema, edits):
            raise AnonymizationError("\n".join(problems))
        if len(data) < self.k:
            raise AnonymizationError(f"MDAV with k = {self.k} needs as many records, got {len(data)}")
        parts, before, after, grouped, pooled = [], [], [], [], list[str]()
        strata = unmixed_strata(data, self.within, self.k)
        for block in blocks(data.select(without(data.schema, self.within)), self.blocks, edits):
            labels = self._labels(data, block.matrix, strata)
            centres = group_means(block.matrix, labels)
            if block.constrain is not None:
                centres = block.constrain(centres)
            centres, shared = block.undominated(centres, labels, self.k)
            pooled += shared
            grouped.append(labels)
            parts.append(block.decode_centres(centres, labels, self.released, rng))
            before.append(block.matrix)
            after.append(centres[labels])
        loss = mdav.information_loss(np.hstack(before), np.hstack(after))
        names = tuple((*part.schema.names, *self.within) for part in parts)
        claim: Claim = KAnonymity(k=self.k) if len(parts) == 1 else BlockwiseKAnonymity(k=self.k, blocks=names)
        masked = joined([*parts, *([data.select(self.within)] if self.within else [])], data.schema)
        kept = variances_kept(data, masked, self.k)
        notes = [
            f"records were grouped {self.k} to {2 * self.k - 1} at a time and replaced by their group's "
            f"mean, in {len(parts)} block(s) of variables, so variances are smaller than in the source",
            *variances_note(kept),
            *pooled_note(pooled),
            *units_note(data, self.k),
            *((ROUNDING_NOTE,) if len(edits) else ()),
        ]
        figures = {"information_loss": loss}
        if len(parts) > 1:
            known = [partial(_belongs, label) for label in grouped]
            linked = linked_across_blocks(grouped, known, rng)
            figures |= {"linked_across_blocks": linked}
            notes.append(blocks_note(linked))
        return Release(data=masked, claims=(claim,), keeps_records=True, notes=tuple(notes), figures=figures)

    def _labels(self, data: Microdata, matrix: np.ndarray, strata: np.ndarray) -> np.ndarray:
        """Return (N,) int: the group of each record, of k units, within its stratum."""
        labels, groups = np.empty(len(data), dtype=np.intp), 0
        for rows in np.split(np.argsort(strata, kind="stable"), np.cumsum(np.bincount(strata))[:-1]):
            part = data if len(rows) == len(data) else data.take(rows)
            own = of_k_units(part, matrix[rows], mdav.mdav(matrix[rows], self.k), self.k)
            labels[rows] = groups + own
            groups += int(own.max()) + 1
        return labels


def _belongs(labels: np.ndarray, record: int) -> np.ndarray:
    """Return (groups,) float: 1 for the group of a record, which an attacker finds as the method does."""
    return np.asarray(np.arange(labels.max() + 1) == labels[record], dtype=float)
