import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from anoncore.kernels import mdav as module
from anoncore.kernels.groups import group_means
from anoncore.kernels.mdav import information_loss, mdav
from anoncore.kernels.spectral_groups import halved_groups
from anoncore.kernels.ties import snapped

levels = st.sampled_from([-3.0, -0.1, 0.0, 0.1, 0.7, 1.0, 1e-9])
tables = npst.arrays(np.float64, st.tuples(st.integers(2, 90), st.integers(1, 3)), elements=levels)


def frozen(values):
    values = np.array(values, dtype=float)
    values.setflags(write=False)
    return values


def rounded_mean(column, members, largest):
    """The documented centroid in whole numbers: rounded to multiples of a power of 2, summed exactly."""
    exponent = 62 - len(column).bit_length() - math.frexp(largest)[1]
    total = sum(round(math.ldexp(column[i], exponent)) for i in members)
    return math.ldexp(float(total) / len(members), -exponent)


def exact_mean(column, members, largest):
    return math.fsum(column[i] for i in members) / len(members)


def naive(x, k, mean=rounded_mean):
    """MDAV as it is defined, one pair of records at a time, of values without rounding errors."""
    x = snapped(x)
    rows, columns = x.tolist(), x.T.tolist()
    largest = [max(map(abs, column)) for column in columns]
    left, labels, label = list(range(len(rows))), [-1] * len(rows), 0

    def distance(i, point):
        total = 0.0
        for a, b in zip(rows[i], point, strict=True):
            total += (a - b) * (a - b)
        return total

    def farthest(point):
        return min(left, key=lambda i: (-distance(i, point), i))

    def centroid():
        return [mean(c, left, m) for c, m in zip(columns, largest, strict=True)]

    def take(r):
        nonlocal label
        others = sorted((i for i in left if i != r), key=lambda i: (distance(i, rows[r]), i))
        for i in [r, *others[: k - 1]]:
            labels[i] = label
            left.remove(i)
        label += 1

    while len(left) >= 3 * k:
        r = farthest(centroid())
        take(r)
        take(farthest(rows[r]))
    if len(left) >= 2 * k:
        take(farthest(centroid()))
    for i in left:
        labels[i] = label
    return labels


# -- against the definition


@settings(max_examples=150)
@given(tables, st.integers(2, 6), st.sampled_from([8, 16, 128]))
def test_tied_and_duplicate_records_as_defined(x, k, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        assert mdav(x, k).tolist() == naive(x, k)


# Of numbers smaller than 1e-300 a mean is not computed exactly.
NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)


@settings(max_examples=50)
@given(
    npst.arrays(np.float64, st.tuples(st.integers(2, 120), st.integers(1, 5)), elements=NUMBERS),
    st.integers(2, 9),
)
def test_any_numbers_as_defined(x, k):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", 8)
        assert mdav(x, k).tolist() == naive(x, k)


