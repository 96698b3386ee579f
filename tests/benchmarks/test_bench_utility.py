"""Speed and memory of the utility measures, beside statsmodels, with growth over three sizes.

Figures are the best of a few rounds; where others keep the cores busy, processor time stands in for the
wall clock if it is less.
"""

import tracemalloc

import numpy as np
import pandas as pd
import statsmodels.api as sm

from anoncore.encoding import Encoder
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.utility import Regression, UtilitySettings, measure_utility, propensity_utility
from tests.benchmarks.timing import seconds

SIZES = (10_000, 30_000, 100_000)
PREDICTORS = ("v1", "v2", "v3", "v16", "v22", "v25")
DECLARED = (
    Regression(outcome="v0", predictors=PREDICTORS),
    Regression(outcome="v17", predictors=PREDICTORS, kind="logistic"),
)
SETTINGS = UtilitySettings(regressions=DECLARED)


def table(size, seed):
    """16 continuous, 6 binary, 3 ordinal and 3 nominal variables, some with gaps."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(size, 28)) @ np.linalg.cholesky(0.3 + 0.7 * np.eye(28)).T
    data, variables = {}, []
    for j in range(28):
        name = f"v{j}"
        if j < 16:
            x = np.round(np.exp(z[:, j]), 2) + 0.01 if j % 2 else z[:, j].round(3)
            data[name] = np.where(rng.random(size) < 0.05, np.nan, x) if j % 5 == 0 else x
            variables.append(Variable(name, "continuous"))
        elif j < 22:
            data[name] = (z[:, j] > 0.5).astype(int)
            variables.append(Variable(name, "binary", levels=(0, 1)))
        else:
            kind, top = ("ordinal", 6) if j < 25 else ("nominal", 9)
            data[name] = np.clip(np.rint(z[:, j] + top / 2), 1, top).astype(int)
            variables.append(Variable(name, kind, levels=tuple(range(1, top + 1))))
    return Microdata(pd.DataFrame(data), Schema(variables))


def test_everything_grows_linearly(show):
    times = []
    for size in SIZES:
        sides = [table(size, seed) for seed in range(3)]
        times.append(seconds(lambda sides=sides: measure_utility(*sides, settings=SETTINGS)))
    slope = float(np.polyfit(np.log(SIZES), np.log(times), 1)[0])
    show(
        "measure_utility, 28 variables, three tables, two regressions: "
        + ", ".join(f"{n:_} {t:.2f} s" for n, t in zip(SIZES, times, strict=True)),
        f"growth exponent {slope:.2f}",
    )
    assert times[-1] < 15
    assert slope < 1.2


def test_propensity_beside_statsmodels(show):
    sides = [table(30_000, seed) for seed in range(2)]
    encoder = Encoder.fit(sides[0])
    a, b = (encoder.encode(side) for side in sides)
    rows, labels = sm.add_constant(np.concatenate([a, b])), np.repeat([0.0, 1.0], 30_000)
    ours = seconds(lambda: propensity_utility(a, b))
    theirs = seconds(lambda: sm.GLM(labels, rows, family=sm.families.Binomial()).fit(), rounds=1)
    show(
        f"30 000 x {a.shape[1]} twice: {ours:.2f} s; statsmodels GLM {theirs:.2f} s",
    )
    assert ours < theirs


def test_memory(show):
    sides = [table(100_000, seed) for seed in range(3)]
    size = 100_000 * Encoder.fit(sides[0]).width * 8 * 3
    tracemalloc.start()
    measure_utility(*sides, settings=SETTINGS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    show(f"peak {peak / size:.2f} times the three encoded tables ({size / 2**20:.0f} MiB)")
    assert peak < 4 * size
