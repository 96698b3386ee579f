import itertools
import math
import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from anoncore.errors import AnonymizationError
from anoncore.kernels.boxes.intervals import Estimate, estimate, plain

STATISTICS = ("mean", "variance", "sd", "covariance", "correlation")
PAIRS = ("covariance", "correlation")

DISTRIBUTIONS = {
    "normal": lambda rng, n: rng.normal(size=(n, 2)) @ rng.normal(size=(2, 2)) + rng.normal(0, 10, 2),
    "lognormal": lambda rng, n: np.exp(rng.normal(0, 1.5, size=(n, 2))),
    "discrete": lambda rng, n: rng.integers(0, 4, size=(n, 2)).astype(float),
    "constant": lambda rng, n: np.column_stack([rng.normal(size=n), np.full(n, rng.normal())]),
    "heavy tails": lambda rng, n: rng.standard_t(1, size=(n, 2)) * 10.0 ** rng.integers(-6, 7, 2),
    "far away": lambda rng, n: rng.normal(size=(n, 2)) * [1e-3, 1.0] + [1e9, -1e6],
    "nearly dependent": lambda rng, n: rng.normal(size=(n, 1)) * [1, -2] + 1e-3 * rng.normal(size=(n, 2)),
}


def cut(x, k, rng):
    """Assign records to boxes by median cuts along random columns."""
    codes, waiting, number = np.empty(len(x), dtype=int), [np.arange(len(x))], 0
    while waiting:
        members = waiting.pop()
        if len(members) < 2 * k:
            codes[members], number = number, number + 1
        else:
            order = members[np.argsort(x[members, rng.integers(x.shape[1])], kind="stable")]
            waiting += [order[: len(order) // 2], order[len(order) // 2 :]]
    return codes


def boxes_of(x, codes, rng=None, margin=0.0):
    """Return faces and counts; hulls, widened at random if a margin is given."""
    b = codes.max() + 1
    lower, upper = np.full((b, x.shape[1]), np.inf), np.full((b, x.shape[1]), -np.inf)
    np.minimum.at(lower, codes, x)
    np.maximum.at(upper, codes, x)
    if margin:
        lower -= margin * rng.random(lower.shape) * np.ptp(x, axis=0)
        upper += margin * rng.random(upper.shape) * np.ptp(x, axis=0)
    return lower, upper, np.bincount(codes)


def truth(statistic, x, w=None):
    """The statistic of the values themselves, in extended precision; (N, m)."""
    x = x.astype(np.longdouble)
    w = np.full(len(x), np.longdouble(1) / len(x)) if w is None else w.astype(np.longdouble)
    w = w / w.sum()
    d = x - x[0]  # nearly exact; it keeps a far origin out of the sums
    moments = d.T @ (d * w[:, None]) - np.outer(w @ d, w @ d)
    if statistic == "mean":
        return (w @ x)[0]
    if statistic in ("variance", "sd"):
        return moments[0, 0] if statistic == "variance" else np.sqrt(moments[0, 0])
    if statistic == "correlation" and moments[0, 0] * moments[1, 1] == 0:
        return np.nan
    if statistic == "correlation":
        # Rounded, that of two records can exceed 1 by a last digit.
        return np.clip(moments[0, 1] / np.sqrt(moments[0, 0] * moments[1, 1]), -1, 1)
    return moments[0, 1]


def columns(statistic, *arrays):
    m = 2 if statistic in PAIRS else 1
    return [a[:, :m] for a in arrays]


def holds(statistic, x, lower, upper, counts, weights=None, w=None):
    """Estimate, and check everything that has to be true whatever the data."""
    faces = columns(statistic, lower, upper)
    found = estimate(statistic, *faces, counts, weights)
    low, high = found.guaranteed
    assert not math.isnan(found.value)
    assert not any(math.isnan(end) for end in (*found.linearised, low, high))
    assert low <= found.value <= high
    outer = plain(statistic, *faces, counts, weights)
    slack = 1e-14 * max(map(abs, found.guaranteed))
    assert outer[0] - slack <= low
    assert high <= outer[1] + slack
    actual = truth(statistic, x, w)
    if np.isfinite(actual):
        assert low <= actual <= high
    return found, outer


# -- enclosure


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_encloses_on_many_tables(name):
    for seed in range(150):
        rng = np.random.default_rng(seed)
        x = DISTRIBUTIONS[name](rng, int(rng.integers(2, 120)))
        codes = cut(x, int(rng.integers(1, 12)), rng)
        lower, upper, counts = boxes_of(x, codes, rng, margin=rng.choice([0.0, 0.1]))
        weights = rng.random(len(counts)) * (rng.random(len(counts)) < 0.8) if seed % 3 == 0 else None
        if weights is not None:
            weights[0] = 1.0
        for statistic in STATISTICS if seed < 30 else STATISTICS[:4]:
            holds(statistic, x, lower, upper, counts, weights, None if weights is None else weights[codes])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(*[st.floats(-1e6, 1e6, allow_subnormal=False) for _ in range(4)], st.integers(1, 4)),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 1000),
)
def test_encloses_whatever_the_boxes(given_boxes, seed):
    table = np.array(given_boxes)
    lower, upper = np.minimum(table[:, :2], table[:, 2:4]), np.maximum(table[:, :2], table[:, 2:4])
    counts = table[:, 4].astype(int)
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(counts)), counts)
    # Values inside and on the faces of their boxes.
    share = np.clip(rng.normal(0.5, 1, (len(codes), 2)), 0, 1)
    x = np.clip(lower[codes] * (1 - share) + upper[codes] * share, lower[codes], upper[codes])
    for statistic in STATISTICS:
        holds(statistic, x, lower, upper, counts)


