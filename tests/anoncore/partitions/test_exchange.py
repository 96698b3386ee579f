"""Records come into a uniform random order that does not depend on how they are cut into partitions."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

from anoncore.kernels import permutation as kernel
from anoncore.kernels.permutation import permutation
from anoncore.kernels.streams import Stream
from anoncore.partitions import exchange
from anoncore.partitions.exchange import in_random_blocks, permuted, receivers
from anoncore.partitions.store import Serial

SIZES = {1: (200_000,), 3: (70_001, 1, 129_998), 8: (25_000,) * 8}


def kept(values: np.ndarray, name: str, rows: tuple[int, ...]) -> Serial:
    run = Serial()
    for partition, part in enumerate(np.split(values, np.cumsum(rows)[:-1])):
        run.store.write(name, partition, part)
    return run


def read(run: Serial, name: str, partitions: int) -> np.ndarray:
    return np.concatenate([run.store.read(name, partition) for partition in range(partitions)])


@pytest.mark.parametrize("parts", SIZES)
def test_the_order_is_that_of_the_kernel_for_any_partitions(parts: int) -> None:
    values, rows = np.arange(200_000), SIZES[parts]
    stream = Stream.of(np.random.default_rng(7))
    run = kept(values, "x", rows)
    for partition, part in enumerate(np.split(values % 100, np.cumsum(rows)[:-1])):
        run.store.write("small", partition, part.astype(np.int8))
    permuted(run, [("x", "y"), ("small", "small-y")], rows, stream, out=(150_000, 50_000))
    expected = permutation(200_000, stream)
    np.testing.assert_array_equal(read(run, "y", 2), expected)
    np.testing.assert_array_equal(read(run, "small-y", 2), expected % 100)
    assert not [name for name, _ in run.store.chunks if "~" in name]


def test_many_partitions_are_received_in_runs_of_a_few() -> None:
    stream, rows = Stream.of(np.random.default_rng(7)), (9,) * 300
    out = np.bincount(np.random.default_rng(0).integers(0, 290, 2700), minlength=290)
    run = kept(np.arange(2700), "x", rows)
    permuted(run, [("x", "y")], rows, stream, out=out.tolist())
    np.testing.assert_array_equal(read(run, "y", 290), permutation(2700, stream))
    assert [len(run.store.read("y", part)) for part in range(290)] == out.tolist()
    assert [receivers(n) for n in (1, 3, 8, 100, 200, 400)] == [1, 3, 8, 8, 13, 25]


def test_every_order_is_equally_likely() -> None:
    stream = Stream.of(np.random.default_rng(3))
    orders = Counter(tuple(permutation(3, stream.named(i), rows=1).tolist()) for i in range(1200))
    assert len(orders) == 6
    assert chi2.sf(sum((n - 200) ** 2 / 200 for n in orders.values()), 5) > 1e-3


def test_blocks_hold_whole_units_and_do_not_depend_on_the_partitions() -> None:
    rng = np.random.default_rng(1)
    units = np.sort(rng.integers(70_000, size=200_000))
    found = []
    for rows in SIZES.values():
        run = kept(units, "u", rows)
        stream = Stream.of(np.random.default_rng(5))
        parts = in_random_blocks(run, [("u", "v")], rows, stream, units="u", block_rows=30_000)
        sizes = [size for part in parts for size in part]
        assert len(sizes) == 8
        assert max(abs(np.array(sizes) - 25_000)) < 1500
        blocks = np.split(read(run, "v", len(parts)), np.cumsum(sizes)[:-1])
        held = [set(block.tolist()) for block in blocks]
        assert sum(map(len, held)) == len(np.unique(units))
        found.append(np.concatenate(blocks))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_few_records_and_empty_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kernel, exchange):
        monkeypatch.setattr(module, "bucket_bits", lambda n, rows=1: 3)
    stream, rows = Stream.of(np.random.default_rng(2)), (2, 0, 3)
    run = kept(np.arange(5), "x", rows)
    permuted(run, [("x", "y")], rows, stream, out=(0, 1, 4))
    np.testing.assert_array_equal(read(run, "y", 3), permutation(5, stream))
