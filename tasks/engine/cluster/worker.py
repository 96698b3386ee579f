"""What a worker of a cluster does: it says who it is, takes the key of a run, carries out calls.

Without Dask: only functions of this module are called there, with arguments that anyone may read.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import resource
import threading
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import anoncore
from anoncore.kernels.threads import one_blas_thread
from tasks.common.errors import ReleaseError, translated
from tasks.engine.calls import carry_out
from tasks.engine.cluster.sealing import Seal, unwrapped
from tasks.engine.store import EncryptedStore

# What must be the same everywhere, since results are the same bit by bit.
PACKAGES = ("numpy", "scipy", "pandas", "numba", "scikit-learn", "cryptography", "dask", "distributed")
DIGITS = 12  # of a digest
PROBE = "probe"
# A key that no call has used for this long is forgotten; where it is needed again, it is handed over again.
KEY_SECONDS = 3600.0
# Parameters of the C library's mallopt, and what they are set to, in bytes.
MALLOPT = {"M_MMAP_THRESHOLD": (-3, 32 * 2**20), "M_TRIM_THRESHOLD": (-1, 128 * 2**20)}


@dataclass(frozen=True)
class WorkerFacts:
    """Who a worker is.

    Parameters
    ----------
    public : the public key of this process, made when it began
    threads : how many tasks it carries out at a time
    versions : of Python, anonflow and the packages that compute, and of sources and arithmetic, as text
    """

    public: bytes
    threads: int
    versions: tuple[str, ...]


@dataclass(frozen=True)
class KeyMissing:
    """Answer to a call of a run whose key this process does not have."""

    address: str
    facts: WorkerFacts


class _Here:
    """The keys of this process."""

    private = X25519PrivateKey.generate()
    keys: dict[str, bytes] = {}  # noqa: RUF012
    timers: dict[str, threading.Timer] = {}  # noqa: RUF012


@cache
def versions() -> tuple[str, ...]:
    """Return the versions of what computes, and digests of our sources and of what this processor makes of numbers."""
    own = f"python {platform.python_version()}", f"anonflow {anoncore.__version__}"
    return (*own, f"sources {_sources()}", f"arithmetic {_arithmetic()}", *map(_package, PACKAGES))


def _sources() -> str:
    """Return the digest of the code that tasks run: a changed copy has the same version."""
    digest = hashlib.sha256()
    for package in (Path(anoncore.__file__).parent, Path(__file__).parents[2]):
        for path in sorted(package.rglob("*.py")):
            digest.update(f"{path.relative_to(package)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:DIGITS]


def _arithmetic() -> str:
    """Return the digest of a small computation, whose last bits differ between kinds of processors."""
    rows = np.sin(np.arange(6400.0)).reshape(100, 64)
    with one_blas_thread():
        product = rows.T @ rows
        values = np.linalg.eigvalsh(product)
    return hashlib.sha256(product.tobytes() + values.tobytes()).hexdigest()[:DIGITS]


def introduce(dask_worker: Any = None) -> WorkerFacts:
    """Return who this worker is."""
    # No copy of the memory, which holds records, is left behind when the process crashes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    keep_freed_memory()
    threads = dask_worker.state.nthreads if dask_worker is not None else 1
    return WorkerFacts(_Here.private.public_key().public_bytes_raw(), threads, versions())


def keep_freed_memory() -> bool:
    """Let this process keep some of the memory that it frees; return whether its C library, that of GNU, does so.

    Dask starts workers so that 64 kB are given back at once, and every array of a task begins with new pages, which
    the system fills with zeros: that took as long as the tasks themselves.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(*one) for one in MALLOPT.values())


def accept(run: str, folder: str, sealed: bytes) -> str:
    """Take the key of a run, if its store can be read and written from here; return what is wrong, or nothing."""
    try:
        key = unwrapped(sealed, _Here.private, run)
        store = EncryptedStore(Path(folder), key)
        written_here = f"{PROBE}/{_Here.private.public_key().public_bytes_raw().hex()}"
        store.write(written_here, 0, store.read(PROBE, 0))
        store.remove(written_here)
    except (ReleaseError, ValueError, OSError, InvalidTag) as error:
        return str(translated(error))
    _Here.keys[run] = key
    _used(run)
    return ""


def forget(run: str) -> None:
    """Forget the key of a run."""
    _Here.keys.pop(run, None)
    if (timer := _Here.timers.pop(run, None)) is not None:
        timer.cancel()


def execute(run: str, folder: str, name: str, sealed: bytes) -> bytes | KeyMissing:
    """Carry out a call; its answer is encrypted as the call is. Raises nothing of a task's."""
    key = _Here.keys.get(run)
    if key is None:
        from distributed import get_worker

        worker = get_worker()
        return KeyMissing(worker.address, introduce(worker))
    _used(run)
    seal = Seal(key)
    answer = carry_out(seal.open(sealed, "call", name), EncryptedStore(Path(folder), key))
    _used(run)
    return seal.close(answer, "answer", name)


def _used(run: str) -> None:
    if (timer := _Here.timers.pop(run, None)) is not None:
        timer.cancel()
    _Here.timers[run] = timer = threading.Timer(KEY_SECONDS, forget, [run])
    timer.daemon = True
    timer.start()


def _package(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} not installed"
