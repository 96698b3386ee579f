"""Tasks on a cluster of Dask."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from cryptography.exceptions import InvalidTag

from tasks.common.errors import Fault, visible
from tasks.engine.calls import LOST, calls_of, result_of
from tasks.engine.cluster.sealing import Seal, wrapped
from tasks.engine.cluster.worker import PROBE, KeyMissing, WorkerFacts, accept, execute, forget, introduce, versions
from tasks.engine.progress import Meter, OnProgress, unwatched
from tasks.engine.store import EncryptedStore

if TYPE_CHECKING:
    from distributed import Client, Future

Result = TypeVar("Result")
# Without any worker for this long, a step is given up.
WORKER_SECONDS = 120.0
LOOK_SECONDS = 5.0
NO_WORKERS = f"the cluster has had no workers for {WORKER_SECONDS:.0f} seconds; start them, then run the command again"
LOST_SCHEDULER = (
    "the connection to the scheduler of the cluster was lost; nothing is released. Check that it runs, then run the "
    "command again"
)
NOT_READY = (
    "a worker of the cluster cannot do what anonflow asks; install the same version of anonflow, with the extra "
    "cluster, for scheduler, workers and here, from requirements-cluster.lock"
)


@dataclass(frozen=True, eq=False, repr=False)
class DaskCluster:
    """Carries tasks out on the workers of a cluster; a context manager that lets them forget the key.

    Dask sees numbers of tasks and ciphertext: calls and answers are encrypted with keys derived from the store's,
    which each worker gets encrypted for its process, once it has shown that it computes with the same versions and
    reaches the store. A task whose worker is lost is carried out by another, at most three times again.

    Parameters
    ----------
    client : connected to the scheduler
    store : in a folder that all workers have under the same path
    on_progress : is given the progress after each task
    """

    client: Client
    store: EncryptedStore
    on_progress: OnProgress = unwatched
    run: str = field(default_factory=lambda: secrets.token_hex(8), init=False)
    _steps: Iterator[int] = field(default_factory=count, init=False)

    def __enter__(self) -> DaskCluster:
        self.store.write(PROBE, 0, np.zeros(1))
        try:
            _reached(lambda: self.client.wait_for_workers(1, timeout=WORKER_SECONDS), NO_WORKERS)
            for address, facts in _reached(lambda: self.client.run(introduce, on_error="return"), NOT_READY).items():
                # One that ends at this moment is replaced, and its successor gets the key when it asks.
                if not isinstance(facts, OSError):
                    self._admit(address, facts)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let the workers forget the key; what does not answer forgets it by itself."""
        with suppress(Exception):
            self.client.run(forget, self.run, on_error="ignore")

    def map(self, task: Callable[..., Result], *arguments: Sequence[Any]) -> list[Result]:
        """Carry out the tasks; see `anoncore.partitions.store.Executor`."""
        calls = calls_of(task, arguments)
        results: list[Any] = [None] * len(calls)
        meter = Meter(self.on_progress, task.__name__, len(calls), self.workers())
        step = _Step(self, f"{self.run}-{next(self._steps)}", calls)
        try:
            for number, answer in step.answers():
                results[number] = result_of(answer)
                meter.advance()
        except BaseException:
            step.cancel()
            raise
        return results

    def workers(self) -> int:
        """Return how many workers there are; raises `Fault` when the scheduler is lost."""
        if self.client.status != "running":
            raise Fault(LOST_SCHEDULER)
        return len(self.client.scheduler_info(n_workers=-1).get("workers", ()))

    def admit(self, newcomer: KeyMissing) -> None:
        """Give the key to a worker that began later."""
        self._admit(newcomer.address, newcomer.facts)

    def _admit(self, address: str, facts: WorkerFacts) -> None:
        """Give the key to a worker, encrypted for its process, after checking that it can take part."""
        if not isinstance(facts, WorkerFacts):
            raise Fault(NOT_READY)
        shown = visible(address)
        others = sorted(set(facts.versions) - set(versions()))
        if others:
            raise Fault(
                f"the worker {shown} has {', '.join(map(visible, others))}, and here it is "
                f"{', '.join(sorted(set(versions()) - set(facts.versions)))}; install the same versions, from "
                "requirements-cluster.lock, everywhere"
            )
        if facts.threads != 1:
            raise Fault(f"the worker {shown} has {facts.threads} threads; start workers with --nthreads 1")
        sealed, folder = wrapped(self.store.key, facts.public, self.run), str(self.store.folder)
        answers = _reached(
            lambda: self.client.run(accept, self.run, folder, sealed, workers=[address], on_error="ignore"), NOT_READY
        )
        for problem in answers.values():
            if problem:
                raise Fault(
                    f"the worker {shown} cannot use the folder of the store, which must be the same and writable for "
                    f"all workers and here: {visible(problem)}"
                )


class _Step:
    """The calls of one step on their way."""

    def __init__(self, cluster: DaskCluster, name: str, calls: list[bytes]) -> None:
        self.cluster, self.name, self.seal = cluster, name, Seal(cluster.store.key)
        self.sealed = [self.seal.close(call, "call", self._task(n)) for n, call in enumerate(calls)]
        self.futures: dict[Future, int] = {}
        self.done: SimpleQueue[Future] = SimpleQueue()
        self.submitted = count()

    def answers(self) -> Iterator[tuple[int, bytes]]:
        """Give number and answer of each call, as they come in."""
        for number in range(len(self.sealed)):
            self._submit(number)
        while self.futures:
            future = self._next()
            number = self.futures.pop(future)
            answer = self._answer(future)
            if isinstance(answer, KeyMissing):
                self.cluster.admit(answer)
                self._submit(number)
                continue
            try:
                yield number, self.seal.open(answer, "answer", self._task(number))
            except InvalidTag:
                raise Fault("an answer of the cluster is not the one of its task; nothing is released") from None

    def cancel(self) -> None:
        """Withdraw what is not done."""
        with suppress(Exception):  # the cluster may be gone
            self.cluster.client.cancel(list(self.futures), force=True)

    def _task(self, number: int) -> str:
        return f"{self.name}-{number}"

    def _submit(self, number: int) -> None:
        run, folder, task = self.cluster.run, str(self.cluster.store.folder), self._task(number)
        client, key = self.cluster.client, f"anonflow-{self.name}-{next(self.submitted)}"
        future = client.submit(execute, run, folder, task, self.sealed[number], key=key, pure=False)
        self.futures[future] = number
        future.add_done_callback(self.done.put)

    def _next(self) -> Future:
        """Return the next call that is done; raise when there are no workers, or no scheduler, any more."""
        waited = 0.0
        while True:
            try:
                return self.done.get(timeout=LOOK_SECONDS)
            except Empty:
                waited = 0.0 if self.cluster.workers() else waited + LOOK_SECONDS
            if waited >= WORKER_SECONDS:
                raise Fault(NO_WORKERS)

    def _answer(self, future: Future) -> bytes | KeyMissing:
        if future.status == "error":
            from distributed import KilledWorker

            raise Fault(LOST if isinstance(future.exception(), KilledWorker) else NOT_READY)
        if future.status != "finished":
            raise Fault(LOST_SCHEDULER)
        answer: bytes | KeyMissing = _reached(future.result, LOST_SCHEDULER)
        return answer


def _reached(ask: Callable[[], Result], otherwise: str) -> Result:
    """Return what a cluster answers, or raise a `Fault` without the text of its error, which may quote anything."""
    try:
        return ask()
    except Exception:
        failed = Fault(otherwise)
    raise failed
