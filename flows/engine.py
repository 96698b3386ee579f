"""Where a plan's tables are: in memory, or in encrypted partitions with processes or a cluster that work on them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from anoncore.partitions.store import Executor
from flows.plan.engine import beyond_memory
from flows.plan.model import PlanFile, tried
from tasks.common.errors import Refused, visible
from tasks.common.home import Home, make_private
from tasks.common.keys import keyed_digest
from tasks.common.run import Run
from tasks.connectors.storage import source_errors
from tasks.engine.cluster.access import access_of
from tasks.engine.cluster.connection import check_installed, connected, started
from tasks.engine.cluster.executor import DaskCluster
from tasks.engine.heap import share_heap
from tasks.engine.local import LocalPool
from tasks.engine.progress import OnProgress
from tasks.engine.store import EncryptedStore, new_key
from tasks.intake.partitions import partitioned_files
from tasks.intake.read import check_stated_types
from tasks.intake.source import SourceSection

MOST_PROCESSES = 8


def foresee(file: PlanFile, home: Home) -> tuple[list[str], list[str]]:
    """Return what a run would refuse of source and cluster, and warnings, by what is known without a record.

    Neither cluster nor database is contacted.

    Parameters
    ----------
    file
    home : whose secrets are used; it need not be there
    """
    plan, base, problems = file.plan, file.base, list[str]()
    checks: list[Callable[[], object]] = []
    if plan.engine == "dask":
        checks.append(check_installed)
        if plan.cluster.secret is not None and plan.cluster.folder is not None:
            checks += [partial(access_of, plan.cluster.secret, home), partial(check_shared, plan.cluster.folder)]
    if tried(lambda: beyond_memory(plan, base), problems):
        checks.append(partial(_check_source, plan.source, home, base))
    for check in checks:
        tried(check, problems)
    warnings = tried(lambda: check_stated_types(plan.source, plan.variables, base), problems) or []
    return list(dict.fromkeys(problems)), warnings


def _check_source(source: SourceSection, home: Home, base: Path) -> None:
    """Refuse what tables beyond memory are not read from; an address in a secret or a variable is not looked at."""
    with source_errors():
        if source.sql is None:
            partitioned_files(home, source, base)
        elif source.url is not None:
            from tasks.connectors.postgres.query import partitioned_address

            partitioned_address(source.url)


@contextmanager
def with_engine(run: Run, file: PlanFile, on_progress: OnProgress) -> Iterator[Run]:
    """Give the run with what carries out tasks on tables in partitions, where the plan asks for it.

    Partitions and all artifacts are encrypted by a key that is in memory alone. Partitions lie in the run's workspace,
    or in the folder that a cluster shares. Where a table is in memory, threads of this process share one heap from then
    on.
    """
    if not beyond_memory(file.plan, file.base):
        share_heap()
        yield run
        return
    with _store(run, file) as store, _executor(run, file, store, on_progress) as executor:
        yield replace(run, executor=executor, workspace=replace(run.workspace, vault=store))


@contextmanager
def _store(run: Run, file: PlanFile) -> Iterator[EncryptedStore]:
    cluster = file.plan.cluster
    if cluster.folder is None or file.plan.engine != "dask":
        yield EncryptedStore(make_private(run.workspace.folder / "partitions"), new_key())
        return
    store = EncryptedStore(make_private(shared_folder(run, cluster.folder)), new_key())
    try:
        yield store
    finally:
        store.wipe()


def shared_folder(run: Run, folder: Path) -> Path:
    """Return where this run's partitions lie in a shared folder; remove those of runs of this home that are gone.

    Raises
    ------
    Refused
        When the folder is not there.
    """
    check_shared(folder)
    ours = f"anonflow-{keyed_digest(run.home, 'shared folder')[:16]}-"
    for left in folder.glob(f"{ours}*"):
        if not (run.home.workspaces / left.name.removeprefix(ours)).exists():
            shutil.rmtree(left, ignore_errors=True)
    return folder / f"{ours}{run.workspace.folder.name}"


def check_shared(folder: Path) -> None:
    """Refuse a shared folder that is not there."""
    if not folder.is_dir():
        raise Refused(
            f"cluster: folder: {visible(folder)} is no folder on this machine; mount the one that workers use"
        )


@contextmanager
def _executor(run: Run, file: PlanFile, store: EncryptedStore, on_progress: OnProgress) -> Iterator[Executor]:
    processes = min(os.cpu_count() or 1, MOST_PROCESSES)
    if file.plan.engine != "dask":
        with LocalPool(store, processes, on_progress) as pool:
            yield pool
        return
    secret = file.plan.cluster.secret
    connection = (
        started(processes, run.workspace.folder / "dask") if secret is None else connected(access_of(secret, run.home))
    )
    with connection as client, DaskCluster(client, store, on_progress) as cluster:
        yield cluster
