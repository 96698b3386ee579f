"""What the original never holds: combinations, skip patterns, dependencies, and what chance accounts for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.utility import structure

SCHEMA = Schema(
    [
        Variable("state", "nominal", levels=tuple("abcdef")),
        Variable("division", "nominal", levels=("east", "west", "north")),
        Variable("asked", "binary", levels=("no", "yes")),
        Variable("first", "continuous"),
    ]
)


def table(seed: int, records: int = 900) -> Microdata:
    rng = np.random.default_rng(seed)
    state = rng.integers(0, 6, records)
    asked = rng.random(records) < 0.5
    frame = pd.DataFrame(
        {
            "state": np.array(list("abcdef"))[state],
            "division": np.array(["east", "west", "north"])[state // 2],
            "asked": np.where(asked, "yes", "no"),
            "first": np.where(asked, rng.normal(18, 3, records).round(), np.nan),
        }
    )
    return Microdata(frame, SCHEMA)


def test_a_fresh_sample_holds_nothing_that_the_original_does_not() -> None:
    found = structure(table(1), table(2), table(3))
    assert (found.impossible, found.dependencies, found.broken, found.reference) == (0, 2, (), 0)
    assert found.absent > 10


@pytest.mark.parametrize(("column", "pair"), [("division", ("state", "division")), ("first", ("asked", "first"))])
def test_a_shuffled_column_breaks_it(column: str, pair: tuple[str, str]) -> None:
    a = table(1)
    shuffled = a.frame[column].sample(frac=1, random_state=1).to_numpy()
    found = structure(a, Microdata(a.frame.assign(**{column: shuffled}), a.schema))
    assert found.combinations[0].variables == pair
    assert found.combinations[0].records > found.per_pattern
    assert found.impossible > found.most_impossible
    # Whether someone was asked follows from the answer, a missing one included.
    assert [one.variables for one in found.broken] == [pair if column == "division" else pair[::-1]]


def test_what_is_rare_and_possible_is_expected_by_chance() -> None:
    """Pairs of levels that one record in a thousand holds: some samples hold them and some do not."""
    rng = np.random.default_rng(4)
    schema = Schema([Variable(name, "nominal", levels=tuple(range(12))) for name in "xy"])

    def sample() -> Microdata:
        x = rng.integers(0, 12, 4000)
        y = np.where(rng.random(4000) < 0.97, x, rng.integers(0, 12, 4000))
        return Microdata(pd.DataFrame({"x": x, "y": y}), schema)

    harmless = [structure(sample(), sample()) for _ in range(12)]
    assert any(found.impossible for found in harmless)
    assert all(found.impossible <= found.most_impossible for found in harmless)
    mean = np.mean([found.by_chance for found in harmless])
    assert np.mean([found.impossible for found in harmless]) == pytest.approx(mean, rel=0.4)


@pytest.mark.parametrize("repeated", [1, 6])
def test_what_follows_from_a_value_of_single_units_is_no_rule(repeated: int) -> None:
    """A value that few units hold, be it in many records, is of one dependent without depending."""
    schema = Schema([Variable("a", "nominal", levels=tuple(range(10))), Variable("b", "binary", levels=(0, 1))])
    a = np.concatenate([np.repeat(np.arange(5), 399), np.repeat(np.arange(5, 10), repeated)])
    units = np.concatenate([np.arange(1995), np.repeat(np.arange(1995, 2000), repeated)])
    source = Microdata(pd.DataFrame({"a": a, "b": a % 2}), schema, units=units)
    rare = np.arange(1000) < 25
    own = np.where(rare, 5 + np.arange(1000) % 5, np.arange(1000) % 5)
    released = Microdata(pd.DataFrame({"a": own, "b": np.where(rare, 1 - own % 2, own % 2)}), schema)
    found = structure(source, released)
    assert (found.dependencies, found.broken) == (1, ())
    both = Microdata(released.frame.assign(b=1 - released.frame["b"].astype(int)), schema)
    assert [one.records for one in structure(source, both).broken] == [975]


def test_random_columns_have_no_structure() -> None:
    rng = np.random.default_rng(5)
    schema = Schema([Variable(name, "nominal", levels=tuple(range(5))) for name in "abcd"])
    a, b = (Microdata(pd.DataFrame(rng.integers(0, 5, (800, 4)), columns=list("abcd")), schema) for _ in range(2))
    found = structure(a, b)
    assert (found.absent, found.dependencies, found.impossible) == (0, 0, 0)
