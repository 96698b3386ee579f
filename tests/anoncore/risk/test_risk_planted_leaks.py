"""Planted leaks, the short form of tests/benchmarks/test_bench_planted_leaks.py."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore.kernels.neighbors import nearest
from anoncore.kernels.principal_axes import basis
from anoncore.kernels.spectral_swap import swap
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk import extreme_records, score_coincidence_attack, tail_test, value_presence

N = 2000


def gaps(original: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return (N,) nearest distances, in standard deviations per column."""
    return nearest(original, points, 1)[0][:, 0] / np.sqrt(original.shape[1])


def own_gaps(original: np.ndarray) -> np.ndarray:
    return nearest(original, original, 1, skip_self=True)[0][:, 0] / np.sqrt(original.shape[1])


@pytest.mark.parametrize("columns", [5, 12, 28])
def test_copied_records_are_caught(columns):
    caught = {0.005: 0, 0.01: 0, 0.05: 0}
    alarms = 0
    for seed in range(3):
        rng = np.random.default_rng([seed, columns])
        original, reference, released = rng.normal(size=(3, N, columns))
        other, own = gaps(original, reference), own_gaps(original)
        alarms += tail_test(gaps(original, released), other, own).verdict == "fail"
        for share in caught:
            leak = released.copy()
            count = round(share * N)
            leak[:count] = original[:count] + 0.01 * rng.normal(size=(count, columns))
            caught[share] += tail_test(gaps(original, leak), other, own).verdict == "fail"
    assert alarms == 0
    assert caught[0.005] >= 2
    assert (caught[0.01], caught[0.05]) == (3, 3)


@pytest.mark.parametrize("columns", [5, 28])
def test_a_recreated_outlier_is_caught(columns):
    rng = np.random.default_rng(columns)
    original, reference, released = rng.normal(size=(3, N, columns))
    original[7] = 50.0
    other, own = gaps(original, reference), own_gaps(original)
    clean = extreme_records(gaps(original, released), other, own)
    assert (clean.n_extreme, clean.n_matched, clean.verdict) == (1, 0, "pass")
    released[0] = original[7] * (1 + 0.05 * rng.uniform(-1, 1, columns))
    leaked = extreme_records(gaps(original, released), other, own)
    assert (leaked.n_matched, leaked.baseline, leaked.verdict) == (1, 0, "fail")


def test_published_loadings_give_members_away():
    rng = np.random.default_rng(1)
    original, reference = rng.normal(size=(2, N, 12)) @ (np.eye(12) + 0.3 * rng.normal(size=(12, 12)))
    released = swap(original, rng=rng)
    loadings = basis(original).loadings
    aucs = [
        score_coincidence_attack(original, reference, released, loadings=known).attack
        for known in (loadings, np.round(loadings, 3), basis(released).loadings)
    ]
    assert aucs[0].auc > 0.999
    assert aucs[1].lower > 0.55
    assert aucs[2].auc == pytest.approx(0.5, abs=0.04)


def test_missing_values_that_stay_where_they_are_are_found():
    """One person in fifty lacks about half of twelve values; all values are other people's."""
    rng = np.random.default_rng(3)

    def answers(n: int) -> pd.DataFrame:
        frame = pd.DataFrame(rng.normal(size=(n, 12)), columns=[f"v{j}" for j in range(12)])
        return frame.mask((rng.random(frame.shape) < 0.5) & (np.arange(n) < n // 50)[:, None])

    schema = Schema([Variable(f"v{j}", "continuous") for j in range(12)])
    members, strangers, others = answers(1000), answers(1000), answers(1000)
    kept = pd.DataFrame(rng.normal(size=members.shape), columns=members.columns).mask(members.isna())
    tables = [Microdata(one, schema) for one in (members, strangers, kept, others)]
    form = "which values are missing"
    leaked, harmless = (
        dict(value_presence(tables[0], released, tables[1], rng=np.random.default_rng(1)).top_p)[form]
        for released in tables[2:]
    )
    assert leaked < 1e-4
    assert harmless > 0.05
