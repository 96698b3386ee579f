"""Points without another one near: the same as comparing all with all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anoncore.errors import AnonymizationError
from anoncore.kernels import isolation
from anoncore.kernels.isolation import far_from, without_neighbour
from anoncore.kernels.neighbors import nearest, nearest_of_others


def table(seed: int, n: int, columns: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, columns))
    if kind == "levels":
        points = np.round(points)
    elif kind == "clusters":
        points = 0.01 * points + rng.normal(size=(4, columns))[rng.integers(4, size=n)]
    points[:: n // 3 + 1] *= 20
    return points


@pytest.fixture(scope="module", autouse=True)
def _tables_of_a_few_hundred_are_divided() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isolation, "_FEW", 100)
        yield


@given(
    seed=st.integers(0, 2**31),
    n=st.integers(2, 1500),
    columns=st.sampled_from([1, 3, 12]),
    kind=st.sampled_from(["normal", "levels", "clusters"]),
    share=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
)
def test_it_is_what_comparing_all_with_all_gives(seed: int, n: int, columns: int, kind: str, share: float) -> None:
    points = table(seed, n, columns, kind)
    own = nearest(points, points, 1, skip_self=True)[0][:, 0]
    for reach in (float(np.quantile(own, share)), 5.0 * float(np.quantile(own, share))):
        places, distance = without_neighbour(points, reach)
        assert np.array_equal(places, np.flatnonzero(own > reach))
        assert np.array_equal(distance, own[own > reach])


@given(seed=st.integers(0, 2**31), n=st.integers(2, 900), size=st.integers(1, 30))
def test_points_of_one_unit_are_no_neighbours(seed: int, n: int, size: int) -> None:
    points, units = table(seed, n, 3, "clusters"), np.random.default_rng(seed).integers(n // size + 2, size=n)
    units[:2] = 0, 1
    own = nearest_of_others(points, points, 1, own=units, units=units)[0][:, 0]
    reach = float(np.quantile(own, 0.6))
    places, distance = without_neighbour(points, reach, units)
    assert np.array_equal(places, np.flatnonzero(own > reach))
    assert np.array_equal(distance, own[own > reach])


def test_crowded_and_sorted_points_are_no_exception() -> None:
    points = np.sort(np.append(np.zeros(2900), np.linspace(1, 2, 100)))[:, None]
    points[-1] = 50.0
    places, distance = without_neighbour(points, 1.0)
    assert places.tolist() == [2999]
    assert distance[0] == pytest.approx(50 - points[-2, 0])


def test_a_single_point_has_no_neighbour_to_speak_of() -> None:
    with pytest.raises(AnonymizationError, match="at least two points are needed, got 1"):
        without_neighbour(np.zeros((1, 2)), 1.0)


@pytest.mark.parametrize(("points", "others"), [(9000, 7000), (9000, 3), (100, 5000)])
@pytest.mark.parametrize("reach", [0.0, 0.3, 1.5])
def test_points_far_from_another_table_are_those_of_a_search_of_all(points, others, reach):
    rng = np.random.default_rng(points + others)
    one, other = rng.standard_t(4, size=(points, 3)), rng.standard_t(4, size=(others, 3))
    other[: min(others, points) // 2] = one[: min(others, points) // 2]
    places, distances = far_from(one, other, reach)
    expected = nearest(one, other, 1)[0][:, 0]
    assert np.array_equal(places, np.flatnonzero(expected > reach))
    np.testing.assert_allclose(distances, expected[expected > reach], rtol=1e-9)
