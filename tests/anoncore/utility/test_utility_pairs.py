"""Associations of pairs on the variables' own scales, beside brute force and beside chance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.utility import pair_utility
from anoncore.utility.automatic import automatic_regressions
from anoncore.utility.pairs import associations

SCHEMA = Schema(
    [
        Variable("x", "continuous"),
        Variable("y", "continuous"),
        Variable("sex", "binary", levels=("f", "m")),
        Variable("town", "nominal", levels=("a", "b", "c")),
        Variable("job", "nominal", levels=("p", "q", "r", "s")),
    ]
)


def table(seed: int, records: int = 1500, slope: float = 1.0) -> Microdata:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=records)
    town = rng.integers(0, 3, records)
    frame = pd.DataFrame(
        {
            "x": x,
            "y": slope * x + town + rng.normal(size=records),
            "sex": np.where(rng.normal(size=records) + slope * x > 0, "m", "f"),
            "town": np.array(list("abc"))[town],
            "job": np.array(list("pqrs"))[(town + rng.integers(0, 2, records)) % 4],
        }
    )
    frame.loc[rng.random(records) < 0.2, "y"] = np.nan
    return Microdata(frame, SCHEMA)


def test_associations_are_those_of_the_textbook() -> None:
    data = table(1)
    found, frame = associations(data), data.frame
    both = frame.dropna()
    assert found["x", "y"] == pytest.approx(np.corrcoef(both["x"], both["y"])[0, 1])
    assert found["x", "sex"] == pytest.approx(np.corrcoef(frame["x"], frame["sex"].cat.codes)[0, 1])
    groups = both.groupby("town", observed=True)["y"]
    between = (groups.size() * (groups.mean() - both["y"].mean()) ** 2).sum()
    share = between / ((both["y"] - both["y"].mean()) ** 2).sum()
    n = len(both)
    assert found["y", "town"] == pytest.approx(np.sqrt(1 - (1 - share) * (n - 1) / (n - 3)), rel=1e-6)
    counts = pd.crosstab(frame["town"], frame["job"]).to_numpy()
    expected = np.outer(counts.sum(1), counts.sum(0)) / counts.sum()
    phi = ((counts - expected) ** 2 / expected).sum() / counts.sum() - 6 / (counts.sum() - 1)
    assert found["town", "job"] == pytest.approx(np.sqrt(phi / 2))
    assert ("y (missing)", "town") in found


def test_two_samples_are_within_and_a_reversed_sign_is_not() -> None:
    """A binary variable keeps the sign of its association: husbands who became wives are seen."""
    a = table(1)
    for seed in (2, 3, 4):
        fresh = pair_utility(a, table(seed)).worst[0]
        assert fresh.change <= max(0.1, 2 * fresh.two_samples)
        assert 0.2 * fresh.two_samples < fresh.change < 2 * fresh.two_samples
    turned = pair_utility(a, table(5, slope=-1.0), table(6)).worst
    worst = next(pair for pair in turned if pair.variables == ("x", "sex"))
    accepted = max(0.1, 2 * worst.two_samples)
    assert worst.change > 1.0 > accepted
    assert worst.reference is not None
    assert worst.reference < accepted


def test_few_records_that_carry_a_number_do_not_carry_a_correlation() -> None:
    """A number of which some records carry all variance enters by its ranks."""
    data = table(7)
    heavy = data.frame.assign(x=np.exp(6 * data.frame["x"]))
    found = associations(Microdata(heavy, SCHEMA))
    ranks = data.frame["x"].rank()
    assert found["x", "sex"] == pytest.approx(np.corrcoef(ranks, data.frame["sex"].cat.codes)[0, 1], abs=1e-6)


def test_automatic_regressions_join_nothing_that_determines_the_other() -> None:
    draw = np.random.default_rng(5)
    size = draw.integers(1, 40, 1500).astype(float)
    wage = np.exp(draw.normal(size / 20, 1.0)).round(4)
    frame = pd.DataFrame({"size": size, "wage": wage, "lwage": np.log(wage), "shift": np.abs(size - 10) // 4})
    frame["tax"] = 0.3 * frame["lwage"] + draw.normal(size=1500)
    data = Microdata(frame, Schema([Variable(name, "continuous") for name in frame]))
    chosen = {one.outcome: set(one.predictors) for one in automatic_regressions(data, most=5)}
    assert chosen["tax"] in ({"wage", "size"}, {"lwage", "size"}, {"lwage", "shift"})
    assert all(not {"wage", "lwage"} <= {n, *of} and not {"size", "shift"} <= {n, *of} for n, of in chosen.items())


def test_automatic_regressions_do_not_join_what_an_edit_computes_with_its_parts() -> None:
    draw = np.random.default_rng(6)
    height, weight, age = 170 + 10 * draw.normal(size=1500), 70 + 12 * draw.normal(size=1500), draw.normal(size=1500)
    frame = pd.DataFrame({"height": height, "weight": weight + 3 * age, "age": age})
    frame["bmi"] = 1e4 * frame["weight"] / height**2
    frame["heavy"] = frame["bmi"].round(-1)
    data = Microdata(frame, Schema([Variable(name, "continuous") for name in frame]))
    computed = {"bmi": ("weight", "height"), "heavy": ("bmi",)}
    free, tied = (automatic_regressions(data, 5, one) for one in ({}, computed))
    joined = {frozenset({one.outcome, other}) for one in tied for other in one.predictors}
    assert joined
    assert all("age" in pair for pair in joined)
    assert {"weight", "heavy"} & set(next(one.predictors for one in free if one.outcome == "height"))


def test_automatic_regressions_join_what_belongs_together() -> None:
    chosen = {one.outcome: one.predictors for one in automatic_regressions(table(1))}
    assert set(chosen["y"]) >= {"x", "town"}
    assert len(automatic_regressions(table(1), most=1)) == 1
