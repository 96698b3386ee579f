"""Levels under other names: found where there is evidence, and not in samples or useful releases."""

import numpy as np
import pandas as pd

from anoncore import Microdata, Schema, Variable
from anoncore.risk import relabelling

LEVELS = tuple("abcd")
SCHEMA = Schema(
    [Variable("x", "continuous"), Variable("sex", "binary", levels=("f", "m"))]
    + [Variable(f"level{j}", "nominal", levels=LEVELS) for j in range(3)]
)


def people(n, seed):
    rng = np.random.default_rng(seed)
    table = {"x": rng.normal(size=n), "sex": rng.choice(["f", "m"], n)}
    table["x"] += table["sex"] == "m"
    table |= {f"level{j}": rng.choice(LEVELS, n, p=[0.4, 0.3, 0.2, 0.1]) for j in range(3)}
    return Microdata(pd.DataFrame(table).mask(rng.random((n, 5)) < 0.02), SCHEMA)


def renamed(data, schema=SCHEMA, **names):
    frame = data.frame.assign(**{column: data.frame[column].astype(object).map(to) for column, to in names.items()})
    return Microdata(frame, schema)


TURNED = dict(zip("abcd", "dcba", strict=True))
SWAPPED = {"f": "m", "m": "f"}


def test_the_original_a_sample_and_independent_columns_keep_their_names():
    a, c = people(800, 1), people(800, 2)
    draw = np.random.default_rng(3)
    shuffled = Microdata(
        a.frame.apply(lambda column: column.sample(frac=1, random_state=int(draw.integers(99)))), SCHEMA
    )
    shuffled = Microdata(shuffled.frame.reset_index(drop=True), SCHEMA)
    for released in (a, c, shuffled, a.take(draw.permutation(800))):
        found = relabelling(a, released)
        assert found.variables == ()
        assert found.n_variables == 4


def test_exchanged_levels_are_found_by_their_counts_and_beside_others():
    a, c = people(800, 1), people(800, 2)
    assert relabelling(a, renamed(c, level1=TURNED)).renamed == ("level1",)
    # Equally many women and men, but of different x.
    assert "sex" in relabelling(a, renamed(c, sex=SWAPPED)).renamed


def test_records_that_are_kept_under_other_names_are_found_where_levels_are_alike():
    rng = np.random.default_rng(5)
    schema = Schema([Variable(f"v{j}", "binary", levels=(0, 1)) for j in range(8)])
    a, c = (Microdata(pd.DataFrame(rng.integers(0, 2, (700, 8)), columns=schema.names), schema) for _ in range(2))
    exchanged = Microdata(1 - a.frame.astype(int).sample(frac=1, random_state=1).reset_index(drop=True), schema)
    assert relabelling(a, exchanged).renamed == schema.names
    assert relabelling(a, c).variables == ()


def test_levels_of_neither_original_nor_reference_are_unknown():
    a, c = people(300, 1), people(300, 2)
    other = Schema([*SCHEMA.variables[:-1], Variable("level2", "nominal", levels=("p", "q", "r", "s"))])
    names = dict(zip("abcd", "pqrs", strict=True))
    renamed_c = renamed(c, other, level2=names)
    assert relabelling(a, renamed_c, people(300, 3)).unknown == ("level2",)
    assert relabelling(a, renamed_c, renamed_c).unknown == ()


def test_tables_without_records_or_levels_have_nothing_to_find():
    a = people(30, 1)
    assert relabelling(a, a.take(np.arange(0))).variables == ()
    assert relabelling(a.select(["x"]), a.select(["x"])).n_variables == 0
