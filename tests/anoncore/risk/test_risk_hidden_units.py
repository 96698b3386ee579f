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
    assert len(rows) == 5000
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
    assert hidden_units(table(frame), computed={"sum"}).variables == ()


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
