"""Declared regressions: beside statsmodels, by hand, and where nothing can be estimated."""

import math
import warnings
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from scipy.optimize import minimize

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.utility import Regression, regression_utility
from anoncore.utility._coefficients import Estimate, overlap
from anoncore.utility._fits import independent_columns, logistic

LINEAR = Regression(outcome="y", predictors=("x", "g", "o"))
LOGISTIC = Regression(outcome="s", predictors=("x", "g", "o"), kind="logistic")
VARIABLES = (
    Variable("y", "continuous"),
    Variable("x", "continuous"),
    Variable("g", "nominal", levels=("a", "b", "c")),
    Variable("o", "ordinal", levels=(1, 2)),
    Variable("s", "binary", levels=("no", "yes")),
    Variable("w", "continuous"),
)


def table(size, seed, **changes):
    rng = np.random.default_rng(seed)
    x, g, o = (
        rng.normal(50, 10, size),
        rng.choice(list("abc"), size, p=[0.5, 0.3, 0.2]),
        rng.integers(1, 3, size),
    )
    score = (x - 50) / 10 + (g == "b") - 0.5 * (g == "c")
    frame = pd.DataFrame(
        {
            "y": 1000 + 20 * score + rng.normal(0, 30, size),
            "x": np.where(rng.random(size) < 0.05, np.nan, x),
            "g": np.where(rng.random(size) < 0.05, None, g),
            "o": o,
            "s": np.where(score + rng.logistic(size=size) > 0, "yes", "no"),
            "w": rng.gamma(3, size=size),
        }
    ).assign(**changes)
    return Microdata(frame, Schema(VARIABLES))


def weighted(data):
    schema = Schema([*data.schema.variables[:-1], Variable("w", "continuous", role="weight")])
    return Microdata(data.frame, schema)


def oracle(data, kind, weights):
    """Fit with statsmodels on a design made by hand."""
    f = data.frame.dropna()
    X = np.column_stack([np.ones(len(f)), f["x"], f["g"] == "b", f["g"] == "c", f["o"] == 2]).astype(float)
    w = f["w"].to_numpy() / f["w"].mean()
    if kind == "linear":
        model = sm.WLS(f["y"], X, weights=w) if weights else sm.OLS(f["y"], X)
        if data.units is None:
            return model.fit(cov_type="HC1", use_t=True)
        return model.fit(cov_type="cluster", cov_kwds={"groups": data.units[f.index]}, use_t=True)
    success = (f["s"] == "yes").to_numpy().astype(float)
    # What statsmodels calls HC1 for a GLM lacks the factor n / (n − p).
    model = sm.GLM(success, X, family=sm.families.Binomial(), var_weights=w if weights else np.ones(len(w)))
    if data.units is not None:
        return model.fit(tol=1e-14, cov_type="cluster", cov_kwds={"groups": data.units[f.index]})
    fit = model.fit(tol=1e-14, cov_type="HC0")
    fit.cov_params_default *= len(w) / (len(w) - X.shape[1])
    return fit