@pytest.mark.parametrize("block", [8, 128])
@pytest.mark.parametrize(("columns", "k"), [(1, 3), (2, 3), (3, 10), (7, 2), (13, 5)])
def test_random_records_as_defined(columns, k, block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    x = np.random.default_rng(columns).normal(size=(700, columns))
    assert mdav(x, k).tolist() == naive(x, k) == naive(x, k, mean=exact_mean)


def discrete(rng):
    return rng.integers(-2, 3, size=(600, 3)).astype(float)


def standardised_discrete(rng):
    x = rng.binomial([1, 1, 5, 9], [0.5, 0.2, 0.5, 0.3], size=(600, 4)).astype(float)
    return (x - x.mean(axis=0)) / x.std(axis=0)


def duplicates(rng):
    return rng.normal(size=(40, 4))[rng.integers(0, 40, 600)]


def symmetric(rng):
    half = rng.normal(size=(300, 3))
    return rng.permutation(np.vstack([half, -half]))


def far_from_zero(rng):
    return rng.normal(size=(600, 3)) * [1e-3, 1.0, 1e3] + 1e6


def long_tails(rng):
    return rng.standard_cauchy(size=(600, 3)) ** 3


def on_a_line_and_constant(rng):
    step = rng.integers(0, 50, 600)
    return np.column_stack([step * 0.1, step * -0.3, np.full(600, 0.1)])


@pytest.mark.parametrize(
    "make",
    [
        discrete,
        standardised_discrete,
        duplicates,
        symmetric,
        far_from_zero,
        long_tails,
        on_a_line_and_constant,
    ],
)
@pytest.mark.parametrize("block", [8, 128])
def test_awkward_records_as_defined(make, block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    x = make(np.random.default_rng(5))
    for k in (2, 7):
        assert mdav(x, k).tolist() == naive(x, k)


def test_whole_numbers_have_exact_centroids():
    x = np.random.default_rng(0).integers(-50, 50, size=(500, 3)).astype(float)
    assert mdav(x, 4).tolist() == naive(x, 4, mean=exact_mean)


def test_farthest_record_that_is_tied_with_the_nearest():
    """All rows are equally far from each other: s is looked for outside r's group."""
    assert mdav(np.eye(9), 2).tolist() == naive(np.eye(9), 2)
    assert mdav(np.eye(7), 2).tolist() == [0, 0, 1, 1, 2, 2, 2]


def test_many_blocks_and_rebuilds():
    x = np.random.default_rng(8).normal(size=(3000, 3))
    x[::3] = x[::3].round(1)
    labels = mdav(x, 25)
    assert labels.tolist() == naive(x, 25)


# -- groups


@pytest.mark.parametrize("k", [2, 3, 5])
def test_sizes(k):
    rng = np.random.default_rng(k)
    for n_records in range(k, 9 * k):
        sizes = np.bincount(mdav(rng.normal(size=(n_records, 2)), k))
        assert len(sizes) == n_records // k
        assert (sizes[:-1] == k).all()
        assert sizes[-1] == k + n_records % k


@pytest.mark.parametrize("n_records", [3, 5, 6, 20, 1000])
def test_identical_records_are_grouped_by_row(n_records):
    labels = mdav(np.full((n_records, 2), 0.3), 3)
    assert labels.tolist() == np.minimum(np.arange(n_records) // 3, n_records // 3 - 1).tolist()


def test_one_group_between_k_and_2k():
    assert mdav(frozen([[1.0], [5.0], [9.0]]), 2).tolist() == [0, 0, 0]


def test_labels_follow_the_order_of_formation():
    x = frozen([[0.0], [0.1], [5.0], [5.1], [9.0], [8.9], [4.9], [3.0]])
    assert mdav(x, 2).tolist() == [0, 0, 3, 3, 1, 1, 2, 2]


def test_groups_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(5000, 6))
    order = rng.permutation(len(x))
    np.testing.assert_array_equal(mdav(x[order], 5), mdav(x, 5)[order])


@pytest.mark.parametrize("power", [-480, -3, 400])
def test_groups_do_not_depend_on_the_unit(power):
    x = np.random.default_rng(2).normal(size=(900, 3)).round(2)
    np.testing.assert_array_equal(mdav(np.ldexp(x, power), 3), mdav(x, 3))


def test_memory_layout_does_not_matter_and_input_is_untouched():
    x = np.random.default_rng(3).normal(size=(800, 8))
    expected = mdav(x[:, ::2].copy(), 4)
    for same in (x[:, ::2], np.asfortranarray(x[:, ::2])):
        kept = same.copy()
        same.setflags(write=False)
        np.testing.assert_array_equal(mdav(same, 4), expected)
        np.testing.assert_array_equal(same, kept)


def test_loses_less_than_groups_cut_along_the_axes():
    x = np.random.default_rng(4).normal(size=(4000, 4))
    loss = [information_loss(x, group_means(x, g)[g]) for g in (mdav(x, 5), halved_groups(x, 5))]
    assert loss[0] < 0.8 * loss[1]


# -- information loss


@given(tables, st.integers(2, 5))
def test_information_loss_is_what_lies_within_groups(x, k):
    labels = mdav(x, k)
    means = group_means(x, labels)
    between = (np.bincount(labels) @ (means - x.mean(axis=0)) ** 2).sum()
    total = len(x) * x.var(axis=0).sum()
    loss = information_loss(x, means[labels])
    assert loss * total == pytest.approx(100 * (total - between), abs=1e-9)
    assert 0 <= loss <= 100 + 1e-9


def test_information_loss_at_its_ends():
    x = np.random.default_rng(0).normal(size=(50, 3))
    assert information_loss(x, x) == 0
    assert information_loss(x, np.tile(x.mean(axis=0), (50, 1))) == pytest.approx(100)
    constant = np.full((7, 2), 0.1)
    assert information_loss(constant, constant) == 0
