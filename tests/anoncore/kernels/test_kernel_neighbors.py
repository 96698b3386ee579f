"""Nearest neighbours: every route agrees with a direct computation, also where rounding bites."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from anoncore.errors import AnonymizationError
from anoncore.kernels import neighbors, threads
from anoncore.kernels.neighbors import nearest

ROUTES = {"brute": neighbors._brute, "tree": neighbors._tree, "direct": neighbors._direct}


def by_hand(queries, points, k, own=None):
    """All differences, then a full sort by (distance, index)."""
    squares = np.einsum("ijk,ijk->ij", *2 * [queries[:, None] - points[None]])
    if own is not None:
        squares[np.arange(len(queries)), own] = np.inf
    order = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return np.sqrt(np.take_along_axis(squares, order, axis=1)), order


def agree(found, expected):
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def table(kind, rows, columns, rng):
    x = rng.normal(size=(rows, columns))
    if kind == "lattice":
        return np.floor(2 * x)
    if kind == "groups":
        return np.repeat(x[: -(-rows // 7)], 7, axis=0)[:rows]
    if kind == "heavy":
        return rng.standard_t(1, size=(rows, columns))
    if kind == "offset":
        return x + 1e9
    if kind == "far record":
        x[0] = 1e12
    if kind == "two clusters":
        x[::2] += 1e8
    if kind == "tiny":
        x *= 1e-120
    if kind == "huge":
        x *= 1e120
    return x


KINDS = ["normal", "lattice", "groups", "heavy", "offset", "far record", "two clusters", "tiny", "huge"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [2, 8, 9, 28])
def test_agrees_with_all_differences(kind, columns):
    rng = np.random.default_rng(columns)
    points, queries = table(kind, 1301, columns, rng), table(kind, 300, columns, rng)
    agree(nearest(queries, points, 5), by_hand(queries, points, 5))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("route", ROUTES)
def test_each_route_agrees_with_all_differences(kind, route):
    rng = np.random.default_rng(1)
    points, queries = table(kind, 900, 6, rng), table(kind, 700, 6, rng)
    if kind in ("groups", "lattice"):
        points = np.unique(points, axis=0)  # the routes see distinct points only
    agree(ROUTES[route](queries, points, 4), by_hand(queries, points, 4))


@pytest.mark.parametrize("columns", [3, 20])
def test_agrees_with_sklearn_over_many_blocks(columns):
    rng = np.random.default_rng(2)
    queries, points = rng.normal(size=(2500, columns)), rng.normal(size=(9000, columns))
    distances, indices = nearest(queries, points, 6)
    expected = NearestNeighbors(n_neighbors=6, algorithm="brute").fit(points).kneighbors(queries)
    np.testing.assert_array_equal(indices, expected[1])
    np.testing.assert_allclose(distances, expected[0], rtol=1e-9)  # its near ones have lost digits


@pytest.mark.parametrize("columns", [4, 28])
def test_near_copies_keep_their_digits(columns):
    rng = np.random.default_rng(3)
    queries = rng.normal(size=(600, columns)) + 1e3
    points = queries.copy()
    points[:, 0] += 1e-9 * rng.uniform(1, 2, len(points))
    distances, indices = nearest(queries, points, 1)
    np.testing.assert_array_equal(indices[:, 0], np.arange(600))
    np.testing.assert_array_equal(distances[:, 0], np.sqrt((queries[:, 0] - points[:, 0]) ** 2))


@pytest.mark.parametrize("columns", [4, 28])
def test_more_near_copies_than_any_fixed_surplus(columns):
    # 3000 points within 1e-6 of the query: single precision cannot tell them apart.
    rng = np.random.default_rng(4)
    centre = rng.normal(size=columns) * 10
    points = np.concatenate([centre + 1e-6 * rng.normal(size=(3000, columns)), rng.normal(size=(500, columns))])
    queries = np.concatenate([centre[None], points[:5] + 1e-9])
    agree(nearest(queries, points, 5), by_hand(queries, points, 5))


@pytest.mark.parametrize("columns", [2, 28])
@pytest.mark.parametrize("kind", ["normal", "lattice", "groups"])
def test_skip_self_leaves_out_the_row_and_not_its_twins(columns, kind):
    rows = table(kind, 800, columns, np.random.default_rng(5))
    agree(nearest(rows, rows, 5, skip_self=True), by_hand(rows, rows, 5, own=np.arange(800)))


def test_skip_self_by_index():
    rows = table("groups", 400, 12, np.random.default_rng(6))
    own = np.random.default_rng(7).choice(400, 60, replace=False)
    agree(nearest(rows[own], rows, 3, skip_self=own), by_hand(rows[own], rows, 3, own=own))
    none = np.full(60, -1)
    agree(nearest(rows[own], rows, 3, skip_self=none), by_hand(rows[own], rows, 3))


@pytest.mark.parametrize("columns", [1, 28])
def test_all_rows_identical(columns):
    rows = np.full((5000, columns), 0.1)
    distances, indices = nearest(rows, rows, 3, skip_self=True)
    assert not distances.any()
    np.testing.assert_array_equal(indices[:2], [[1, 2, 3], [0, 2, 3]])
    np.testing.assert_array_equal(indices[4], [0, 1, 2])


@pytest.mark.parametrize("columns", [2, 28])
def test_ties_at_a_distance_go_to_the_lowest_index(columns):
    # 2000 points at distance 1 exactly, far more than a block is willing to carry.
    points = np.zeros((2000, columns))
    points[np.arange(2000), np.arange(2000) % columns] = np.where(np.arange(2000) // columns % 2, 1.0, -1.0)
    distances, indices = nearest(np.zeros((3, columns)), points, 4)
    np.testing.assert_array_equal(distances, 1.0)
    np.testing.assert_array_equal(indices, np.tile(np.arange(4), (3, 1)))


def test_signed_zeros_are_the_same_point():
    points = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 2.0]])
    agree(nearest(points, points, 2), by_hand(points, points, 2))


def test_colliding_hashes_only_cost_time(monkeypatch):
    rows = table("groups", 300, 9, np.random.default_rng(8))
    monkeypatch.setattr(neighbors, "_distinct", lambda points: None)
    agree(nearest(rows, rows, 5, skip_self=True), by_hand(rows, rows, 5, own=np.arange(300)))


def test_rows_of_one_hash_are_still_told_apart():
    weight = np.uint64(0x9E3779B97F4A7C15)
    rng = np.random.default_rng(11)

    def mixed(bits):
        return bits ^ (bits >> np.uint64(32))  # its own inverse

    pairs = []
    while len(pairs) < 5:
        first = rng.normal(size=2)
        second = first[1] + 1.0
        bits = mixed(np.array([*first, second]).view(np.uint64))
        with np.errstate(over="ignore"):
            other = mixed(bits[:1] + weight * (bits[1:2] - bits[2:])).view(np.float64)[0]
        if 1e-5 < abs(other) < 1e5:
            pairs += [first, [other, second]]
    rows = np.concatenate([pairs, rng.normal(size=(20, 2)), pairs])
    assert len(neighbors.distinct_rows(np.array(pairs))[0]) == len(pairs)
    first, number, copies = neighbors.distinct_rows(rows)
    np.testing.assert_array_equal(rows[first][number], rows)
    assert len(first) == len(rows) - len(pairs)
    assert np.bincount(number).tolist() == copies.tolist()
    assert (np.diff(first) > 0).all()
    agree(nearest(rows, rows, 3), by_hand(rows, rows, 3))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_distinct_rows_are_numbered_in_order(size):
    rows = np.random.default_rng(12).integers(0, 2, size=(50, size)).astype(float)
    rows[rows == 0] = np.random.default_rng(13).choice([0.0, -0.0], (rows == 0).sum())
    first, number, copies = neighbors.distinct_rows(rows)
    assert len(first) == len(np.unique(rows + 0.0, axis=0))
    np.testing.assert_array_equal(rows[first][number], rows)
    assert (copies.sum(), (np.diff(first) > 0).all()) == (50, True)


@pytest.mark.parametrize("size", [63, 64, 65, 511, 512, 513, 1025, 2111])
def test_every_size_of_the_last_chunk(size):
    rng = np.random.default_rng(size)
    points, queries = rng.normal(size=(size, 10)), rng.normal(size=(70, 10))
    agree(nearest(queries, points, 6), by_hand(queries, points, 6))


def test_sorted_and_reversed_files():
    rng = np.random.default_rng(14)
    points = rng.normal(size=(3000, 9)) * np.linspace(0.01, 10, 3000)[:, None]
    queries = 0.01 * rng.normal(size=(50, 9))
    agree(nearest(queries, points, 5), by_hand(queries, points, 5))
    agree(nearest(queries, points[::-1], 5), by_hand(queries, points[::-1], 5))


def test_the_number_of_threads_does_not_matter(monkeypatch):
    queries, points = np.random.default_rng(15).normal(size=(2, 1500, 20))
    found = nearest(queries, points, 4)
    for count in (1, 3):
        monkeypatch.setattr(threads, "available", lambda count=count: count)
        agree(nearest(queries, points, 4), found)


def test_inputs_stay_as_they_are():
    queries, points = np.random.default_rng(16).normal(size=(2, 600, 20))
    points[::3] = points[0]
    copies = queries.copy(), points.copy()
    nearest(queries, points, 4)
    nearest(points, points, 4, skip_self=True)
    agree((queries, points), copies)


@pytest.mark.parametrize("columns", [1, 28])
@pytest.mark.parametrize(("k", "skip", "allowed"), [(4, False, 3), (3, True, 2), (0, False, 3)])
def test_k_out_of_range(columns, k, skip, allowed):
    rows = np.zeros((3, columns))
    with pytest.raises(AnonymizationError, match=f"k must be between 1 and {allowed}, got {k}"):
        nearest(rows, rows, k, skip_self=skip)


@pytest.mark.parametrize("columns", [1, 28])
def test_smallest_sizes(columns):
    one = np.ones((1, columns))
    agree(nearest(one, one, 1), (np.zeros((1, 1)), np.zeros((1, 1))))
    assert nearest(one[:0], one, 1)[0].shape == (0, 1)
    agree(nearest(one, np.stack([0 * one[0], one[0]]), 2), by_hand(one, np.stack([0 * one[0], one[0]]), 2))


def test_large_k():
    rng = np.random.default_rng(9)
    queries, points = rng.normal(size=(40, 15)), rng.normal(size=(6000, 15))
    agree(nearest(queries, points, 2500), by_hand(queries, points, 2500))


def test_memory_is_bounded_by_blocks():
    rng = np.random.default_rng(10)
    queries, points = rng.normal(size=(6000, 12)), rng.normal(size=(20_000, 12))
    tracemalloc.start()
    nearest(queries, points, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120e6  # the distance matrix alone would take 960 MB


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    columns=st.integers(1, 12),
    size=st.integers(2, 60),
    levels=st.integers(1, 4),
    k=st.integers(1, 6),
    skip=st.booleans(),
)
def test_small_lattices(seed, columns, size, levels, k, skip):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, levels, size=(size, columns)).astype(float)
    k = min(k, size - skip)
    agree(nearest(rows, rows, k, skip_self=skip), by_hand(rows, rows, k, np.arange(size) if skip else None))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), columns=st.sampled_from([2, 14]))
def test_order_of_points_does_not_matter(seed, columns):
    rng = np.random.default_rng(seed)
    queries, points = rng.normal(size=(50, columns)), rng.normal(size=(200, columns))
    shuffle = rng.permutation(200)
    plain, shuffled = nearest(queries, points, 4), nearest(queries, points[shuffle], 4)
    agree(plain, (shuffled[0], shuffle[shuffled[1]]))


def coded(rows, rng, gap=2.0):
    """Numbers, and indicators of the levels of three variables, the last of which is missing in some rows."""
    codes = [rng.integers(0, q, rows) for q in (4, 9, 5)]
    blocks = [gap * (code[:, None] == np.arange(q)) - 1.0 for code, q in zip(codes, (4, 9, 5), strict=True)]
    blocks[2][rng.random(rows) < 0.1] = 0.2
    return np.hstack([rng.normal(size=(rows, 2)), *blocks, gap * rng.integers(0, 2, (rows, 1)) - 1.0])


@pytest.mark.parametrize("gap", [2.0, 0.1, 1e9, 1e-9])
@pytest.mark.parametrize("skip", [False, True])
def test_levels_are_counted_where_columns_indicate_them(monkeypatch, gap, skip):
    monkeypatch.setattr(neighbors, "_CODED", 1)
    rng = np.random.default_rng(7)
    points = coded(1500, rng, gap)
    queries = points if skip else coded(700, rng, gap)
    assert len(neighbors._screen(queries, points).codes) == 2
    agree(nearest(queries, points, 4, skip_self=skip), by_hand(queries, points, 4, np.arange(1500) if skip else None))


def test_a_table_of_levels_alone(monkeypatch):
    monkeypatch.setattr(neighbors, "_CODED", 1)
    points = coded(900, np.random.default_rng(8))[:, 2:15]
    agree(nearest(points[:300], points, 3), by_hand(points[:300], points, 3))
