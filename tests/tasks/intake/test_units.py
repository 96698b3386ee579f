"""The keys that join records to statistical units, and keys that join too many."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anoncore.microdata import Variable
from tasks.common.errors import Refused
from tasks.common.hashes import among, numbered
from tasks.intake.units import Declared, joins_most, keys_of, persistent_names, shares_key, units_of

VARIABLES = (
    Variable("house", "nominal", role="household"),
    Variable("line", "nominal", role="identifier"),
    Variable("pass", "nominal", role="identifier"),
    Variable("born", "nominal", role="excluded"),
    Variable("age", "continuous"),
)


def keys(**columns) -> pd.DataFrame:
    return pd.DataFrame(columns, dtype="string")


def test_the_units_columns_join_together_and_every_other_identifier_alone():
    assert Declared(VARIABLES).keys == (("house",), ("line",), ("pass",))
    assert Declared(VARIABLES, ("house", "line")).keys == (("house", "line"), ("pass",))


def test_keys_are_text_that_no_other_values_spell():
    frame = pd.DataFrame({"house": ["1", "11", "1", None], "line": ["11", "1", "11", "2"]})
    found = keys_of(frame, [("house", "line")])["house and line"]
    assert found[0] == found[2] != found[1]
    assert pd.isna(found[3])


def test_keys_that_join_most_records_are_refused_by_name():
    common = keys(line=["1"] * 6 + ["2"] * 4, other=list("abcdefghij"))
    with pytest.raises(Refused, match="unit: line joins more than half of the records") as refused:
        units_of(common)
    assert "role excluded" in str(refused.value)
    chain = keys(a=["1", "1", "2", "2", "3", "3"], b=["1", "2", "2", "3", "3", "1"])
    with pytest.raises(Refused, match="unit: a, b together join"):
        units_of(chain)
    assert joins_most(chain)
    assert not joins_most(chain[["a"]])


def test_half_of_the_records_may_be_one_unit():
    assert units_of(keys(a=["1", "1", "2", "3"])).tolist() == [0, 0, 1, 2]
    assert units_of(keys(a=["1"])).tolist() == [0]


def test_a_unit_keeps_its_name_when_records_come_in_any_order():
    before = keys(person=["p", "p", "q", None], record=["1", "2", "3", "4"])
    after = keys(person=["q", "p", "p", "q", None], record=["3", "9", "0", "1", "4"])
    values = np.arange(5, dtype=np.uint64)
    names = [persistent_names(k, units_of(k), values[: len(k)]) for k in (before, after)]
    assert set(names[0].tolist()) == set(names[1].tolist())
    assert len(set(names[0].tolist())) == 3


def test_records_without_a_key_are_named_by_their_values():
    none = keys(person=[None, None, None])
    found = persistent_names(none, units_of(none), np.array([7, 7, 9], dtype=np.uint64))
    assert found.tolist() == [7, 8, 9]


def test_one_shared_value_of_any_key_is_enough():
    known = keys(a=["1", "2", None], b=["x", None, "z"])
    asked = keys(a=["9", "2", None, None], b=["x", "q", "q", None])
    assert shares_key(asked, known).tolist() == [True, True, False, False]


@given(seed=st.integers(0, 2**31), n=st.integers(0, 70_000), different=st.integers(1, 10**6))
def test_equal_values_are_numbered_in_their_order(seed: int, n: int, different: int) -> None:
    rng = np.random.default_rng(seed)
    values = (np.uint64(1) << np.uint64(40)) * rng.integers(different, size=n).astype(np.uint64)
    number = pd.Series(values).groupby(values, sort=False).cumcount().to_numpy(dtype=np.uint64)
    assert np.array_equal(numbered(values), values + number)
    known = np.sort(rng.choice(values, n // 3))
    assert np.array_equal(among(values, known), np.isin(values, known))
