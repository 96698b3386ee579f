"""Boxes as columns, and read back from the columns alone."""

import numpy as np
import pandas as pd
import pytest

from anoncore import AnonymizationError, Microdata, Schema, Variable
from anoncore.boxes.columns import BoxTable, as_ranges, middles, released_boxes, taken_names


def scene(levels=("a", "b", "c"), records=60, boxes=7, seed=0):
    """Random records in random boxes, with gaps in the levels."""
    rng = np.random.default_rng(seed)
    label = np.append(np.arange(boxes), rng.integers(0, boxes, records - boxes))
    values = rng.choice([*levels, None], records)
    frame = pd.DataFrame({"x": rng.random(records), "s": values})
    kinds = [Variable("x", "continuous"), Variable("s", "nominal", levels=tuple(levels))]
    low = rng.random((boxes, 1))
    table = BoxTable(label, low, low + 1.0, np.bincount(label), np.full((boxes, 1), 2.0))
    return Microdata(frame, Schema(kinds)), table


@pytest.mark.parametrize(
    "levels",
    [
        ("a", "b", "c"),
        ("a|b", "b", "c"),
        ("a|b", "c;d", "e"),
        ("missing", "b", "(x)"),
        (1, 2, 30),
        (0.5, 1.5),
    ],
    ids=str,
)
def test_sets_are_read_back_as_they_were(levels):
    data, boxes = scene(levels)
    out = as_ranges(data, ["x"], boxes)
    back = released_boxes(out, data.schema)
    held = np.zeros((len(boxes.sizes), len(levels) + 1), dtype=bool)
    held[boxes.label, data.frame["s"].cat.codes] = True
    np.testing.assert_array_equal(back.held["s"], held)
    np.testing.assert_array_equal(back.lower, boxes.lower)
    np.testing.assert_array_equal(back.upper, boxes.upper)
    np.testing.assert_array_equal(back.sizes, boxes.sizes)


def test_what_a_column_means_follows_from_the_parameters_alone():
    data, boxes = scene((1, 2, 30))
    single = data.frame.assign(s=np.array([1, 2, None])[boxes.label % 3])
    data = Microdata(single, Schema([data.schema["x"], Variable("s", "ordinal", levels=(1, 2, 30))]))
    for sets, levels in ((True, ("1", "2", "missing")), (False, (1, 2, 30))):
        out = as_ranges(data, ["x"], boxes, sets=sets)
        assert (out.schema["s"].kind, out.schema["s"].levels) == ("nominal" if sets else "ordinal", levels)
        held = released_boxes(out, data.schema).held["s"]
        assert (held.argmax(axis=1) == np.array([0, 1, 3])[np.arange(7) % 3]).all()
        assert (held.sum(axis=1) == 1).all()
    pd.testing.assert_series_equal(out.frame["s"], data.frame["s"])


def test_levels_that_hold_every_mark_are_refused_unless_single():
    data, boxes = scene(("a|b", "c;d", "e/f"))
    with pytest.raises(AnonymizationError, match="levels of 's' hold every one of") as refused:
        as_ranges(data, ["x"], boxes)
    assert "c;d" not in str(refused.value)
    single = Microdata(data.frame.assign(s="e/f"), data.schema)
    held = released_boxes(as_ranges(single, ["x"], boxes), single.schema).held["s"]
    assert held[:, 2].all()
    assert held.sum() == 7


def test_weights_and_counts_are_columns():
    data, boxes = scene()
    weights = np.linspace(0.0, 2.0, 7) + 0.001
    out = as_ranges(data, ["x"], boxes, weights=weights, counted=["x"]).frame
    assert out.columns.tolist() == ["box", "weight", "x_lo", "x_hi", "x_distinct", "s"]
    np.testing.assert_allclose(out["weight"], np.round(weights, 2)[boxes.label])
    assert (out["box"] == boxes.label).all()


def test_middles_and_single_levels_are_points():
    data, boxes = scene()
    points = middles(data, ["x"], boxes)
    assert points.schema == data.schema
    np.testing.assert_allclose(points.frame["x"], boxes.lower[boxes.label, 0] + 0.5)
    several = [len(set(part.astype("object").fillna("gap"))) > 1 for _, part in data.frame["s"].groupby(boxes.label)]
    assert points.frame["s"][np.array(several)[boxes.label]].isna().all()


def test_only_variables_that_keep_their_name_can_take_one():
    names = {"box": "nominal", "weight": "continuous", "y_lo": "binary", "z_distinct": "continuous"}
    schema = Schema(Variable(n, k) for n, k in names.items())
    assert taken_names(schema, ["weight", "z_distinct"]) == ["box", "y_lo"]
