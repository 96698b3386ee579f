"""Digests of JSON values, and their plain form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tasks.common.digests import digest_of, plain


def test_the_plain_form_has_no_types_of_python_or_numpy_alone() -> None:
    given = {"a": np.float64(0.5), "b": np.arange(2), "c": Path("p"), "d": (np.int64(3), None)}
    assert plain(given) == {"a": 0.5, "b": [0, 1], "c": "p", "d": [3, None]}
    with pytest.raises(TypeError, match="set has no JSON form"):
        plain({1})


def test_the_digest_of_a_value_is_canonical() -> None:
    assert digest_of({"a": 1, "b": (1, 2)}) == digest_of({"b": [1, 2], "a": np.int64(1)})
    assert digest_of({"a": 1}) != digest_of({"a": 1.5})
