"""Linkage by some of the variables: counted as a loop counts it, found where columns stayed, none by chance."""

import numpy as np
import pandas as pd
import pytest

from anoncore import Microdata, Schema, Variable
from anoncore.encoding import EncodedTables
from anoncore.risk import subset_linkage

LEVELS = tuple("abcdefgh")
SCHEMA = Schema(
    [Variable(f"number{j}", "continuous") for j in range(3)]
    + [Variable(f"level{j}", "nominal", levels=LEVELS) for j in range(6)]
)


def people(n, seed):
    rng = np.random.default_rng(seed)
    weights = np.array([0.4, 0.2, 0.15, 0.1, 0.07, 0.05, 0.02, 0.01])
    table = {f"number{j}": np.round(rng.gamma(2.0, 3.0, n), 2) for j in range(3)}
    table |= {f"level{j}": rng.choice(LEVELS, n, p=weights) for j in range(6)}
    return Microdata(pd.DataFrame(table).mask(rng.random((n, 9)) < 0.03), SCHEMA)


def with_columns(base, source, names):
    return Microdata(base.frame.assign(**{name: source.frame[name] for name in names}), SCHEMA)


def attacked(original, released, reference=None, own=None, **more):
    tables = EncodedTables.of(original, released, reference)
    return subset_linkage(tables, own, rng=np.random.default_rng(5), **more)


def test_certain_links_are_counted_as_a_loop_counts_them():
    names = ["level0", "level1", "level2"]
    a, c, b = people(150, 1), people(150, 2), people(60, 3)
    released = with_columns(c, a, names)
    found = attacked(a, released, b, quasi_identifiers=names)
    (one,) = [subset for subset in found.subsets if subset.name == "3 unchanged variables"]
    assert found.unchanged == tuple(names)

    def key(frame):
        return [tuple(row) for row in frame[names].astype("string").fillna("").to_numpy()]

    rows = key(released.frame)
    sure = [rows.count(asked) == 1 and rows.index(asked) == i for i, asked in enumerate(key(a.frame))]
    assert one.certain.value == pytest.approx(np.mean(sure))
    assert one.nonmembers == pytest.approx(np.mean([rows.count(asked) == 1 for asked in key(b.frame)]))
    nearest = np.mean([1 / rows.count(asked) for asked in key(a.frame)])
    assert one.linked.value == pytest.approx(nearest)


@pytest.mark.parametrize(
    ("names", "name"),
    [(["number1"], "the variable number1"), ([f"level{j}" for j in range(5)], "5 unchanged variables")],
)
def test_rows_are_found_by_the_columns_that_stayed(names, name):
    a, c = people(400, 1), people(400, 2)
    found = attacked(a, with_columns(c, a, names))
    assert found.worst.name == name
    assert found.worst.rate.lower > 0.2
    assert found.worst.nonmembers is None


def test_records_with_half_of_their_cells_replaced_are_found_by_agreement():
    a, c = people(400, 1), people(400, 2)
    half = np.random.default_rng(3).random(a.frame.shape) < 0.5
    found = attacked(a, Microdata(a.frame.mask(half, c.frame), SCHEMA))
    assert not found.unchanged
    assert found.worst.name == "the best agreement on all variables"
    assert found.worst.rate.lower > 0.4


def test_an_independent_sample_is_linked_as_by_chance():
    worst = [attacked(people(300, 3 * i), people(300, 3 * i + 1), people(300, 3 * i + 2)) for i in range(10)]
    assert max(found.upper for found in worst) < 0.05
    assert not any(found.unchanged for found in worst)
    assert sum(found.worst.rate.lower > found.guess for found in worst) <= 1


def test_a_value_that_nearly_all_hold_is_not_taken_for_unchanged():
    draw = np.random.default_rng(1)
    schema = Schema([Variable("x", "continuous"), Variable("rare", "binary", levels=(0, 1))])
    frame = pd.DataFrame({"x": draw.normal(size=500), "rare": (draw.random(500) < 0.03).astype(int)})
    shuffled = frame.assign(x=draw.permutation(frame["x"]), rare=draw.permutation(frame["rare"]))
    assert (shuffled["rare"] == frame["rare"]).mean() > 0.9
    assert attacked(Microdata(frame, schema), Microdata(shuffled, schema)).unchanged == ()


def test_suppressed_rows_are_not_found_and_rows_of_others_are_errors():
    a = people(100, 1)
    own = np.where(np.arange(100) < 50, np.arange(100) - 1, -1)
    half = attacked(a, Microdata(a.frame.iloc[:49].reset_index(drop=True), SCHEMA), own=own)
    assert half.worst.rate.value < 0.1
    right = np.where(np.arange(100) < 49, np.arange(100), -1)
    assert attacked(a, a.take(np.arange(49)), own=right).worst.certain.value == pytest.approx(0.49)


def test_tables_without_a_variable_in_common_are_not_tested():
    one, other = (Microdata(pd.DataFrame({n: [1.0, 2.0]}), Schema([Variable(n, "continuous")])) for n in "ab")
    tables = EncodedTables.of(one, one, None)
    object.__setattr__(tables, "released", other)
    assert subset_linkage(tables, rng=np.random.default_rng(0)) is None


def test_a_row_of_the_own_unit_is_right_and_a_unit_counts_once():
    a, c = people(300, 1), people(300, 2)
    half = np.arange(300) // 2
    one = Microdata(a.frame, SCHEMA).with_units(half)
    turned = Microdata(a.take(np.arange(300) ^ 1).frame.reset_index(drop=True), SCHEMA)
    found = attacked(one, turned.with_units(half), c.with_units(half))
    assert found.n_people == 150
    assert found.worst.rate.value == pytest.approx(1.0)
    assert attacked(a, turned).worst.rate.value < 0.1
