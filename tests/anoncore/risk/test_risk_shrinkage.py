"""Shrunk releases: people far out are found once the shrinkage is undone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore import Microdata, RiskSettings, Schema, Variable, measure_risk
from anoncore.edits.model import EditSet
from anoncore.encoding import EncodedTables
from anoncore.methods.additive_noise import AdditiveNoise
from anoncore.risk.shrinkage import without_shrinkage

NAMES = tuple("abcdef")
SCHEMA = Schema([Variable(name, "continuous") for name in NAMES])


def firms(seed: int, n: int = 1000, far: int = 10) -> Microdata:
    """Firms, of which some are larger than all others, each in a direction of its own."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(NAMES)))
    way = rng.normal(size=(far, len(NAMES)))
    x[:far] += way / np.linalg.norm(way, axis=1)[:, None] * np.sqrt(len(NAMES)) * rng.uniform(8, 24, (far, 1))
    return Microdata(pd.DataFrame(x, columns=NAMES), SCHEMA)


def noisy(data: Microdata, correction: str = "corrected") -> Microdata:
    method = AdditiveNoise(b=2.0, correction=correction)  # type: ignore[arg-type]
    return method.anonymize(data, edits=EditSet(), rng=np.random.default_rng(9)).data


@pytest.mark.parametrize("correction", ["corrected", "exact"])
def test_firms_that_noise_does_not_hide_are_found(correction: str) -> None:
    original, reference = firms(1), firms(2)
    released = noisy(original, correction)
    settings = RiskSettings(rows_linked=True)
    risk, plain = (
        measure_risk(original, released, reference, settings=one, rng=np.random.default_rng(3))
        for one in (settings, RiskSettings())
    )
    assert plain.isolated.verdict == "pass"
    assert (risk.isolated.verdict, risk.isolated.tau) == ("fail", 0.5)
    assert risk.isolated.p < 0.001
    assert risk.density is not None
    assert "density ratio, 1 neighbour, after undoing the shrinkage" in dict(risk.density.top_p)


def test_the_factor_is_found_and_nothing_is_undone_without_one() -> None:
    original = firms(1)
    own = np.arange(len(original))
    undone = without_shrinkage(EncodedTables.of(original, noisy(original), None), own)
    assert undone is not None
    slope = np.polyfit(undone.x[:, 0], undone.y[:, 0], 1)[0]
    assert slope == pytest.approx(1.0, abs=0.05)
    # In units in which released numbers vary by one, together with the noise that is no longer shrunk.
    assert np.cov(undone.x, rowvar=False) == pytest.approx(np.eye(len(NAMES)), abs=0.3)
    for harmless in (noisy(original, "none"), firms(3)):
        assert without_shrinkage(EncodedTables.of(original, harmless, None), own) is None
    assert without_shrinkage(EncodedTables.of(original, noisy(original), None), np.full(len(own), -1)) is None


def test_a_harmless_release_whose_rows_are_linked_passes() -> None:
    failed = 0
    for seed in range(12):
        original, released, reference = (firms(3 * seed + part, 300, 3) for part in range(3))
        settings = RiskSettings(rows_linked=True)
        risk = measure_risk(original, released, reference, settings=settings, rng=np.random.default_rng(seed))
        failed += risk.isolated.verdict == "fail"
    assert failed <= 1
