"""Which variables a part of the records shows more coarsely than the release for which it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.recoding import Recoding
from tasks.assessment.coarser_parts import coarser_variables
from tasks.masking.anonymize import Masked


@dataclass(frozen=True)
class _Stored:
    data: Microdata

    def parts(self) -> Iterator[Microdata]:
        yield self.data


def masked(places: list[str | None], **more) -> Masked:
    frame = pd.DataFrame({"place": pd.Series(places, dtype=object), "x": np.arange(float(len(places)))})
    data = Microdata(frame, Schema([Variable("place", "nominal"), Variable("x", "continuous")]))
    return Masked(released=_Stored(data), keeps_records=True, **more)


WHOLE = masked(["a"] * 100 + ["b"] * 60 + ["c"] * 40)
HALF = ["a"] * 50 + ["b"] * 30 + ["c"] * 20


@pytest.mark.parametrize(
    ("part", "coarser"),
    [
        (masked(HALF), ()),
        (masked(["a"] * 50 + ["b"] * 50), ("place",)),
        (masked(["a"] * 50 + ["b"] * 50, decided_alone=False), ()),
        (masked(["a"] * 50 + ["b"] * 30 + ["c"] * 4 + [None] * 16), ("place",)),
        (masked(["a"] * 50 + ["b"] * 30 + ["c"] * 18 + [None] * 2), ()),
        (masked([None] * 100), ("place",)),
        (masked(HALF, recodings=(Recoding("x", width=5.0),)), ("x",)),
    ],
)
def test_a_part_is_coarser_where_it_lacks_levels_or_values(part: Masked, coarser: tuple[str, ...]) -> None:
    assert coarser_variables(part, WHOLE) == coarser


def test_recodings_are_the_same_whatever_their_hierarchy_would_cover() -> None:
    one, other = (Recoding("x", width=5.0, share=share) for share in (0.1, 0.2))
    assert coarser_variables(masked(HALF, recodings=(one,)), replace(WHOLE, recodings=(other,))) == ()
    assert coarser_variables(masked(HALF), replace(WHOLE, recodings=(other,))) == ("x",)


def test_what_a_hidden_group_exchanges_is_left_out() -> None:
    assert coarser_variables(masked([None] * 100), replace(WHOLE, hidden_variables=("place",))) == ()


def test_levels_that_few_hold_are_absent_from_a_part_by_chance() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        places = rng.choice(60, 300).astype(str)
        part = masked(list(rng.permutation(places)[:150]))
        assert coarser_variables(part, masked(list(places))) == ()
