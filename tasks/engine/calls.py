"""One task as another process carries it out, and how its error comes back: without cause and without data."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from anoncore.errors import AnonymizationError
from anoncore.kernels.threads import one_blas_thread
from anoncore.partitions.store import Chunk, ColumnStore
from tasks.common.errors import Fault, translated, visible, visible_lines

# How often a task whose process has ended is carried out again.
RETRIES = 3
LOST = (
    f"the process that carried out a step ended {RETRIES + 1} times on the same task; most often memory ran out: use "
    "fewer workers, smaller partitions or a machine with more memory"
)


@dataclass(frozen=True)
class Failure:
    """An error of a task: its type, and a message that holds no data."""

    kind: type[Exception]
    message: str


class _Repeatable:
    """A store for one task, which must not replace what it has read: carried out again, it would do something else."""

    def __init__(self, store: ColumnStore) -> None:
        self._store = store
        self._read: set[tuple[str, int]] = set()

    def read(self, column: str, partition: int) -> Chunk:
        self._read.add((column, partition))
        return self._store.read(column, partition)

    def write(self, column: str, partition: int, values: Chunk) -> None:
        if (column, partition) in self._read:
            raise Fault(f"a task replaces what it has read, column {visible(column)}, partition {partition}")
        self._store.write(column, partition, values)

    def remove(self, column: str) -> None:
        raise Fault(f"a task removes column {visible(column)}, which it may need when it is carried out again")


def calls_of(task: Callable[..., Any], arguments: Sequence[Sequence[Any]]) -> list[bytes]:
    """Return the calls of a task, one per tuple of arguments, as another process takes them.

    Raises
    ------
    Fault
        When the task is no function of a module.
    """
    calls = zip(*arguments, strict=True)
    try:
        return [pickle.dumps((task, one)) for one in calls]
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    raise Fault(f"{getattr(task, '__name__', 'a task')} cannot be sent to another process; use a module's function")


def carry_out(call: bytes, store: ColumnStore) -> bytes:
    """Carry a call out and return its result or its `Failure`, for `result_of`; raises nothing.

    Matrix products use one thread, so that no result depends on how many processors there are.
    """
    try:
        task, arguments = pickle.loads(call)  # noqa: S301  from our own process, authenticated by the transport
        with one_blas_thread():
            return pickle.dumps(task(_Repeatable(store), *arguments))
    except AnonymizationError as error:
        failure = Failure(type(error), visible_lines(str(error)))
    except Exception as error:
        safe = translated(error)
        failure = Failure(type(safe), str(safe))
    return pickle.dumps(failure)


def result_of(answer: bytes) -> Any:
    """Return what a task returned, or raise its error."""
    result = pickle.loads(answer)  # noqa: S301  from a process of ours, authenticated by the transport
    if isinstance(result, Failure):
        raise result.kind(result.message)
    return result
