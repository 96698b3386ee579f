"""How statistics move with values and with records, against differences taken by hand."""

import numpy as np
import pytest

from anoncore import AnonymizationError
from anoncore.boxes.statistics import Statistic, influences, wanted

NAMES = ("u", "v", "w")
COMPUTE = {
    "mean": lambda x: x[:, 0].mean(),
    "variance": lambda x: x[:, 0].var(),
    "sd": lambda x: x[:, 0].std(),
    "covariance": lambda x: np.cov(x.T, ddof=0)[0, 1],
    "correlation": lambda x: np.corrcoef(x.T)[0, 1],
}


def values(n=4000, gaps=0.0):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 3)) @ np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 3.0]])
    x[rng.random(n) < gaps, 1] = np.nan
    return x


@pytest.mark.parametrize("name", COMPUTE)
def test_sampling_error_is_that_of_leaving_records_out(name):
    """The jackknife's standard error times √N is the standard deviation of one record's influence."""
    x = values(gaps=0.2)
    of = ("u", "v") if name in ("covariance", "correlation") else ("v",)
    asked = wanted([Statistic(statistic=name, of=of, accuracy=0.5)], NAMES, x)
    _, A = influences(x, asked)
    used = x[~np.isnan(x[:, [NAMES.index(n) for n in of]]).any(axis=1)][:, [NAMES.index(n) for n in of]]
    rows = np.arange(0, len(used), 8)
    without = np.array([COMPUTE[name](np.delete(used, i, axis=0)) for i in rows])
    error = (len(used) - 1) * without.std() / 0.5
    assert pytest.approx(error * np.sqrt(len(x) / len(used)), rel=0.08) == A


@pytest.mark.parametrize("name", COMPUTE)
def test_sensitivities_are_derivatives(name):
    x = values(50, gaps=0.2)
    of = ("u", "v") if name in ("covariance", "correlation") else ("v",)
    columns = [NAMES.index(n) for n in of]
    asked = wanted([Statistic(statistic=name, of=of, accuracy=0.5)], NAMES, x)
    a, _ = influences(x, asked)
    rows = np.flatnonzero(~np.isnan(x[:, columns]).any(axis=1))
    floor = 1e-3 * a[rows].max() * 3
    for i in rows[:10]:
        for column in columns:
            moved = []
            for step in (-1e-5, 1e-5):
                changed = x.copy()
                changed[i, column] += step
                moved.append(COMPUTE[name](changed[rows][:, columns]))
            derivative = abs(moved[1] - moved[0]) / 2e-5 * len(x) / 0.5
            assert a[i, column] == pytest.approx(derivative, rel=1e-4, abs=floor)


def test_shares_and_accuracies_weigh():
    x = values()
    asked = [
        Statistic(statistic="mean", of=("u",), probability=3.0, accuracy=2.0),
        Statistic(statistic="mean", of=("w",), accuracy=0.5),
    ]
    a, _ = influences(x, wanted(asked, NAMES, x))
    assert (a[:, 0] == 0.75 / 2.0).all()
    assert (a[:, 2] == 0.25 / 0.5).all()
    assert (a[:, 1] < 0.002).all()


def test_all_means_when_nothing_is_asked():
    x = values()
    x[:, 1] = np.nan
    asked = wanted([], NAMES, x)
    assert [w.statistic.text for w in asked] == ["mean(u)", "mean(w)"]
    assert [w.accuracy for w in asked] == pytest.approx(0.1 * x[:, [0, 2]].std(axis=0))
    a, A = influences(x, asked)
    assert (a > 0).all()
    assert pytest.approx(10.0) == A
    assert influences(np.full((3, 3), np.nan), [])[1] == 0.0


@pytest.mark.parametrize("scale", [1e-170, 1e170, 1e-155])
@pytest.mark.parametrize("name", ["variance", "covariance", "correlation"])
def test_scales_that_cannot_be_squared_are_refused(name, scale):
    of = ("u", "v") if name in ("covariance", "correlation") else ("v",)
    x = values(50) * scale
    asked = [Statistic(statistic=name, of=of)]
    if name == "correlation" and scale == 1e-155:
        assert np.isfinite(influences(x, wanted(asked, NAMES, x))[1])
        return
    with pytest.raises(AnonymizationError, match="too small or too large to compute with"):
        wanted(asked, NAMES, x)
