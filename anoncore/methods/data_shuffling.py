"""Data shuffling: variables keep their values, reassigned by the ranks of a normal draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from anoncore.claims import NoFormalGuarantee
from anoncore.edits.model import EditSet
from anoncore.encoding import Encoder
from anoncore.errors import AnonymizationError
from anoncore.kernels import shuffling
from anoncore.method import EVIDENCE, LEVEL_COUNTS, MEANS, VALUES, Method, OverPartitions
from anoncore.microdata import Microdata, Schema
from anoncore.numbers_by_rank import coded_numbers, drawn_note, drawn_numbers, with_numbers_by_rank
from anoncore.parameters import not_below
from anoncore.release import Release

EVIDENCE_PARTLY = (
    f"{EVIDENCE}; besides, that the variables which were not shuffled identify no one: they are released as they were"
)


@dataclass(frozen=True, kw_only=True)
class DataShuffling(Method):
    """Data shuffling: confidential variables keep their values, reassigned by the ranks of a normal draw.

    Every variable keeps its levels, its number of missing values and nearly its distribution: numbers are assigned
    by the rank of a normal draw Y*, levels and missing values by cuts of it, those of nominal variables by the
    assignment with the counts they had and the largest total Y*. Rank correlations are kept approximately.
    Nothing is proven about a single record. Edits are left to the repair step.

    Source: Muralidhar and Sarathy 2006. Beyond the paper: variables with levels and missing values, drawn numbers,
    coded tails.

    Parameters
    ----------
    confidential : tuple of variable names
        Variables to shuffle; empty for all. **All others are released unchanged, record by record**, and
        guide the shuffling of these.
    values : {"drawn", "exact"}
        What shuffled continuous variables hold: "drawn", the numbers that very many records hold and, in place of
        others, draws from averages over 20 to 60 ranks around; or "exact", the source's own, as the published
        method does: **a number that one person holds gives that person's membership away**.
    k : int, at least 2
        Numbers that fewer records hold are not released as they are, when values are drawn.
    tail_coding : int, at least 2, or None
        With ``values: exact``, the so many largest and smallest values of a shuffled continuous variable are
        replaced by their mean. None publishes every original value, extremes too.
    """

    title: ClassVar[str] = "Data shuffling"
    description: ClassVar[str] = (
        "A random table with the rank correlations of the data was drawn, and every shuffled variable reassigns its "
        "own values by the ranks in that table. Variables that were not shuffled, if any, are named below and released "
        "as they were."
    )

    over_partitions: ClassVar[OverPartitions] = "blocks"
    method: Literal["data-shuffling"] = "data-shuffling"
    confidential: tuple[str, ...] = ()
    values: Literal["drawn", "exact"] = "drawn"
    k: int = 5
    tail_coding: int | None = 5

    def __post_init__(self) -> None:
        not_below(2, k=self.k, tail_coding=self.tail_coding)

    @property
    def publishes_source_values(self) -> str:
        """Why numbers that a single record holds are published: exact values, or variables left unchanged."""
        if self.values == "exact":
            return (
                "values: exact publishes the numbers of the source: who knows a number that one person holds, such as "
                "an exact amount, learns whether that person took part"
            )
        return "variables that are not named confidential are published as they are" if self.confidential else ""

    @property
    def invariants(self) -> tuple[str, ...]:
        """Level counts; with exact values, what numbers hold."""
        return (LEVEL_COUNTS, MEANS, VALUES) if self.values == "exact" else (LEVEL_COUNTS,)

    def treated(self, schema: Schema) -> tuple[str, ...]:
        """Return the confidential variables."""
        return self.confidential or schema.masked

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        computed = sorted(set(self.confidential) & {str(e.dependent) for e in edits.dependents})
        unknown = sorted(set(self.confidential) - set(schema.masked) - set(computed))
        twice = sorted({n for n in self.confidential if self.confidential.count(n) > 1})
        return [
            f"confidential: {', '.join(names)} {what}"
            for names, what in (
                (unknown, "is not released; name variables that are"),
                (twice, "is named more than once; name each once"),
                (computed, "is computed again by an edit; name the variables it is computed from"),
            )
            if names
        ]

    @property
    def makes_new_records(self) -> bool:
        """Whether every variable is shuffled, as where none is named confidential."""
        return not self.confidential

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Shuffle the confidential variables.

        Raises
        ------
        AnonymizationError
            With fewer than 2 records, or when a confidential variable is unknown or none of them varies.
        """
        if len(data) < 2:
            raise AnonymizationError(f"data shuffling needs at least 2 records, got {len(data)}")
        if problems := self.problems(data.schema, edits):
            raise AnonymizationError("\n".join(problems))
        encoder = Encoder.fit(data)
        chosen = set(self.confidential or data.schema.masked)
        drawn = _columns(encoder, chosen)
        if self.confidential and not drawn.size:
            raise AnonymizationError("confidential: none of these variables varies, so nothing can be shuffled")
        scores = np.zeros((len(data), encoder.width))
        if drawn.size:
            scores[:, drawn] = shuffling.shuffling_scores(encoder.encode(data), drawn=drawn, rng=rng)
        unchanged = [name for name in encoder.schema.names if name not in chosen]
        return Release(
            data=_filled(data, encoder, scores, chosen, self, rng),
            claims=(NoFormalGuarantee(evidence=EVIDENCE_PARTLY if unchanged else EVIDENCE),),
            keeps_records=bool(unchanged),
            notes=_notes(unchanged, self),
        )


def _columns(encoder: Encoder, names: set[str]) -> np.ndarray:
    """Return the columns of the encoded matrix that belong to the variables ``names``."""
    columns = [
        np.arange(block.start, block.start + block.width + (block.indicator is not None))
        for block in encoder.blocks
        if block.variable.name in names
    ]
    return np.concatenate(columns) if columns else np.empty(0, dtype=np.intp)


def _filled(
    data: Microdata,
    encoder: Encoder,
    scores: np.ndarray,
    chosen: set[str],
    params: DataShuffling,
    rng: np.random.Generator,
) -> Microdata:
    """Fill the chosen variables by the ranks of their scores; take the others as they are."""
    index = data.frame.index if set(encoder.schema.names) - chosen else pd.RangeIndex(len(data))
    decoded = encoder.decode(scores, form="calibrated", index=index).frame
    frame = {v.name: decoded[v.name] if v.name in chosen else data.frame[v.name] for v in encoder.schema}
    filled = Microdata(pd.DataFrame(frame, index=index), encoder.schema)
    by = {block.variable.name: scores[:, block.start] for block in encoder.blocks}
    names = [name for name in encoder.schema.names if name in chosen & by.keys()]
    numbers = (
        drawn_numbers(data, names, k=params.k, rng=rng)
        if params.values == "drawn"
        else coded_numbers(data, names, params.tail_coding)
    )
    return with_numbers_by_rank(filled, numbers, by=by)


def _notes(unchanged: list[str], params: DataShuffling) -> tuple[str, ...]:
    hold = (
        "the largest and smallest values of every shuffled variable are published"
        if params.tail_coding is None
        else f"the {params.tail_coding} largest and smallest of each that is continuous are replaced by their mean"
    )
    stems = (
        "no released record stems from one person"
        if not unchanged
        else f"NOT shuffled and released unchanged, record by record: {', '.join(unchanged)}"
    )
    return (
        "shuffled variables hold the values of the source, reassigned by the ranks of a normal table with "
        f"the source's rank correlations; {drawn_note(params.k) if params.values == 'drawn' else hold}",
        stems,
    )
