"""Rows that stand as the original's are found; tables that are merely sorted, or repeat themselves, are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk import row_order

SCHEMA = Schema([
    Variable("visit", "ordinal", levels=range(8)),
    Variable("pain", "ordinal", levels=range(5)),
    Variable("region", "nominal", levels=list("abcdef")),
    Variable("dose", "continuous"),
])  # fmt: skip


def panel(rng: np.random.Generator, people: int = 150) -> pd.DataFrame:
    """Return eight visits of each person, one person after the other."""
    usual = np.repeat(rng.normal(size=people), 8)
    pain = np.clip(np.round(2.0 + 0.7 * usual + rng.normal(size=8 * people)), 0, 4).astype(int)
    return pd.DataFrame(
        {
            "visit": np.tile(np.arange(8), people),
            "pain": pain,
            "region": np.repeat(rng.choice(list("abcdef"), people), 8),
            "dose": np.exp(usual + rng.normal(size=8 * people)).round(1),
        }
    )


def data(frame: pd.DataFrame) -> Microdata:
    levels = {v.name: pd.CategoricalDtype(v.levels) for v in SCHEMA if v.levels}
    return Microdata(frame.reset_index(drop=True).astype(levels), SCHEMA)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("by", [None, "visit", "region"])
def test_rows_of_other_people_are_in_no_order(seed: int, by: str | None) -> None:
    rng = np.random.default_rng(seed)
    one, other = (panel(rng) if by is None else panel(rng).sort_values(by, kind="stable") for _ in range(2))
    assert row_order(data(one), data(other)).variables == ()


@pytest.mark.parametrize("seed", range(5))
def test_a_variable_in_its_own_rows_is_found_in_any_order_of_both(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    one, other = panel(rng), panel(rng)
    other["pain"] = one["pain"].to_numpy()
    assert "pain" in row_order(data(one), data(other)).variables
    assert "pain" in row_order(data(one), data(other.sort_values("visit", kind="stable"))).variables
    assert row_order(data(one), data(other.sample(frac=1.0, random_state=seed))).variables == ()


def test_noise_hides_nothing_from_who_knows_the_order() -> None:
    rng = np.random.default_rng(2)
    one, other = panel(rng), panel(rng)
    other["dose"] = one["dose"].to_numpy() * np.exp(0.3 * rng.normal(size=len(one)))
    assert "dose" in row_order(data(one), data(other)).variables


def test_tables_of_other_sizes_few_rows_and_missing_values() -> None:
    one = panel(np.random.default_rng(3))
    assert row_order(data(one), data(one[:-1])).rows == 0
    assert row_order(data(one[:30]), data(one[:30])).rows == 0
    lacking = one.assign(dose=np.nan)
    assert "dose" not in row_order(data(lacking), data(lacking)).variables
