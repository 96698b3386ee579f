"""The optimum of the lattice against all of its nodes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from anoncore import AnonymizationError
from anoncore.errors import InfeasibleError
from anoncore.kernels.lattice import Key, Level, at_least, close, diverse, node_at, optimal_node


def keys_of(rng, n, heights=(4, 3, 3, 2), units=None):
    """Draw keys whose levels join ever more values, at ever higher costs."""
    keys = []
    for height in heights:
        codes = rng.geometric(0.2, n).clip(max=2**height) - 1
        costs = np.sort(rng.random((height + 1, 2**height)), axis=0)
        costs[0] = 0
        keys.append(Key([Level(codes >> at, costs[at][codes >> at << at]) for at in range(height + 1)], np.ones(n)))
    return keys


@pytest.mark.parametrize("mean", ["geometric", "arithmetic"])
@pytest.mark.parametrize("models", ["k", "k and values", "k and distributions"])
def test_no_node_that_suppresses_as_few_loses_less(models, mean):
    rng = np.random.default_rng([len(models), len(mean)])
    n, limit = 150, 0.1
    keys, values, one = keys_of(rng, n), rng.integers(0, 3, n), np.ones(n, dtype=np.int64)
    units = np.sort(rng.integers(0, 100, n))
    tests = [at_least(4)]
    if models == "k and values":
        tests.append(diverse(values, 2))
    elif models == "k and distributions":
        tests.append(close(values, 0.4, ordered=True, weights=one))
    given = {"weights": one, "units": units, "mean": mean}
    found = optimal_node(keys, tests, **given, limit=limit, monotone=models == "k")
    nodes = [node_at(keys, at, tests, **given) for at in product(*(range(len(key.levels)) for key in keys))]
    allowed = [node.loss for node in nodes if node.suppressed.sum() <= limit * n]
    assert 1 < len(allowed) < len(nodes)
    assert found.loss == pytest.approx(min(allowed), abs=1e-12)
    assert found.loss == pytest.approx(node_at(keys, found.levels, tests, **given).loss, abs=1e-12)
    if models == "k":
        assert found.evaluated < len(nodes) / 2


def test_what_cannot_be_met_or_searched_is_refused():
    rng, one = np.random.default_rng(0), np.ones(20, dtype=np.int64)
    given = {"weights": one, "units": np.arange(20), "mean": "arithmetic", "monotone": True}
    with pytest.raises(InfeasibleError, match="raise the suppression limit"):
        optimal_node(keys_of(rng, 20), [at_least(21)], **given, limit=0.5)
    with pytest.raises(AnonymizationError, match="more than 2000000"):
        optimal_node(keys_of(rng, 20, (4,) * 10), [at_least(2)], **given, limit=0.5)
