"""Places outside the home: ordinary files, and addresses that fsspec knows, to read and to write.

What a place says of itself in messages is the last part of its path; what a library says stays inside.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

from tasks.common.errors import InputOutputFault, Refused, ReleaseError, visible
from tasks.common.home import Home, private_umask
from tasks.common.secrets import secret

BLOCK = 1 << 20
# A line of text, and so a field that is not quoted, is never held in memory beyond this.
MAX_LINE = 1 << 24
MAX_FIELD = 131_072
MAX_COLUMNS = 5_000
NEITHER = "{} has columns that hold neither numbers nor text, but dates, bytes or lists: {}; convert them"
LONG_FIELD = f"{{}} holds a field of more than {MAX_FIELD} characters, in {{}}; check quotes and line ends"
# Kinds that keep copies of what they read (simplecache) or chain others (zip) are not among these.
DIRECTORIES = ("file", "memory", "sftp", "ssh", "smb", "hdfs", "webhdfs")
OBJECTS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "https")
ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://.+", re.DOTALL)
PASSWORD = re.compile(r"://[^:@/]*:[^@]*@|[?&;=](password|passwd|pwd|token|secret|sig)=", re.IGNORECASE)
# Paths that cannot be a file, as opposed to disks that fail.
NO_PATH = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


def is_address(text: str) -> bool:
    """Return whether a plan's text is an address with a kind, such as s3://bucket/table.parquet."""
    return "://" in text


def check_address(text: str, key: str) -> None:
    """Raise `ValueError` when an address, the value of a plan's ``key``, is of no kind that is served."""
    found = ADDRESS.fullmatch(text)
    kind = found.group(1) if found else ""
    if kind not in DIRECTORIES + OBJECTS or "::" in text:
        raise ValueError(f"{key} must be an address of one of these kinds: {', '.join(DIRECTORIES + OBJECTS)}")
    if PASSWORD.search(unquote(text)):
        raise ValueError(f"{key} holds a password; name a secret that holds the options instead: storage")
    if any(part == ".." for part in re.split(r"[/\\]", unquote(text))) or "\0" in text:
        raise ValueError(f"{key} must not climb with ..")
    if kind == "file" and not text.startswith("file:///"):
        raise ValueError(f"{key} must be absolute: file:///srv/folder")


@dataclass(frozen=True)
class Place:
    """A file or folder of a file system; neither tells who may enter it."""

    system: Any = field(repr=False)
    path: str = field(repr=False)

    @property
    def shown(self) -> str:
        """How messages call it."""
        return visible(self.path.rstrip("/").rpartition("/")[2])

    @property
    def local(self) -> Path | None:
        """The path, where it is one of this machine's own files."""
        from fsspec.implementations.local import LocalFileSystem

        return Path(self.path) if isinstance(self.system, LocalFileSystem) else None

    def __truediv__(self, name: str) -> Place:
        return Place(self.system, f"{self.path.rstrip('/')}/{name}")

    def is_folder(self) -> bool:
        """Return whether it is a folder.

        Raises
        ------
        Refused
            When nothing is there.
        """
        with reached(self.shown):
            return bool(self.system.info(self.path)["type"] == "directory")

    def read(self) -> bytes | None:
        """Return a small file's content; None when there is none."""
        with reached(self.shown):
            try:
                return bytes(self.system.cat_file(self.path))
            except FileNotFoundError:
                return None

    def digest(self) -> str | None:
        """Return the SHA-256 of what is read from there; None when there is no file."""
        with reached(self.shown):
            found = hashlib.sha256()
            try:
                with self.system.open(self.path, "rb") as file:
                    while block := file.read(BLOCK):
                        found.update(block)
            except (FileNotFoundError, IsADirectoryError):
                return None
            return found.hexdigest()

    def make_folder(self) -> None:
        """Create a folder where the storage has such; an object store would create a bucket."""
        kinds = self.system.protocol
        if {kinds} & set(DIRECTORIES) if isinstance(kinds, str) else set(kinds) & set(DIRECTORIES):
            with reached(self.shown):
                self.system.makedirs(self.path, exist_ok=True)

    def put(self, source: Path) -> None:
        """Write a file's content there."""
        with reached(self.shown):
            self.system.put_file(str(source), self.path)

    def put_whole(self, content: bytes) -> None:
        """Write a small file so that nobody sees half of it."""
        with reached(self.shown):
            if self.local is None:
                self.system.pipe_file(self.path, content)
                return
            beside = self.local.with_name(f".{self.local.name}.part")
            beside.write_bytes(content)
            os.replace(beside, self.local)

    def remove(self) -> None:
        """Remove a file, if it is there."""
        with reached(self.shown):
            try:
                self.system.rm_file(self.path)
            except FileNotFoundError:
                return

    def names(self) -> list[str]:
        """Return the names of the files that stand in a folder itself; none when there is no folder."""
        with reached(self.shown):
            try:
                found = self.system.ls(self.path, detail=True, refresh=True)
            except FileNotFoundError:
                return []
            return sorted(f["name"].rpartition("/")[2] for f in found if f["type"] == "file")


