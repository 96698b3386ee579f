"""Ridge regression on many predictors, by blocks."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from anoncore.kernels import ridge as module
from anoncore.kernels.ridge import ridge


@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_is_that_of_scikit_learn_whatever_the_blocks(weighted, monkeypatch):
    monkeypatch.setattr(module, "_CELLS", 1000)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(2000, 6)).astype(np.float32)
    target = x @ np.linspace(-1, 1, 6) + 5.0 + draw.normal(size=2000)
    weights = draw.uniform(0.2, 1.0, 2000) if weighted else None
    theirs = Ridge(alpha=3.0).fit(x, target, sample_weight=weights).predict(x) - np.average(target, weights=weights)
    np.testing.assert_allclose(ridge(x, target, weights, 3.0)(x), theirs, atol=1e-5)
