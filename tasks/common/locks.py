"""Locks between processes, held on files by the operating system: a process that dies holds none.

Standard library only, since commands look for locks before anything heavy is imported. Why not a library:
docs/explanation/decisions/0015-locks.md.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, busy: Callable[[str], Exception] | None = None) -> Iterator[None]:
    """Hold a lock file, made if need be; wait for it, or raise what ``busy`` returns while another holds it.

    A program that is started meanwhile does not inherit the lock. A forked process does, and keeps it until it ends.

    Parameters
    ----------
    path : the lock file; it stays behind, since removing it would let two processes lock two files of one name
    busy : called with the process id of the holder, or "?" where it is not known
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _acquired(descriptor, wait=busy is None) and busy is not None:
            raise busy(os.pread(descriptor, 20, 0).decode("ascii", "replace") or "?")
        if busy is not None:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Return whether a process holds this lock file; looking does not hinder others from taking it or looking."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _acquired(descriptor, wait=False, kind=fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _acquired(descriptor: int, *, wait: bool, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
