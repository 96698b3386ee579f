"""Treatment of extreme values before masking."""

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import Microdata, Schema, Variable
from anoncore.methods import ExtremeRecords


@pytest.mark.parametrize("action", ["top-code", "winsorise"])
def test_coded_ends_hold_no_number_of_a_single_person(action):
    income = np.random.default_rng(0).lognormal(9, 1, 400).round(2)
    data = Microdata(pd.DataFrame({"income": income}), Schema([Variable("income", "continuous")]))
    params = ExtremeRecords(action=action, tail=0.05)
    coded = anoncore.anonymize(data, params, rng=np.random.default_rng(0)).data.frame["income"].to_numpy()
    ordered = np.sort(income)
    for end, inner in (
        (coded[income <= ordered[19]], ordered[20:25]),
        (coded[income >= ordered[-20]], ordered[-25:-20]),
    ):
        assert len(end) == 20
        assert len(np.unique(end)) == 1
        assert not np.isin(end, income).any()
        if action == "winsorise":
            assert end[0] == pytest.approx(inner.mean(), abs=0.01)
    inside = (income > ordered[19]) & (income < ordered[-20])
    np.testing.assert_array_equal(coded[inside], income[inside])
    if action == "top-code":
        assert coded.mean() == pytest.approx(income.mean(), abs=0.01)
