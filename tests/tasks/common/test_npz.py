"""Arrays in .npz files, in pieces: the very bytes that NumPy writes, and refusals of what it did not."""

from __future__ import annotations

import io
from pathlib import Path
from unittest.mock import patch
from zipfile import BadZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.common import npz
from tasks.common.npz import InPieces, read_npz, write_npz


@given(length=st.integers(0, 300), cuts=st.lists(st.integers(0, 300), max_size=4))
def test_the_file_is_the_one_that_numpy_writes(length: int, cuts: list[int]) -> None:
    whole = np.random.default_rng(length).integers(2**64, size=length, dtype=np.uint64)
    mine, theirs = io.BytesIO(), io.BytesIO()
    write_npz(mine, {"a": InPieces(length, np.split(whole, sorted(cuts))), "b": whole[:1], "c": np.eye(2)})
    np.savez(theirs, a=whole, b=whole[:1], c=np.eye(2))
    assert mine.getvalue() == theirs.getvalue()


def test_an_array_is_read_in_pieces_and_a_damaged_one_is_noticed(tmp_path: Path) -> None:
    file, whole = tmp_path / "a.npz", np.arange(1000, dtype=np.uint64)
    np.savez(file, a=whole, numbers=np.arange(3.0), table=np.zeros((2, 2), dtype=np.uint64))
    with patch.object(npz, "AT_ONCE", 300):
        pieces = list(read_npz(file, "a"))
        assert [len(piece) for piece in pieces] == [300, 300, 300, 100]
        assert np.array_equal(np.concatenate(pieces), whole)
        for other in ("numbers", "table"):
            with pytest.raises(ValueError, match=f"{other} is no array of 64 bits"):
                next(read_npz(file, other))
        with pytest.raises(KeyError):
            next(read_npz(file, "b"))
        content = file.read_bytes()
        at = content.index(whole[990].tobytes() + whole[991].tobytes())
        file.write_bytes(content[:at] + b"\1" + content[at + 1 :])
        with pytest.raises(BadZipFile):
            list(read_npz(file, "a"))
