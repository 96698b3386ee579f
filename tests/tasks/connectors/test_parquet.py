"""Parquet files are read piece by piece, and what would hang or fill the memory is refused before."""

import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem

from tasks.common.errors import Refused
from tasks.connectors import parquet
from tasks.connectors.copies import parquet_names
from tasks.connectors.storage import Location


def test_frames_of_some_files_have_the_same_number_of_rows(tmp_path):
    files = []
    for number, rows in enumerate((5, 1, 4)):
        path = tmp_path / f"{number}.parquet"
        pd.DataFrame({"x": range(rows), "town": ["a"] * rows}).to_parquet(path)
        files.append((path.name, path))
    frames = list(parquet.batches(files, 4, "folder"))
    assert [len(frame) for frame in frames] == [4, 4, 2]
    assert [x for frame in frames for x in frame["x"]] == [0, 1, 2, 3, 4, 0, 0, 1, 2, 3]


def test_text_is_measured_before_it_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "MAX_TEXT", 10_000)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"town": pa.array(["x" * 100] * 200).dictionary_encode()}), path)
    with pytest.raises(Refused, match=r"a\.parquet holds more than"):
        list(parquet.batches([(path.name, path)], 50, "folder"))


def test_text_of_another_encoding_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    pq.write_table(pa.table({"town": text}), path)
    with pytest.raises(Refused, match=r"a\.parquet is not a readable parquet file"):
        list(parquet.batches([(path.name, path)], 50, "folder"))


def test_a_pipe_among_the_files_is_not_opened(tmp_path):
    folder = tmp_path / "people"
    folder.mkdir()
    os.mkfifo(folder / "0.parquet")
    with pytest.raises(Refused, match=r"0\.parquet is not an ordinary file"):
        parquet_names(Location(LocalFileSystem(), str(folder)))


def test_a_column_that_the_first_file_has_no_value_of_takes_the_type_of_the_next(tmp_path):
    files = []
    for number, values in enumerate(([None, None], [None, None], [1.5, 2.5])):
        path = tmp_path / f"{number}.parquet"
        pd.DataFrame({"x": values, "n": [1, 2]}).to_parquet(path, index=False)
        files.append((path.name, path))
    whole = pd.concat(parquet.batches(files, 4, "folder"))
    assert whole["x"].dropna().tolist() == [1.5, 2.5]
    assert {str(frame["x"].dtype) for frame in parquet.batches(files, 2, "folder")} == {"float64"}


def test_numbers_of_half_precision_become_ones_that_can_be_counted(tmp_path):
    path = tmp_path / "half.parquet"
    pq.write_table(pa.table({"x": pa.array(np.array([0.5, 2.0], dtype="float16")), "town": ["a", "b"]}), path)
    frame = parquet.read(path, None, [], "half.parquet")
    assert frame["x"].dtype == "float32"
    assert frame["x"].tolist() == [0.5, 2.0]
