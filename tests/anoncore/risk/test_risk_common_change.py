"""Records that one factor or one constant changed are found; other people's are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk import measure_risk
from anoncore.risk.common_change import UP_TO_CONSTANT, UP_TO_FACTOR, without_common_change

NAMES = [f"amount {j}" for j in range(6)]
SCHEMA = Schema([*(Variable(name, "continuous") for name in NAMES), Variable("age", "continuous")])


def people(rng: np.random.Generator, n: int) -> pd.DataFrame:
    amounts = np.exp(6.0 + 0.5 * rng.normal(size=(n, 1)) + 0.6 * rng.normal(size=(n, 6)))
    return pd.DataFrame(amounts.round(1), columns=NAMES).assign(age=rng.integers(18, 90, n).astype(float))


@pytest.mark.parametrize("change", ["factor", "constant", "none"])
def test_few_people_up_to_one_number_are_found(change: str) -> None:
    failed = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        members, others, released = (people(rng, 600) for _ in range(3))
        kept = members.iloc[:20, :6].to_numpy()
        if change == "factor":
            released.iloc[:20, :6] = kept * rng.uniform(0.3, 3.0, size=(20, 1))
        if change == "constant":
            released.iloc[:20, :6] = kept + rng.uniform(100.0, 900.0, size=(20, 1))
        tables = (Microdata(frame, SCHEMA) for frame in (members, released, others))
        failed += measure_risk(*tables, rng=np.random.default_rng(seed)).tail.verdict == "fail"
    assert failed == (0 if change == "none" else 3)


def test_what_one_number_changes_is_gone() -> None:
    rng = np.random.default_rng(0)
    frame = people(rng, 50)
    factors = frame.copy()
    factors[NAMES] *= rng.uniform(0.5, 2.0, size=(50, 1))
    found = dict(without_common_change(*(Microdata(one, SCHEMA) for one in (frame, factors, people(rng, 40)))))
    assert sorted(found) == sorted([UP_TO_FACTOR, UP_TO_CONSTANT])
    np.testing.assert_allclose(found[UP_TO_FACTOR][0], found[UP_TO_FACTOR][1])
    assert found[UP_TO_FACTOR][0].shape == (50, 6)
    assert found[UP_TO_FACTOR][2].shape == (40, 6)
    assert not np.allclose(found[UP_TO_CONSTANT][0], found[UP_TO_CONSTANT][1])


def test_zeros_missing_numbers_and_narrow_tables_do_no_harm() -> None:
    rng = np.random.default_rng(1)
    frame = people(rng, 60)
    frame.iloc[:20, 0], frame.iloc[10:30, 1], frame[NAMES[2]] = 0.0, np.nan, np.nan
    data = Microdata(frame, SCHEMA)
    found = dict(without_common_change(data, data, data))
    assert all(np.isfinite(side).all() for sides in found.values() for side in sides)
    assert found[UP_TO_FACTOR][0].shape == (60, 5)
    narrow = data.select([NAMES[0], "age"])
    assert list(without_common_change(narrow, narrow, narrow)) == []
