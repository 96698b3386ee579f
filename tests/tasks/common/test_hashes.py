"""Hashes in partitions: what passes over them find is what one array of all would give, also where hashes recur."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tasks.common import hashes
from tasks.common.hashes import ascending, in_ranges, numbered, numbered_parts, placed, repeated, sides
from tasks.connectors.fingerprint import ordered_digest


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, list[np.ndarray]]:
    """Draw hashes with ties, the least and the greatest possible among them, whole and in parts of any size."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    records, different = draw(st.integers(1, 3000)), draw(st.integers(1, 6000))
    values = rng.integers(2**64, size=different, dtype=np.uint64)
    values[:2] = [0, 2**64 - 1][:different]
    whole = rng.choice(values, records)
    return whole, np.split(whole, np.sort(rng.integers(records + 1, size=draw(st.integers(0, 5)))))


@given(table=tables(), at_once=st.integers(1, 4000))
def test_ranges_are_those_of_one_sorted_array(table: tuple[np.ndarray, list[np.ndarray]], at_once: int) -> None:
    whole, parts = table
    with patch.object(hashes, "AT_ONCE", at_once if len(whole) < 50 * at_once else 60):
        ranges = list(in_ranges(lambda: parts, len(whole)))
        assert sorted(np.concatenate(ranges).tolist()) == np.concatenate([np.sort(one) for one in ranges]).tolist()
        assert ordered_digest(ascending(lambda: parts, len(whole))) == hashlib.sha256(np.sort(whole)).hexdigest()
        values, counts = np.unique(whole, return_counts=True)
        assert np.array_equal(repeated(lambda: parts, len(whole)), values[counts > 1])
        assert np.array_equal(np.concatenate(list(numbered_parts(lambda: parts, len(whole)))), numbered(whole))


@given(table=tables(), share=st.floats(0, 1), length=st.integers(1, 500))
def test_places_and_sides_are_those_of_the_stable_order(
    table: tuple[np.ndarray, list[np.ndarray]], share: float, length: int
) -> None:
    whole, parts = table
    order, read = np.argsort(whole, kind="stable"), 0

    def passes() -> Iterator[np.ndarray]:
        nonlocal read
        read += 1
        return iter(parts)

    start = int(share * len(whole))
    places = [slice(start, start + length), slice(min(length, start)), slice(start // 2, start // 2 + 1)]
    found = placed(passes, *places)
    assert read == 1 + len(places)
    for place, (rows, own) in zip(places, found, strict=True):
        assert np.array_equal(rows, order[place])
        assert np.array_equal(own, whole[order[place]])
    expected = np.zeros(len(whole), dtype=np.int8)
    bounds = [found[at] for at in (0, 2) if len(found[at][0])]
    for rows, _ in bounds:
        expected[order[np.flatnonzero(order == rows[0])[0] :]] += 1
    side = np.concatenate(list(sides(passes, [(rows[0], own[0]) for rows, own in bounds])))
    assert side.dtype == np.int8
    assert np.array_equal(side, expected)
