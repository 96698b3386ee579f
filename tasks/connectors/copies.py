"""Copies of files and folders in the workspace, each of one moment: what changes while it is read is refused."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import BinaryIO

from tasks.common.errors import Refused, visible
from tasks.common.home import private_umask
from tasks.connectors.limits import LineCheck
from tasks.connectors.storage import BLOCK, Location, storage_errors

# Errors of paths at which no file can be, as opposed to disks that fail.
NO_PATH = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
# What changes when a file is written to or replaced.
STATE = ("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
CHANGED = "{} changed while it was read; run again when it is complete"


def fetch(location: Location, target: Path, *, text: bool) -> str:
    """Copy one file into the workspace while hashing it; return its SHA-256.

    Raises
    ------
    Refused
        When there is no file, it is empty, or it changes meanwhile; with ``text``, when it holds NUL bytes.
    """
    if location.local is not None:
        return copy_file(location.local, target, text=text)
    shown, system = location.shown, location.system
    with storage_errors(shown):
        facts = system.info(location.path)
        if facts["type"] != "file":
            raise Refused(f"{shown} is a folder, not a file")
        before = system.ukey(location.path)
        with system.open(location.path, "rb") as file, private_umask(), target.open("xb") as out:
            digest = _copy(file, out, shown, text=text, size=facts.get("size"))
        system.invalidate_cache()
        unchanged = system.ukey(location.path) == before
    _check_copy(target, shown, unchanged=unchanged and facts.get("size") in (None, target.stat().st_size))
    return digest


def fetch_folder(location: Location, target: Path) -> list[tuple[str, Path]]:
    """Copy a folder's Parquet files into the workspace; return their names in it, in order, and the copies.

    Raises
    ------
    Refused
        As `fetch`; and when files come or go meanwhile.
    """
    names = parquet_names(location)
    with private_umask():
        target.mkdir()
    copies = [(name, target / f"{number}.parquet") for number, name in enumerate(names)]
    for name, copy in copies:
        fetch(location / name, copy, text=False)
    if parquet_names(location) != names:
        raise Refused(CHANGED.format(location.shown))
    return copies


def parquet_names(location: Location) -> list[str]:
    """Return a folder's Parquet files, in the order of their names; _metadata and .crc files are passed over.

    Raises
    ------
    Refused
        When there is none, when something else stands among them, or when a link leads out of the folder.
    """
    every = _local_names(location.local) if location.local is not None else _names(location)
    names = sorted(n for n in every if not any(part[0] in "_." for part in n.split("/")))
    other = [n.rpartition("/")[2] for n in names if not n.lower().endswith(".parquet")]
    if other:
        few = ", ".join(map(visible, other[:3]))
        raise Refused(f"{location.shown} is a folder that holds files which are not Parquet: {few}; remove them")
    if not names:
        raise Refused(f"{location.shown} is a folder without Parquet files")
    return names


def _names(location: Location) -> list[str]:
    with storage_errors(location.shown):
        location.system.invalidate_cache()
        start = location.path.rstrip("/") + "/"
        return [str(n).removeprefix(start) for n in location.system.find(location.path)]


def _local_names(folder: Path) -> list[str]:
    shown, root = visible(folder.name), folder.resolve()

    def stop(error: OSError) -> None:
        raise error

    names: list[str] = []
    try:
        for at, folders, files in os.walk(root, onerror=stop):
            here = Path(at)
            if any((here / name).is_symlink() for name in folders):
                raise Refused(f"{shown} is a folder that holds links to folders; put the files themselves there")
            if any(not (here / name).resolve().is_relative_to(root) for name in files):
                raise Refused(f"{shown} is a folder that holds links out of it; put the files themselves there")
            for name in files:
                check_file(here / name)
            names += [(here / name).relative_to(root).as_posix() for name in files]
    except PermissionError:
        refused = f"{shown} is a folder that may not be read by this user"
    else:
        return names
    raise Refused(refused)


def check_file(path: Path) -> None:
    """Refuse a path that is not an ordinary file; opening a pipe would wait for ever."""
    shown, problem = visible(path.name), ""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            problem = f"{shown} is a folder, not a file"
        elif not stat.S_ISREG(mode):
            problem = f"{shown} is not an ordinary file"
    except PermissionError:
        problem = f"{shown} may not be read by this user"
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in NO_PATH:
            raise
        problem = f"there is no file {shown}"
    if problem:
        raise Refused(problem)


def copy_file(path: Path, target: Path, *, text: bool) -> str:
    """Copy a file while hashing it; refuse when it changes meanwhile."""
    check_file(path)
    shown, problem = visible(path.name), ""
    try:
        with path.open("rb") as file, private_umask(), target.open("xb") as out:
            before = os.fstat(file.fileno())
            if before.st_size > shutil.disk_usage(target.parent).free:
                raise Refused(f"{shown} is larger than what is free on the home's disk")
            digest = _copy(file, out, shown, text=text, size=before.st_size)
            after = path.stat()
    except FileNotFoundError:
        problem = f"{shown} vanished while it was read"
    except PermissionError:
        problem = f"{shown} may not be read by this user"
    if problem:
        raise Refused(problem)
    unchanged = all(getattr(before, field) == getattr(after, field) for field in STATE)
    _check_copy(target, shown, unchanged=unchanged and target.stat().st_size == after.st_size)
    return digest


def _check_copy(target: Path, shown: str, *, unchanged: bool) -> None:
    if not unchanged:
        raise Refused(CHANGED.format(shown))
    if target.stat().st_size == 0:
        raise Refused(f"{shown} is empty")


def _copy(file: BinaryIO, out: BinaryIO, shown: str, *, text: bool, size: int | None) -> str:
    """Copy a file that is as long as its stated size; one that grows for ever would never end."""
    digest, copied, lines = hashlib.sha256(), 0, LineCheck(shown)
    while block := file.read(BLOCK):
        copied += len(block)
        if size is not None and copied > size:
            raise Refused(CHANGED.format(shown))
        if text:
            lines.add(block)
        digest.update(block)
        out.write(block)
    return digest.hexdigest()
