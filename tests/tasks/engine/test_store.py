"""Chunks come back as they were written, and no other file is taken for them."""

import os
import pickle
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from anoncore.errors import AnonymizationError
from tasks.common.errors import Fault
from tasks.common.home import make_private
from tasks.engine import store as module
from tasks.engine.store import EncryptedStore, new_key


@pytest.fixture
def store(tmp_path: Path) -> EncryptedStore:
    return EncryptedStore(make_private(tmp_path / "columns"), new_key())


def files(store: EncryptedStore) -> list[Path]:
    return sorted(path for path in store.folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("segment", [8, 24, 1 << 20])
@pytest.mark.parametrize(
    "values",
    [
        np.array([1.5, np.nan, -0.0, np.inf]),
        np.arange(12, dtype=np.int8).reshape(4, 3)[:, ::2],
        np.array([], dtype=np.float32),
        np.zeros((5, 0)),
        np.array([True, False]),
        np.array([2**64 - 1], dtype=np.uint64),
        np.array([b"\0a", b"bc\0"], dtype="S3"),
    ],
    ids=lambda v: f"{v.dtype}{v.shape}",
)
def test_chunks_come_back_bit_by_bit(
    store: EncryptedStore, values: np.ndarray, segment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEGMENT", segment)
    store.write("income/2026", 3, np.ones(9))
    store.write("income/2026", 3, values)
    back = store.read("income/2026", 3)
    assert (back.dtype, back.shape, back.tobytes()) == (values.dtype, values.shape, values.tobytes())
    assert back.flags.writeable


def test_only_numbers_in_one_or_two_dimensions_are_kept(store: EncryptedStore) -> None:
    for values in (np.array(["a"], dtype=object), np.zeros((2, 2, 2)), np.float64(3)):
        with pytest.raises(AnonymizationError, match="one or two dimensions"):
            store.write("x", 0, np.asarray(values))
    assert files(store) == []


def test_a_chunk_that_is_not_there_is_named(store: EncryptedStore) -> None:
    store.write("x", 0, np.ones(2))
    with pytest.raises(AnonymizationError, match="no chunk of column x is kept for partition 1"):
        store.read("x", 1)
    store.remove("x")
    store.remove("x")
    with pytest.raises(AnonymizationError, match="partition 0"):
        store.read("x", 0)


def exchanged(one: Path, other: Path) -> None:
    beside = one.with_name("beside")
    one.rename(beside)
    other.rename(one)
    beside.rename(other)


def test_files_put_in_the_place_of_others_are_refused(store: EncryptedStore) -> None:
    for column in ("x", "y"):
        for partition in (0, 1):
            store.write(column, partition, np.arange(4.0) + partition)
    paths = {(c, p): store._path(c, p) for c in ("x", "y") for p in (0, 1)}
    exchanged(paths["x", 0], paths["x", 1])
    with pytest.raises(Fault, match="column x, partition 0, is not the one that was written"):
        store.read("x", 0)
    exchanged(paths["x", 0], paths["x", 1])
    shutil.copy(paths["y", 1], paths["x", 1])
    with pytest.raises(Fault, match="column x, partition 1"):
        store.read("x", 1)
    assert store.read("x", 0).sum() == 6


def test_a_file_of_another_key_is_refused(store: EncryptedStore) -> None:
    store.write("x", 0, np.arange(4.0))
    other = EncryptedStore(store.folder, new_key())
    other.write("x", 0, np.arange(4.0))
    shutil.copy(store._path("x", 0), other._path("x", 0))
    with pytest.raises(Fault, match="not the one that was written"):
        other.read("x", 0)


def test_every_changed_byte_is_noticed(store: EncryptedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT", 16)
    store.write("x", 0, np.arange(5.0))
    path = store._path("x", 0)
    whole = path.read_bytes()
    broken = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    sealed = module.HEADER.size
    # Segments exchanged, left out, and the file cut off or with more.
    pieces = [whole[sealed : sealed + 32], whole[sealed + 32 : sealed + 64], whole[sealed + 64 :]]
    broken += [whole[:sealed] + pieces[1] + pieces[0] + pieces[2], whole[:sealed] + pieces[0] + pieces[2]]
    broken += [whole[:-1], whole[:sealed], b"", whole + b"\0"]
    for content in broken:
        path.write_bytes(content)
        with pytest.raises(Fault, match="not the one that was written"):
            store.read("x", 0)
    path.write_bytes(whole)
    assert store.read("x", 0).tolist() == [0, 1, 2, 3, 4]


def test_files_are_private_and_hold_neither_values_nor_names(store: EncryptedStore) -> None:
    canaries = np.full(500, 73_113_377.25)
    store.write("diagnosis", 0, canaries)
    store.write("diagnosis", 1, np.full(20, b"CANARY-7311", dtype="S11"))
    assert len(files(store)) == 2
    for path in files(store):
        content = path.read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert canaries[:1].tobytes() not in content
        assert b"CANARY" not in content
        assert "diagnosis" not in str(path.relative_to(store.folder))
    assert {stat.S_IMODE(path.stat().st_mode) for path in store.folder.rglob("*") if path.is_dir()} == {0o700}
    store.wipe()
    assert not store.folder.exists()


def test_the_same_chunk_is_never_encrypted_alike(store: EncryptedStore) -> None:
    store.write("x", 0, np.zeros(100))
    first = store._path("x", 0).read_bytes()
    store.write("x", 0, np.zeros(100))
    second = store._path("x", 0).read_bytes()
    blocks = [whole[at : at + 16] for whole in (first, second) for at in range(module.HEADER.size, len(whole), 16)]
    assert len(set(blocks)) == len(blocks)


def test_a_write_that_fails_leaves_what_was_there(store: EncryptedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write("x", 0, np.arange(3.0))

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(module, "_write", full)
    with pytest.raises(OSError, match="No space left"):
        store.write("x", 0, np.zeros(3))
    monkeypatch.undo()
    assert store.read("x", 0).tolist() == [0, 1, 2]
    assert len(files(store)) == 1


def test_the_key_is_neither_shown_nor_pickled(store: EncryptedStore) -> None:
    assert repr(store.key) not in repr(store)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(store)


def test_what_is_written_after_the_folder_was_wiped_does_not_lie_there(store: EncryptedStore) -> None:
    store.write("x", 0, np.zeros(3))
    store.wipe()
    with pytest.raises(FileNotFoundError):
        store.write("x", 1, np.zeros(3))
    assert not store.folder.exists()