# -- tightness


def extremes(objective, lower, upper, seed=0):
    """Least and greatest value over the boxes, by projected quasi-Newton steps from several starts."""
    rng = np.random.default_rng(seed)
    bounds = list(zip(lower.ravel(), upper.ravel(), strict=True))
    ends = []
    for sign in (1, -1):
        starts = [(lower + upper) / 2, rng.uniform(lower, upper)]
        runs = [
            minimize(lambda v, s=sign: [s * g for g in objective(v)], s.ravel(), jac=True, bounds=bounds)
            for s in starts
        ]
        ends.append(sign * min(r.fun for r in runs))
    return ends


def with_gradient(statistic, n):
    def objective(flat):
        x = flat.reshape(n, -1)
        d = x - x.mean(axis=0)
        if statistic == "variance":
            return (d**2).mean(), (2 * d / n).ravel()
        (vx, vy), c = (d**2).mean(axis=0), (d[:, 0] * d[:, 1]).mean()
        if statistic == "covariance":
            return c, (d[:, ::-1] / n).ravel()
        s = np.sqrt(vx * vy)
        gradient = (d[:, ::-1] - c * d / np.array([vx, vy])) / s / n
        return c / s, gradient.ravel()

    return objective


@pytest.mark.parametrize("statistic", ["variance", "covariance", "correlation"])
@pytest.mark.parametrize("slope", [0.0, 0.6, -0.95])
def test_ends_are_reached_by_values_in_the_boxes(statistic, slope):
    rng = np.random.default_rng(3)
    z = rng.normal(size=(100, 2))
    x = np.column_stack([z[:, 0], slope * z[:, 0] + np.sqrt(1 - slope**2) * z[:, 1]])
    width = rng.gamma(1.0, 0.3, size=x.shape)
    lower, upper = columns(statistic, x - width * rng.random(x.shape), x + width * rng.random(x.shape))
    found = estimate(statistic, lower, upper, np.ones(100, dtype=int)).guaranteed
    reached = extremes(with_gradient(statistic, 100), lower, upper)
    span = reached[1] - reached[0]
    assert found[0] <= reached[0] + 1e-9 * span
    assert found[1] >= reached[1] - 1e-9 * span
    assert found[1] - found[0] <= 1.01 * span


def corner_extremes(statistic, lower, upper):
    """Over all combinations of endpoints; exact for a maximal variance and for a covariance."""
    n, m = lower.shape
    codes = np.array(list(itertools.product([False, True], repeat=n * m))).reshape(-1, n, m)
    x = np.where(codes, upper, lower)
    d = x - x.mean(axis=1, keepdims=True)
    if m == 1:
        values = (d**2).mean(axis=(1, 2))
    else:
        values = (d[:, :, 0] * d[:, :, 1]).mean(axis=1)
        if statistic == "correlation":
            s = np.sqrt((d**2).mean(axis=1).prod(axis=1))
            values = np.divide(values, s, out=np.zeros_like(values), where=s > 0)
    return values.min(), values.max(), x[values.argmin()], x[values.argmax()]


