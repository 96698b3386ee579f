"""Numbers computed from all records of a group: found in any linear form, and nothing where there are none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import Microdata, Schema, Variable
from anoncore.methods import AdditiveNoise
from anoncore.risk import find_group_figures, group_figures, measure_risk

FIRMS = 28


def employees(seed: int = 0, firms: int = FIRMS) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    firm = np.repeat(np.arange(firms), rng.integers(20, 45, firms))
    n = len(firm)
    wage = np.round(np.exp(8 + 0.3 * rng.normal(size=firms)[firm] + 0.3 * rng.normal(size=n)))
    age = np.clip(np.round(42 + 11 * rng.normal(size=n)), 18, 67)
    return pd.DataFrame({"firm": [f"F{f}" for f in firm], "age": age, "wage": wage})


def with_figure(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    wages = frame.groupby("firm")["wage"]
    figures = {
        "greatest": wages.transform("max"),
        "least": wages.transform("min"),
        "mean": wages.transform("mean").round(1),
        "median": wages.transform("median"),
        "sum": wages.transform("sum"),
        "centred mean": (wages.transform("mean") - frame["wage"].mean()).round(2),
        "scaled mean": ((wages.transform("mean") - 3000) / 977).round(4),
        "mean in tens": wages.transform("mean").round(-1),
    }
    return frame.assign(figure=figures[kind])


def people(frame: pd.DataFrame, units: np.ndarray | None = None) -> Microdata:
    numbers = [Variable(name, "continuous") for name in frame.columns if name != "firm"]
    firm = [Variable("firm", "nominal", role="area")] if "firm" in frame else []
    return Microdata(frame, Schema([*firm, *numbers]), units)


KINDS = ["greatest", "least", "mean", "median", "sum", "centred mean", "scaled mean", "mean in tens"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_of_firms_is_found_and_its_release_is_counted(kind: str) -> None:
    data = people(with_figure(employees(), kind))
    found = group_figures(data, data)
    (one,) = found.repeated
    assert found.looked_at == 3
    assert (one.source.variable, one.source.number, one.source.group) == ("figure", "wage", "firm")
    assert one.source.kind in kind
    assert one.repeated >= one.figures >= FIRMS - 2
    assert one.share == 1.0


@pytest.mark.parametrize("kind", ["greatest", "mean"])
def test_without_its_groups_a_figure_is_found_by_its_own_values(kind: str) -> None:
    frame = with_figure(employees(), kind)[["age", "wage", "figure"]]
    (one,) = find_group_figures(frame, list(frame))
    assert (one.variable, one.number, one.group) == ("figure", "wage", "figure")


def test_a_number_that_is_dropped_gives_its_figure_away_if_it_is_known() -> None:
    frame = with_figure(employees(), "greatest")
    known = find_group_figures(frame.assign(wage=frame["wage"].astype(int).astype(str)), ["figure"])
    data = people(frame.drop(columns=["firm", "wage"]))
    assert not group_figures(data, data).repeated
    assert [one.source.number for one in group_figures(data, data, known).repeated] == ["wage"]


def test_figures_of_half_of_the_groups_that_stand_in_a_release_are_counted() -> None:
    frame = with_figure(employees(), "greatest")
    rng = np.random.default_rng(1)
    moved = frame["figure"].where(frame["firm"].isin([f"F{f}" for f in range(14)]), rng.integers(900, 9000, len(frame)))
    (one,) = group_figures(people(frame), people(frame.assign(figure=moved))).repeated
    assert 14 <= one.repeated < FIRMS
    assert one.by_chance < 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_figure_is_not_repeated(kind: str) -> None:
    data = people(with_figure(employees(), kind))
    released = anoncore.anonymize(data, AdditiveNoise(b=0.3), rng=np.random.default_rng(2)).data
    found = group_figures(data, released)
    assert [one.source.variable for one in found.computed] == ["figure"]
    assert not found.repeated


def test_whole_numbers_that_fill_their_range_are_repeated_if_they_stand_beside_their_groups() -> None:
    rng = np.random.default_rng(5)
    firm = np.repeat(np.arange(60), 12)
    age = np.clip(np.round(rng.normal(40, 6, 60)[firm] + rng.normal(0, 9, 720)), 18, 80)
    frame = pd.DataFrame({"firm": [f"F{f}" for f in firm], "age": age})
    frame["figure"] = frame.groupby("firm")["age"].transform("max")
    elsewhere = rng.permutation(60)[firm]
    assert group_figures(people(frame), people(frame)).repeated
    scattered = frame.assign(figure=rng.integers(frame["figure"].min(), frame["figure"].max() + 1, 60)[elsewhere])
    assert not group_figures(people(frame), people(scattered)).repeated


def random_table(seed: int) -> pd.DataFrame:
    """Columns that owe nothing to each other, some of them the same for all records of a group."""
    rng = np.random.default_rng(seed)
    n, groups = int(rng.choice([300, 1000])), int(rng.choice([10, 30, 80]))
    group = rng.integers(groups, size=n)
    columns = {f"index {d}": np.round(rng.normal(100, 10, groups), d)[group] for d in range(3)}
    return pd.DataFrame(
        {
            "group": group,
            "class": rng.integers(0, 20, groups)[group],
            "size": np.bincount(group, minlength=groups)[group],
            **columns,
            "own": (rng.normal(size=groups)[group] + rng.normal(size=n)).round(1),
            "score": rng.normal(size=n).round(2),
            "amount": np.exp(rng.normal(8, 1, n)).round(-1),
            "count": rng.poisson(2, n),
            "level": rng.integers(0, 15, n),
            "yes": rng.integers(0, 2, n),
        }
    )


@pytest.mark.parametrize("kind", ["mean", "greatest", "least", "sum"])
def test_a_figure_of_some_records_of_each_firm_is_found(kind: str) -> None:
    """Costs of surgical cases alone, say: a release was published with which each of 99 % of them was computed."""
    frame = employees()
    frame["sex"] = np.random.default_rng(1).choice(["f", "m", "x"], len(frame), p=[0.5, 0.4, 0.1])
    women = frame["wage"].where(frame["sex"] == "f").groupby(frame["firm"])
    functions = {"mean": "mean", "greatest": "max", "least": "min", "sum": "sum"}
    frame["figure"] = women.transform(functions[kind]).round(1)
    (one,) = find_group_figures(frame, list(frame))
    assert (one.variable, one.number, one.group, one.kind, one.part) == ("figure", "wage", "firm", kind, "sex")
    assert one.reason.startswith(f"the {kind} of wage among all records with the same firm and one value of sex")


@pytest.mark.parametrize("kind", ["mean", "sum"])
def test_a_figure_of_an_answer_with_few_levels_is_found_in_a_part_of_each_firm(kind: str) -> None:
    frame, rng = employees(), np.random.default_rng(1)
    frame["sex"] = rng.choice(["f", "m"], len(frame))
    frame["rating"] = rng.integers(1, 6, len(frame)).astype(float)
    women = frame["rating"].where(frame["sex"] == "f").groupby(frame["firm"])
    frame["figure"] = women.transform(kind).round(2)
    found = {
        one.variable: (one.number, one.group, one.kind, one.part) for one in find_group_figures(frame, list(frame))
    }
    assert found["figure"] == ("rating", "firm", kind, "sex")


def test_a_limit_that_half_of_equal_groups_reach_hides_no_figure() -> None:
    firm, rng = np.repeat(np.arange(200), 20), np.random.default_rng(2)
    frame = pd.DataFrame({"firm": [f"F{f}" for f in firm], "wage": np.round(np.exp(8 + 0.4 * rng.normal(size=4000)))})
    frame["wage"] = frame["wage"].clip(upper=frame.groupby("firm")["wage"].max().median())
    frame["top"] = frame.groupby("firm")["wage"].transform("max")
    assert [one.variable for one in find_group_figures(frame, list(frame))] == ["top"]


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_independent_columns_have_no_figures(first: int) -> None:
    assert not [s for s in range(first, first + 50) if find_group_figures(frame := random_table(s), list(frame))]


def test_an_index_of_regions_around_which_prices_lie_is_no_figure() -> None:
    rng = np.random.default_rng(3)
    region = np.repeat(np.arange(40), 50)
    index = rng.normal(100, 10, 40).round(1)[region]
    price = (index + rng.normal(0, 15, len(region))).round(1)
    frame = pd.DataFrame({"region": region, "index": index, "price": price})
    assert not find_group_figures(frame, list(frame))


def test_classes_of_a_number_and_sizes_of_groups_are_no_figures() -> None:
    frame = employees()
    frame["lower limit"] = 5 * (frame["age"] // 5)
    frame["class"] = frame["lower limit"].astype(str)
    frame["employees"] = frame.groupby("firm")["age"].transform("size")
    frame["employed"] = (np.arange(len(frame)) % 60 > 0).astype(int)
    assert not find_group_figures(frame, list(frame))


def test_a_total_that_many_parts_reach_is_no_figure_of_its_parts() -> None:
    rng = np.random.default_rng(4)
    size = rng.integers(1, 13, 2000)
    frame = pd.DataFrame({"members": size, "adults": rng.binomial(size, 0.8)})
    assert not find_group_figures(frame, list(frame))


def test_figures_of_the_records_of_one_unit_are_its_own() -> None:
    frame = with_figure(employees(), "mean")
    units = np.unique(frame["firm"], return_inverse=True)[1]
    assert not find_group_figures(frame, ["figure"], units)


def test_tables_without_numbers_or_values_have_no_figures() -> None:
    assert not find_group_figures(pd.DataFrame({"a": ["x", "y", "z"] * 9}), [])
    empty = pd.DataFrame({"a": np.full(30, np.nan), "b": np.arange(30.0), "c": [np.inf] * 30})
    assert not find_group_figures(empty, list(empty))
    assert not find_group_figures(empty.head(0), list(empty))


def test_missing_values_are_passed_over() -> None:
    frame = employees()
    frame.loc[::9, "wage"] = np.nan
    frame = with_figure(frame, "mean")
    frame.loc[::7, "figure"] = np.nan
    data = people(frame)
    assert [one.source.variable for one in group_figures(data, data).repeated] == ["figure"]


def test_the_report_on_risk_looks_for_figures_of_groups() -> None:
    data = people(with_figure(employees(), "greatest"))
    found = measure_risk(data, data, rng=np.random.default_rng(0)).group_figures
    assert found is not None
    assert [one.source.variable for one in found.repeated] == ["figure"]


def test_figures_that_are_released_as_levels_are_found() -> None:
    frame = with_figure(employees(), "greatest")
    schema = Schema([Variable("firm", "nominal"), Variable("wage", "continuous"), Variable("figure", "nominal")])
    data = Microdata(frame.drop(columns="age"), schema)
    assert [one.repeated for one in group_figures(data, data).repeated] == [FIRMS]
