"""Microdata go into partitions and come back as they were."""

import numpy as np
import pandas as pd
import pytest

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.store import MemoryStore, Serial
from anoncore.partitions.table import partitioned


def people() -> Microdata:
    frame = pd.DataFrame(
        {
            "age": [31.0, 64.0, np.nan, 18.0, 40.0],
            "sex": ["f", "m", None, "m", "f"],
            "school": ["low", "high", "low", "middle", None],
        }
    )
    levels = ("low", "middle", "high")
    return Microdata(
        frame,
        Schema(
            [Variable("age", "continuous"), Variable("sex", "binary"), Variable("school", "ordinal", levels=levels)]
        ),
    )


@pytest.mark.parametrize("rows", [1, 2, 5, 9])
def test_partitions_hold_what_was_put_in(rows: int) -> None:
    store, data = MemoryStore(), people()
    table = partitioned(store, "t", data, rows)
    assert len(table) == 5
    assert max(table.rows) <= rows
    frames = [table.load(store, number).frame for number in table.partitions()]
    pd.testing.assert_frame_equal(pd.concat(frames, ignore_index=True), data.frame)


def test_what_is_read_is_a_copy_and_what_is_removed_is_gone() -> None:
    store = MemoryStore()
    store.write("x", 0, np.arange(3.0))
    store.read("x", 0)[:] = 7
    np.testing.assert_array_equal(store.read("x", 0), [0, 1, 2])
    store.remove("x")
    with pytest.raises(AnonymizationError, match="no chunk of column x"):
        store.read("x", 0)


def test_tasks_are_carried_out_in_the_order_of_their_arguments() -> None:
    run = Serial()
    run.store.write("x", 0, np.arange(4.0))
    run.store.write("x", 1, np.arange(2.0))
    assert run.map(_scaled_sum, ["x", "x"], [0, 1], [1.0, 10.0]) == [6.0, 10.0]


def _scaled_sum(store: MemoryStore, column: str, partition: int, scale: float) -> float:
    return scale * float(store.read(column, partition).sum())
