"""Population risk: how often its interval covers what is known, and how fast records are counted and scored.

    python -m pytest tests/benchmarks/test_bench_population_risk.py -o addopts="" --import-mode=importlib -q -s

The first population is made: 30 000 people of eight hidden kinds, each with its own skewed shares of the levels of five
variables. Others are the records of ``arx/adult.csv.gz`` with five keys, in the folder ANONFLOW_SURVEY_DATA names.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anoncore.risk.population import (
    expected_reidentifications,
    groups_of,
    individual_risk,
    key_frequencies,
    special_uniques,
)
from tests.anoncore.risk.population.test_reidentifications import made_population

ADULT = Path(os.environ.get("ANONFLOW_SURVEY_DATA", "")) / "arx/adult.csv.gz"
KEYS = {
    "adult, 3 variables": ["sex", "education", "occupation"],
    "adult, 4 variables": ["sex", "age", "race", "marital-status"],
    "adult, 6 variables": ["age", "education", "marital-status", "native-country", "race", "workclass"],
    "adult, 7 variables": ["sex", "age", "race", "marital-status", "education", "workclass", "occupation"],
    "adult, all 9": [],
}


@pytest.mark.parametrize("population", ["made", *KEYS])
def test_coverage_over_200_samples(population: str) -> None:
    rng = np.random.default_rng(8)
    if population == "made":
        people = made_population(30_000, rng)
    elif ADULT.exists():
        data = pd.read_csv(ADULT, sep=";")
        people = groups_of(np.stack([pd.factorize(data[n])[0] for n in KEYS[population] or list(data)], axis=1))
    else:
        pytest.skip("name the folder of the Adult data in ANONFLOW_SURVEY_DATA")
    size = np.bincount(people)
    for fraction in (0.02, 0.05, 0.1, 0.2):
        rows = []
        for _ in range(200):
            sample = rng.choice(people, round(fraction * len(people)), replace=False)
            counts = np.bincount(sample)
            counts = counts[counts > 0]
            found = expected_reidentifications(counts, len(people))
            known = (1.0 / size[sample]).sum()
            each = (counts * individual_risk(counts, counts / fraction)).sum()
            rows.append((found.lower <= known <= found.upper, known, found.expected, found.lower, found.upper, each))
        mean = np.mean(rows, axis=0)
        sys.stdout.write(
            f"\n{population}, {fraction:.0%}: covered {mean[0]:.1%}; known {mean[1]:.0f}, expected {mean[2]:.0f}, "
            f"interval {mean[3]:.0f} to {mean[4]:.0f}; sum of individual risks {mean[5]:.0f}"
        )
        assert mean[0] >= 0.9


@pytest.fixture(scope="module")
def keys() -> np.ndarray:
    """200 000 records of six variables."""
    return np.random.default_rng(9).integers(0, [50, 20, 12, 10, 8, 2], size=(200_000, 6))


def test_special_uniques(benchmark, keys: np.ndarray) -> None:
    special_uniques(keys[:100])
    assert benchmark.pedantic(special_uniques, args=(keys,), rounds=5).score.any()


@pytest.mark.parametrize("missing", ["level", "holders"])
def test_frequencies(benchmark, keys: np.ndarray, missing: str) -> None:
    known = np.where(np.random.default_rng(10).random(keys.shape) < 0.05, -1, keys)
    found = benchmark.pedantic(key_frequencies, args=(known,), kwargs={"missing": missing}, rounds=3)
    assert (found.sample >= 1).all()
