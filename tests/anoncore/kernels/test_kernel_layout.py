import warnings

import numpy as np
import pytest
import pywt
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from anoncore.errors import AnonymizationError
from anoncore.kernels.wavelet.inversion import invert_signal, observer_bounds
from anoncore.kernels.wavelet.layout import Graph, Grid, Line
from anoncore.kernels.wavelet.redistribution import Goals, redistribute
from anoncore.kernels.wavelet.relocation import net_flows
from anoncore.kernels.wavelet.signal_model import SignalModel

RING = Graph(tuple((i, (i + 1) % 12) for i in range(12)))
STAR = Graph(tuple((0, i) for i in range(1, 7)))


@pytest.mark.parametrize("wavelet", ["haar", "db2", "sym4", "bior2.2"])
def test_a_grid_has_the_transform_of_two_dimensions(wavelet):
    table = np.random.default_rng(1).normal(size=(8, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        coefficients = pywt.wavedec2(table, wavelet, mode="periodization", level=2)
    parts = Grid(4).decompose(table.ravel(), wavelet, 2)
    none = [tuple(np.zeros_like(c) for c in triple) for triple in coefficients[1:]]
    smooth = pywt.waverec2([coefficients[0], *none], wavelet, mode="periodization")
    np.testing.assert_allclose(parts.approximation, smooth.ravel(), atol=1e-10)
    np.testing.assert_allclose(parts.approximation + parts.details.sum(axis=0), table.ravel(), atol=1e-10)
    np.testing.assert_allclose(parts.details.sum(axis=1), 0, atol=1e-10)


def test_a_grid_that_does_not_suit_the_level_is_refused():
    with pytest.raises(AnonymizationError, match="rows and columns must be full and multiples of 4"):
        Grid(6).decompose(np.ones(24), "haar", 2)


def edges(nodes):
    pair = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    return st.lists(pair, max_size=30).map(tuple)


@settings(max_examples=60, deadline=None)
@given(edges(10), st.integers(1, 3))
def test_a_graph_splits_into_connected_sets_with_an_orthonormal_basis(pairs, level):
    graph = Graph(pairs)
    basis = graph.reconstruction(10, "haar", level).toarray()
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-12)
    signal = np.random.default_rng(len(pairs)).normal(size=10)
    parts = graph.decompose(signal, "haar", level)
    np.testing.assert_allclose(parts.approximation + parts.details.sum(axis=0), signal, atol=1e-12)
    np.testing.assert_allclose(basis.T @ parts.detail, 0, atol=1e-12)
    steps = graph.distances(10)
    for own in range(basis.shape[1]):
        members = np.flatnonzero(graph.clusters(10, level) == own)
        assert (steps[np.ix_(members, members)] < 10).all()


def test_a_path_is_haars_line_and_a_node_without_a_free_neighbour_joins_a_pair():
    path = Graph(tuple((i, i + 1) for i in range(7)))
    signal = np.arange(8.0) ** 2
    np.testing.assert_allclose(
        path.decompose(signal, "haar", 2).details, Line().decompose(signal, "haar", 2).details, atol=1e-12
    )
    assert STAR.clusters(7, 1).tolist() == [0] * 7
    assert Graph(()).clusters(3, 2).tolist() == [0, 1, 2]


@pytest.mark.parametrize("layout", [Grid(4), RING])
def test_goals_hold_on_a_map_and_the_inversion_knows_it(layout):
    counts = np.array([9, 4, 7, 300, 5, 6, 8, 3, 9, 2, 4, 6, 5, 7, 8, 3])[: 16 if isinstance(layout, Grid) else 12]
    model = SignalModel("haar", 1, layout=layout)
    found = redistribute(counts, Goals(caps={3: 40}), model)
    assert found.target[3] <= 40
    assert found.target.sum() == counts.sum()
    kept = found.beta * model.decompose(counts.astype(float)).detail
    np.testing.assert_allclose(model.decompose(found.unrounded).detail, kept, atol=1e-6)
    # Plain details give the peak away on a map as on a line; those of the capped signal do not.
    assert abs(invert_signal(found.target, model, positions=[3]).recovered[3] - 300) < 40
    low, high = observer_bounds(found.target, model, [3], share=found.beta)
    assert low[0] - 30 <= 300 <= high[0] + 30
    capped = redistribute(counts, Goals(caps={3: 40}), model, details="capped")
    assert invert_signal(capped.target, model, positions=[3]).recovered[3] < 240


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=8, max_size=8), st.integers(0, 9))
def test_flows_on_a_map_take_the_least_way(counts, seed):
    q = np.array(counts)
    target = np.random.default_rng(seed).permutation(q)
    steps = Grid(4).distances(8)
    flows = net_flows(q, target, steps)
    assert (flows >= 0).all()
    np.testing.assert_array_equal(flows.sum(axis=1) - flows.sum(axis=0), q - target)
    # Any route through other areas costs no less, since distances satisfy the triangle inequality.
    rows = np.array([[(i == a) - (j == a) for i in range(8) for j in range(8)] for a in range(8)])
    least = linprog(steps.ravel(), A_eq=rows, b_eq=q - target).fun
    assert (flows * steps).sum() == pytest.approx(least, abs=1e-6)
