"""The risk of a table in the population, and its special uniques."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk.population import household_risk, individual_risk, population_risk, sampling_weights, special_risk


@pytest.fixture
def data() -> Microdata:
    """Six people of three households."""
    schema = Schema([Variable("w", "continuous"), Variable("t", "nominal")])
    frame = pd.DataFrame({"w": [4.0, 4, 4, 2, 2, 2], "t": list("abcdef")})
    return Microdata(frame, schema, units=np.array([1, 1, 1, 2, 3, 3]))


KEYS = np.array([[0, 0], [0, 0], [1, 0], [1, 1], [1, -1], [0, 0]])


def test_individual_and_household_risk_by_hand(data: Microdata) -> None:
    found = population_risk(KEYS, sampling_weights(data, "w", None), data=data)
    f, people = np.array([3, 3, 1, 1, 1, 3]), np.array([10.0, 10, 4, 2, 2, 10])
    risk = individual_risk(f, people)
    assert found.individual == pytest.approx(risk.sum())
    assert found.households == pytest.approx(household_risk(risk, data.units).sum())
    assert (found.k_map, found.highest) == (2.0, pytest.approx(risk.max()))
    assert found.presence == 0.5
    assert found.records.population == 18.0


def test_records_without_a_household_number_are_households_of_their_own(data: Microdata) -> None:
    schema = Schema([*data.schema, Variable("hid", "continuous", role="household")])
    weights = sampling_weights(data, "w", None)
    numbered, alone = (
        population_risk(KEYS, weights, data=Microdata(data.frame.assign(hid=hid), schema)).households
        for hid in ([1, 1, 1, None, None, None], [1, 1, 1, 2, 3, 4])
    )
    assert numbered == alone


def test_the_meaning_of_missing_values_is_chosen(data: Microdata) -> None:
    weights = sampling_weights(data, None, 60)
    assert weights.tolist() == [10.0] * 6
    level, excluded, holders = (
        population_risk(KEYS, weights, missing=m, data=data) for m in ("level", "excluded", "holders")
    )
    assert (level.records.n, excluded.records.n, holders.records.n) == (6, 5, 6)
    # What the fifth has left is held by the third and the fourth, too; it helps neither of these.
    assert (level.k_map, holders.k_map) == (10.0, 10.0)
    assert (level.counted, excluded.counted) == (1.0, 5 / 6)
    assert excluded.individual < holders.individual < level.individual


def test_special_uniques_name_the_variables(data: Microdata) -> None:
    found = special_risk(KEYS, ["a", "b"], missing="excluded")
    assert found.few.value == pytest.approx(2 / 6)
    assert [one.name for one in found.contributions] == ["b", "a"]
    assert special_risk(KEYS[:, :1], ["a"]) is None


def test_a_record_that_estimates_leave_out_is_a_person_of_the_population(data: Microdata) -> None:
    frame = data.frame.assign(w=[4.0, 4, 4, 2, 2, 0])
    assert sampling_weights(Microdata(frame, data.schema), "w", None).tolist() == [4.0, 4, 4, 2, 2, 1]


def test_weights_that_cannot_be_used_are_refused(data: Microdata) -> None:
    assert sampling_weights(data, None, None) is None
    with pytest.raises(AnonymizationError, match="'t': weights must be numeric"):
        sampling_weights(data, "t", None)