@pytest.mark.parametrize(("statistic", "n", "most"), [("variance", 8, 0.04), ("covariance", 6, 0.08)])
def test_tiny_tables_against_every_combination_of_endpoints(statistic, n, most):
    excess = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n, 2))
        lower, upper = columns(statistic, x - rng.gamma(1, 0.5, x.shape), x + rng.gamma(1, 0.5, x.shape))
        low, high = estimate(statistic, lower, upper, np.ones(n, dtype=int)).guaranteed
        least, greatest, _, _ = corner_extremes(statistic, lower, upper)
        if statistic == "variance":
            least = extremes(with_gradient("variance", n), lower, upper)[0]
            assert low == pytest.approx(least, abs=1e-6)
        # One record's split, rounded: a quarter of the squared width of its share, at the widest.
        split = np.prod((upper - lower).max(axis=0)) ** (1 if statistic == "covariance" else 2) / (4 * n**2)
        assert -1e-9 <= high - greatest <= split + 0.003 * (high - low)
        excess.append((high - low) / (greatest - least) - 1)
    assert -1e-6 <= np.mean(excess) <= most


def test_correlation_of_tiny_tables_is_enclosed_and_hardly_wider():
    excess = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(6, 2))
        lower, upper = x - rng.uniform(0, 0.4, x.shape), x + rng.uniform(0, 0.4, x.shape)
        low, high = estimate("correlation", lower, upper, np.ones(6, dtype=int)).guaranteed
        least, greatest, at_least, at_greatest = corner_extremes("correlation", lower, upper)
        objective, bounds = (
            with_gradient("correlation", 6),
            list(zip(lower.ravel(), upper.ravel(), strict=True)),
        )
        for start, sign in ((at_least, 1), (at_greatest, -1)):
            run = minimize(lambda v, s=sign, f=objective: [s * g for g in f(v)], start.ravel(), jac=True, bounds=bounds)
            least, greatest = min(least, sign * run.fun), max(greatest, sign * run.fun)
        assert low <= least + 1e-12
        assert greatest <= high + 1e-12
        excess.append((high - low) / (greatest - least) - 1)
    assert np.mean(excess) < 0.1


def test_mean_is_exact():
    rng = np.random.default_rng(0)
    lower = rng.normal(size=(50, 1))
    upper, counts, weights = lower + rng.random((50, 1)), rng.integers(1, 9, 50), rng.random(50)
    found = estimate("mean", lower, upper, counts, weights).guaranteed
    w = counts * weights / (counts @ weights)
    np.testing.assert_allclose(found, [w @ lower[:, 0], w @ upper[:, 0]], rtol=1e-12)


# -- anchors


@pytest.mark.parametrize("statistic", STATISTICS)
def test_boxes_without_width_give_the_statistic_itself(statistic):
    x = np.random.default_rng(0).normal(size=(300, 2)) + np.array([1e5, 0])
    faces = columns(statistic, x, x)
    found = estimate(statistic, *faces, np.ones(300, dtype=int))
    exact = float(truth(statistic, x))
    assert found.value == pytest.approx(exact, rel=1e-9)
    np.testing.assert_allclose([*found.guaranteed, *found.linearised], exact, rtol=1e-8)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_linearised_width_is_the_gradient_times_the_widths(statistic):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(12, 2)) @ [[1, 0.5], [0, 1]]
    half = 0.01 * rng.random(x.shape)
    counts = np.ones(12, dtype=int)
    found = estimate(statistic, *columns(statistic, x - half, x + half), counts)
    delta = 0.0
    for i, j in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[i, j] = 1e-5
        slope = (truth(statistic, x + step) - truth(statistic, x - step)) / 2e-5
        delta += abs(float(slope)) * half[i, j] * (statistic in PAIRS or j == 0)
    assert found.linearised[1] - found.value == pytest.approx(delta, rel=1e-5)
    # For small boxes the guaranteed range is hardly wider.
    assert found.guaranteed[1] - found.guaranteed[0] == pytest.approx(2 * delta, rel=0.03)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_counting_and_repeating_are_the_same(statistic):
    rng = np.random.default_rng(1)
    lower = rng.normal(size=(30, 2))
    upper, counts = lower + rng.random((30, 2)), rng.integers(1, 6, 30)
    faces = columns(statistic, lower, upper)
    once = estimate(statistic, *faces, counts)
    again = estimate(statistic, *(np.repeat(f, counts, axis=0) for f in faces), np.ones(counts.sum(), dtype=int))
    weighted = estimate(statistic, *faces, np.ones(30, dtype=int), counts / counts.sum())
    for other in (again, weighted):
        assert other.value == pytest.approx(once.value, abs=1e-12)
        np.testing.assert_allclose(other.guaranteed, once.guaranteed, atol=2e-3)
    assert once.records == again.records == counts.sum()


