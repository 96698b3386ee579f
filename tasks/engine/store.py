"""Column chunks on disk, encrypted with a key that exists in memory alone."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NoReturn

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from anoncore.errors import AnonymizationError
from anoncore.partitions.store import Chunk
from tasks.common.errors import Fault, visible
from tasks.common.home import PRIVATE_FILE, PRIVATE_FOLDER

# Format, type of the numbers, number of dimensions, their lengths, and what the file's own key is derived from.
HEADER = struct.Struct("<8s8sB2Q32s")
FORMAT = b"anonfl01"
MOST_DIMENSIONS, LONGEST_TYPE = 2, 8
# Bytes that are encrypted at once: beside the chunk itself, no more than this is in memory.
SEGMENT = 4 * 2**20
TAG = 16


def new_key() -> bytes:
    """Return a new key of a store. It is kept in memory alone: without it, files that are left over say nothing."""
    return AESGCM.generate_key(256)


@dataclass(frozen=True, eq=False)
class EncryptedStore:
    """Column chunks as files of a private folder, each encrypted and authenticated.

    AES-256-GCM in segments. Each file has a key of its own, derived from the store's by HMAC-SHA256 and 32 random
    bytes; column, partition, type and shape are authenticated with every segment. A file that was changed, cut off,
    exchanged for another or is of another key is refused. An earlier file of the same chunk put in its place is not
    noticed. Names of files are keyed digests and do not show those of columns.

    Parameters
    ----------
    folder : the private folder; it is wiped with the workspace that it lies in
    key : 32 bytes, from `new_key`
    """

    folder: Path
    key: bytes = field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an encrypted store is not pickled, since its key would be written or sent in the clear")

    def read(self, column: str, partition: int) -> Chunk:
        """Return a chunk as it was written.

        Raises
        ------
        AnonymizationError
            When there is none.
        Fault
            When the file is not the one that was written.
        """
        try:
            file = open(self._path(column, partition), "rb", buffering=0)  # noqa: SIM115  closed below
        except FileNotFoundError:
            raise AnonymizationError(
                f"no chunk of column {visible(column)} is kept for partition {partition}"
            ) from None
        with file:
            try:
                return self._decrypted(file, column, partition)
            except (InvalidTag, ValueError, TypeError):
                pass
        raise Fault(
            f"the file of column {visible(column)}, partition {partition}, is not the one that was written; "
            "nothing is released"
        )

    def write(self, column: str, partition: int, values: Chunk) -> None:
        """Keep a chunk, written whole or not at all."""
        path = self._path(column, partition)
        # Without its parents: what a task writes after the folder was wiped must not lie there again.
        path.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        beside = path.with_name(f".{secrets.token_hex(8)}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        try:
            # Not synced to the disk: after a crash the key is gone, and the file of no use.
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                self._encrypt(file, column, partition, values)
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise

    def remove(self, column: str) -> None:
        """Remove all chunks of a column."""
        folder = self._path(column, 0).parent
        if folder.exists():
            shutil.rmtree(folder)

    def wipe(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, column: str, partition: int) -> Path:
        digest = hmac.new(self.key, b"column " + column.encode(), hashlib.sha256).hexdigest()
        return self.folder / digest[:32] / str(partition)

    def _cipher(self, salt: bytes) -> AESGCM:
        return AESGCM(hmac.digest(self.key, b"chunk " + salt, "sha256"))

    def _encrypt(self, file: IO[bytes], column: str, partition: int, values: Chunk) -> None:
        code, plain = values.dtype.str.encode(), values.dtype.kind in "biufS"
        if not plain or len(code) > LONGEST_TYPE or not 1 <= values.ndim <= MOST_DIMENSIONS:
            raise AnonymizationError("a chunk must hold numbers or bytes of a fixed length, in one or two dimensions")
        salt = secrets.token_bytes(32)
        lengths = values.shape if values.ndim == MOST_DIMENSIONS else (*values.shape, 1)
        header = HEADER.pack(FORMAT, code, values.ndim, *lengths, salt)
        content = _bytes_of(np.ascontiguousarray(values))
        sealed = bytearray(min(SEGMENT, len(content)) + TAG)
        cipher, context = self._cipher(salt), _context(header, column, partition)
        _write(file, header)
        for nonce, start, stop in _segments(len(content)):
            part = memoryview(sealed)[: stop - start + TAG]
            cipher.encrypt_into(nonce, content[start:stop], context, part)
            _write(file, part)

    def _decrypted(self, file: IO[bytes], column: str, partition: int) -> Chunk:
        header = file.read(HEADER.size)
        magic, code, dimensions, rows, width, salt = HEADER.unpack(header.ljust(HEADER.size, b"\0"))
        kind = np.dtype(code.rstrip(b"\0").decode())
        length = rows * width * kind.itemsize
        segments = max(1, -(-length // SEGMENT))
        if magic != FORMAT or os.fstat(file.fileno()).st_size != HEADER.size + length + segments * TAG:
            raise ValueError("another format, or cut off")
        values = np.empty((rows, width)[:dimensions], kind)
        content, sealed = _bytes_of(values), bytearray(min(SEGMENT, length) + TAG)
        cipher, context = self._cipher(salt), _context(header, column, partition)
        for nonce, start, stop in _segments(length):
            part = memoryview(sealed)[: stop - start + TAG]
            _fill(file, part)
            cipher.decrypt_into(nonce, part, context, content[start:stop])
        return values


def _bytes_of(values: Chunk) -> memoryview:
    return values.reshape(-1).view(np.uint8).data


def _context(header: bytes, column: str, partition: int) -> bytes:
    return header + partition.to_bytes(8, "little") + column.encode()


def _segments(length: int) -> Iterator[tuple[bytes, int, int]]:
    """Give nonce, start and stop of each segment, of which there is at least one; no key is used for two files."""
    for number, start in enumerate(range(0, max(1, length), SEGMENT)):
        yield number.to_bytes(12, "big"), start, min(start + SEGMENT, length)


def _write(file: IO[bytes], content: bytes | memoryview) -> None:
    """Write all of it: a file without a buffer may take less at once."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _fill(file: IO[bytes], part: memoryview) -> None:
    while part:
        count = os.readv(file.fileno(), [part])
        if not count:
            raise ValueError("cut off")
        part = part[count:]
