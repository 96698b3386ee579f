"""What algorithms over partitions assume: a store of column chunks, and an executor of tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol, TypeVar

import numpy as np

from anoncore.errors import AnonymizationError
from anoncore.kernels.threads import in_threads

Chunk = np.ndarray
Result = TypeVar("Result")


_WORK = count()


def work_name(purpose: str) -> str:
    """Return a name for columns that a step writes and removes, which no variable and no other step has.

    A task that was taken for lost may come back after its step has ended: what it then writes must be nobody's column.

    Examples
    --------
    >>> work_name("ends") != work_name("ends")
    True
    """
    return f"~{purpose} {next(_WORK)}"


class ColumnStore(Protocol):
    """Column chunks by name and partition: what tasks read and write, here or in another process."""

    def read(self, column: str, partition: int) -> Chunk:
        """Return a chunk, (rows of the partition,) or (rows, m), as it was written."""

    def write(self, column: str, partition: int, values: Chunk) -> None:
        """Keep a chunk; one that is there already is replaced, so that a task can be carried out again."""

    def remove(self, column: str) -> None:
        """Remove all chunks of a column; none is no error."""


class Executor(Protocol):
    """Carries tasks out, wherever that is. The result never depends on how many processes there are."""

    @property
    def store(self) -> ColumnStore:
        """The store that tasks are given."""

    def map(self, task: Callable[..., Result], *arguments: Sequence[Any]) -> list[Result]:
        """Return ``task(store, *one)`` for each tuple of arguments, in their order.

        A task is a function of a module. Its arguments and its result are small (numbers, names, sums, counts) and
        never rows: they travel and may be logged. Rows stay in the store. A task may be carried out more than
        once and must do the same every time: it replaces no chunk that it reads, and removes none.
        """


@dataclass(frozen=True, eq=False, repr=False)
class MemoryStore:
    """Chunks in the memory of this process."""

    chunks: dict[tuple[str, int], Chunk] = field(default_factory=dict)

    def read(self, column: str, partition: int) -> Chunk:
        """Return a copy of a chunk.

        Raises
        ------
        AnonymizationError
            When there is none.
        """
        try:
            return self.chunks[column, partition].copy()
        except KeyError:
            raise AnonymizationError(f"no chunk of column {column} is kept for partition {partition}") from None

    def write(self, column: str, partition: int, values: Chunk) -> None:
        """Keep a copy of a chunk."""
        self.chunks[column, partition] = values.copy()

    def remove(self, column: str) -> None:
        """Remove all chunks of a column."""
        for key in [key for key in self.chunks if key[0] == column]:
            del self.chunks[key]


@dataclass(frozen=True, eq=False, repr=False)
class Serial:
    """Tasks one after the other, in this process."""

    store: ColumnStore = field(default_factory=MemoryStore)

    def map(self, task: Callable[..., Result], *arguments: Iterable[Any]) -> list[Result]:
        """Carry out the tasks here."""
        return [task(self.store, *one) for one in zip(*arguments, strict=True)]


@dataclass(frozen=True, eq=False, repr=False)
class Threads(Serial):
    """Tasks in threads of this process."""

    def map(self, task: Callable[..., Result], *arguments: Iterable[Any]) -> list[Result]:
        """Carry out the tasks here, as many at a time as there are processors."""
        return list(in_threads(lambda one: task(self.store, *one), zip(*arguments, strict=True)))
