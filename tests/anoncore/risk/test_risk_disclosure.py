"""Quasi-identifiers: counts by pandas, distances by linear programming, risks by integration."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import linprog
from scipy.stats import nbinom

from anoncore import Microdata, Schema, Variable
from anoncore.errors import AnonymizationError
from anoncore.risk import DisclosureSettings, disclosure_risk, individual_risk


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def finite(figures: object) -> bool:
    if isinstance(figures, dict):
        return all(map(finite, figures.values()))
    if isinstance(figures, (list, tuple)):
        return all(map(finite, figures))
    return not isinstance(figures, float) or bool(np.isfinite(figures))


SCHEMA = Schema(
    [
        Variable("age", "continuous", role="quasi-identifier"),
        Variable("sex", "binary", role="quasi-identifier", levels=(0, 1)),
        Variable("region", "nominal", role="quasi-identifier", levels=("e", "n", "s", "w")),
        Variable("income", "continuous", role="sensitive"),
        Variable("grade", "ordinal", role="sensitive", levels=(1, 2, 3, 4)),
        Variable("illness", "nominal", role="sensitive", levels=("a", "b", "c")),
        Variable("weight", "continuous", role="weight"),
    ]
)


def table(n: int, seed: int, gaps: float = 0.1) -> Microdata:
    draw = rng(seed)

    def gap(values):
        return pd.Series(values).mask(draw.random(n) < gaps)

    frame = pd.DataFrame(
        {
            "age": gap(draw.integers(18, 90, n).astype(float)),
            "sex": gap(draw.integers(0, 2, n)),
            "region": gap(draw.choice(["e", "n", "s", "w"], n)),
            "income": gap(draw.integers(0, 12, n).astype(float)),
            "grade": gap(draw.integers(1, 5, n)),
            "illness": gap(draw.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])),
            "weight": draw.uniform(1, 30, n),
        }
    )
    return Microdata(frame, SCHEMA)


def by_pandas(data: Microdata, original: Microdata) -> pd.Series:
    """Group numbers, with the deciles cut by pandas."""
    edges = np.nanquantile(original.frame["age"], np.linspace(0, 1, 11)[1:-1])
    bins = pd.cut(data.frame["age"], [-np.inf, *np.unique(edges), np.inf], right=False)
    return data.frame.assign(age=bins.cat.codes).groupby(
        ["age", "sex", "region"], dropna=False, observed=True, sort=False
    )


def test_groups_as_pandas_counts_them():
    original, released = table(600, 1), table(500, 2)
    found = disclosure_risk(released, original=original, settings=DisclosureSettings(k=3), rng=rng()).released.groups
    sizes = by_pandas(released, original).size()
    assert (found.n, found.n_groups, found.smallest, found.k) == (500, len(sizes), sizes.min(), 3)
    assert found.expected == pytest.approx((sizes * (1 / sizes)).sum())
    assert found.uniques.value == pytest.approx((sizes == 1).sum() / 500)
    assert found.below_k.value == pytest.approx(sizes[sizes < 3].sum() / 500)
    assert found.highest == 1 / sizes.min()
    assert found.uniques.lower < found.uniques.value < found.uniques.upper


def test_expected_matches_by_simulation():
    data = table(300, 3)
    found = disclosure_risk(data, original=data, rng=rng()).released.groups
    sizes = by_pandas(data, data).size().to_numpy()
    own = np.repeat(1 / sizes, sizes)
    matches = (rng(4).random((20000, 300)) < own).sum(axis=1)
    assert matches.mean() == pytest.approx(found.expected, abs=0.3)
    within = (matches >= found.expected_lower) & (matches <= found.expected_upper)
    assert 0.93 < within.mean() < 0.98


def test_l_diversity_as_pandas_counts_it():
    data = table(400, 5)
    found = disclosure_risk(data, original=data, rng=rng()).released.sensitive
    groups = by_pandas(data, data)
    for risk in found:
        counts = groups[risk.name].value_counts(dropna=False)
        counts = counts[counts > 0]
        share = counts / counts.groupby(level=[0, 1, 2], dropna=False).transform("sum")
        by_group = counts.groupby(level=[0, 1, 2], dropna=False)
        assert risk.l_distinct == by_group.size().min()
        entropy = -(share * np.log(share)).groupby(level=[0, 1, 2], dropna=False).sum()
        assert risk.l_entropy == pytest.approx(np.exp(entropy.min()))
        alone = by_group.sum()[by_group.size() == 1].sum()
        assert risk.homogeneous.value == pytest.approx(alone / 400)
    assert [risk.distance for risk in found] == ["ordered", "ordered", "equal"]


def moved(p: np.ndarray, q: np.ndarray, cost: np.ndarray) -> float:
    """Solve the transport problem as a linear programme."""
    m = len(p)
    rows = np.kron(np.eye(m), np.ones(m)), np.kron(np.ones(m), np.eye(m))
    return linprog(cost.ravel(), A_eq=np.vstack(rows), b_eq=np.concatenate([p, q])).fun


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), n=st.integers(1, 40), gaps=st.sampled_from([0.0, 0.0, 0.3]))
def test_t_closeness_by_linear_programming(seed, n, gaps):
    data = table(n, seed, gaps)
    found = disclosure_risk(
        data, original=data, settings=DisclosureSettings(quasi_identifiers=["sex"]), rng=rng()
    ).released.sensitive
    for risk in found:
        column = data.frame[risk.name]
        if risk.name == "income":
            places = np.unique(column.dropna())
            code = np.where(column.isna(), -1, np.searchsorted(places, column))
        else:
            places, code = np.arange(len(SCHEMA[risk.name].levels)), column.cat.codes.to_numpy()
        m = len(places)
        cost = np.ones((m + 1, m + 1)) - np.eye(m + 1)
        if risk.distance == "ordered" and m:
            cost[:m, :m] = np.abs(np.subtract.outer(np.arange(m), np.arange(m))) / max(1, m - 1)

        def shares(codes, m=m):
            return np.bincount(np.where(codes < 0, m, codes), minlength=m + 1) / len(codes)

        group = data.frame["sex"].cat.codes.to_numpy()
        expected = max(moved(shares(code[group == g]), shares(code), cost) for g in np.unique(group))
        if risk.distance == "ordered" and gaps:  # an upper bound where numbers are missing
            assert expected - 1e-9 <= risk.t <= 1
        else:
            assert risk.t == pytest.approx(expected, abs=1e-9)


def test_t_closeness_published_example():
    """Li, Li and Venkatasubramanian 2007, salaries of Table 3: 0.375 and 0.167."""
    schema = Schema([Variable("group", "nominal"), Variable("salary", "continuous")])
    parts = {"quasi_identifiers": ["group"], "sensitive": ["salary"]}
    for salary, published in (([3, 4, 5, 6, 11, 8, 7, 9, 10], 0.375), ([6, 11, 8, 3, 5, 9, 4, 7, 10], 0.167)):
        data = Microdata(pd.DataFrame({"group": list("aaabbbccc"), "salary": salary}), schema)
        found = disclosure_risk(
            data, original=data, settings=DisclosureSettings(**parts), rng=rng()
        ).released.sensitive[0]
        assert found.t == pytest.approx(published, abs=5e-4)


@pytest.mark.parametrize("f", [1, 2, 3, 5, 10, 39, 40, 41, 200, 5000])
@pytest.mark.parametrize("p", [1e-9, 1e-4, 0.01, 0.3, 0.4999, 0.5, 0.7, 0.999, 1 - 1e-9, 1.0])
def test_individual_risk_by_integration(f, p):
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        found = individual_risk([f], [f / p])[0]
    p = min(1.0, f / (f / p))
    # With u = e^(-s/f) the integrand is smooth at every f.
    value = quad(lambda s: np.exp(-s) / f / (p + (1 - p) * np.exp(-s / f)), 0, 60, epsabs=0, epsrel=1e-12, limit=400)[0]
    assert found == pytest.approx(p * value, rel=1e-9)


@pytest.mark.parametrize(("f", "p"), [(1, 0.05), (1, 0.9), (2, 0.1), (3, 0.5), (8, 0.2), (60, 0.3)])
def test_individual_risk_is_the_mean_of_one_over_f(f, p):
    h = np.arange(f, 200_000)
    expected = (nbinom.pmf(h - f, f, p) / h).sum()
    assert individual_risk([f], [f / p])[0] == pytest.approx(expected, rel=1e-9)


def test_individual_risk_closed_forms_and_limits():
    p = np.array([0.01, 0.2, 0.6])
    q = 1 - p
    assert individual_risk([1] * 3, 1 / p) == pytest.approx(p / q * -np.log(p))
    assert individual_risk([2] * 3, 2 / p) == pytest.approx(p / q**2 * (p * np.log(p) + q))
    assert individual_risk([1, 2, 9], [1, 2, 9]) == pytest.approx([1, 1 / 2, 1 / 9], abs=0)
    assert individual_risk([4], [1.5])[0] == 0.25  # the population is no smaller than the sample
    rising = individual_risk(np.full(200, 3), np.linspace(3, 600, 200))
    assert (np.diff(rising) < 0).all()
    falling = individual_risk(np.arange(1, 100), 10.0 * np.arange(1, 100))
    assert (np.diff(falling) < 0).all()
    assert individual_risk([], []).shape == (0,)


def test_weighted_risk():
    data = table(400, 6)
    groups = data.frame.groupby(["age", "sex", "region"], dropna=False, observed=True, sort=False)
    settings = DisclosureSettings(weight="weight")
    found = disclosure_risk(data, original=data, settings=settings, rng=rng()).released.population
    sizes, totals = groups.size().to_numpy(), groups["weight"].sum().to_numpy()
    risks = individual_risk(sizes, np.maximum(totals, sizes))
    assert found.individual == pytest.approx((sizes * risks).sum())
    assert found.records.population == pytest.approx(max(data.frame["weight"].sum(), 400))
    assert found.highest == pytest.approx(risks.max())
    assert found.k_map == pytest.approx(np.maximum(totals, sizes).min())
    assert found.records.lower <= found.records.expected <= found.records.upper
    certain = Microdata(data.frame.assign(weight=1.0), SCHEMA)
    whole = disclosure_risk(certain, original=data, settings=settings, rng=rng()).released
    assert whole.population.records.expected == pytest.approx(len(groups))
    stated = disclosure_risk(data, original=data, settings=DisclosureSettings(population=400), rng=rng()).released
    assert stated.population.individual == pytest.approx(len(groups))


def test_reference_of_equal_size():
    original, released, reference = table(500, 7), table(500, 8), table(500, 9)
    found = disclosure_risk(released, original=original, reference=reference, rng=rng())
    assert found.compared == found.released
    assert found.reference == disclosure_risk(reference, original=original, rng=rng()).released
    one, other = found.released.groups, found.reference.groups
    assert one.uniques.value == pytest.approx(other.uniques.value, abs=0.1)
    larger = disclosure_risk(released, original=original, reference=table(900, 9), rng=rng(1))
    assert (larger.reference.groups.n, larger.compared.groups.n) == (500, 500)
    smaller = disclosure_risk(released, original=original, reference=table(200, 9), rng=rng(1))
    assert (smaller.released.groups.n, smaller.compared.groups.n, smaller.reference.groups.n) == (
        500,
        200,
        200,
    )
    assert smaller == disclosure_risk(released, original=original, reference=table(200, 9), rng=rng(1))


def test_binning_is_stated():
    data = table(300, 10)
    found = disclosure_risk(
        data, original=data, settings=DisclosureSettings(quasi_identifiers=["age", "income"], sensitive=[]), rng=rng()
    )
    assert found.binning[0] == "age: 10 classes, cut at the 10-quantiles of the original"
    few = Microdata(data.frame.assign(age=1.0 + rng().integers(0, 3, 300)), SCHEMA)
    found = disclosure_risk(few, original=few, settings=DisclosureSettings(quasi_identifiers=["age"]), rng=rng())
    assert found.binning == ("age: 3 classes, cut between its values",)
    assert found.released.groups.n_groups == 3


@pytest.mark.parametrize("n", [1, 2, 5])
def test_tiny_constant_and_missing(n):
    empty = pd.DataFrame({v.name: pd.Series([np.nan] * n) for v in SCHEMA}).assign(weight=1.0)
    data = Microdata(empty, SCHEMA)
    found = disclosure_risk(
        data, original=data, reference=data, settings=DisclosureSettings(weight="weight"), rng=rng()
    )
    assert finite(asdict(found))
    groups = found.released.groups
    assert (groups.n_groups, groups.smallest, groups.expected) == (1, n, 1)
    for risk in found.released.sensitive:
        assert (risk.l_distinct, risk.l_entropy, risk.t, risk.homogeneous.value) == (1, 1, 0, 1)
    assert found.released.population.highest == pytest.approx(1 / n)
    constant = Microdata(data.frame.assign(age=3.0, income=2.0, illness="a"), SCHEMA)
    assert finite(asdict(disclosure_risk(constant, original=constant, rng=rng())))


def test_unseen_levels_and_lone_people():
    data = table(100, 11, gaps=0)
    alone = Microdata(data.frame.assign(age=np.arange(100.0)), SCHEMA)
    found = disclosure_risk(
        alone, original=alone, settings=DisclosureSettings(bins=100, sensitive=["income"]), rng=rng()
    ).released
    assert (found.groups.uniques.value, found.groups.highest, found.groups.expected) == (1, 1, 100)
    assert (found.groups.expected_lower, found.groups.expected_upper) == (100, 100)
    assert (found.sensitive[0].l_distinct, found.sensitive[0].homogeneous.value) == (1, 1)
    assert disclosure_risk(data, original=alone.take(np.arange(3)), rng=rng()).released.groups.n == 100


def test_explained_and_errors():
    data = table(50, 12)
    found = disclosure_risk(data, original=data, settings=DisclosureSettings(weight="weight"), rng=rng())
    parts = found, found.released.groups, found.released.population, found.released.sensitive[0]
    assert all(part.meaning.endswith(".") for part in parts)
    for message, given_ in {
        "k and bins must be at least 2": {"settings": DisclosureSettings(k=1)},
        "quasi_identifiers must name at least one": {"settings": DisclosureSettings(quasi_identifiers=[])},
        "quasi_identifiers must be a list": {"settings": DisclosureSettings(quasi_identifiers="age")},
        "released must hold shoe": {"settings": DisclosureSettings(sensitive=["shoe"])},
        "different variables, each of them once": {"settings": DisclosureSettings(sensitive=["age"])},
        "confidence must be between 0 and 1": {"settings": DisclosureSettings(confidence=1)},
        "released must hold size": {"settings": DisclosureSettings(weight="size")},
        "weight 'income': weights must be above 0 everywhere": {"settings": DisclosureSettings(weight="income")},
        "weight 'region': weights must be numeric": {"settings": DisclosureSettings(weight="region")},
        "reference must hold age": {"reference": data.select(["sex", "region"])},
        "original must hold at least one record": {"original": data.take(np.arange(0))},
    }.items():
        with pytest.raises(AnonymizationError, match=message):
            disclosure_risk(data, rng=rng(), **{"original": data} | given_)
    for f, total in (([0], [1]), ([1.5], [2]), ([1], [0]), ([1], [np.inf]), ([1, 2], [1])):
        with pytest.raises(AnonymizationError, match=r"frequency|population"):
            individual_risk(f, total)


def test_numbers_are_in_classes_in_groups_and_as_released_in_the_population() -> None:
    income = np.arange(500.0)
    data = Microdata(pd.DataFrame({"x": income}), Schema([Variable("x", "continuous", role="quasi-identifier")]))
    settings = DisclosureSettings(population=1000)
    exact = disclosure_risk(data, original=data, settings=settings, rng=np.random.default_rng(1))
    assert (exact.released.groups.n_groups, exact.released.population.k_map, exact.cut) == (10, 2.0, ("x",))
    grouped = Microdata(data.frame // 50 * 50, data.schema)
    coarse = disclosure_risk(grouped, original=data, settings=settings, rng=np.random.default_rng(1))
    assert (coarse.released.population.k_map, coarse.cut) == (100.0, ())