def local_place(path: Path) -> Place:
    """Return the place at an ordinary path."""
    from fsspec.implementations.local import LocalFileSystem

    return Place(LocalFileSystem(), str(path.absolute()))


def open_place(address: str, storage: str | None, home: Home) -> Place:
    """Return the place at an address, with the options of the named secret ``storage``.

    Parameters
    ----------
    address : as `check_address` admits it
    storage : name of a secret that holds fsspec's options of that storage as a JSON object
    home : Home

    Raises
    ------
    Refused
        When the secret is not there or not JSON, or no driver for this kind of storage is installed.
    """
    import fsspec

    options = _options(storage, home) if storage is not None else {}
    with reached("the storage"):
        # An instance that is kept would keep the secret, and a listing that is kept grows old.
        system, path = fsspec.core.url_to_fs(
            address, **options | {"skip_instance_cache": True, "use_listings_cache": False}
        )
        return Place(system, path)


def _options(storage: str, home: Home) -> dict[str, Any]:
    try:
        options = json.loads(secret(storage, home))
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise Refused(
            f"the secret {visible(storage)} must hold the storage's options as a JSON object, and does not"
        ) from None
    return options


@contextmanager
def reached(shown: str) -> Iterator[None]:
    """Let nothing but a `ReleaseError` out of what a storage does: its own words may hold keys and paths."""
    refused = failed = ""
    try:
        yield
    except (ReleaseError, MemoryError):
        raise
    except FileNotFoundError:
        refused = f"there is no file {shown}"
    except PermissionError:
        refused = f"{shown} may not be read or written with these rights"
    except ImportError as error:
        refused = f"the driver for this kind of storage is not installed ({visible(error.name or 'unnamed')})"
    except (TypeError, NotImplementedError) as error:
        refused = (
            f"{shown} cannot be reached with the options of its secret, or this kind of storage cannot do "
            f"what is asked ({type(error).__name__})"
        )
    except Exception as error:
        failed = type(error).__name__
    if refused:
        raise Refused(refused)
    if failed:
        raise InputOutputFault(f"{shown}: the storage failed ({failed}); see that it can be reached, and rights")


# To read: a copy in the workspace, of one moment


def fetch(place: Place, target: Path, *, text: bool) -> str:
    """Copy one file into the workspace while hashing it; return its SHA-256.

    Raises
    ------
    Refused
        When there is no file, it is empty, or it changes meanwhile; with ``text``, when it holds NUL bytes.
    """
    if place.local is not None:
        return copy_file(place.local, target, text=text)
    with reached(place.shown):
        facts = place.system.info(place.path)
        if facts["type"] != "file":
            raise Refused(f"{place.shown} is a folder, not a file")
        before = place.system.ukey(place.path)
        with place.system.open(place.path, "rb") as file, private_umask(), target.open("xb") as out:
            digest = _pour(file, out, place.shown, text=text, size=facts.get("size"))
        place.system.invalidate_cache()
        same = place.system.ukey(place.path) == before
    if not same or facts.get("size") not in (None, target.stat().st_size):
        raise Refused(f"{place.shown} changed while it was read; run again when it is complete")
    if target.stat().st_size == 0:
        raise Refused(f"{place.shown} is empty")
    return digest


def fetch_folder(place: Place, target: Path) -> list[tuple[str, Path]]:
    """Copy a folder's Parquet files into the workspace; return their names in it, in order, and the copies.

    Raises
    ------
    Refused
        As `fetch`; and when files come or go meanwhile.
    """
    names = parquet_names(place)
    with private_umask():
        target.mkdir()
    found = []
    for number, name in enumerate(names):
        copy = target / f"{number}.parquet"
        fetch(place / name, copy, text=False)
        found.append((name, copy))
    if parquet_names(place) != names:
        raise Refused(f"{place.shown} changed while it was read; run again when it is complete")
    return found


