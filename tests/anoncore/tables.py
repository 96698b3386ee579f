"""Small tables for tests, built without any framework so that a child process has them quickly."""

import numpy as np
import pandas as pd

from anoncore import Microdata, Schema, Variable


def mixed_table() -> Microdata:
    """A small table with every kind of variable, with and without gaps."""
    rng = np.random.default_rng(1)
    n = 240
    income = np.exp(rng.normal(8, 1, n)).round()
    frame = pd.DataFrame(
        {
            "income": np.where(rng.random(n) < 0.1, np.nan, income),
            "change": rng.normal(0, 3, n).round(2),
            "grade": rng.choice(["low", "mid", "high"], n, p=[0.5, 0.3, 0.2]),
            "region": rng.choice(["n", "e", "s", "w"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "sex": rng.choice([0, 1], n),
            "smokes": pd.array(np.where(rng.random(n) < 0.2, -1, rng.integers(0, 2, n))),
            "constant": 3.0,
            "empty": np.nan,
        }
    )
    schema = Schema(
        [
            Variable("income", "continuous", role="sensitive"),
            Variable("change", "continuous"),
            Variable("grade", "ordinal", levels=("low", "mid", "high")),
            Variable("region", "nominal", role="quasi-identifier"),
            Variable("sex", "binary", role="quasi-identifier"),
            Variable("smokes", "binary", levels=(0, 1), missing=(-1,)),
            Variable("constant", "continuous"),
            Variable("empty", "continuous"),
        ]
    )
    return Microdata(frame, schema)


def tied_table() -> Microdata:
    """Few distinct records, many of them repeated, and a variable that is computed from another."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "a": rng.integers(0, 3, 90).astype(float),
            "b": rng.integers(0, 2, 90),
            "c": rng.choice(list("xyz"), 90),
        }
    )
    frame["d"] = 2 * frame["a"] + 1
    frame = pd.concat([frame, frame.iloc[:30]], ignore_index=True)
    kinds = {"a": "continuous", "b": "binary", "c": "nominal", "d": "continuous"}
    return Microdata(frame, Schema(Variable(name, kind) for name, kind in kinds.items()))


def symmetric_table() -> Microdata:
    """A full factorial design: all principal axes are equally long."""
    design = np.array(np.meshgrid(*[[0, 1]] * 5)).reshape(5, -1).T
    frame = pd.DataFrame(np.tile(design, (4, 1)), columns=list("abcde"))
    frame["f"] = np.arange(len(frame)) % 4
    binary = [Variable(name, "binary") for name in "abcde"]
    return Microdata(frame, Schema([*binary, Variable("f", "nominal", levels=(0, 1, 2, 3))]))


def table(n_records, n_columns, seed=0, offset=0.0):
    """Correlated columns, read-only."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_records, n_columns)) @ rng.normal(size=(n_columns, n_columns)) + offset
    x.setflags(write=False)
    return x


def dependent_table(n_records, seed=0):
    """Continuous, binary, constant, duplicate and summed columns, read-only."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n_records))
    c = rng.choice([-1.0, 1.0], n_records)
    x = np.column_stack([a, b, a + b, c, c, np.full(n_records, 0.1), rng.exponential(size=n_records)])
    x.setflags(write=False)
    return x
