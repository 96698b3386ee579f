"""Read a source that may be larger than memory into partitions, a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from anoncore.microdata import Schema, Variable
from anoncore.partitions.store import Executor, work_name
from anoncore.partitions.table import PartitionedTable, chunk_of
from tasks.common.digests import sha256_of
from tasks.common.errors import Refused, named
from tasks.common.hashes import ascending, repeated
from tasks.common.home import Home
from tasks.common.keys import keyed_digest
from tasks.common.partitions import IDENTIFIED, NAME, VALUES, StoredPartitions, recode
from tasks.common.run import Run
from tasks.connectors.copies import CHANGED, STATE, check_file, parquet_names
from tasks.connectors.csv import check_names, csv_batches
from tasks.connectors.fingerprint import content_hashes, ordered_digest, record_digests, value_hashes
from tasks.connectors.limits import check_table
from tasks.connectors.parquet import batches
from tasks.connectors.storage import source_errors
from tasks.intake.columns import as_read, check_levels, to_microdata, value_notes
from tasks.intake.ingest import Ingested
from tasks.intake.read import check_types, database_of
from tasks.intake.source import SourceSection
from tasks.intake.units import Declared, keys_of, names_with_values
from tasks.intake.whole_groups import WholeGroups
from tasks.record.dossier import SourceSummary

# Records of a partition: random streams depend on it, and the number of workers does not matter.
ROWS = 500_000
UNSUPPORTED_ROLES = ("household", "stratum", "sampling-unit")
PARTITIONED_FORMATS = ("parquet", "csv")
SOURCE = "source"


def ingest_partitions(
    run: Run, source: SourceSection, variables: tuple[Variable, ...], base: Path, unit: tuple[str, ...] = ()
) -> Ingested:
    """Read the source into partitions, as `ingest` reads it into memory; nothing of it is copied readably to disk.

    Raises
    ------
    Refused
        As `ingest`; and for what tables beyond memory do not support.
    """
    assert run.executor is not None
    with source_errors():
        table = _query(run, source, variables) if source.sql is not None else _place(run, source, variables, base)
        reading = _Reading(run.executor, variables, Declared(variables, unit).keys, table.shown)
        for frame in table.frames:
            check_names(list(frame.columns), table.shown, list(frame.columns))
            check_table(frame, table.shown)
            check_types(frame, table.shown, variables)
            reading.add(frame)
        digest = table.digest()
    if not reading.rows:
        raise Refused(f"source: {table.shown} holds no records")
    content, records = reading.digests()
    data = reading.stored()
    notes = [*reading.notes(), *check_levels(data.schema, variables)]
    of_records = keyed_digest(run.home, f"records {records}")
    summary = SourceSummary(
        records=len(data),
        units=len(data),
        unit=tuple(" and ".join(key) for key in reading.keys),
        variables=len(data.schema),
        dropped=tuple(v.name for v in variables if v.is_dropped),
        digest=digest or content,
        records_digest=of_records,
        notes=tuple(notes),
    )
    return Ingested(data, None, summary, figures=reading.groups.figures(data.schema.masked))


@dataclass(frozen=True)
class _Table:
    """A source: how messages call it, its table in frames, and what to call after the last of them.

    ``digest`` returns the SHA-256 of a file's bytes, None of others, and refuses what has changed meanwhile.
    """

    shown: str
    frames: Iterator[pd.DataFrame]
    digest: Callable[[], str | None]


def _query(run: Run, source: SourceSection, variables: tuple[Variable, ...]) -> _Table:
    from tasks.connectors.postgres.query import query_batches

    dropped = [v.name for v in variables if v.is_dropped]
    frames = query_batches(database_of(run, source), str(source.sql), ROWS, verbatim=dropped)
    return _Table("the query", frames, lambda: None)


def _place(run: Run, source: SourceSection, variables: tuple[Variable, ...], base: Path) -> _Table:
    files, shown = partitioned_files(run.home, source, base)
    before = [_state(path) for _, path in files]
    folder = source.folder_at(source.place(base, run.home))
    frames = batches(files, ROWS, shown)
    if not folder and source.kind(shown) == "csv":
        frames = csv_batches(files[0][1], source, list(variables), ROWS, shown)

    def digest() -> str | None:
        found = None if folder else sha256_of(files[0][1])
        if partitioned_files(run.home, source, base)[0] != files or [_state(path) for _, path in files] != before:
            raise Refused(CHANGED.format(shown))
        return found

    return _Table(shown, frames, digest)


def partitioned_files(home: Home, source: SourceSection, base: Path) -> tuple[list[tuple[str, Path]], str]:
    """Return the source's files where they lie, and how messages call it.

    Raises
    ------
    Refused
        When tables beyond memory are not read from there.
    """
    what = "tables beyond memory are read from Parquet or CSV files on this machine; write the table there, or choose "
    if source.remote:
        raise Refused(f"{what}engine: memory")
    place = source.place(base, home)
    assert place.local is not None
    if source.folder_at(place):
        names = parquet_names(place)
        if any("=" in name for name in names):
            raise Refused(
                f"{place.shown} is partitioned by folders called name=value, which tables beyond memory do not "
                "support; write those values as a column, or choose engine: memory"
            )
        return [(name, place.local / name) for name in names], place.shown
    check_file(place.local)
    if source.kind(place.shown) not in PARTITIONED_FORMATS:
        raise Refused(f"{what}engine: memory")
    return [(place.shown, place.local)], place.shown


def _state(path: Path) -> tuple[int, ...]:
    facts = path.stat()
    return tuple(getattr(facts, one) for one in STATE)


@dataclass
class _Observed:
    """What was seen of one variable so far: levels by partition, or the precision and limits of numbers."""

    levels: list[tuple[Any, ...]] = field(default_factory=list)
    precision: list[float | None] = field(default_factory=list)
    low: float = np.inf
    high: float = -np.inf
    present: bool = False
    levels_present: set[Any] = field(default_factory=set)


class _Reading:
    """A table that is read a part at a time: its chunks are kept at once, its schema is known at the end."""

    def __init__(
        self, executor: Executor, variables: tuple[Variable, ...], keys: tuple[tuple[str, ...], ...], shown: str
    ) -> None:
        self.executor, self.variables, self.keys, self.shown = executor, variables, keys, shown
        self.rows: list[int] = []
        self.groups = WholeGroups()
        self._columns: list[str] = []
        self._schema: Schema | None = None
        self._observed: dict[str, _Observed] = {v.name: _Observed() for v in variables if not v.is_dropped}
        # Columns of the hashes of each record's content, of its values however they are written and of its keys.
        self._content, self._records, *others = (work_name("read") for _ in range(2 + len(keys)))
        # Of each key how many records have a value.
        self._known = dict.fromkeys(others, 0)

    def add(self, frame: pd.DataFrame) -> None:
        """Keep some more records."""
        data, _ = to_microdata(frame, self.variables)
        partition, store, dropped = (
            len(self.rows),
            self.executor.store,
            [v.name for v in self.variables if v.is_dropped],
        )
        self.rows.append(len(data))
        self._columns = list(map(str, frame.columns))
        store.write(self._content, partition, content_hashes(frame))
        of_values = value_hashes(frame)
        store.write(self._records, partition, record_digests(frame, dropped, of_values))
        self.groups.add(as_read(frame, data), of_values)
        store.write(f"{SOURCE}/{VALUES}", partition, pd.util.hash_pandas_object(data.frame, index=False).to_numpy())
        for column, (_, texts) in zip(self._known, keys_of(frame, self.keys).items(), strict=True):
            hashes = pd.util.hash_array(texts.fillna("").to_numpy(dtype=object), categorize=False)
            key = np.where(texts.isna().to_numpy(dtype=bool), np.uint64(0), hashes)
            store.write(column, partition, key)
            self._known[column] += int(np.count_nonzero(key))
        for variable in data.schema:
            chunk = chunk_of(data, variable.name)
            store.write(f"{SOURCE}/{variable.name}", partition, chunk)
            _observe(self._observed[variable.name], variable, chunk)
        self._schema = data.schema

    def digests(self) -> tuple[str, str]:
        """Return the digests of the table's content and of its records; what they are made of is not kept."""
        records = sum(self.rows)
        content = ordered_digest(ascending(lambda: self._read(self._content), records), self._columns)
        of_records = ordered_digest(ascending(lambda: self._read(self._records), records))
        for column in (self._content, self._records):
            self.executor.store.remove(column)
        return content, of_records

    def stored(self) -> StoredPartitions:
        """Return the table under its completed schema."""
        assert self._schema is not None
        schema = Schema(_completed(v, self._observed[v.name]) for v in self._schema)
        for variable in schema:
            if variable.is_categorical:
                self._recode(variable)
        stored = StoredPartitions(PartitionedTable(SOURCE, schema, tuple(self.rows)), self.executor)
        return self._named(replace(stored, hidden=(VALUES,)))

    def notes(self) -> list[str]:
        """Return what a reader should know of variables without values, or with one."""
        notes = []
        for name, seen in self._observed.items():
            constant = len(seen.levels_present) == 1 or seen.low == seen.high
            notes += value_notes(name, empty=not seen.present, constant=constant)
        return notes

    def _recode(self, variable: Variable) -> None:
        levels = variable.levels or ()
        kind = str(pd.Categorical([], categories=list(levels)).codes.dtype)
        at = {level: code for code, level in enumerate(levels)}
        codes = [[at[level] for level in own] for own in self._observed[variable.name].levels]
        recode(self.executor, [f"{SOURCE}/{variable.name}"] * len(codes), range(len(codes)), codes, kind)

    def _named(self, stored: StoredPartitions) -> StoredPartitions:
        """Keep what stays the same of each record, see `persistent_names`, and whether that is an identifier."""
        for columns, column in zip(self.keys, self._known, strict=True):
            if len(repeated(partial(self._known_values, column), self._known[column])):
                raise Refused(
                    f"unit: records share a value of {named([' and '.join(columns)])}; tables beyond memory hold one "
                    "record for each statistical unit: choose engine: memory"
                )
        stored = stored.with_chunks(NAME, self._identifiers())
        stored = stored.with_chunks(IDENTIFIED, (names != 0 for names in stored.chunks(NAME)))
        for column in self._known:
            self.executor.store.remove(column)
        return stored.with_chunks(NAME, names_with_values(stored, VALUES))

    def _identifiers(self) -> Iterator[np.ndarray]:
        """Yield (rows,) what the first key names of which a record has a value, 0 without any, for each partition."""
        for partition, size in enumerate(self.rows):
            names = np.zeros(size, dtype=np.uint64)
            for column in sorted(self._known, key=lambda one: self._known[one]):
                names = np.where(names == 0, self.executor.store.read(column, partition), names)
            yield names

    def _known_values(self, column: str) -> Iterator[np.ndarray]:
        return (key[key != 0] for key in self._read(column))

    def _read(self, column: str) -> Iterator[np.ndarray]:
        return (self.executor.store.read(column, partition) for partition in range(len(self.rows)))


