"""What comes out of a method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from anoncore.claims import Claim, ClaimCheck
from anoncore.microdata import Microdata
from anoncore.recoding import Recoding
from anoncore.summary import Summarised, SummaryTable


class ClaimChecks(tuple[ClaimCheck, ...], Summarised):
    """The checks of all claims of a release, in their order."""

    def summary_tables(self) -> Iterator[SummaryTable]:
        """Return one table: each claim, whether it holds, and the observation behind that."""
        rows = [(check.claim, check.holds, check.observed) for check in self]
        yield SummaryTable("Claims, checked on the released data", ("claim", "holds", "observed"), rows)


@dataclass(frozen=True)
class MethodReport:
    """What a method reports of the records that it released, without these.

    Parameters
    ----------
    notes, figures, facts : as in `Release`
    records : how many were released
    """

    notes: tuple[str, ...]
    figures: Mapping[str, float]
    records: int
    facts: object = None

    @classmethod
    def of_blocks(cls, blocks: Sequence[MethodReport]) -> MethodReport:
        """Return what is reported of several blocks of records: notes that all share, and means over the records."""
        first, sizes = blocks[0], [one.records for one in blocks]
        notes = tuple(note for note in first.notes if all(note in one.notes for one in blocks))
        shared = [name for name in first.figures if all(name in one.figures for one in blocks)]
        figures = {name: float(np.average([one.figures[name] for one in blocks], weights=sizes)) for name in shared}
        return cls(notes, figures, sum(sizes))


@dataclass(frozen=True, eq=False)
class Release(Summarised):
    """Masked microdata with what is promised about them.

    Parameters
    ----------
    data : Microdata, N records
        In the order of the input when ``keeps_records``; to be shuffled before publication.
    claims : tuple of Claim
        Each is checked again on ``data``.
    keeps_records : bool
        Whether record i of the release stems from record i of the input, so that linkage of
        records is defined.
    notes : tuple of str
        What a reader of the method statement must know; no data values.
    figures : mapping of short name to number
        What the method measured on the way, for comparison between releases; aggregates only.
    points : Microdata, optional
        The same records as single values, where ``data`` releases ranges: what measures that need points
        are given. Never published.
    scores : (N, m) float64, optional
        The masked encoded matrix before discrete values were decoded, for the paper's continuous
        form of the risk measures. Confidential: never published, logged or tracked.
    recodings : tuple of Recoding
        How variables were coarsened, the same for all records, in the order in which it was done: an attacker can do
        the same to what they know, so that the release is compared with the source as recoded.
    facts : object, optional
        What the notes are made of, in a form of the method's own, so that it can report on several blocks; no data
        values.
    confidential : mapping of name to array, optional
        Aggregates that give away what the method hides, for the custodian's own eyes: never published,
        logged or tracked.
    """

    data: Microdata
    claims: tuple[Claim, ...]
    keeps_records: bool
    notes: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    points: Microdata | None = None
    scores: np.ndarray | None = field(default=None, repr=False)
    recodings: tuple[Recoding, ...] = ()
    facts: object = None
    confidential: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def report(self) -> MethodReport:
        """What the method reports of the records."""
        return MethodReport(self.notes, self.figures, len(self.data), self.facts)

    def check(self) -> ClaimChecks:
        """Check every claim on the released data."""
        return ClaimChecks(claim.check(self.data) for claim in self.claims)

    def summary_tables(self) -> Iterator[SummaryTable]:
        """Return the size of the release, its claims as they are checked, its notes and its figures."""
        rows = [("records", len(self.data)), ("variables", len(self.data.schema))]
        yield SummaryTable("Release", (), [*rows, ("keeps records", self.keeps_records)])
        yield from self.check().summary_tables()
        yield SummaryTable("Notes", (), [(note,) for note in self.notes])
        yield SummaryTable("Figures of the method", (), list(self.figures.items()))
