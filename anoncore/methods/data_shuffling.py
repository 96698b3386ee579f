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
from anoncore.kernels import ranks, shuffling
from anoncore.method import EVIDENCE, Method
from anoncore.microdata import Microdata, Schema, round_to
from anoncore.release import Release

EVIDENCE_PARTLY = (
    f"{EVIDENCE}; besides, that the variables which were not shuffled identify no one: they are released as they were"
)


@dataclass(frozen=True, kw_only=True)
class DataShuffling(Method):
    """Data shuffling: confidential variables keep their values, reassigned by the ranks of a normal draw.

    Every variable keeps its values, levels and number of missing values (but for coded tails): numbers are assigned
    by the rank of a normal draw Y*, levels and missing values by cuts of it, those of nominal variables by the
    assignment with the counts they had and the largest total Y*. Rank correlations are kept approximately.
    Nothing is proven about a single record. Edits are left to the repair step.

    Source: Muralidhar and Sarathy 2006. Beyond the paper: variables with levels and missing values, coded tails.

    Parameters
    ----------
    confidential : tuple of variable names
        Variables to shuffle; empty for all. **All others are released unchanged, record by record**, and
        guide the shuffling of these.
    tail_coding : int, at least 2, or None
        The so many largest and smallest values of a shuffled continuous variable are replaced by their
        mean. None publishes every original value, extremes too, as the published method does.
    """

    title: ClassVar[str] = "Data shuffling"
    description: ClassVar[str] = (
        "A random table with the rank correlations of the data was drawn, and every shuffled variable reassigns its "
        "own values by the ranks in that table. Variables that were not shuffled, if any, are named below and released "
        "as they were."
    )

    method: Literal["data-shuffling"] = "data-shuffling"
    confidential: tuple[str, ...] = ()
    tail_coding: int | None = 5

    def __post_init__(self) -> None:
        if self.tail_coding is not None and self.tail_coding < 2:
            raise AnonymizationError(f"tail_coding must be at least 2, got {self.tail_coding}")

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
            data=_filled(data, encoder, scores, chosen, self.tail_coding),
            claims=(NoFormalGuarantee(evidence=EVIDENCE_PARTLY if unchanged else EVIDENCE),),
            keeps_records=bool(unchanged),
            notes=_notes(unchanged, self.tail_coding),
        )


def _columns(encoder: Encoder, names: set[str]) -> np.ndarray:
    """Return the columns of the encoded matrix that belong to the variables ``names``."""
    found = [
        np.arange(block.start, block.start + block.width + (block.indicator is not None))
        for block in encoder.blocks
        if block.variable.name in names
    ]
    return np.concatenate(found) if found else np.empty(0, dtype=np.intp)


def _filled(data: Microdata, encoder: Encoder, scores: np.ndarray, chosen: set[str], tail: int | None) -> Microdata:
    """Fill the chosen variables by the ranks of their scores; take the others as they are."""
    index = data.frame.index if set(encoder.schema.names) - chosen else pd.RangeIndex(len(data))
    decoded = encoder.decode(scores, form="calibrated", index=index).frame
    columns = {block.variable.name: block.start for block in encoder.blocks}
    frame: dict[str, object] = {}
    for variable in encoder.schema:
        name = variable.name
        if name not in chosen:
            frame[name] = data.frame[name]
        elif variable.kind != "continuous" or name not in columns:
            frame[name] = decoded[name]
        else:
            present = decoded[name].notna().to_numpy()
            source = np.sort(data.frame[name].dropna().to_numpy())
            values = np.full(len(data), np.nan)
            values[present] = ranks.match_ranks(
                scores[present, columns[name]], _coded(source, tail, variable.precision)
            )
            frame[name] = values
    return Microdata(pd.DataFrame(frame, index=index), encoder.schema)


def _coded(source: np.ndarray, tail: int | None, precision: float | None) -> np.ndarray:
    """Replace the ``tail`` smallest and largest of sorted values by their mean."""
    if tail is None or not source.size:
        return source
    width = min(tail, len(source))
    source[:width] = source[:width].mean()
    source[-width:] = source[-width:].mean()
    return round_to(source, precision)


def _notes(unchanged: list[str], tail: int | None) -> tuple[str, ...]:
    ends = (
        "the largest and smallest values of every shuffled variable are published"
        if tail is None
        else f"the {tail} largest and smallest of each that is continuous are replaced by their mean"
    )
    stems = (
        "no released record stems from one person"
        if not unchanged
        else f"NOT shuffled and released unchanged, record by record: {', '.join(unchanged)}"
    )
    return (
        "shuffled variables hold the values of the source, reassigned by the ranks of a normal table with "
        f"the source's rank correlations; {ends}",
        stems,
    )
