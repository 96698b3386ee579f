"""What share of totals is kept, beside a bootstrap carried out, and what an outsider computes from it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.utility.totals import TotalKept, total_kept

AMOUNT = Variable("amount", "continuous")


def table(values, units=None) -> Microdata:
    return Microdata(pd.DataFrame({"amount": np.asarray(values, dtype=float)}), Schema([AMOUNT]), units)


def kept(original, released, reference=None, arrays=(None, None, None)) -> TotalKept | None:
    tables = [t for t in (original, released, reference) if t is not None]
    return total_kept(tables, AMOUNT, arrays[: len(tables)])


def test_the_error_is_that_of_a_bootstrap_of_units() -> None:
    rng = np.random.default_rng(0)
    amounts, firms = np.exp(rng.normal(size=600)), np.repeat(np.arange(120), 5)
    amounts *= np.repeat(np.exp(rng.normal(size=120)), 5)
    found = kept(table(amounts, firms), table(amounts / 2))
    totals = amounts.reshape(120, 5).sum(axis=1)
    again = totals[rng.integers(120, size=(4000, 120))].sum(axis=1)
    assert found is not None
    assert found.released == pytest.approx(0.5)
    assert found.error == pytest.approx(again.std() / totals.sum(), rel=0.05)


def test_weights_count_and_their_own_sum_does_not() -> None:
    x, w = np.array([1.0, 2, 3, 10]), np.array([4.0, 2, 1, 1])
    found = kept(table(x), table(x[:2]), table([1.0]), (w / w.mean(), None, None))
    assert found is not None
    assert (found.released, found.reference) == pytest.approx((1.5 / (21 / 8), 1 / (21 / 8)))
    again = np.random.default_rng(0).integers(4, size=(20_000, 4))
    ratios = (w * x)[again].sum(axis=1) - (w @ x / w.sum()) * w[again].sum(axis=1)
    assert found.error == pytest.approx(ratios.std() / (w @ x) * np.sqrt(4 / 3), rel=0.05)


def test_missing_numbers_count_as_nothing_and_negative_ones_have_no_share() -> None:
    found = kept(table([1.0, 3.0, np.nan]), table([1.0, np.nan, 1.0]))
    assert found is not None
    assert found.released == 0.5
    assert kept(table([-1.0, 3.0]), table([1.0, 3.0])) is None
    assert kept(table([0.0, 0.0]), table([1.0, 3.0])) is None
    assert kept(table([np.nan, np.nan]), table([1.0, 3.0])) is None


def test_no_units_part_of_a_total_exceeds_the_error() -> None:
    rng = np.random.default_rng(1)
    for size in (3, 20, 300):
        amounts = np.exp(2 * rng.normal(size=size))
        found = kept(table(amounts), table(amounts))
        assert found is not None
        assert found.largest == pytest.approx(amounts.max() / amounts.sum())
        assert found.error >= found.largest - 1 / size


def test_the_largest_part_is_that_of_all_records_of_a_unit() -> None:
    amounts, weights = np.array([1.0, 1, 2, 3]), np.array([0.5, 0.5, 2.0, 1.0])
    found = kept(table(amounts, [0, 1, 1, 2]), table(amounts), arrays=(weights, None, None))
    assert found is not None
    assert found.largest == pytest.approx(4.5 / 8)
