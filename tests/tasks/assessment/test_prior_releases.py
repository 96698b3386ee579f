"""Earlier releases are read in the levels of the candidate."""

from __future__ import annotations

import numpy as np
import pandas as pd

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.recoding import Recoding, recoded
from tasks.assessment.prior_releases import in_levels_of

COARSER = (
    Recoding("region", levels={"a": "a, b", "b": "a, b", "c": "c, d", "d": "c, d"}),
    Recoding("age", width=5.0),
)


def table(region: list[str], age: list[float], precision: float | None = 1.0) -> Microdata:
    frame = pd.DataFrame({"region": region, "age": age})
    return Microdata(frame, Schema([Variable("region", "nominal"), Variable("age", "continuous", precision=precision)]))


SOURCE = table(list("abcd"), [20.0, 24.0, 25.0, 31.0])
PEOPLE = recoded(SOURCE, COARSER)


def test_an_earlier_release_is_read_in_the_levels_of_the_candidate() -> None:
    finer = table(list("dcba"), [31.0, 25.0, 24.0, 20.0], precision=None)
    for before in (finer, recoded(table(list("dcba"), [31.0, 25.0, 24.0, 20.0]), COARSER)):
        found, lacking = in_levels_of(PEOPLE, before, COARSER)
        assert found is not None
        assert lacking == 0
        assert [*found.frame["region"]] == ["c, d", "c, d", "a, b", "a, b"]
        np.testing.assert_array_equal(found.frame["age"], [32.0, 27.0, 22.0, 22.0])


def test_variables_without_a_level_in_common_are_counted_and_left_out() -> None:
    found, lacking = in_levels_of(PEOPLE, table(["x", "y"], [20.0, 25.0]), COARSER)
    assert found is not None
    assert (found.schema.names, lacking) == (("age",), 1)
    assert in_levels_of(PEOPLE.select(["region"]), table(["x", "y"], [20.0, 25.0]), COARSER) == (None, 1)
    assert in_levels_of(PEOPLE, None, COARSER) == (None, 0)
