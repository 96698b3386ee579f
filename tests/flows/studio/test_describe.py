"""What the custodian's screen shows of the source: no cell that few units hold, no extreme, no identifier."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Variable
from flows.plan.model import judged
from flows.studio.describe import NAMES, describe, distribution, in_words

N = 400


def bars(values, kind="nominal", units=None, **more):
    units = np.arange(len(values)) if units is None else units
    return distribution(pd.Series(values), Variable("x", kind, **more), units)


def test_levels_of_few_units_are_neither_named_nor_counted():
    values = ["a"] * 200 + ["b"] * 194 + ["rare"] * 4 + ["single", "other"]
    shown = bars(values)
    assert [bar.label for bar in shown.bars] == ["a", "b", "others"]
    # Two records beside the named levels could be counted by subtraction: another level joins them.
    shown = bars(["a"] * 200 + ["b"] * 195 + ["c"] * 3 + ["single", "other"][:1])
    assert "b" not in [bar.label for bar in shown.bars]


def test_a_level_of_many_records_and_few_units_is_not_named():
    units = np.concatenate([np.zeros(200, int), np.arange(1, 201)])
    shown = bars(["whale"] * 200 + ["a"] * 120 + ["b"] * 80, units=units)
    assert "whale" not in [bar.label for bar in shown.bars]


def test_ends_of_a_range_are_no_values_and_every_bar_has_its_units():
    values = np.random.default_rng(1).normal(50, 10, N)
    values[0], values[1] = 987_654.0, -123_456.0
    shown = bars(values, "continuous")
    assert not any("987" in bar.label or "123" in bar.label for bar in shown.bars)
    assert shown.bars[0].label.startswith("below")
    assert shown.bars[-1].label.endswith("and above")
    assert sum(bar.share for bar in shown.bars) == pytest.approx(1.0, abs=0.3)


def test_missing_values_are_shown_from_five_units_on_and_identifiers_never():
    assert bars([None] * 4 + ["a", "b"] * 50).missing is None
    assert bars([9] * 40 + [1, 2] * 80, "ordinal", missing=(9,)).missing == pytest.approx(0.2)
    assert bars(["p1", "p2"] * 9, role="identifier") == distribution(
        pd.Series(["q"]), Variable("x", "nominal", role="identifier"), np.zeros(1, int)
    )
    assert bars(["p1"], role="identifier").note == NAMES


def test_levels_are_shown_with_what_they_mean():
    shown = bars([0.0, 1.0] * 50, "binary", labels=((0, "=male"), (1, "<b>female")))
    assert [bar.label for bar in shown.bars] == ["0: =male", "1: <b>female"]


def test_numbers_of_records_are_rounded():
    few = "none, or fewer than 5"
    assert [in_words(n) for n in (0, 1, 4, 5, 11)] == [few, few, few, "at most 10", "at most 20"]


def test_edits_of_a_variable_that_is_dropped_are_not_counted_and_the_others_are(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n3,4\n" * 6)
    text = """\
anonflow: 1
name: p
source: {path: a.csv}
variables: [{name: a, kind: continuous, role: excluded}, {name: b, kind: continuous}]
edits:
  rules:
    - {edit: bound, name: of a, variable: a, lower: 0}
    - {edit: bound, name: of b, variable: b, lower: 3}
steps: [{method: mdav, k: 3}]
"""
    (tmp_path / "p.yaml").write_text(text)
    plan, problems = judged(text, tmp_path / "p.yaml")
    assert any("which is not released" in problem for problem in problems)
    seen = describe(plan, tmp_path)
    assert (seen.violated, seen.problem) == ({"of b": "at most 10"}, "")
