"""Statistical units: what belongs together, and what a table carries of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable, joined_units

SCHEMA = Schema([Variable("x", "continuous")])


def table(n: int = 6, units=None) -> Microdata:
    return Microdata(pd.DataFrame({"x": np.arange(float(n))}), SCHEMA, units)


def test_records_that_share_any_key_are_joined_through_others():
    person, passport = [0, 0, 1, 2, 3, -1], [0, 1, 1, 2, -1, -1]
    assert joined_units([person, passport], 6).tolist() == [0, 0, 0, 1, 2, 3]


def test_missing_values_and_no_keys_join_nothing():
    assert joined_units([[-1, -1, -1]], 3).tolist() == joined_units([], 3).tolist() == [0, 1, 2]
    assert joined_units([[]], 0).tolist() == []


def test_a_key_of_another_length_is_refused():
    with pytest.raises(AnonymizationError, match="a code for each of 3 records"):
        joined_units([[0, 1]], 3)


@given(st.lists(st.tuples(st.integers(-1, 5), st.integers(-1, 5)), max_size=25))
def test_units_are_the_finest_that_no_key_crosses(rows):
    keys = np.array(rows, dtype=int).reshape(-1, 2)
    units = joined_units(list(keys.T), len(keys))
    # Merging labels until nothing changes gives the same partition.
    label = list(range(len(keys)))
    for _ in keys:
        for column in keys.T:
            for value in set(column.tolist()) - {-1}:
                same = np.flatnonzero(column == value).tolist()
                low = min(label[i] for i in same)
                label = [low if one in {label[i] for i in same} else one for one in label]
    assert units.tolist() == np.unique(label, return_inverse=True)[1].tolist()


def test_units_follow_the_records():
    data = table(units=[4, 4, 7, 7, 7, 1])
    assert data.n_units == 3
    assert data.take(np.array([5, 2, 0])).units.tolist() == [1, 7, 4]
    assert data.select(["x"]).units.tolist() == data.units.tolist()
    masked = table().take(np.array([2, 5]))
    assert masked.units is None
    assert masked.n_units == 2
    assert masked.with_units_of(data).units.tolist() == [7, 1]
    assert data.with_units_of(table()).units is None


def test_units_are_shown_nowhere():
    data = table(units=[4711] * 6)
    assert "4711" not in repr(data) + str(data) + str(data.summary()) + data.plain().to_csv()


@pytest.mark.parametrize("units", [[0, 1], [0.5] * 6, ["a"] * 6, [[0] * 6]])
def test_units_are_one_whole_number_for_each_record(units):
    with pytest.raises(AnonymizationError, match="units must hold 6 whole numbers"):
        table(units=units)


def test_so_many_records_are_of_k_units_whichever_they_are():
    data = table(units=[4, 4, 7, 7, 7, 1])
    assert [data.records_of(k) for k in (1, 2, 3)] == [1, 4, 6]
    assert table().records_of(3) == 3
