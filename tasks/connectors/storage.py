"""Locations outside the home: ordinary files, and addresses that fsspec knows, to read and to write.

Messages show the last part of a location's path, and never the text of a library's error.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tasks.common.errors import InputOutputFault, Refused, ReleaseError, visible
from tasks.common.home import Home
from tasks.common.secrets import secret

BLOCK = 1 << 20
# Kinds that keep copies of what they read (simplecache) or chain others (zip) are not among these.
DIRECTORIES = ("file", "memory", "sftp", "ssh", "smb", "hdfs", "webhdfs")
OBJECTS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "https")
ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://.+", re.DOTALL)
PASSWORD = re.compile(r"://[^:@/]*:[^@]*@|[?&;=](password|passwd|pwd|token|secret|sig)=", re.IGNORECASE)


def is_address(text: str) -> bool:
    """Return whether a plan's text is an address with a kind, such as s3://bucket/table.parquet."""
    return "://" in text


def check_address(text: str, key: str) -> None:
    """Raise `ValueError` when an address, the value of a plan's ``key``, is of no kind that is served."""
    parts = ADDRESS.fullmatch(text)
    kind = parts[1] if parts else ""
    if kind not in DIRECTORIES + OBJECTS or "::" in text:
        raise ValueError(f"{key} must be an address of one of these kinds: {', '.join(DIRECTORIES + OBJECTS)}")
    if PASSWORD.search(unquote(text)):
        raise ValueError(f"{key} holds a password; name a secret that holds the options instead: storage")
    if any(part == ".." for part in re.split(r"[/\\]", unquote(text))) or "\0" in text:
        raise ValueError(f"{key} must not climb with ..")
    if kind == "file" and not text.startswith("file:///"):
        raise ValueError(f"{key} must be absolute: file:///srv/folder")


@dataclass(frozen=True)
class Location:
    """A file or folder of a file system; its representation shows no path and no credentials."""

    system: Any = field(repr=False)
    path: str = field(repr=False)

    @property
    def shown(self) -> str:
        """The location as messages name it."""
        return visible(self.path.rstrip("/").rpartition("/")[2])

    @property
    def local(self) -> Path | None:
        """The path, where it is one of this machine's own files."""
        from fsspec.implementations.local import LocalFileSystem

        return Path(self.path) if isinstance(self.system, LocalFileSystem) else None

    def __truediv__(self, name: str) -> Location:
        return Location(self.system, f"{self.path.rstrip('/')}/{name}")

    def is_folder(self) -> bool:
        """Return whether it is a folder.

        Raises
        ------
        Refused
            When nothing is there.
        """
        with storage_errors(self.shown):
            return bool(self.system.info(self.path)["type"] == "directory")

    def read(self) -> bytes | None:
        """Return a small file's content; None when there is none."""
        with storage_errors(self.shown):
            try:
                return bytes(self.system.cat_file(self.path))
            except FileNotFoundError:
                return None

    def digest(self) -> str | None:
        """Return the SHA-256 of what is read from there; None when there is no file."""
        with storage_errors(self.shown):
            digest = hashlib.sha256()
            try:
                with self.system.open(self.path, "rb") as file:
                    while block := file.read(BLOCK):
                        digest.update(block)
            except (FileNotFoundError, IsADirectoryError):
                return None
            return digest.hexdigest()

    def make_folder(self) -> None:
        """Create a folder where the storage has such; an object store would create a bucket."""
        kinds = self.system.protocol
        if not set(DIRECTORIES).isdisjoint([kinds] if isinstance(kinds, str) else kinds):
            with storage_errors(self.shown):
                self.system.makedirs(self.path, exist_ok=True)

    def put(self, source: Path) -> None:
        """Write a file's content there."""
        with storage_errors(self.shown):
            self.system.put_file(str(source), self.path)

    def put_whole(self, content: bytes) -> None:
        """Write a small file whole, so that no reader sees half of it."""
        with storage_errors(self.shown):
            if self.local is None:
                self.system.pipe_file(self.path, content)
                return
            beside = self.local.with_name(f".{self.local.name}.part")
            beside.write_bytes(content)
            os.replace(beside, self.local)

    def remove(self) -> None:
        """Remove a file, if it is there."""
        with storage_errors(self.shown):
            try:
                self.system.rm_file(self.path)
            except FileNotFoundError:
                return

    def names(self) -> list[str]:
        """Return the names of the files directly in a folder; none when there is no folder."""
        with storage_errors(self.shown):
            try:
                listed = self.system.ls(self.path, detail=True, refresh=True)
            except FileNotFoundError:
                return []
            return sorted(one["name"].rpartition("/")[2] for one in listed if one["type"] == "file")


def local_location(path: Path) -> Location:
    """Return the location at an ordinary path."""
    from fsspec.implementations.local import LocalFileSystem

    return Location(LocalFileSystem(), str(path.absolute()))


def open_location(address: str, storage: str | None, home: Home) -> Location:
    """Return the location at an address, with the options of the named secret ``storage``.

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
    with storage_errors("the storage"):
        # A cached instance would hold the secret, and a cached listing becomes outdated.
        system, path = fsspec.core.url_to_fs(
            address, **options | {"skip_instance_cache": True, "use_listings_cache": False}
        )
        return Location(system, path)


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
def source_errors() -> Iterator[None]:
    """Name the source in the message of an error of a location or a database."""
    try:
        yield
        return
    except (Refused, InputOutputFault) as error:
        text = str(error)
        named = type(error)(text if text.startswith("source: ") else f"source: {text}")
    raise named


@contextmanager
def storage_errors(shown: str) -> Iterator[None]:
    """Raise nothing but a `ReleaseError` from operations of a storage: its own texts may hold keys and paths."""
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
