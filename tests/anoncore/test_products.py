"""Products and ratios: found with their factor, computed after masking, and kept within limits while drawing."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import AnonymizationError, EditSet, Microdata, Schema, Variable
from anoncore.edits.dependents import complete, without_dependents
from anoncore.edits.kinds import BoundEdit, LinearEdit
from anoncore.edits.product import ProductEdit
from anoncore.edits.repair import repair
from anoncore.edits.serialization import from_dict, to_dict
from anoncore.methods import SequentialTrees
from anoncore.profile import find_rules

BMI = ProductEdit(name="bmi", dependent="bmi", of={"kg": 1, "cm": -2}, factor=10000, tolerance=0.005)
SCHEMA = Schema([Variable(n, "continuous", precision=p) for n, p in {"kg": 0.1, "cm": 0.1, "bmi": 0.01}.items()])


def people(n=900, seed=0):
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({"kg": draw.normal(75, 12, n).round(1), "cm": draw.normal(170, 9, n).round(1)})
    frame["bmi"] = (10000 * frame.kg / frame.cm**2).round(2)
    return Microdata(frame, SCHEMA)


def test_a_product_holds_up_to_its_tolerance_and_where_all_cells_are_present():
    frame = pd.DataFrame(
        {"kg": [80.0, 80, np.nan, 80, 80], "cm": [200.0, 200, 200, 0, 200], "bmi": [20, 21, 21, 9, np.nan]}
    )
    assert BMI.applies(frame).tolist() == [True, True, False, False, False]
    assert BMI.holds(frame).tolist() == [True, False, True, True, True]
    assert from_dict(to_dict(BMI)) == BMI


@pytest.mark.parametrize("wrong", [{"of": {}}, {"of": {"kg": 0}}, {"of": {"bmi": 1}}, {"factor": 0}, {"tolerance": -1}])
def test_a_product_that_computes_nothing_is_refused(wrong):
    with pytest.raises(AnonymizationError, match="edit 'bmi'"):
        ProductEdit(**{"name": "bmi", "dependent": "bmi", "of": {"kg": 1}} | wrong)


def test_products_are_found_with_a_round_factor_and_what_follows_from_them():
    source = people().frame.assign(spare=np.random.default_rng(1).normal(50, 5, 900).round(1))
    source["obese"] = (source.bmi >= 27).astype(int)
    rules = find_rules(Microdata.from_frame(source))
    (edit,) = [f.edit for f in rules if f.active and isinstance(f.edit, ProductEdit)]
    assert (edit.dependent, dict(edit.of), edit.factor) == ("bmi", {"kg": 1, "cm": -2}, 10000)
    assert 0.005 <= edit.tolerance <= 0.02
    names = {f.edit.name for f in rules if f.active}
    assert {"obese follows from bmi", "limits of bmi"} <= names
    masked_alike = source.assign(bmi=source.bmi.where(source.kg > 70))
    assert not [f for f in find_rules(Microdata.from_frame(masked_alike)) if f.active and f.edit.edit == "product"]


def workers(n=900, seed=0):
    draw = np.random.default_rng(seed)
    hours = np.where(draw.random(n) < 0.3, 0, draw.integers(5, 60, n))
    frame = pd.DataFrame({"hours": hours, "rate": draw.lognormal(2.5, 0.4, n).round(2)})
    return frame.assign(pay=(frame.hours * frame.rate).round(2))


def test_products_are_found_beside_zeros():
    (edit,) = [f.edit for f in find_rules(Microdata.from_frame(workers())) if f.active and f.edit.edit == "product"]
    assert (edit.dependent, dict(edit.of), edit.factor) == ("pay", {"hours": 1, "rate": 1}, 1)
    schema = Schema(
        [Variable(n, "continuous", precision=p) for n, p in {"hours": 1, "rate": 0.01, "pay": 0.01}.items()]
    )
    edits = EditSet([edit])
    given = without_dependents(Microdata(workers(), schema), edits)
    drawn = anoncore.anonymize(given, SequentialTrees(leaf=20), edits=edits, rng=np.random.default_rng(0)).data
    masked = complete(drawn, edits, schema).frame
    assert edit.holds(masked).all()
    assert ((masked.hours == 0) == (masked.pay == 0)).all()
    assert (masked.hours == 0).mean() == pytest.approx(0.3, abs=0.05)


def test_a_ratio_is_found_with_what_stands_beside_a_divisor_of_zero():
    source = workers()[["hours", "pay"]]
    rate = (source.pay / source.hours.where(source.hours > 0)).round(3)
    some = rate.fillna(pd.Series(np.arange(len(rate)) % 3, rate.index))
    for values, otherwise, active in ((rate, None, True), (rate.fillna(0), 0, True), (some, None, False)):
        rules = find_rules(Microdata.from_frame(source.assign(hourly=values)))
        (found,) = [f for f in rules if f.edit.edit == "product"]
        assert (found.edit.dependent, dict(found.edit.of)) == ("hourly", {"hours": -1, "pay": 1})
        assert (found.active, found.edit.otherwise) == (active, otherwise)
        assert ("divides and is 0" in found.reason) == (not active)


def test_what_stands_where_a_product_gives_no_number_is_computed_and_checked():
    edit = ProductEdit(name="rate", dependent="rate", of={"hits": 1, "tries": -1}, otherwise=0)
    frame = pd.DataFrame({"hits": [1.0, 0, 0, np.nan], "tries": [2.0, 0, 0, 0], "rate": [0.5, 0, 1, np.nan]})
    np.testing.assert_array_equal(edit.solve(frame), [0.5, 0, 0, np.nan])
    assert edit.holds(frame).tolist() == [True, True, False, True]
    assert from_dict(to_dict(edit)) == edit
    with pytest.raises(AnonymizationError, match="otherwise must be finite"):
        replace(edit, otherwise=np.inf)


def test_a_column_of_zeros_beside_positive_factors_is_no_product():
    source = workers()
    source["some"] = np.where(np.arange(len(source)) % 4 == 0, 0, source.pay)
    rules = find_rules(Microdata.from_frame(source))
    assert "some" not in {f.edit.dependent for f in rules if f.edit.edit == "product"}


def test_a_product_that_gives_another_number_than_a_frequent_zero_is_not_computed():
    """Monthly expenditure in a share of the income, to which a constant was added: zeros would vanish."""
    draw = np.random.default_rng(2)
    n = 900
    income = draw.gamma(4.0, 0.9, n).round(2) + 1
    spent = np.where(draw.random(n) < 0.25, 0.0, draw.gamma(1.5, 150.0, n).round(2) + 20)
    frame = pd.DataFrame({"income": income, "share": 0.0012 * (spent + 0.3) / income, "spent": spent})
    (found,) = [f for f in find_rules(Microdata.from_frame(frame)) if isinstance(f.edit, ProductEdit)]
    assert (found.active, found.reason) == (False, "the product is another number where 0 stands")
    frame["share"] = 0.0012 * spent / income
    assert [f.active for f in find_rules(Microdata.from_frame(frame)) if isinstance(f.edit, ProductEdit)] == [True]


def test_an_average_is_no_product():
    draw = np.random.default_rng(0)
    first = draw.normal(120, 15, 500).round()
    second = first + 2 * draw.integers(-1, 2, 500)
    frame = pd.DataFrame({"first": first, "mean": (first + second) / 2, "second": second})
    add = LinearEdit(name="mean", terms={"first": 1, "second": 1, "mean": -2}, dependent="mean")
    rules = find_rules(Microdata.from_frame(frame), [anoncore.profile.Finding(add)])
    assert not [f for f in rules if f.edit.edit == "product"]


def test_a_product_is_computed_after_drawing_within_its_limits_and_followed_by_repair():
    source = people(1500)
    limits = BoundEdit(name="limits", variable="bmi", lower=16, upper=37)
    edits = EditSet([BMI, limits])
    free, kept = (
        complete(
            anoncore.anonymize(
                without_dependents(source, edits), SequentialTrees(), rng=np.random.default_rng(1), edits=rules
            ).data,
            edits,
            source.schema,
        )
        for rules in (EditSet(), edits)
    )
    assert edits.violations(kept.frame)["limits"] <= 5 < 20 <= edits.violations(free.frame)["limits"]
    assert kept.schema["bmi"].precision == 0.01
    repaired = repair(free, edits, rng=np.random.default_rng(2)).data
    assert edits.satisfied(repaired.frame).all()


def test_what_never_occurs_beside_a_product_is_not_drawn():
    source = people(1500)
    frame = source.frame.assign(
        weight=np.where(source.frame.bmi >= 30, "high", np.where(source.frame.bmi < 20, "low", "mid"))
    )
    schema = Schema([*SCHEMA, Variable("weight", "nominal")])
    edits = EditSet([BMI])
    given = without_dependents(Microdata(frame, schema), edits)
    drawn = anoncore.anonymize(given, SequentialTrees(leaf=20), rng=np.random.default_rng(1), edits=edits).data
    bmi = complete(drawn, edits, schema).frame.bmi
    far = (drawn.frame.weight == "high") & (bmi < 27) | (drawn.frame.weight == "low") & (bmi > 23)
    assert far.sum() <= 12
