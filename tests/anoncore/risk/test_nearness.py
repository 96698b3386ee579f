"""Releases of the same people have nearer figures than those of others, whatever variables and levels are called."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk import classified_otherwise, nearly_same
from anoncore.risk.nearness import MOST_LEVELS

N = 1500
SHARES = ([0.5, 0.5], [0.45, 0.35, 0.15, 0.05], [0.3, 0.3, 0.2, 0.2], [0.7, 0.3], [0.6, 0.4], [0.7, 0.3], [0.98, 0.02])


def people(seed: int = 0, size: int = N, repeated: int = 1) -> pd.DataFrame:
    """Return persons with levels that depend on each other, and two numbers."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=size)
    columns = {}
    for number, shares in enumerate(SHARES * repeated):
        values = 0.4 * common + 0.9 * rng.normal(size=size)
        ends = np.quantile(0.98 * np.random.default_rng(9).normal(size=10_000), np.cumsum(shares)[:-1])
        columns[f"v{number}"] = np.array(list("abcd"))[np.searchsorted(ends, values)]
    numbers = {f"n{j}": 120 + 15 * (0.4 * common + 0.9 * rng.normal(size=size)) for j in range(2)}
    return pd.DataFrame(columns | numbers)


def table(frame: pd.DataFrame, kind: str = "nominal") -> Microdata:
    kinds = {name: "continuous" if frame[name].dtype == float else kind for name in frame}
    return Microdata(frame.reset_index(drop=True), Schema(Variable(name, of) for name, of in kinds.items()))


def renamed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename(columns=lambda name: f"{name}_x")


def relabelled(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.apply(lambda column: column if column.dtype == float else "of " + column)


def permuted(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename(columns=dict(zip(frame, [*frame][::-1], strict=True)))


AS: tuple[Callable[[pd.DataFrame], pd.DataFrame], ...] = (
    pd.DataFrame.copy,
    renamed,
    relabelled,
    permuted,
    lambda frame: renamed(relabelled(frame)),
    lambda frame: frame.drop(columns=["v0", "v3"]).assign(month="May"),
)


@pytest.mark.parametrize("written", AS)
def test_the_same_people_but_one_are_found_whatever_they_are_called(
    written: Callable[[pd.DataFrame], pd.DataFrame],
) -> None:
    for seed in range(5):
        everyone = people(seed)
        assert nearly_same(table(everyone), table(written(everyone[1:]), kind="ordinal"), tests=10)


@pytest.mark.parametrize("written", AS[:5])
def test_other_people_are_seldom_taken_for_the_same(written: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    found = [nearly_same(table(people(seed)), table(written(people(seed + 500)))) for seed in range(60)]
    assert sum(found) <= 3


def test_a_part_of_the_people_is_found_by_many_variables_and_others_are_not() -> None:
    found = []
    for seed in range(10):
        everyone = people(seed, 2 * N, repeated=4)
        pairs = (everyone[:N], everyone), (everyone[:N], people(seed + 500, 2 * N, repeated=4))
        found.append([nearly_same(table(other), table(part)) for part, other in pairs])
    part, others = np.sum(found, axis=0)
    assert part >= 9
    assert others == 0


def test_without_a_variable_that_varies_nothing_is_near() -> None:
    constant = table(pd.DataFrame({"month": ["May"] * 9, "year": [2024.0] * 9}))
    assert not nearly_same(constant, constant)


def test_many_levels_of_other_labels_are_not_compared() -> None:
    codes = pd.DataFrame({"code": [f"c{number}" for number in range(2 * MOST_LEVELS)] * 3})
    assert nearly_same(table(codes), table(codes))
    assert not nearly_same(table(codes), table(relabelled(codes)))


def _ten(rows: int, seed: int = 1) -> Microdata:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"v{j}": rng.choice(list("abc"), rows) for j in range(10)})
    return Microdata(frame, Schema(Variable(name, "nominal") for name in frame))


def test_one_person_with_new_levels_does_not_hide_the_others() -> None:
    people = _ten(2000)
    frame = people.frame.astype(object).copy()
    frame.iloc[7] = "new"
    joined = Microdata(frame, Schema(Variable(name, "nominal") for name in frame))
    assert nearly_same(people, joined)
    assert not nearly_same(people, _ten(2000, seed=2))


def test_variables_that_hardly_vary_are_compared_without_error() -> None:
    number, level = np.zeros(20_000), np.full(20_000, "a", dtype=object)
    number[1], level[1] = 1.0, "b"
    for column, kind in ((number, "continuous"), (level, "nominal")):
        table = Microdata(pd.DataFrame({"v": column}), Schema([Variable("v", kind)]))
        nearly_same(table, table)


@pytest.mark.parametrize(
    ("other", "otherwise"),
    [
        (lambda frame: frame * 2.20462, True),
        (lambda frame: frame / 2.54, True),
        (lambda frame: frame * 1.8 + 32, True),
        (lambda frame: frame * 1.1, False),
        (lambda frame: frame.sample(frac=0.9, random_state=1), False),
    ],
)
def test_numbers_in_another_unit_are_not_compared(
    other: Callable[[pd.DataFrame], pd.DataFrame], otherwise: bool
) -> None:
    """Of the same people they would have no figure in common; whoever knows the unit reads off the one left out."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"weight": rng.normal(80, 20, 900), "height": rng.normal(170, 10, 900)})
    assert classified_otherwise(table(frame), table(other(frame))) == otherwise
