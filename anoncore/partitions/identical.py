"""Records of one table that stand in others as they are, counted over all partitions by keyed digests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from anoncore.kernels.streams import Stream
from anoncore.microdata import Variable
from anoncore.partitions.exchange import receivers
from anoncore.partitions.store import Chunk, ColumnStore, Executor, work_name
from anoncore.partitions.table import PartitionedTable
from anoncore.risk.identical import IdenticalCounts
from anoncore.risk.within import compared_kinds

Words = NDArray[np.uint64]

_NONE = np.uint64(0x7FF8000000000001)  # what stands for a missing number, whatever its bits are
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_STEP = np.uint64(0x9E3779B97F4A7C15)


def identical_counts(
    run: Executor,
    original: PartitionedTable,
    released: PartitionedTable,
    reference: PartitionedTable | None,
    names: Sequence[str],
    *,
    rng: np.random.Generator,
) -> IdenticalCounts:
    """Count the records of the original that stand in the release, and in the reference, as they are.

    Parameters
    ----------
    run : Executor
    original, released, reference : tables in partitions; without a reference, the records that stand in the original
        more than once are counted in its place; see `anoncore.risk.within`. Where release and reference differ in
        size, a random part of the larger is compared, and all of the release counted
    names : the variables that are compared, which all tables have
    rng : numpy Generator
        Source of the key of the digests. Its seed is a secret.

    Returns
    -------
    IdenticalCounts

    Notes
    -----
    Claim: exact but for records of different values that have one digest of 64 bits, of which N times M pairs of
    records have N M / 2^64. Each record's digest, and nothing else, is moved once, to the task that compares those
    with the same first bits.

    Source: partitioned hash join, Kitsuregawa, Tanaka and Moto-oka (1983), Application of hash to data base machine
    and its architecture, New Generation Computing 1.
    """
    tables = [table for table in (original, released, reference) if table is not None]
    bits = max(receivers(len(original.rows)) - 1, 0).bit_length()
    digests = _Digests(tuple(names), Stream.of(rng), bits, work_name("digests"))
    for number, table in enumerate(tables):
        parts = len(table.rows)
        run.map(_send, table.partitions(), *([value] * parts for value in (table, number, digests)))
    parts = 1 << bits
    sizes = tuple(len(table.rows) for table in tables)
    least = min(len(released), len(original if reference is None else reference))
    kept = tuple(min(1.0, least / max(len(table), 1)) for table in tables[1:])
    times = least / max(len(original), 1)
    given = ([value] * parts for value in (sizes, kept, times, digests))
    counts = np.sum(run.map(_compared, range(parts), *given), axis=0).tolist()
    for number, size in enumerate(sizes):
        for source in range(size):
            run.store.remove(_piece(digests.work, number, source))
    *numbers, shares = counts
    duplicates, in_released, in_reference, ours, theirs = (round(number) for number in numbers)
    share = 0.5 if reference is not None or not ours + theirs else shares / (ours + theirs)
    return IdenticalCounts(len(original), duplicates, in_released, in_reference, ours, theirs, share)


def _piece(work: str, table: int, source: int) -> str:
    return f"{work} {table} {source}"


@dataclass(frozen=True, eq=False, repr=False)
class _Digests:
    """The variables, the key, by how many bits digests are divided among tasks, and the name of their columns."""

    names: tuple[str, ...]
    key: Stream
    bits: int
    work: str


def _send(store: ColumnStore, partition: int, table: PartitionedTable, number: int, how: _Digests) -> None:
    """Write the digests of one partition, sorted, those of each task by themselves."""
    digests = np.zeros(table.rows[partition], dtype=np.uint64)
    for name, word in zip(how.names, how.key.words(0, len(how.names)).tolist(), strict=True):
        values = _words(store.read(table.column(name), partition), table.schema[name], word)
        digests = _mixed(digests + _STEP ^ values)
    digests.sort()
    ends = np.arange(1, 1 << how.bits, dtype=np.uint64) << np.uint64((64 - how.bits) % 64)
    for place, piece in enumerate(np.split(digests, np.searchsorted(digests, ends))):
        store.write(_piece(how.work, number, partition), place, piece)


def _words(chunk: Chunk, variable: Variable, word: int) -> Words:
    """Return (n,) uint64: the bits of numbers, or a keyed digest of levels, equal where values are, in any table."""
    if variable.kind == "continuous":
        bits = np.where(np.isnan(chunk), _NONE, (chunk + 0.0).view(np.uint64))  # −0 becomes +0
        return _mixed(bits ^ np.uint64(word))
    secret = word.to_bytes(8, "big")
    texts = [str(level).encode() for level in variable.levels or ()]
    levels = [int.from_bytes(hashlib.blake2b(text, digest_size=8, key=secret).digest(), "big") for text in texts]
    return np.array([*levels, int(_NONE)], dtype=np.uint64)[chunk]


def _mixed(words: Words) -> Words:
    """Return the words, each carried to another by the finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    words = (words ^ (words >> np.uint64(30))) * _MIX[0]
    words = (words ^ (words >> np.uint64(27))) * _MIX[1]
    return words ^ (words >> np.uint64(31))


def _compared(
    store: ColumnStore, place: int, sizes: tuple[int, ...], kept: tuple[float, ...], times: float, how: _Digests
) -> tuple[float, ...]:
    """Count, among the digests of one range, as `IdenticalCounts` names them, and add up the shares by chance."""
    own, *others = (
        np.unique(
            np.concatenate([store.read(_piece(how.work, number, source), place) for source in range(size)]),
            return_counts=True,
        )
        for number, size in enumerate(sizes)
    )
    records, held = own
    # As many of its rows as a part by chance holds, from its digest.
    chance = (_mixed(records + _STEP) >> np.uint64(11)) / 2.0**53
    rows, parts = [], []
    for (there, counts), share in zip(others, kept, strict=True):
        found = np.zeros(len(records), dtype=np.int64)
        _, at, place_there = np.intersect1d(records, there, assume_unique=True, return_indices=True)
        found[at] = counts[place_there]
        rows.append(found)
        parts.append(found if share >= 1.0 else np.asarray(binom.ppf(chance, found, share)).astype(np.int64))
    if len(parts) > 1:
        in_released, in_reference = parts[0] > 0, parts[1] > 0
        first, second, shares = in_released & ~in_reference, in_reference & ~in_released, 0.0
    else:
        in_reference = held > 1
        first, second, each = compared_kinds(held, parts[0], times)
        shares = float(each[first | second].sum())
    numbers = held[held > 1].sum(), held[rows[0] > 0].sum(), held[in_reference].sum(), first.sum(), second.sum()
    return (*(float(number) for number in numbers), shares)