@pytest.mark.parametrize("statistic", STATISTICS)
def test_dismissed_boxes_do_not_matter(statistic):
    rng = np.random.default_rng(2)
    lower = rng.normal(size=(30, 2))
    upper, counts, weights = lower + rng.random((30, 2)), np.full(30, 3), rng.random(30)
    weights[20:] = 0
    upper[25:] = np.inf
    all_of_them = estimate(statistic, *columns(statistic, lower, upper), counts, weights)
    kept = estimate(statistic, *columns(statistic, lower[:20], upper[:20]), counts[:20], weights[:20])
    assert all_of_them == kept
    assert kept.records == 60


@pytest.mark.parametrize("statistic", ["variance", "sd", "covariance"])
def test_dividing_by_one_less(statistic):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(9, 2))
    counts = np.ones(9, dtype=int)
    faces = columns(statistic, x - 0.1, x + 0.1)
    biased, found = estimate(statistic, *faces, counts), estimate(statistic, *faces, counts, unbiased=True)
    factor = (9 / 8) ** (0.5 if statistic == "sd" else 1)
    for a, b in (
        (biased.value, found.value),
        (biased.guaranteed, found.guaranteed),
        (biased.linearised, found.linearised),
    ):
        np.testing.assert_allclose(np.array(a) * factor, b, rtol=1e-12)
    with pytest.raises(AnonymizationError, match="equal weights"):
        estimate(statistic, *faces, counts, np.ones(9), unbiased=True)
    with pytest.raises(AnonymizationError, match="at least 2 records"):
        estimate(statistic, *(f[:1] for f in faces), counts[:1], unbiased=True)


# -- open boxes, constants, nothing at all


@pytest.mark.parametrize("statistic", STATISTICS)
def test_open_boxes(statistic):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(40, 2))
    lower, upper, counts = boxes_of(x, cut(x, 4, rng))
    for opened in (
        [(upper, 0, np.inf)],
        [(lower, 1, -np.inf)],
        [(lower, 2, -np.inf), (upper, 2, np.inf)],
    ):
        for face, box, end in opened:
            face[box, 0] = end
        found, _ = holds(statistic, x, lower, upper, counts)
        assert "no bound" in found.note
        assert str(found)
    assert math.isfinite(found.value)
    expected = {"mean": (-np.inf, np.inf), "covariance": (-np.inf, np.inf), "correlation": (-1, 1)}
    if statistic in expected:
        assert found.guaranteed == expected[statistic]
    else:
        assert 0 < found.guaranteed[0] < found.guaranteed[1] == np.inf


def test_the_least_variance_of_open_boxes_is_that_of_far_boxes():
    lower, upper = np.array([[0.0], [1.0], [5.0]]), np.array([[0.5], [2.0], [9.0]])
    far, open_ = upper.copy(), upper.copy()
    far[2], open_[2] = 1e6, np.inf
    counts = np.array([3, 4, 5])
    ends = [estimate("variance", lower, u, counts).guaranteed[0] for u in (far, open_)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-6)


def test_nothing_known_at_all():
    for statistic in STATISTICS:
        found = estimate(statistic, np.full((3, 2), -np.inf), np.full((3, 2), np.inf), np.ones(3, dtype=int))
        assert math.isfinite(found.value)
        assert not any(map(math.isnan, (*found.guaranteed, *found.linearised)))