def test_errors_follow_the_design_by_taylor_linearisation():
    """Totals of the scores by sampling unit, about the mean of their stratum; one unit alone in a stratum about 0."""
    rng, data = np.random.default_rng(4), table(300, 4)
    stratum = np.minimum(np.arange(300) // 50, 5)
    psu = np.where(stratum == 5, 0, rng.integers(3, size=300))
    frame = data.frame.assign(h=stratum.astype(str), c=psu.astype(str))
    roles = (Variable("h", "nominal", role="stratum"), Variable("c", "nominal", role="sampling-unit"))
    data = Microdata(frame, Schema([*weighted(data).schema.variables, *roles]))
    found = regression_utility(LINEAR, data, data).released.coefficients
    fit = oracle(data, "linear", True)
    f = data.frame.dropna()
    scores = fit.model.exog * np.asarray(fit.resid * fit.model.weights)[:, None]
    meat = np.zeros((5, 5))
    for _, rows in f.reset_index().groupby("h", observed=True):
        totals = [scores[part.index].sum(axis=0) for _, part in rows.groupby("c", observed=True)]
        n = len(totals)
        about = np.mean(totals, axis=0) if n > 1 else 0.0
        meat += sum(np.outer(t - about, t - about) for t in totals) * (n / (n - 1) if n > 1 else 1.0)
    bread = np.linalg.inv(fit.model.exog.T @ (fit.model.exog * np.asarray(fit.model.weights)[:, None]))
    errors = np.sqrt(np.diag(bread @ meat @ bread) * (len(f) - 1) / (len(f) - 5))
    np.testing.assert_allclose([row.original.error for row in found], errors, rtol=1e-7)


@pytest.mark.parametrize("declared", [LINEAR, LOGISTIC], ids=["linear", "logistic"])
@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("of_unit", [1, 3], ids=["records", "households"])
def test_agrees_with_statsmodels(declared, weights, of_unit):
    a, b = table(400, 0), table(300, 1)
    prepared = (weighted(a), weighted(b)) if weights else (a, b)
    if of_unit > 1:
        a, b = prepared = tuple(Microdata(t.frame, t.schema, units=np.arange(len(t)) // of_unit) for t in prepared)
    found = regression_utility(declared, *prepared).released
    assert [row.term for row in found.coefficients] == ["(constant)", "x", "g=b", "g=c", "o=2"]
    assert (found.records, found.other_records) == (len(a.frame.dropna()), len(b.frame.dropna()))
    shared = []
    for side, data in (("original", a), ("other", b)):
        fit = oracle(data, declared.kind, weights)
        ours = [getattr(row, side) for row in found.coefficients]
        np.testing.assert_allclose([one.estimate for one in ours], fit.params, rtol=1e-7)
        np.testing.assert_allclose([one.error for one in ours], fit.bse, rtol=1e-6)
        interval = np.asarray(fit.conf_int())
        np.testing.assert_allclose([one.lower for one in ours], interval[:, 0], rtol=1e-5, atol=1e-6)
        shared.append((np.asarray(fit.params), np.asarray(fit.bse), interval))
    (b0, se, i0), (b1, _, i1) = shared
    length = np.minimum(i0[:, 1], i1[:, 1]) - np.maximum(i0[:, 0], i1[:, 0])
    expected = np.maximum(length, 0) * (1 / np.ptp(i0, axis=1) + 1 / np.ptp(i1, axis=1)) / 2
    np.testing.assert_allclose([row.overlap for row in found.coefficients], expected, atol=1e-6)
    assert found.mean_overlap == pytest.approx(expected.mean(), abs=1e-6)
    np.testing.assert_allclose(
        [row.difference for row in found.coefficients], np.abs(b1 - b0) / se, rtol=1e-5, atol=1e-7
    )
    assert found.worst == [row.term for row in found.coefficients][int(expected.argmin())]


def test_exact_least_squares_far_from_zero():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": 1e7 + rng.normal(size=200), "y": 0.0})
    frame["y"] = 3 + 2 * (frame["x"] - 1e7) + rng.normal(size=200)
    data = Microdata(frame, Schema([Variable("x", "continuous"), Variable("y", "continuous")]))
    found = regression_utility(Regression(outcome="y", predictors=("x",)), data, data).released
    centred = sm.OLS(frame["y"], sm.add_constant(frame["x"] - 1e7)).fit(cov_type="HC1")
    slope = found.coefficients[1].original
    assert slope.estimate == pytest.approx(centred.params["x"], rel=1e-8)
    assert slope.error == pytest.approx(centred.bse["x"], rel=1e-8)


@pytest.mark.parametrize("declared", [LINEAR, LOGISTIC], ids=["linear", "logistic"])
def test_the_original_overlaps_wholly_and_noise_less_and_less(declared):
    a = table(1500, 3)
    noise = np.random.default_rng(4).normal(size=1500)
    means = []
    for scale in (0, 1, 3, 10):
        blurred = a.frame["x"] + scale * noise
        means.append(regression_utility(declared, a, table(1500, 3, x=blurred)).released.mean_overlap)
    assert means[0] == 1
    assert (np.diff(means) < 0).all()
    same = regression_utility(declared, a, a, a)
    assert asdict(same.released) == asdict(same.reference)
    assert same.released.largest_difference == 0
    assert same.released.agreeing == 1


def test_an_independent_sample_is_as_the_reference_and_as_theory_says():
    pairs = [
        regression_utility(LINEAR, table(200, 3 * s), table(200, 3 * s + 1), table(200, 3 * s + 2)) for s in range(60)
    ]
    means = [np.mean([getattr(p, side).mean_overlap for p in pairs]) for side in ("released", "reference")]
    d = np.abs(np.random.default_rng(0).normal(0, np.sqrt(2), 100_000))
    theory = np.maximum(0, 1 - d / (2 * 1.96)).mean()
    assert theory == pytest.approx(0.71, abs=0.01)
    assert means == pytest.approx([theory, theory], abs=0.05)


def test_overlap_by_hand():
    def interval(low, high):
        return Estimate((low + high) / 2, 1, low, high)

    assert overlap(interval(0, 2), interval(1, 2)) == pytest.approx(0.75)
    assert overlap(interval(0, 1), interval(2, 3)) == 0
    assert overlap(interval(1, 1), interval(0, 2)) == 0.5
    assert overlap(interval(1, 1), interval(1, 1)) == 1
    assert overlap(interval(1, 1), interval(2, 2)) == 0


def test_a_combination_of_columns_is_dropped_and_said():
    a = table(200, 5)
    schema = Schema([*VARIABLES, Variable("twice", "continuous"), Variable("flat", "continuous")])
    wide = Microdata(a.frame.assign(twice=2 * a.frame["x"] - 3, flat=7.0), schema)
    noisy = Microdata(
        a.frame.assign(twice=2 * a.frame["x"] + np.random.default_rng(0).normal(size=200), flat=7.0), schema
    )
    declared = Regression(outcome="y", predictors=("x", "twice", "flat"))
    for other in (wide, noisy):
        found = regression_utility(declared, wide, other).released
        kept, gone = found.coefficients[:2], found.coefficients[2:]
        assert [row.term for row in gone] == ["twice", "flat"]
        assert all(row.original is row.other is row.overlap is None and "combination" in row.note for row in gone)
        assert found.mean_overlap == 1
        assert all(row.overlap == 1 for row in kept)
    lost = regression_utility(declared, noisy, wide).released
    by_term = {row.term: row for row in lost.coefficients}
    assert by_term["twice"].original is not None
    assert by_term["twice"].overlap == 0
    assert lost.worst == "twice"


def test_absent_levels_have_no_overlap_and_the_base_is_common():
    a = table(400, 6)
    no_c = table(400, 6, g=a.frame["g"].astype(object).where(a.frame["g"] != "c", "b"))
    found = regression_utility(LINEAR, a, no_c).released
    row = next(row for row in found.coefficients if row.term == "g=c")
    assert (row.other, row.overlap, row.difference, row.agrees) == (None, 0, None, False)
    assert "no complete record" in row.note
    no_a = table(400, 6, g=a.frame["g"].astype(object).where(a.frame["g"] != "a", "b"))
    terms = [row.term for row in regression_utility(LINEAR, a, no_a).released.coefficients]
    assert "g=b" not in terms
    assert "g=a" in terms
    apart = table(400, 6, g="c")
    only_b = table(400, 6, g="b")
    found = regression_utility(LINEAR, apart, only_b).released
    assert any("no level in common" in note for note in found.notes)
    assert found.mean_overlap == 1


def test_levels_that_only_the_release_has_do_not_disturb_the_others():
    a = table(300, 7)
    frame = a.frame.copy()
    frame["g"] = frame["g"].astype(object).where(np.arange(300) % 5 > 0, "rest")
    levels = ("a", "b", "c", "rest")
    variables = [Variable("g", "nominal", levels=levels) if v.name == "g" else v for v in VARIABLES]
    found = regression_utility(LINEAR, a, Microdata(frame, Schema(variables))).released
    row = next(row for row in found.coefficients if row.term == "g=rest")
    assert row.original is None
    assert row.other is not None
    assert row.overlap is None
    assert 0.4 < found.mean_overlap < 1


def separated(size, seed):
    data = table(size, seed)
    return table(size, seed, s=np.where(data.frame["x"].fillna(50) > 50, "yes", "no"))


def test_firth_agrees_with_a_general_optimiser():
    rng = np.random.default_rng(8)
    X = np.column_stack([np.ones(25), rng.normal(size=25), rng.random(25) < 0.3]).astype(float)
    y = (X[:, 1] > 0.2).astype(float)

    def loss(b):
        score = X @ b
        p = 1 / (1 + np.exp(-score))
        penalty = np.linalg.slogdet(X.T @ ((p * (1 - p))[:, None] * X))[1] / 2
        return (np.logaddexp(0, score) - y * score).sum() - penalty

    fit = logistic(X, y, None, firth=True)
    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
    assert loss(fit.coefficients) == pytest.approx(best.fun, abs=1e-9)
    np.testing.assert_allclose(fit.coefficients, best.x, rtol=1e-4)


def test_perfect_separation_is_fitted_by_firth_on_both_sides():
    a, b = table(300, 9), separated(300, 9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = regression_utility(LOGISTIC, a, b).released
        same = regression_utility(LOGISTIC, b, b).released
    assert found.estimator == same.estimator == "Firth"
    assert same.mean_overlap == 1
    assert found.mean_overlap < 0.8
    assert finite(found)
    assert regression_utility(LOGISTIC, a, a).released.estimator == "maximum likelihood"


def test_quasi_separation_by_one_level():
    a = table(300, 10)
    b = table(300, 10, s=a.frame["s"].astype(object).where(a.frame["g"] != "c", "no"))
    found = regression_utility(LOGISTIC, a, b).released
    assert found.estimator == "Firth"
    assert finite(found)
    assert {row.term: row.overlap for row in found.coefficients}["g=c"] < 0.6


def finite(found):
    values = [
        value
        for row in found.coefficients
        for side in (row.original, row.other)
        if side is not None
        for value in asdict(side).values()
    ]
    return bool(np.isfinite(values).all())


def test_exact_relations_overlap_although_their_errors_are_rounding():
    a, b = table(300, 11), table(300, 12)
    schema = Schema([*VARIABLES, Variable("sum", "continuous")])
    exact = [Microdata(t.frame.assign(sum=t.frame["x"] + t.frame["y"]), schema) for t in (a, b)]
    found = regression_utility(Regression(outcome="sum", predictors=("x", "y")), *exact).released
    assert found.mean_overlap > 0.95
    assert found.largest_difference < 1


@pytest.mark.parametrize(
    ("declared", "changes", "message"),
    [
        (LINEAR, {"y": math.nan}, "no record is complete"),
        (LOGISTIC, {"s": "yes"}, "same value"),
        (LOGISTIC, {"s": None}, "no record is complete"),
    ],
)
def test_what_cannot_be_fitted_has_a_defined_result(declared, changes, message):
    a, b = table(60, 13), table(60, 13, **changes)
    lost = regression_utility(declared, a, b, a)
    assert message in lost.released.problem
    assert lost.released.mean_overlap == 0
    assert lost.reference.mean_overlap == 1
    void = regression_utility(declared, b, a).released
    assert (void.mean_overlap, void.coefficients) == (None, ())
    assert message in void.problem


def test_a_release_that_does_not_converge_has_lost_every_coefficient(monkeypatch):
    a = table(300, 13)
    apart = a.frame.assign(s=np.where(a.frame["x"] > 50, "yes", "no"))
    monkeypatch.setattr("anoncore.utility._fits.FIRTH_STEPS", 1)
    separated = Microdata(apart, a.schema)
    lost = regression_utility(LOGISTIC, a, separated)
    assert lost.released.mean_overlap == 0
    assert not lost.fitted
    assert "did not settle" in lost.released.problem
    assert regression_utility(LOGISTIC, separated, a).released.mean_overlap is None


def test_few_records_absent_outcome_and_empty_predictors():
    a = table(60, 14)
    assert "too few" in regression_utility(LINEAR, a, a.take(np.arange(4))).released.problem
    gone = regression_utility(LINEAR, a, a.select(["x", "g", "o", "s", "w"])).released
    assert gone.mean_overlap == 0
    assert "outcome is not there" in gone.problem
    empty = regression_utility(LINEAR, a, table(60, 14, x=math.nan)).released
    assert any(note.startswith("x: left out") for note in empty.notes)
    assert [row.term for row in empty.coefficients] == ["(constant)", "g=b", "g=c", "o=2"]
    constant = regression_utility(LINEAR, a, table(60, 14, y=5.0)).released
    assert finite(constant)
    assert regression_utility(LINEAR, table(60, 14, y=5.0), table(60, 14, y=5.0)).released.mean_overlap == 1


def test_event_of_several_levels():
    a, b = table(300, 15), table(300, 16)
    one = regression_utility(Regression(outcome="g", predictors=("x",), kind="logistic", event="b"), a, b)
    f = a.frame.dropna(subset=["x", "g"])
    fit = sm.Logit((f["g"] == "b").astype(float), sm.add_constant(f["x"])).fit(disp=0)
    assert one.released.coefficients[1].original.estimate == pytest.approx(fit.params["x"], rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    sizes=st.tuples(st.integers(1, 14), st.integers(1, 14)),
    spread=st.integers(1, 3),
    kind=st.sampled_from(["linear", "logistic"]),
)
def test_always_defined(seed, sizes, spread, kind):
    rng = np.random.default_rng(seed)
    schema = Schema(
        [
            Variable(
                "y",
                "continuous" if kind == "linear" else "binary",
                levels=None if kind == "linear" else (0, 1),
            ),
            Variable("x", "continuous"),
            Variable("g", "nominal", levels=(0, 1, 2)),
            Variable("w", "continuous", role="weight"),
        ]
    )
    sides = [
        Microdata(
            pd.DataFrame(
                {
                    "y": rng.integers(0, min(2, spread), n),
                    "x": np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, spread, n)),
                    "g": rng.integers(0, spread, n),
                    "w": rng.integers(0, 3, n),
                }
            ),
            schema,
        )
        for n in sizes
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = regression_utility(Regression(outcome="y", predictors=("x", "g"), kind=kind), *sides).released
    assert found.mean_overlap is None or 0 <= found.mean_overlap <= 1 + 1e-12
    assert finite(found)


def test_independent_columns_against_rank():
    rng = np.random.default_rng(17)
    base = rng.normal(size=(50, 3))
    X = np.column_stack([np.ones(50), base, base @ rng.normal(size=(3, 2)), rng.normal(size=50), np.full(50, 0.3)])
    kept = independent_columns(X, None)
    assert kept.tolist() == [True, True, True, True, False, False, True, False]
    assert np.linalg.matrix_rank(X[:, kept]) == np.linalg.matrix_rank(X) == kept.sum()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"predictors": ()}, "needs at least one predictor"),
        ({"predictors": ("x", "y")}, "names twice: y"),
        ({"predictors": ("x",), "level": 1.0}, "between 0.5 and 1"),
        ({"predictors": ("x",), "kind": "probit"}, "linear or logistic"),
        ({"predictors": ("x",), "event": 1}, "leave it out"),
    ],
)
def test_impossible_declarations(options, message):
    with pytest.raises(AnonymizationError, match=message):
        Regression(outcome="y", **options)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (Regression(outcome="y", predictors=("z",)), "'z' is not among"),
        (Regression(outcome="g", predictors=("x",)), "continuous outcome"),
        (Regression(outcome="y", predictors=("x",), kind="logistic"), "outcome with levels"),
        (Regression(outcome="g", predictors=("x",), kind="logistic"), "has 3 levels"),
        (Regression(outcome="g", predictors=("x",), kind="logistic", event="z"), "event is not a level"),
    ],
)
def test_declarations_that_do_not_suit_the_table(declared, message):
    a = table(30, 0)
    assert any(message in problem for problem in declared.problems(a.schema))
    with pytest.raises(AnonymizationError, match=message):
        regression_utility(declared, a, a)


def test_a_plan_can_hold_it():
    adapter = TypeAdapter(Regression)
    read = adapter.validate_python({"outcome": "s", "predictors": ["x", "g"], "kind": "logistic", "event": "yes"})
    assert read == Regression(outcome="s", predictors=("x", "g"), kind="logistic", event="yes")
    with pytest.raises(ValidationError):
        adapter.validate_python({"outcome": "s", "predictors": ["x"], "kind": "probit"})