def _observe(seen: _Observed, variable: Variable, chunk: np.ndarray) -> None:
    """Add what one partition holds of a variable."""
    if variable.is_categorical:
        levels = variable.levels or ()
        seen.levels.append(levels)
        present = np.unique(chunk[chunk >= 0])
        seen.levels_present |= {levels[code] for code in present}
        seen.present |= len(present) > 0
        return
    known = chunk[~np.isnan(chunk)]
    if len(known):
        seen.precision.append(variable.precision)
        seen.low, seen.high = min(seen.low, float(known.min())), max(seen.high, float(known.max()))
        seen.present = True


def _completed(variable: Variable, seen: _Observed) -> Variable:
    """Return a variable as the whole table completes it."""
    if not variable.is_categorical:
        units = [unit for unit in seen.precision if unit is not None]
        if not seen.precision:
            return variable
        return replace(variable, precision=min(units) if len(units) == len(seen.precision) else None)
    try:
        levels = tuple(sorted(set().union(*seen.levels))) if len(set(seen.levels)) > 1 else seen.levels[0]
    except TypeError:
        raise Refused(
            f"variable {variable.name!r} mixes numbers and text; state its levels or clean the column"
        ) from None
    if variable.kind == "binary" and len(levels) > 2:
        raise Refused(
            f"variable {variable.name!r} is declared binary but holds {len(levels)} different values; declare it "
            "nominal or ordinal, or list the missing codes"
        )
    return replace(variable, levels=levels)
