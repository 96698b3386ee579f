"""Text files inside gz and zip files, unpacked in memory while they are read."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from tasks.common.errors import Refused
from tasks.connectors.limits import GZIP, MAX_TEXT, ZIP, is_packed

UNREADABLE = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, NotImplementedError, RuntimeError)


@contextmanager
def open_bytes(path: Path, shown: str) -> Iterator[BinaryIO]:
    """Yield the bytes of a file, or of the one file that a gz or zip file holds.

    Raises
    ------
    Refused
        When a zip file holds several files or one with a password, and when what is packed is damaged or larger than
        the text of a table may be.
    """
    with path.open("rb") as file:
        head = file.read(len(ZIP))
        file.seek(0)
        if not is_packed(head):
            yield file
            return
        try:
            member = gzip.GzipFile(fileobj=file) if head.startswith(GZIP) else _only_member(file, shown)
        except UNREADABLE:
            member = None
        if member is None:
            raise Refused(f"source: {shown} is not a readable gz or zip file")
        with io.BufferedReader(_Bounded(cast(BinaryIO, member), shown)) as unpacked:
            yield cast(BinaryIO, unpacked)


def packed_in(path: Path) -> bool:
    """Return whether a file is a gz or zip file."""
    with path.open("rb") as file:
        return is_packed(file.read(len(ZIP)))


def _only_member(file: BinaryIO, shown: str) -> BinaryIO:
    parts = zipfile.ZipFile(file)
    # Nothing is written anywhere, so names of members do not matter.
    names = [p for p in parts.infolist() if not p.is_dir() and not p.filename.startswith("__MACOSX/")]
    if len(names) != 1:
        raise Refused(f"source: {shown} holds {len(names)} files; a zip file must hold the table alone")
    return cast(BinaryIO, parts.open(names[0]))


class _Bounded(io.RawIOBase):
    """Unpacked bytes, of which no more are given than a table may have of text."""

    def __init__(self, member: BinaryIO, shown: str) -> None:
        self._member, self._shown, self._read = member, shown, 0

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        view = memoryview(buffer)
        problem = f"is larger than {MAX_TEXT // 10**9} GB when it is unpacked; divide it"
        try:
            block = self._member.read(len(view))
            self._read += len(block)
        except UNREADABLE:
            block, problem = None, "is not a readable gz or zip file"
        if block is None or self._read > MAX_TEXT:
            raise Refused(f"source: {self._shown} {problem}")
        view[: len(block)] = block
        return len(block)
