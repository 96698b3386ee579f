"""Sequential trees: every variable is drawn from records that are alike in the variables drawn before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from anoncore.claims import NoFormalGuarantee
from anoncore.drawing import Drawing
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.kernels.donor_tree import LeafRule
from anoncore.method import EVIDENCE, Method, OverPartitions, draws_enough
from anoncore.microdata import Microdata, Schema
from anoncore.parameters import not_below
from anoncore.release import Release

# One record more is drawn for so many, in place of those that fit nothing they may hold.
SPARE = 100


@dataclass(frozen=True, kw_only=True)
class SequentialTrees(Method):
    """Sequential trees: every variable is drawn from records that are alike in the variables drawn before it.

    The variables are taken in turn. A tree divides the original records into leaves that are alike in the variables
    before; each released record falls into a leaf by what was already drawn for it, and takes a level of that leaf:
    that of a random record, or in large tables with probabilities that also follow weak relations within leaves. A
    number that many hold (zero, say) and a missing value are levels. Other numbers are drawn by rank and smoothed: no
    number of fewer than k units is released but by chance, none lies beyond the source's extremes, which are rounded
    outward where fewer than five units hold them, and all are rounded to the variable's precision. A combination that
    an edit forbids, or that never occurs where it should, is drawn again, and so is what is then more frequent than
    chance explains; of a hundredth more records than are released, those are left out for which nothing that was drawn
    fits.
    Splits that chance explains are removed.

    Nothing is proven about a single record.

    Source: Reiter 2005, *Journal of Official Statistics* 21, 441–462. Departures: leaves hold statistical units,
    splits are tested, numbers are smoothed, linear models of all records and of a leaf carry strong linear relations of
    numbers, slopes that all leaves share carry weak ones, edits.

    Parameters
    ----------
    leaf : int, at least 5
        Statistical units in a leaf, at least. More hide the single record better and lose relations.
    k : int, at least 2
        Numbers that fewer units hold are not released as they are.
    significance : float, in (0, 1]
        Probability with which chance alone makes a split of a tree stay, or gives a predictor a slope that the leaves
        share. More keeps weaker relations, and adapts more to single records.
    first : tuple of variable names
        Variables to draw first, in this order; the others follow in the order of the table.
    """

    title: ClassVar[str] = "Sequential trees"
    description: ClassVar[str] = (
        "The variables are drawn one after the other. A tree groups the people who are alike in the variables drawn so "
        "far, and a released row takes the next value from the values of such a group. A released row is put together "
        "from the values of many people and stems from no single one."
    )

    over_partitions: ClassVar[OverPartitions] = "blocks"
    makes_new_records: ClassVar[bool] = True

    method: Literal["sequential-trees"] = "sequential-trees"
    leaf: int = 40
    k: int = 5
    significance: float = 0.05
    first: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        not_below(5, leaf=self.leaf)
        not_below(2, k=self.k)
        if not 0 < self.significance <= 1:
            raise AnonymizationError(f"significance must be above 0 and at most 1, got {self.significance}")

    def redraws(self, data: Microdata, edits: EditSet) -> tuple[str, ...]:
        """Return all variables, where units have few records: rows are drawn one by one."""
        return data.schema.masked if draws_enough(data) else ()

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the variables to draw first."""
        computed = {e.dependent for e in edits.dependents}
        unknown = [name for name in self.first if name not in schema.masked or name in computed]
        twice = sorted({name for name in self.first if self.first.count(name) > 1})
        return [
            f"first: {', '.join(names)} {what}"
            for names, what in (
                (unknown, "is not masked; name variables that are released and not computed by an edit"),
                (twice, "is named more than once; name each once"),
            )
            if names
        ]

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Draw a table of as many records.

        Raises
        ------
        AnonymizationError
            With fewer statistical units than two leaves hold, or no variable to release.
        """
        if problems := self.problems(data.schema, edits):
            raise AnonymizationError("\n".join(problems))
        if data.n_units < 2 * self.leaf:
            raise AnonymizationError(
                f"sequential trees with leaves of {self.leaf} need records of at least {2 * self.leaf} statistical "
                f"units, got {data.n_units}; lower leaf"
            )
        names = data.schema.masked
        if not names:
            raise AnonymizationError("there is nothing to draw: no released variable")
        drawing = Drawing(data, LeafRule(self.leaf, self.significance), self.k, rng, len(data) + 1 + len(data) // SPARE)
        for name in (*self.first, *(n for n in names if n not in self.first)):
            drawing.add(data.schema[name], edits)
        schema = data.schema.select(names)
        rows = drawing.frame[list(names)].iloc[drawing.fitting[: len(data)]].reset_index(drop=True)
        return Release(
            data=Microdata(rows, schema),
            claims=(NoFormalGuarantee(evidence=EVIDENCE),),
            keeps_records=False,
            notes=(
                f"every variable was drawn from groups of at least {self.leaf} statistical units that are alike in the "
                "variables drawn before, or from all that hold a number where fewer do; no released record stems from "
                "one person",
                "a number that many records hold is kept, every other is drawn from averages over the ranks around "
                f"it, so that no number of fewer than {self.k} units is published but by chance; where fewer hold a "
                "number at all, the variable is emptied of them",
            ),
        )
