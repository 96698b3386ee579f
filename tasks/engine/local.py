"""Tasks in processes of this machine."""

from __future__ import annotations

import os
import resource
import signal
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, forkserver, get_context, parent_process, resource_tracker, util
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tasks.common.errors import Fault
from tasks.engine.calls import LOST, RETRIES, calls_of, carry_out, result_of
from tasks.engine.progress import Meter, OnProgress, unwatched
from tasks.engine.store import EncryptedStore

Result = TypeVar("Result")
Pipe = connection.Connection
# Processes are copies of one that has imported everything and holds neither key nor records: they begin at once.
SERVER = get_context("forkserver")


@dataclass(frozen=True, eq=False, repr=False)
class _Worker:
    process: ForkServerProcess
    pipe: Pipe

    @classmethod
    def start(cls, store: EncryptedStore) -> _Worker:
        """Start a process and give it the key through its pipe: not by arguments, environment or file."""
        SERVER.set_forkserver_preload([__name__])
        start_server()
        parent_end, child_end = SERVER.Pipe()
        process = SERVER.Process(target=_serve, args=(child_end,), daemon=True)
        process.start()
        child_end.close()
        worker = cls(process, parent_end)
        worker.take(os.fsencode(store.folder), store.key)
        return worker

    def take(self, *messages: bytes) -> bool:
        """Send messages; return whether the process is there."""
        try:
            for message in messages:
                self.pipe.send_bytes(message)
        except OSError:
            return False
        return True

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


@dataclass(frozen=True, eq=False, repr=False)
class LocalPool:
    """Carries tasks out in processes of this machine, each by one thread; a context manager that ends them.

    A task whose process is killed is carried out again by another, at most `RETRIES` times. Where a task fails, or
    this process is interrupted, all processes end at once; they are started again when needed. They end by
    themselves where this process is killed.

    Parameters
    ----------
    store : where the chunks are
    processes : at least 1
    on_progress : is given the progress after each task
    """

    store: EncryptedStore
    processes: int
    on_progress: OnProgress = unwatched
    _workers: list[_Worker] = field(default_factory=list, init=False)

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        while self._workers:
            self._workers.pop().end()

    def map(self, task: Callable[..., Result], *arguments: Sequence[Any]) -> list[Result]:
        """Carry out the tasks; see `anoncore.partitions.store.Executor`."""
        calls = calls_of(task, arguments)
        results: list[Any] = [None] * len(calls)
        meter = Meter(self.on_progress, task.__name__, len(calls), self.processes)
        try:
            for number, answer in _Dispatch(self, calls).answers():
                results[number] = result_of(answer)
                meter.advance()
        except BaseException:
            self.close()
            raise
        return results

    def replaced(self, worker: _Worker) -> _Worker:
        """Return a new process for one that has ended."""
        worker.end()
        self._workers.remove(worker)
        return self.started()

    def started(self) -> _Worker:
        """Return a new process."""
        self._workers.append(_Worker.start(self.store))
        return self._workers[-1]

    def idle(self, tasks: int) -> list[_Worker]:
        """Return the processes, as many as there are tasks for."""
        while len(self._workers) < min(self.processes, tasks):
            self.started()
        return self._workers[:tasks]


class _Dispatch:
    """Hands the calls of one step to processes as they become free."""

    def __init__(self, pool: LocalPool, calls: list[bytes]) -> None:
        self.pool, self.calls = pool, calls
        self.waiting = deque(range(len(calls)))
        self.running: dict[Pipe, tuple[_Worker, int]] = {}
        self.deaths: Counter[int] = Counter()

    def answers(self) -> Iterator[tuple[int, bytes]]:
        """Give number and answer of each call, as they come in."""
        for worker in self.pool.idle(len(self.calls)):
            self._hand_out(worker)
        while self.running:
            for pipe in connection.wait(list(self.running)):
                worker, number = self.running.pop(pipe)  # type: ignore[call-overload]
                try:
                    answer = worker.pipe.recv_bytes()
                except (EOFError, OSError):
                    self._died(number)
                    worker = self.pool.replaced(worker)
                else:
                    yield number, answer
                self._hand_out(worker)

    def _hand_out(self, worker: _Worker) -> None:
        while self.waiting:
            number = self.waiting.popleft()
            if worker.take(self.calls[number]):
                self.running[worker.pipe] = worker, number
                return
            self._died(number)
            worker = self.pool.replaced(worker)

    def _died(self, number: int) -> None:
        self.deaths[number] += 1
        if self.deaths[number] > RETRIES:
            raise Fault(LOST)
        self.waiting.appendleft(number)


def start_server() -> None:
    """Start the process that starts others, unless it runs: modules are loaded there before, and nothing else.

    It and those that it starts import nothing from the current folder, where a file that is called like a module of
    Python would be carried out; its socket lies where a run wipes nothing; an interrupt from the terminal reaches this
    process alone, which ends them.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    # Starting this one lets interrupts through at its end.
    resource_tracker.ensure_running()
    folder, tempfile.tempdir = tempfile.tempdir, None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        util.get_temp_dir()
        forkserver.ensure_running()
    finally:
        tempfile.tempdir = folder
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Pipe) -> None:
    """Carry out calls until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # No copy of the memory, which holds records, is left behind when the process crashes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        store = EncryptedStore(Path(os.fsdecode(pipe.recv_bytes())), pipe.recv_bytes())
        while True:
            pipe.send_bytes(carry_out(pipe.recv_bytes(), store))
    except (EOFError, OSError):
        return


def _end_with_parent() -> None:
    """Leave no process behind, with records in its memory, where the parent was killed."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
