"""How many planted leaks the rules catch, of 100 seeds, and how often they ring without one.

Run with ``python -m pytest tests/benchmarks/test_bench_planted_leaks.py -s``, some 15 minutes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from anoncore.kernels.neighbors import nearest
from anoncore.kernels.principal_axes import basis
from anoncore.kernels.spectral_swap import swap
from anoncore.risk import (
    Neighbours,
    close_pairs,
    extreme_records,
    identical_records,
    score_coincidence_attack,
    tail_test,
)

N = 2000
SEEDS = 100
SHARES = (0.005, 0.01, 0.02, 0.05)
TABLE: list[str] = []

Draw = Callable[[int, np.random.Generator], np.ndarray]


def mixture(columns: int) -> np.ndarray:
    fixed = np.random.default_rng(columns)
    loadings = fixed.normal(size=(columns, columns)) / np.sqrt(columns) + np.eye(columns) / 2
    return loadings / np.sqrt((loadings**2).sum(axis=0))


def normal(columns: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(N, columns))


def correlated(columns: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(N, columns)) @ mixture(columns)


def heavy(columns: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_t(3, size=(N, columns)) / np.sqrt(3)


def mixed(columns: int, rng: np.random.Generator) -> np.ndarray:
    """Every third column has three levels."""
    rows = correlated(columns, rng)
    rows[:, ::3] = 1.2 * np.digitize(rows[:, ::3], [-0.5, 0.8])
    return rows


KINDS: tuple[Draw, ...] = (normal, correlated, heavy, mixed)


@pytest.fixture(scope="module", autouse=True)
def report():
    yield
    sys.stdout.write("\n" + "\n".join(TABLE) + "\n")


def gaps(original: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return (N,) nearest distances, in standard deviations per column."""
    return nearest(original, points, 1)[0][:, 0] / np.sqrt(original.shape[1])


def own_neighbours(people: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (N,) distances to the nearest other person, and who that is."""
    far, who = nearest(people, people, 1, skip_self=True)
    return far[:, 0] / np.sqrt(people.shape[1]), who[:, 0]


def own_gaps(original: np.ndarray) -> np.ndarray:
    return own_neighbours(original)[0]


def noisy_copies(original: np.ndarray, count: int, kind: Draw, rng: np.random.Generator) -> np.ndarray:
    """Return copies with ± 0.01 sd on every column that has more than levels."""
    noise = 0.01 * rng.normal(size=(count, original.shape[1]))
    if kind is mixed:
        noise[:, ::3] = 0.0
    return original[:count] + noise


@pytest.mark.parametrize("kind", KINDS)
def test_copied_records(kind):
    for columns in (5, 8, 12, 20, 28):
        # By McNemar's test alone, and by close pairs beside it.
        alarms, caught = Counter[bool](), Counter[tuple[bool, float]]()
        for seed in range(SEEDS):
            rng = np.random.default_rng([seed, columns, 5])
            original, reference, released = (kind(columns, rng) for _ in range(3))
            other, (own, who) = gaps(original, reference), own_neighbours(original)
            back, (theirs, whom) = gaps(reference, original), own_neighbours(reference)
            near, far = gaps(original, released), gaps(reference, released)
            for share in (0.0, *SHARES):
                if share:
                    # The rows that copies replace are searched too: that changes little and halves the time.
                    copies = noisy_copies(original, round(share * N), kind, rng)
                    leak = np.minimum(near, gaps(original, copies)), np.minimum(far, gaps(reference, copies))
                else:
                    leak = near, far
                pairs = close_pairs(
                    Neighbours(original, leak[0], other, own, who),
                    Neighbours(reference, leak[1], back, theirs, whom),
                )
                for beside in (None, pairs):
                    failed = tail_test(leak[0], other, own, pairs=beside).verdict == "fail"
                    if share:
                        caught[beside is pairs, share] += failed
                    else:
                        alarms[beside is pairs] += failed
        for paired in (False, True):
            counts = "".join(f"{caught[paired, share]:>5}" for share in SHARES)
            TABLE.append(
                f"{kind.__name__:<11}{columns:>3} columns, {'close pairs' if paired else 'McNemar':<11}"
                f"  alarms {alarms[paired]:>3}   caught{counts}"
            )
        assert alarms[True] <= 1
        assert caught[True, 0.005] >= 0.9 * SEEDS
        assert caught[True, 0.01] == caught[True, 0.02] == caught[True, 0.05] == SEEDS


@pytest.mark.parametrize("columns", [5, 12, 28])
def test_verbatim_copies(columns):
    caught = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, columns, 6])
        original, reference, released = rng.normal(size=(3, N, columns))
        near = gaps(original, released)
        near[:10] = 0.0
        caught += identical_records(near, gaps(original, reference), own_gaps(original)).verdict == "fail"
    TABLE.append(f"0.5 % verbatim, {columns} columns: {caught}")
    assert caught == SEEDS


@pytest.mark.parametrize("columns", [5, 12, 28])
@pytest.mark.parametrize("kind", [normal, correlated, mixed])
def test_recreated_outlier(kind, columns):
    caught = alarms = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, columns, 7])
        original, reference, released = (kind(columns, rng) for _ in range(3))
        original[7] = 50.0
        other, own = gaps(original, reference), own_gaps(original)
        alarms += extreme_records(gaps(original, released), other, own).verdict == "fail"
        released[0] = 50.0 * (1 + 0.05 * rng.uniform(-1, 1, columns))
        caught += extreme_records(gaps(original, released), other, own).verdict == "fail"
    TABLE.append(f"outlier, {kind.__name__}, {columns} columns: caught {caught}, alarms without it {alarms}")
    assert (caught, alarms) == (SEEDS, 0)


@pytest.mark.parametrize("columns", [5, 12, 28])
def test_published_loadings(columns):
    found: dict[str, list[float]] = {"exact": [], "3 decimals": [], "none": []}
    passed = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, columns, 8])
        original, reference = correlated(columns, rng), correlated(columns, rng)
        released = swap(original, rng=rng)
        loadings = basis(original).loadings
        for known, axes in (("exact", loadings), ("3 decimals", loadings.round(3)), ("none", None)):
            attack = score_coincidence_attack(original, reference, released, loadings=axes).attack
            found[known].append(attack.auc)
        passed += attack.verdict == "pass"
    middles = ", ".join(f"{known} {np.median(aucs):.3f}" for known, aucs in found.items())
    TABLE.append(f"median AUC by scores, loadings known, {columns} columns: {middles}; {passed} passed without")
    assert min(found["exact"]) > 0.999
    assert np.median(found["3 decimals"]) > 0.7
    assert abs(np.median(found["none"]) - 0.5) < 0.03
    assert passed >= 0.95 * SEEDS
