"""Claims about a group that is hidden, checked on all records of a table in partitions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

import numpy as np
import pandas as pd

from anoncore.claims import ClaimCheck
from anoncore.microdata import Microdata
from anoncore.partitions.store import ColumnStore, Executor, work_name
from anoncore.partitions.table import PartitionedTable, values_of
from anoncore.risk.group_masking import NOT_RELEASED, Group, GroupCounts, Hidden, Lesson, ReinferenceAudit
from anoncore.risk.reinference import (
    FOLDS,
    Coded,
    Coding,
    Membership,
    Odds,
    Origin,
    Recount,
    expected_origins,
    folds,
    is_learned_from,
    learned_shares,
    origin_information,
    recount_by_membership,
    recount_by_origin,
    relearned_from,
    relearning_numbers,
)


def group_counts_check(run: Executor, table: PartitionedTable, claim: GroupCounts) -> ClaimCheck:
    """Count the group in all partitions, area by area; exact."""
    if not claim.hidden.group.is_stated_by(table.schema):
        return claim.outcome(False, NOT_RELEASED, table)
    return claim.compared(_tallies(run, table, claim.hidden.group).sum(axis=0)[1], table)


def reinference_check(run: Executor, table: PartitionedTable, claim: ReinferenceAudit) -> ClaimCheck:
    """Attack all records of a table in partitions, as `ReinferenceAudit.check` does in memory."""
    if not claim.hidden.group.is_stated_by(table.schema):
        return claim.outcome(False, NOT_RELEASED, table)
    return claim.compared(*recounts_over(run, table, claim.hidden), table)


_AGAIN = ("missed", "again", "stands for")  # of others, of which some are learned from once more


@dataclass(frozen=True, eq=False, repr=False)
class _Attack:
    """What tasks need: the table, the group, its tallies (2, m), areas kept apart, and the name of their columns."""

    table: PartitionedTable
    group: Group
    counts: np.ndarray
    kept: np.ndarray
    work: str

    @property
    def sides(self) -> np.ndarray:
        """(2,): the others and the members of all areas."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def shares(self) -> np.ndarray:
        """(2,): of the others and of the members, the share that is learned from."""
        return learned_shares(self.sides)

    @property
    def names(self) -> list[str]:
        """The variables that are learned from."""
        return self.group.others(self.table.schema)

    @property
    def sample(self) -> PartitionedTable:
        """The records that are learned from."""
        return PartitionedTable(self.work, self.table.schema.select(self.names), ())

    def columns(self) -> list[str]:
        """Return the names of all columns that are written."""
        own = ("known", "width", "edges", "places", "membership", "classes", "origin", "odds", "likelihoods", *_AGAIN)
        return [*self.sample.columns, *(self.column(name) for name in own)]

    def column(self, name: str) -> str:
        return f"{self.work}:{name}"

    def known(self, store: ColumnStore, partition: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (n,) the area of each record of a partition, −1 elsewhere, and whether it is a member."""
        return _sides(store, partition, self.table, self.group)


def recounts_over(run: Executor, table: PartitionedTable, hidden: Hidden) -> tuple[Recount | None, Recount | None]:
    """Return what `anoncore.risk.group_masking.recounts` counts in the records of all partitions.

    Parameters
    ----------
    run : Executor
    table : PartitionedTable, each record a unit of its own
    hidden : Hidden, of a group that is counted by records

    Notes
    -----
    Claim: the same counts as in memory, whatever the partitions: which records are learned from, and which part of
    five each is in, depends on their numbers alone; one task learns from at most about 62 500 members and as many
    others; every record of the areas is judged, and what is added up of it is an integer. A task holds the
    likelihoods of the members of its partition, 4 bytes for each of at most 65 areas.
    """
    parts = _tallies(run, table, hidden.group)
    counts = parts.sum(axis=0)
    kept = np.array(hidden.concealed, dtype=np.intp)
    attack = _Attack(table, hidden.group, counts, kept, work_name("reinference"))
    if not attack.names:
        return None, None
    try:
        return _recounts(run, attack, parts)
    finally:
        for column in attack.columns():
            run.store.remove(column)


def _recounts(run: Executor, attack: _Attack, parts: np.ndarray) -> tuple[Recount | None, Recount | None]:
    """Return both counts, given tallies (P, 2, m) of all partitions; work columns are left in the store."""
    table, areas, total = attack.table, len(attack.group.order), int(attack.sides[1])
    partitions, each = table.partitions(), [attack] * len(table.rows)
    firsts = (np.cumsum(table.rows) - table.rows).tolist()
    ranks = (np.cumsum(parts.sum(axis=2), axis=0) - parts.sum(axis=2)).tolist()
    sizes = run.map(_choose, partitions, firsts, ranks, each)
    (learned,) = run.map(_learn, [0], [attack], [tuple(sizes)])
    if not any(learned):
        return None, None
    if learned[1] and attack.shares[0] < 1:
        missed = sum(run.map(_miss, partitions, each))
        run.map(_choose_again, partitions, firsts, [missed] * len(each), each)
        (is_known,) = run.map(_learn_again, [0], [attack])
        learned = learned[0], is_known
    run.map(_judge, partitions, ranks, each, [learned] * len(each))
    by_membership = by_origin = None
    if learned[0]:
        odds = reduce(add, (Odds(*run.store.read(attack.column("odds"), p)) for p in partitions))
        by_membership = recount_by_membership(odds, areas, total)
    if learned[1]:

        def expected(share: np.ndarray) -> np.ndarray:
            return np.sum(run.map(_expected, partitions, each, [_Mixture(share)] * len(each)), axis=0)

        def information(share: np.ndarray, scale: np.ndarray) -> np.ndarray:
            return np.sum(run.map(_information, partitions, each, [_Mixture(share, scale)] * len(each)), axis=0)

        by_origin = recount_by_origin(_origin(run.store, attack), areas, total, expected, information)
    return by_membership, by_origin


def _tallies(run: Executor, table: PartitionedTable, group: Group) -> np.ndarray:
    """Return (P, 2, m): of each partition and area the records outside the group, and its members."""
    count = len(table.rows)
    return np.array(run.map(_tally, table.partitions(), [table] * count, [group] * count))


def _tally(store: ColumnStore, partition: int, table: PartitionedTable, group: Group) -> np.ndarray:
    area, vital = _sides(store, partition, table, group)
    return np.stack([np.bincount(area[side & (area >= 0)], minlength=len(group.order)) for side in (~vital, vital)])


def _sides(store: ColumnStore, partition: int, table: PartitionedTable, group: Group) -> tuple[np.ndarray, np.ndarray]:
    frame = table.load(store, partition, (group.parameter, *group.variables)).frame
    return group.areas(frame), group.members(frame)


def _folds(area: np.ndarray, vital: np.ndarray, ranks: list[int]) -> np.ndarray:
    """Return (n,) the part of five of each record of the areas, where so many others and members came before."""
    inside = area >= 0
    fold = np.full(len(area), -1)
    fold[inside] = folds(vital[inside].astype(np.intp), ranks)
    return fold


def _choose(store: ColumnStore, partition: int, first: int, ranks: list[int], attack: _Attack) -> int:
    """Write the records that are learned from, and what is known of them; return how many there are."""
    area, vital = attack.known(store, partition)
    rows = np.flatnonzero(is_learned_from(first, vital, attack.shares) & (area >= 0))
    for name in attack.names:
        values = store.read(attack.table.column(name), partition)[rows]
        store.write(attack.sample.column(name), partition, values)
    store.write(attack.column("known"), partition, np.stack([area, vital, _folds(area, vital, ranks)], axis=1)[rows])
    return len(rows)


def _learn(store: ColumnStore, _: int, attack: _Attack, sizes: tuple[int, ...]) -> tuple[bool, bool]:
    """Learn from the chosen records; return whether it is known who looks like a member, and where from."""
    sample = replace(attack.sample, rows=sizes)
    columns = {
        v.name: values_of(v, np.concatenate([store.read(sample.column(v.name), p) for p in sample.partitions()]))
        for v in sample.schema
    }
    area, vital, fold = np.concatenate([store.read(attack.column("known"), p) for p in sample.partitions()]).T
    enough = attack.sides.min() >= FOLDS
    known = Lesson(area, vital == 1, fold if enough else None, 1.0 / attack.shares[vital])
    data = Microdata.trusted(pd.DataFrame(columns), sample.schema)
    coding, membership, origin = known.learned(data, attack.counts.sum(axis=0), attack.kept)
    store.write(attack.column("width"), 0, np.array([coding.width]))
    for number, (edges, places) in enumerate(zip(coding.edges, coding.places, strict=True)):
        store.write(attack.column("edges"), number, edges)
        store.write(attack.column("places"), number, places)
    if membership is not None:
        store.write(attack.column("membership"), 0, np.vstack([membership.coefficients, membership.intercepts]))
    if origin is not None:
        _keep(store, attack, origin)
    return membership is not None, origin is not None


def _keep(store: ColumnStore, attack: _Attack, origin: Origin) -> None:
    store.write(attack.column("classes"), 0, np.stack([origin.areas, origin.heads]))
    store.write(attack.column("origin"), 0, np.vstack([origin.coefficients, origin.intercepts]))


def _origin(store: ColumnStore, attack: _Attack) -> Origin:
    model = store.read(attack.column("origin"), 0)
    areas, heads = store.read(attack.column("classes"), 0)
    return Origin(areas, heads, model[:-1], model[-1])


def _coding(store: ColumnStore, attack: _Attack) -> Coding:
    edges, places = (
        tuple(store.read(attack.column(one), number) for number in range(len(attack.names)))
        for one in ("edges", "places")
    )
    return Coding(tuple(attack.names), edges, places, int(store.read(attack.column("width"), 0)[0]))


def _miss(store: ColumnStore, partition: int, attack: _Attack) -> float:
    """Write how badly the areas of a partition's others are predicted; return the sum, which is exact."""
    area, vital = attack.known(store, partition)
    others = np.flatnonzero(~vital & (area >= 0))
    codes = _coding(store, attack).of(attack.table.load(store, partition, attack.names, others))
    missed = _origin(store, attack).missed(codes, area[others], len(attack.group.order), attack.kept)
    store.write(attack.column("missed"), partition, missed)
    return float(missed.sum())


def _choose_again(store: ColumnStore, partition: int, first: int, total: float, attack: _Attack) -> None:
    """Write the others of a partition that areas are learned from once more."""
    area, vital = attack.known(store, partition)
    others = np.flatnonzero(~vital & (area >= 0))
    numbers, missed = relearning_numbers(first, len(area))[others], store.read(attack.column("missed"), partition)
    again, stands_for = relearned_from(numbers, missed, total, attack.sides)
    codes = _coding(store, attack).of(attack.table.load(store, partition, attack.names, others[again]))
    store.write(attack.column("again"), partition, np.column_stack([area[others[again]], codes.ones]))
    store.write(attack.column("stands for"), partition, stands_for)


def _learn_again(store: ColumnStore, _: int, attack: _Attack) -> bool:
    """Learn from these; return whether it is known where records are from."""
    area, *ones = np.concatenate([store.read(attack.column("again"), p) for p in attack.table.partitions()]).T
    stands_for = np.concatenate([store.read(attack.column("stands for"), p) for p in attack.table.partitions()])
    codes = Coded(np.column_stack(ones), _coding(store, attack).width)
    origin = Origin.learned(codes, area, attack.counts.sum(axis=0), attack.kept, stands_for)
    if origin is not None:
        _keep(store, attack, origin)
    return origin is not None


def _judge(store: ColumnStore, partition: int, ranks: list[int], attack: _Attack, learned: tuple[bool, bool]) -> None:
    """Write how many records of each area of one partition have which odds, and where its members may be from."""
    area, vital = attack.known(store, partition)
    rows, fold = np.flatnonzero(area >= 0), _folds(area, vital, ranks)
    codes = _coding(store, attack).of(attack.table.load(store, partition, attack.names, rows))
    if learned[0]:
        model = store.read(attack.column("membership"), 0)
        odds = Odds.of(Membership(model[:-1], model[-1]).log_odds(codes, fold[rows]), area[rows])
        store.write(attack.column("odds"), partition, np.stack([odds.cells, odds.counts]))
    if learned[1]:
        likelihoods = _origin(store, attack).likelihoods(codes[vital[rows]])
        store.write(attack.column("likelihoods"), partition, likelihoods)


@dataclass(frozen=True, eq=False, repr=False)
class _Mixture:
    """Shares (c,) of the classes, and a scale (c,): estimates, which no log of a task shows."""

    share: np.ndarray
    scale: np.ndarray = field(default_factory=lambda: np.empty(0))


def _expected(store: ColumnStore, partition: int, attack: _Attack, mixture: _Mixture) -> np.ndarray:
    return expected_origins(store.read(attack.column("likelihoods"), partition), mixture.share)


def _information(store: ColumnStore, partition: int, attack: _Attack, mixture: _Mixture) -> np.ndarray:
    return origin_information(store.read(attack.column("likelihoods"), partition), mixture.share, mixture.scale)
