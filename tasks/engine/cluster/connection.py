"""Connect to a cluster, or start one of this machine's processes."""

from __future__ import annotations

import importlib.util
import logging
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.common.errors import Fault, Refused, visible
from tasks.common.home import make_private
from tasks.engine.cluster import worker
from tasks.engine.cluster.access import ClusterAccess
from tasks.engine.local import start_server

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

CONNECT_SECONDS = 30
# To start a cluster on this machine.
TRIES = 2
# Calls and answers are encrypted before Dask has them; what is of no use all the same is off.
SETTINGS = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.http.routes": [],
    "distributed.scheduler.http.routes": [],
    "distributed.p2p.storage.disk": False,
    "distributed.comm.require-encryption": True,
    "distributed.diagnostics.nvml": False,
    # A busy machine takes its time to replace a worker; one that is given up is not replaced.
    "distributed.deploy.lost-worker-timeout": "10 minutes",
    "distributed.diagnostics.erred-tasks.max-history": 0,
}
# Processes are copies of one that has imported everything; effective where Dask was not imported before.
COPIES = {"distributed.worker.multiprocessing-method": "forkserver"}


def check_installed() -> None:
    """Raise `Refused` when the extra is not installed."""
    if importlib.util.find_spec("distributed") is None:
        raise Refused("engine: dask needs the extra cluster: pip install 'anonflow[cluster]'")


@contextmanager
def connected(access: ClusterAccess) -> Iterator[Client]:
    """Connect to the scheduler of an office, over TLS with certificates of either side.

    Raises
    ------
    Fault
        When it does not answer, or not with these certificates.
    """
    check_installed()
    from distributed import Client, Security

    security = Security(
        tls_ca_file=access.ca + "\n",
        tls_client_cert=access.certificate + "\n",
        tls_client_key=access.key + "\n",
        require_encryption=True,
    )
    client = None
    with _quiet():
        with suppress(OSError, ValueError, TypeError):
            client = Client(access.address, security=security, timeout=CONNECT_SECONDS, set_as_default=False)
        if client is None:
            raise Fault(
                f"the scheduler of the cluster does not answer at {visible(access.address)} with the certificates of "
                "the secret; check that it runs, that its address is right and that the certificates are of its "
                "authority"
            )
        try:
            yield client
        finally:
            client.close(timeout=10)


@contextmanager
def started(processes: int, folder: Path) -> Iterator[Client]:
    """Start a scheduler and workers on this machine, which speak TLS with certificates that exist while they run.

    Parameters
    ----------
    processes : workers, of one thread each
    folder : private, for what Dask writes
    """
    check_installed()
    import dask

    # For good: what is set for a while takes the defaults with it that Dask sets at its import meanwhile.
    dask.config.set(COPIES)
    from distributed import Client

    with _quiet(), dask.config.set(SETTINGS):
        multiprocessing.set_forkserver_preload(["distributed", worker.__name__])
        start_server()
        with _local_cluster(processes, folder) as cluster, Client(cluster, set_as_default=False) as client:
            yield client


def _local_cluster(processes: int, folder: Path) -> LocalCluster:
    """Return a cluster of this machine that has started; a worker may be killed meanwhile, so at the second try."""
    from distributed import LocalCluster, Security

    for _ in range(TRIES):
        with suppress(RuntimeError):
            return LocalCluster(
                n_workers=processes,
                threads_per_worker=1,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "localhost:0"},
                security=Security.temporary(),
                local_directory=str(make_private(folder)),
                silence_logs=logging.CRITICAL,
            )
    raise Fault("the scheduler and the workers of this machine could not be started; is there enough memory?")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's messages, which name addresses, out of ours: what matters is reported as one error."""
    # Dask gives its own level to some of the loggers below its name.
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client", "distributed.scheduler")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
