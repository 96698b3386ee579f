"""NumPy's .npz files written and read in pieces, so that no array of them need be in memory whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO
from zipfile import ZipFile

import numpy as np

# Numbers that are read at once.
AT_ONCE = 2**20


@dataclass(frozen=True, eq=False, repr=False)
class InPieces:
    """An array (n,) of uint64 that is given in pieces, one after the other."""

    length: int
    pieces: Iterable[np.ndarray]


def write_npz(file: BinaryIO, arrays: Mapping[str, np.ndarray | InPieces]) -> None:
    """Write arrays as `numpy.savez` does, byte for byte."""
    with ZipFile(file, "w") as target:
        for name, array in arrays.items():
            with target.open(f"{name}.npy", "w", force_zip64=True) as entry:
                if isinstance(array, InPieces):
                    _write_pieces(entry, array)
                else:
                    np.lib.format.write_array(entry, array, allow_pickle=False)


def read_npz(file: Path | BinaryIO, name: str) -> Iterator[np.ndarray]:
    """Yield an array (n,) of uint64 in pieces of `AT_ONCE` numbers, at least one; with the last the sum is checked.

    Raises
    ------
    OSError, KeyError, EOFError, zipfile.BadZipFile
        When the file or the array is not there, or is damaged.
    ValueError
        When it is another kind of array.
    """
    with ZipFile(file) as source, source.open(f"{name}.npy") as entry:
        if np.lib.format.read_magic(entry) != (1, 0):
            raise ValueError(f"{name} has another format")
        shape, _, kind = np.lib.format.read_array_header_1_0(entry)
        if kind != np.uint64 or len(shape) != 1:
            raise ValueError(f"{name} is no array of 64 bits")
        for start in range(0, max(1, shape[0]), AT_ONCE):
            rest = min(AT_ONCE, shape[0] - start)
            yield np.frombuffer(entry.read(rest * kind.itemsize), kind, rest)


def _write_pieces(entry: IO[bytes], array: InPieces) -> None:
    form = {"descr": "<u8", "fortran_order": False, "shape": (array.length,)}
    np.lib.format.write_array_header_1_0(entry, form)
    for piece in array.pieces:
        entry.write(np.ascontiguousarray(piece, "<u8").data)
