"""How close a release in partitions comes to people, isolated ones above all, searched among all of its records."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anoncore.encoding import Encoder
from anoncore.kernels.neighbors import Floats
from anoncore.kernels.streams import Stream
from anoncore.partitions.neighbours import Sought, isolated_records, largest, nearest_distances
from anoncore.partitions.store import Executor
from anoncore.partitions.table import PartitionedTable
from anoncore.risk.closeness import NEARER, compared_with, mirrored
from anoncore.risk.shrinkage import UNDONE, Shrinkage
from anoncore.risk.tail import (
    FEWEST_ISOLATED,
    ISOLATED,
    ExtremeRecords,
    Extremes,
    TailTest,
    extreme_distance,
    matched_extremes,
    tail_test,
    worst_extremes,
)
from anoncore.risk.within import FEWEST_WITHIN, PAIRED, EqualRecords, ratios, within_test

_MOST = 1000  # isolated people, each of whom is compared with all records of all tables
_WIDER = 3  # times as many are compared with the original: nobody near in a window is not nobody near at all


@dataclass(frozen=True)
class CloseRecords:
    """What `close_records` finds.

    Parameters
    ----------
    tail : of the people asked about
    isolated : of the most isolated of all people
    extreme : of all people who are extremely far from everyone else
    within_original : distances were compared with those within the original, for want of enough other people
    """

    tail: TailTest
    isolated: TailTest
    extreme: ExtremeRecords
    within_original: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class ComparedTables:
    """Tables in partitions that are compared, by an encoder in whose standard deviations distances are.

    ``reference`` holds other people; None where nobody else is known. ``shrinkage`` is what released numbers were
    shrunk by, where that is known.
    """

    original: PartitionedTable
    released: PartitionedTable
    reference: PartitionedTable | None
    encoder: Encoder
    shrinkage: Shrinkage | None = None

    @property
    def others(self) -> PartitionedTable | None:
        """The reference, where it is not too small to compare distances with; see `compared_with`."""
        return compared_with(self.original, self.released, self.reference)

    @property
    def n_others(self) -> int:
        """The number of records that distances to the release are compared with."""
        return len(self.original if self.others is None else self.others)

    @property
    def kept(self) -> float:
        """The share of the release that is searched beside them."""
        return min(1.0, self.n_others / len(self.released))


@dataclass(frozen=True, eq=False, repr=False)
class AskedPeople:
    """A random sample of the original.

    Parameters
    ----------
    rows : (q, m) float64, encoded records, at least two
    released_distances : (q,) to their nearest released records, where these are known
    """

    rows: Floats
    released_distances: Floats | None = None


def close_records(
    run: Executor,
    tables: ComparedTables,
    people: AskedPeople,
    *,
    rng: np.random.Generator,
    tau: float = 0.1,
    level: float = 0.01,
) -> CloseRecords:
    """Test whether a release comes closer to some people, and to the most isolated of all, than chance does.

    Parameters
    ----------
    run : Executor
    tables : at least two records of the original
    people : of the original
    rng : draws which records are searched where release and reference differ in size; its seed is a secret
    tau, level : see `anoncore.risk.tail.tail_test`

    Returns
    -------
    CloseRecords

    Notes
    -----
    Claim: `tail_test` of the people and of the most isolated records, `extreme_records` of all records, with nearest
    distances that are exact over all partitions. Two departures: how far is usual is known from the sample; and the
    most isolated 1 %, at most 1000, are sought among three times as many, whose nearest record among 100 000 is
    farthest. That looks at the original only and keeps the test exact. Who is extreme is sought among all records.
    Without a reference, or with one that `compared_with` leaves out, distances are `mirrored` within the original,
    those far from the release count as isolated, too, and τ alone is near; with one, isolated records are also sought
    within `NEARER` times the distance to anybody else. Isolated and extreme records are sought once more in a release
    whose shrinkage is undone, where there is any. Source: docs/explanation/risk.md.
    """
    stream, n = Stream.of(rng), len(tables.original)
    seen = _FarOut.of(_Measured(run, tables, stream), people)
    within, kept = [tau] if tables.others is None or tau >= NEARER else [tau, NEARER], tables.kept
    times = min(len(tables.released) / n, 1.0)
    forms = {f"within {share:g}": seen.isolated.tail(share, level, kept, times) for share in within}
    repeated = float((seen.people.own == 0.0).mean())
    extreme = seen.extreme.extreme(n, tau, repeated)
    if (shrinkage := tables.shrinkage) is not None:
        again = _FarOut.of(_Measured(run, tables, stream, shrinkage), AskedPeople(shrinkage.beside(people.rows)))
        forms |= {f"within {share:g}, {UNDONE}": again.isolated.tail(share, level, kept, times) for share in within}
        extreme = worst_extremes((extreme, again.extreme.extreme(n, tau, repeated)))
    return CloseRecords(
        tail=seen.people.tail(tau, level, kept, times),
        isolated=TailTest.in_forms(forms),
        extreme=extreme,
        within_original=tables.others is None,
    )


@dataclass(frozen=True, eq=False, repr=False)
class _FarOut:
    """Distances of the people asked about, of the most isolated of all, and of those extremely far from all others."""

    people: _Distances
    isolated: _Distances
    extreme: _Distances

    @classmethod
    def of(cls, measured: _Measured, people: AskedPeople) -> _FarOut:
        """Find the isolated and the extreme ones, and measure all but what is known of the people."""
        own, tables = measured.others(people.rows), measured.tables
        far, n = extreme_distance(own), len(tables.original)
        fewest = FEWEST_ISOLATED if tables.others else FEWEST_WITHIN
        most = min(max(math.ceil(ISOLATED * n), math.ceil(fewest / tables.kept)), _MOST)
        # A window has fewer others than the whole table: whoever is extreme there is among these.
        beside = measured.sought(tables.released) if tables.others is None else None
        rows, _ = isolated_records(measured.run, measured.sought(tables.original), _WIDER * most, far, beside=beside)
        others, known = measured.others(rows), people.released_distances
        apart = others
        if beside is not None:
            to_release = measured.to_release(rows)
            apart, known = np.maximum(others, to_release), measured.to_release(people.rows) if known is None else known
        lonely, extreme = largest(apart, most), others > far
        asked = lonely | extreme
        if beside is not None and known is not None:
            known = np.concatenate([known, to_release[asked]])
        # All at once: each search encodes all partitions of two tables.
        every, q = np.concatenate([people.rows, rows[asked]]), len(people.rows)
        both = measured.of(every, np.concatenate([own, others[asked]]), known)
        found = both.taken(slice(q, None))
        everybody = both.taken(slice(q))
        # Where each record has a twin nobody is isolated: no one of the people can be close.
        isolated = found.taken(lonely[asked]) if len(rows) else everybody
        return cls(everybody, isolated, found.taken(extreme[asked]))


@dataclass(frozen=True, eq=False, repr=False)
class _Distances:
    """Records (q, n) of the original, (q,) distances as those of `Closeness`; whether they are compared within it."""

    records: Floats
    own: Floats
    chance: Floats
    released: Floats
    whole: Floats
    within: bool

    def taken(self, rows: NDArray[np.bool_] | slice) -> _Distances:
        """Return those of some records."""
        values = {name: one[rows] for name, one in vars(self).items() if name != "within"}
        return _Distances(**values, within=self.within)

    def tail(self, tau: float, level: float, kept: float, times: float) -> TailTest:
        """Return `tail_test`, or `within_test`."""
        if not self.within:
            return tail_test(self.released, self.chance, self.own, tau=tau, level=level).with_copies(
                math.floor(int((self.own > 0.0).sum()) * kept)
            )
        # Equal records of all partitions are counted by `identical_counts`; here one of the release is taken to be met,
        # and one other person's.
        kind = EqualRecords.of(self.records, self.records, self.records[:0]).kind
        twins, met = (self.own == 0.0).astype(np.intp), (self.released == 0.0).astype(np.intp)
        equal = EqualRecords(kind, 1 + twins, met, times)
        found = within_test(*ratios(self.released, self.own), equal, tau=tau, level=level)
        return found.with_copies(math.floor(len(self.own) * kept), PAIRED)

    def extreme(self, n: int, tau: float, repeated: float) -> ExtremeRecords:
        """Return `matched_extremes`, of n records of which a share repeat others."""
        return matched_extremes(Extremes(self.whole, self.chance, self.own, n, repeated), tau=tau)


@dataclass(frozen=True, eq=False, repr=False)
class _Measured:
    """Measures records of the original against all partitions of each table, and with shrinkage undone where given."""

    run: Executor
    tables: ComparedTables
    stream: Stream
    shrinkage: Shrinkage | None = None

    def sought(self, table: PartitionedTable, share: float = 1.0) -> Sought:
        """Return one of the tables, or a part of its records, as what is searched."""
        moved = None
        if self.shrinkage is not None:
            moved = self.shrinkage.undone if table is self.tables.released else self.shrinkage.beside
        # By what it is, since a table that was recoded has a name of chance.
        of = next(name for name in ("original", "released", "reference") if getattr(self.tables, name) is table)
        return Sought(table, self.tables.encoder, share, self.stream.named(of), moved)

    def others(self, asked: Floats) -> Floats:
        """Return (q,) distances of records of the original to the nearest other one of it."""
        # The nearest of all is the record itself.
        return self._to(self.tables.original, asked, 2)[:, 1]

    def to_release(self, asked: Floats) -> Floats:
        """Return (q,) distances of records to the nearest released one."""
        return self._to(self.tables.released, asked)[:, 0]

    def of(self, asked: Floats, own: Floats, known: Floats | None = None) -> _Distances:
        """Return the distances of records of the original of which `others` are known, some to the release as well."""
        known = np.empty(0) if known is None else known
        whole = released = np.concatenate([known, self.to_release(asked[len(known) :])])
        others, kept = self.tables.others, self.tables.kept
        if kept < 1.0:
            released = self._to(self.tables.released, asked, share=kept)[:, 0]
        if others is not None:
            share = min(len(self.tables.released) / self.tables.n_others, 1.0)
            return _Distances(asked, own, self._to(others, asked, share=share)[:, 0], released, whole, within=False)
        return _Distances(asked, own, mirrored(own, released), released, whole, within=True)

    def _to(self, table: PartitionedTable, asked: Floats, k: int = 1, share: float = 1.0) -> Floats:
        return nearest_distances(self.run, asked, self.sought(table, share), k)
