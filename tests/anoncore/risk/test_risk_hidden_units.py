"""Records that look like several of one unit: found where they are, and not where values merely follow each other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore import Microdata, Schema, Variable
from anoncore.risk import hidden_units, records_looked_at

LEVELS = {"sex", "region"}


def visits(seed: int, patients: int, least: int, most: int, constant: tuple[str, ...]) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(patients), rng.integers(least, most + 1, patients))
    person = pd.DataFrame(
        {
            "age": rng.normal(55, 18, patients).clip(18, 95).round(),
            "height": rng.normal(170, 8, patients).round(),
            "born": rng.integers(0, 25_000, patients).astype(float),
            "sex": rng.choice(["f", "m"], patients),
            "region": rng.choice([f"r{i}" for i in range(12)], patients),
        }
    )
    rows = person[list(constant)].iloc[who].reset_index(drop=True)
    rows["pressure"] = (120 + 12 * rng.normal(size=len(who))).round()
    rows["cost"] = np.exp(rng.normal(6, 1, len(who))).round()
    return rows.sample(frac=1, random_state=seed, ignore_index=True)


def table(frame: pd.DataFrame) -> Microdata:
    kinds = {name: "nominal" if name in LEVELS else "continuous" for name in frame}
    levels = {name: tuple(sorted(frame[name].unique())) for name in frame if name in LEVELS}
    return Microdata(frame, Schema([Variable(n, k, levels=levels.get(n)) for n, k in kinds.items()]))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("patients", "least", "most", "constant", "others"),
    [
        (250, 6, 10, ("age", "height", "sex"), 7.2),
        (250, 6, 10, ("born", "region", "sex"), 7.2),
        (600, 1, 3, ("born", "region", "sex"), 1.3),
        (10_000, 2, 2, ("born", "region", "sex"), 1.0),
    ],
)
def test_visits_of_patients_are_found(
    seed: int, patients: int, least: int, most: int, constant: tuple[str, ...], others: float
) -> None:
    found = hidden_units(table(visits(seed, patients, least, most, constant)))
    assert set(found.variables) == set(constant)
    assert found.pairs >= 4 * found.by_chance
    assert found.others == pytest.approx(others, rel=0.2)


def test_of_known_units_one_record_is_compared() -> None:
    data = table(visits(0, 250, 6, 10, ("born", "region", "sex")))
    patients = np.unique(data.frame["born"], return_inverse=True)[1]
    visit = np.arange(len(data))
    visit[1] = 0
    assert hidden_units(data.with_units(visit)).variables
    assert hidden_units(data.with_units(patients)).variables == ()


def test_a_sample_shows_what_the_table_does() -> None:
    data = table(visits(0, 15_000, 4, 8, ("born", "region", "sex")))
    rows = records_looked_at(len(data))
    assert len(rows) == 20_000
    assert hidden_units(data.take(rows), records=len(data)) == hidden_units(data)
    assert hidden_units(data).others == pytest.approx(5.3, rel=0.3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("areas", "people"), [(50, 40), (50, 100)])
def test_variables_of_large_areas_are_no_unit(seed: int, areas: int, people: int) -> None:
    rng = np.random.default_rng(seed)
    area = np.repeat(np.arange(areas), people)
    frame = pd.DataFrame(
        {
            "tax": rng.normal(20, 3, areas).round(2)[area],
            "unemployment": rng.normal(8, 2, areas).round(1)[area],
            "rent": rng.normal(900, 200, areas).round()[area],
            "region": rng.choice([f"r{i}" for i in range(8)], areas)[area],
            "pressure": rng.normal(120, 12, len(area)).round(),
            "age": rng.integers(18, 90, len(area)).astype(float),
        }
    )
    assert hidden_units(table(frame)).variables == ()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("people", [500, 2000, 8000])
@pytest.mark.parametrize("constant", [("age", "height", "sex"), ("born", "region", "sex")])
def test_one_record_of_each_person_is_no_unit(seed: int, people: int, constant: tuple[str, ...]) -> None:
    assert hidden_units(table(visits(seed, people, 1, 1, constant))).variables == ()


def test_what_neighbouring_values_explain_is_no_unit() -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 3000).astype(float)
    frame = pd.DataFrame({"age": age, "born": 2020 - age, "score": (age / 7).round() + rng.integers(0, 3, 3000)})
    frame["sex"] = rng.choice(["f", "m"], 3000)
    frame["height"] = rng.normal(170, 9, 3000).round()
    assert hidden_units(table(frame)).variables == ()


def test_a_spike_is_no_unit() -> None:
    rng = np.random.default_rng(0)
    zero = rng.random(3000) < 0.04
    frame = pd.DataFrame({f"cost{i}": np.where(zero, 0.0, np.exp(rng.normal(6, 1, 3000)).round()) for i in range(4)})
    assert hidden_units(table(frame)).variables == ()


def test_what_edits_compute_is_left_out() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: np.exp(rng.normal(7, 1, 3000)).round() for name in ("wage", "rent")})
    frame = frame.iloc[np.arange(3000) // 2].reset_index(drop=True)
    frame["pressure"] = rng.normal(120, 12, 3000).round()
    frame["sum"] = frame["wage"] + frame["rent"]
    assert hidden_units(table(frame)).variables
    assert set(hidden_units(table(frame), computed={"sum"}).variables) == {"wage", "rent"}


@pytest.mark.parametrize("records", [0, 1, 5])
def test_a_tiny_table_has_no_units(records: int) -> None:
    assert hidden_units(table(visits(0, 5, 1, 1, ("age", "sex", "region"))).take(np.arange(records))).variables == ()


def test_missing_values_and_single_columns_are_taken() -> None:
    frame = visits(0, 250, 6, 10, ("age", "height", "sex"))
    frame.loc[frame.index[::9], ["height", "pressure"]] = np.nan
    assert set(hidden_units(table(frame)).variables) == {"age", "height", "sex"}
    together = visits(0, 250, 6, 10, ("born", "height", "age", "sex"))
    together.loc[together["born"] % 2 == 0, ["born", "height", "age"]] = np.nan
    assert hidden_units(table(together)).variables
    assert hidden_units(table(frame[["pressure"]])).variables == ()


KINDS = {"sex": 2, "region": 8, "insurer": 5, "diagnosis": 12, "schooling": 4, "origin": 6}


def people(rng: np.random.Generator, number: int, levels: dict[str, int]) -> pd.DataFrame:
    """Return levels of people, of which the first are the most frequent."""
    shares = {name: 1 / np.arange(2, n + 2) for name, n in levels.items()}
    return pd.DataFrame({name: rng.choice(len(w), number, p=w / w.sum()) for name, w in shares.items()})


def coded(frame: pd.DataFrame, levels: dict[str, int]) -> Microdata:
    variables = [
        Variable(name, "nominal", levels=tuple(f"{name} {i}" for i in range(levels[name])))
        if name in levels
        else Variable(name, "continuous")
        for name in frame
    ]
    texts = {name: f"{name} " + frame[name].astype(str) for name in levels}
    return Microdata(frame.assign(**texts), Schema(variables))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("number", "least", "most"), [(260, 8, 12), (550, 4, 6), (1200, 2, 2)])
def test_units_that_agree_in_levels_alone_are_found(seed: int, number: int, least: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(number), rng.integers(least, most + 1, number))
    rows = people(rng, number, KINDS).iloc[who].reset_index(drop=True)
    rows["cost"] = np.exp(rng.normal(6, 1, len(who))).round()
    found = hidden_units(coded(rows, KINDS))
    assert len(found.variables) >= 4
    assert set(found.variables) <= set(KINDS)
    assert found.pairs > found.by_chance
    assert least - 1 <= found.others <= 2 * most
    assert hidden_units(coded(rows.groupby(who).head(1).reset_index(drop=True), KINDS)).variables == ()


@pytest.mark.parametrize("seed", range(3))
def test_quotas_of_areas_do_not_hide_people(seed: int) -> None:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(260), rng.integers(8, 13, 260))
    rows = people(rng, 260, KINDS).iloc[who].reset_index(drop=True)
    areas = {"area": 120, "district": 24}
    rows["area"] = rng.permutation(len(who)) // 25
    rows["district"] = rows["area"] // 5
    found = hidden_units(coded(rows, KINDS | areas))
    assert len(found.variables) >= 4
    assert not set(found.variables) & set(areas)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("number", "least", "most"), [(1000, 2, 2), (3000, 5, 8)])
def test_units_with_what_many_others_share_are_found(seed: int, number: int, least: int, most: int) -> None:
    found = hidden_units(table(visits(seed, number, least, most, ("age", "height", "sex"))))
    assert {"age", "height"} <= set(found.variables)


@pytest.mark.parametrize("seed", range(3))
def test_numbers_of_few_values_are_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(260), rng.integers(8, 13, 260))
    constant = pd.DataFrame(
        {name: rng.integers(1, n, 260).astype(float) for name, n in {"ages": 14, "rooms": 9}.items()}
    )
    rows = constant.assign(school=rng.integers(8, 19, 260).astype(float)).iloc[who].reset_index(drop=True)
    rows["pressure"] = rng.normal(120, 12, len(who)).round()
    assert set(hidden_units(table(rows)).variables) == {"ages", "rooms", "school"}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("number", [500, 3000, 30_000])
def test_levels_of_independent_people_are_no_unit(seed: int, number: int) -> None:
    rng = np.random.default_rng(seed)
    rows = people(rng, number, KINDS)
    rows["diagnosis"] = (rows["region"] * 5 + rng.integers(0, 2, number)) % 12
    rows["age"] = (rows["schooling"] * 12 + rng.poisson(30, number)).astype(float)
    rows["wage"] = (rows["age"] // 5 * 500 + rng.integers(0, 3, number) * 100).astype(float)
    assert hidden_units(coded(rows, KINDS)).variables == ()


def test_records_that_vary_as_independent_ones_are_no_unit() -> None:
    rng = np.random.default_rng(0)
    rows = people(rng, 1500, KINDS).iloc[np.repeat(np.arange(1500), rng.poisson(2, 1500))].reset_index(drop=True)
    assert hidden_units(coded(rows, KINDS)).variables == ()
