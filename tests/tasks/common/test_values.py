"""Frozen values come back from their JSON form as they were, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

from tasks.common.values import from_json, to_json


@dataclass(frozen=True)
class Part:
    name: str
    share: float | None = None


@dataclass(frozen=True)
class Whole:
    kind: Literal["a", "b"]
    parts: tuple[Part, ...] = ()
    pair: tuple[str, int] = ("x", 1)
    digests: Mapping[str, str] = field(default_factory=dict)
    part: Part | None = None
    either: int | str = 0


VALUES = (
    Whole("a"),
    Whole("b", (Part("p", 0.5), Part("q")), ("y", 2), {"f": "0"}, Part("r", 1.0), "text"),
    Whole("a", (Part("\udc80 half", -0.0),), either=7),
)


@pytest.mark.parametrize("value", VALUES)
def test_a_value_comes_back_as_it_was(value: Whole) -> None:
    assert from_json(Whole, json.loads(json.dumps(to_json(value)))) == value


def test_fields_with_their_default_are_left_out() -> None:
    assert to_json(Whole("a", (Part("p"),))) == {"kind": "a", "parts": [{"name": "p"}]}
    assert to_json(Whole("a", either=False)) == {"kind": "a", "either": False}


@pytest.mark.parametrize(
    "form",
    [
        {},
        [],
        "a",
        {"kind": "secret"},
        {"kind": "a", "more": "secret"},
        {"kind": "a", "parts": {"name": "secret"}},
        {"kind": "a", "parts": [{"name": "p", "share": "secret"}]},
        {"kind": "a", "parts": [{}]},
        {"kind": "a", "pair": ["secret"]},
        {"kind": "a", "pair": ["x", True]},
        {"kind": "a", "digests": {"f": 0}},
        {"kind": "a", "part": []},
        {"kind": "a", "either": 0.5},
    ],
)
def test_another_form_is_refused_without_its_values(form: Any) -> None:
    with pytest.raises(ValueError, match=r"is not|is none of|has other fields") as refused:
        from_json(Whole, form)
    assert "secret" not in str(refused.value)


def test_a_whole_number_stands_for_a_float() -> None:
    assert from_json(Part, {"name": "p", "share": 1}) == Part("p", 1.0)


@dataclass(frozen=True, eq=False)
class Curve:
    values: npt.NDArray[np.float64]


def test_arrays_come_back_with_their_type_and_cannot_be_written_to() -> None:
    found = from_json(Curve, to_json(Curve(np.array([1.0, 2.5])))).values
    assert (found.dtype, found.tolist(), found.flags.writeable) == (np.float64, [1.0, 2.5], False)
    with pytest.raises(ValueError, match="str is not"):
        from_json(Curve, {"values": "1"})
