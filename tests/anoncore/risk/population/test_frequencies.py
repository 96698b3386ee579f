"""Frequencies of keys against comparison of all pairs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk.population import groups_of, key_codes, key_frequencies


@pytest.mark.parametrize("missing", ["level", "holders", "excluded"])
def test_equal_to_comparison_of_all_pairs(missing: str) -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        keys, weights = rng.integers(-1, 3, size=(40, 4)), rng.uniform(0.5, 9.0, 40)
        one, other = keys[:, None], keys[None]
        equal = (one == other) | ((one < 0) if missing == "holders" else False)
        same = equal.all(axis=2)
        if missing == "excluded":
            same &= (one >= 0).all(axis=2) & (other >= 0).all(axis=2)
        found = key_frequencies(keys, weights, missing=missing)
        assert (found.sample == same.sum(axis=1)).all()
        assert found.population == pytest.approx(same @ weights)


def test_groups_of_more_keys_than_a_number_holds() -> None:
    keys = np.random.default_rng(3).integers(0, 2000, size=(300, 12))
    keys[200:] = keys[:100]
    assert (groups_of(keys)[200:] == np.arange(100)).all()
    assert len(np.unique(groups_of(keys))) == 200


def test_codes_of_variables_keep_missing_values_apart() -> None:
    schema = Schema([Variable("sex", "binary"), Variable("age", "continuous")])
    frame = pd.DataFrame({"sex": ["f", None, "m"], "age": [30.0, 41.0, np.nan]})
    codes = key_codes(Microdata(frame, schema), ["sex", "age"], [None, np.array([35.0])])
    assert codes.tolist() == [[0, 0], [-1, 1], [1, -1]]


@pytest.mark.parametrize(
    ("keys", "weights", "missing", "message"),
    [
        ([[0, -2]], None, "level", "levels from 0"),
        ([[0]], [0.0], "level", "above 0 everywhere, 1 record"),
        ([[0]], [1.0, 2.0], "level", "one number for each of 1 records"),
        ([[0]], ["a"], "level", "must be numeric"),
        ([[0]], None, "other", "level, holders or excluded"),
    ],
)
def test_what_is_not_as_described_is_refused(keys, weights, missing, message) -> None:
    with pytest.raises(AnonymizationError, match=message):
        key_frequencies(keys, weights, missing=missing)