def parquet_names(place: Place) -> list[str]:
    """Return a folder's Parquet files, in the order of their names; _metadata and .crc files are passed over.

    Raises
    ------
    Refused
        When there is none, when something else stands among them, or when a link leads out of the folder.
    """
    names = _local_names(place.local) if place.local is not None else _names(place)
    names = sorted(n for n in names if not any(part[0] in "_." for part in n.split("/")))
    other = [n.rpartition("/")[2] for n in names if not n.lower().endswith(".parquet")]
    if other:
        few = ", ".join(map(visible, other[:3]))
        raise Refused(f"{place.shown} is a folder that holds files which are not Parquet: {few}; remove them")
    if not names:
        raise Refused(f"{place.shown} is a folder without Parquet files")
    return names


def _names(place: Place) -> list[str]:
    with reached(place.shown):
        place.system.invalidate_cache()
        start = place.path.rstrip("/") + "/"
        return [str(n).removeprefix(start) for n in place.system.find(place.path)]


def _local_names(folder: Path) -> list[str]:
    shown, root, found = visible(folder.name), folder.resolve(), []

    def stop(error: OSError) -> None:
        raise error

    try:
        for at, folders, files in os.walk(root, onerror=stop):
            here = Path(at)
            if any((here / name).is_symlink() for name in folders):
                raise Refused(f"{shown} is a folder that holds links to folders; put the files themselves there")
            if any(not (here / name).resolve().is_relative_to(root) for name in files):
                raise Refused(f"{shown} is a folder that holds links out of it; put the files themselves there")
            found += [(here / name).relative_to(root).as_posix() for name in files]
    except PermissionError:
        refused = f"{shown} is a folder that may not be read by this user"
    else:
        return found
    raise Refused(refused)


def check_file(path: Path) -> None:
    """Refuse a path at which no ordinary file stands; opening a pipe would wait for ever."""
    problem = ""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            problem = f"{visible(path.name)} is a folder, not a file"
        elif not stat.S_ISREG(mode):
            problem = f"{visible(path.name)} is not an ordinary file"
    except PermissionError:
        problem = f"{visible(path.name)} may not be read by this user"
    except ValueError:
        problem = f"there is no file {visible(path.name)}"
    except OSError as error:
        if error.errno not in NO_PATH:
            raise
        problem = f"there is no file {visible(path.name)}"
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
            digest = _pour(file, out, shown, text=text, size=before.st_size)
            after = path.stat()
    except FileNotFoundError:
        problem = f"{shown} vanished while it was read"
    except PermissionError:
        problem = f"{shown} may not be read by this user"
    if problem:
        raise Refused(problem)
    fields = ("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
    if any(getattr(before, f) != getattr(after, f) for f in fields) or target.stat().st_size != after.st_size:
        raise Refused(f"{shown} changed while it was read; run again when it is complete")
    if after.st_size == 0:
        raise Refused(f"{shown} is empty")
    return digest


def _pour(file: BinaryIO, out: BinaryIO, shown: str, *, text: bool, size: int | None) -> str:
    """Copy a file that is as long as it says; one that grows for ever would never end."""
    digest, copied, lines = hashlib.sha256(), 0, Lines(shown)
    while block := file.read(BLOCK):
        copied += len(block)
        if size is not None and copied > size:
            raise Refused(f"{shown} changed while it was read; run again when it is complete")
        if text:
            lines.add(block)
        digest.update(block)
        out.write(block)
    return digest.hexdigest()


class Lines:
    """What is looked at while text goes by in blocks, in an encoding that has one byte for a line's end."""

    def __init__(self, shown: str) -> None:
        self._shown, self._open = shown, 0

    def add(self, block: bytes) -> None:
        """Take the next block.

        Raises
        ------
        Refused
            When it holds NUL bytes, or a line that is too long.
        """
        if b"\0" in block:
            raise Refused(f"{self._shown} holds NUL bytes; state its encoding or repair it")
        ends = [at for at in (block.find(b"\n"), block.find(b"\r")) if at >= 0]
        if self._open + min(ends, default=len(block)) > MAX_LINE:
            raise Refused(too_long(self._shown))
        last = max(block.rfind(b"\n"), block.rfind(b"\r"))
        self._open = self._open + len(block) if last < 0 else len(block) - last - 1


def too_long(shown: str) -> str:
    """Return what is said of text with a line that is longer than any table's."""
    return f"{shown} holds a line of more than {MAX_LINE >> 20} million characters; check its line ends"


@contextmanager
def of_the_source() -> Iterator[None]:
    """Say of what is wrong with a place or a database that it is the source's."""
    try:
        yield
        return
    except (Refused, InputOutputFault) as error:
        text = str(error)
        said = type(error)(text if text.startswith("source: ") else f"source: {text}")
    raise said