def test_constants():
    x = np.column_stack([np.full(5, 0.1), np.arange(5.0)])
    counts = np.ones(5, dtype=int)
    for statistic in ("variance", "sd", "covariance"):
        assert estimate(statistic, *columns(statistic, x, x), counts).guaranteed == (0, 0)
    found = estimate("correlation", x, x, counts)
    assert found.guaranteed == (-1, 1)
    assert "undefined" in found.note


def test_one_record_does_not_vary():
    faces = np.array([[0.0, 1.0]]), np.array([[2.0, 5.0]])
    assert estimate("variance", *columns("variance", *faces), np.array([1])).guaranteed == (0, 0)
    assert estimate("covariance", *faces, np.array([1])).guaranteed == (0, 0)
    assert estimate("variance", *columns("variance", *faces), np.array([2])).guaranteed[1] == pytest.approx(1)


def test_equal_mid_points_say_so():
    lower, upper = np.array([[-1.0, 0.0], [-2.0, 1.0]]), np.array([[1.0, 1.0], [2.0, 2.0]])
    found = estimate("correlation", lower, upper, np.array([2, 2]))
    assert (found.value, found.guaranteed) == (0, (-1, 1))
    assert "mid-points" in found.note
    assert "mid-points" in estimate("sd", lower[:, :1], upper[:, :1], np.array([2, 2])).note


def test_nothing_to_compute_from():
    with pytest.raises(AnonymizationError, match="positive weight"):
        estimate("mean", np.zeros((2, 1)), np.ones((2, 1)), np.array([1, 1]), np.zeros(2))
    with pytest.raises(AnonymizationError, match="must be one of"):
        estimate("median", np.zeros((2, 1)), np.ones((2, 1)), np.array([1, 1]))


def test_ends_too_small_for_a_double_are_not_nothing():
    lower, upper, counts = np.zeros((1, 2)), np.full((1, 2), 1e-200), np.array([2])
    for statistic in ("variance", "covariance"):
        columns = slice(0, 1 if statistic == "variance" else 2)
        low, high = estimate(statistic, lower[:, columns], upper[:, columns], counts).guaranteed
        assert low <= 0 < high < 1e-320
    fixed = np.full((1, 1), 1e-200)
    assert estimate("variance", fixed, fixed, counts).guaranteed == (0, 0)


def test_text_rounds_the_range_outward():
    found = estimate("mean", np.array([[0.12344]]), np.array([[0.98764]]), np.array([4]))
    assert str(found).startswith("mean = 0.556, certainly within 0.123 to 0.988 (")
    assert "4 records" in str(found)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (1 / 3, 1 / 3),
        (2 / 3, 2 / 3),
        (1e15 / 7, 9e18 / 7),
        (-9e18 / 7, 1e300 / 7),
        (0.1, 0.1 + 1e-15),
        (35.0, 35.0),
    ],
)
def test_text_rounds_outward_whatever_the_width(low, high):
    text = str(Estimate("mean", low, (low, high), (low, high), 4))
    ends = re.search(r"within (\S+) to (\S+) \(", text).groups()
    # To the last digit, and not only to the nearest double.
    assert Decimal(ends[0]) <= Decimal(repr(low))
    assert Decimal(repr(high)) <= Decimal(ends[1])
    for end, own in zip(ends, (low, high), strict=True):
        assert float(end) == pytest.approx(own, rel=1e-11)


@pytest.mark.parametrize("scale", [1e-160, 1e100, 1e200])
def test_scales_at_the_edge_of_the_numbers(scale):
    rng = np.random.default_rng(8)
    x = rng.normal(size=(60, 2))
    lower, upper, counts = boxes_of(x, cut(x, 5, rng))
    for statistic in STATISTICS:
        usual, found = (estimate(statistic, *columns(statistic, lower * s, upper * s), counts) for s in (1, scale))
        power = {"correlation": 0, "variance": 2, "covariance": 2}.get(statistic, 1)
        for a, b in zip(usual.guaranteed, found.guaranteed, strict=True):
            expected = a
            for _ in range(power):
                expected *= scale
            assert b == pytest.approx(expected, rel=1e-6, abs=1e-300)
        assert not math.isnan(found.value)
