"""Units in pieces: the file, and every answer, is what whole arrays would give."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.common import npz
from tasks.common.home import Home
from tasks.record import members as module
from tasks.record.members import ARRAYS, Members, counted, members_of, share_units

Whole = tuple[np.ndarray, np.ndarray]
NONE = np.empty(0, dtype=np.bool_)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home.locate(tmp_path_factory.mktemp("home"))


def units(home: Home, seed: int, count: int, different: int) -> Members:
    """Return units of which some recur, and some have other values than under another seed."""
    rng = np.random.default_rng(seed)
    identities = rng.integers(different, size=count).astype(np.uint64)
    contents = identities // np.uint64(2) + (rng.random(count) < 0.2)
    return Members.of(home, identities, contents.astype(np.uint64), "ab", named=count)


def in_pieces(members: Members, cuts: list[float]) -> Members:
    """Return the same units in ranges of identities."""
    identities, contents = whole(members)
    order = np.argsort(identities, kind="stable")
    ordered = identities[order]
    at = np.searchsorted(ordered, ordered[[int(cut * (len(order) - 1)) for cut in sorted(cuts)]] if len(order) else [])
    ids, values = np.split(ordered, at), np.split(contents[order], at)
    return replace(members, identities=lambda: ids, contents=lambda: values, whole=False)


def whole(members: Members) -> Whole:
    none = np.empty(0, dtype=np.uint64)
    return np.concatenate([none, *members.identities()]), np.concatenate([none, *members.contents()])


def named_by_values(contents: np.ndarray) -> np.ndarray:
    order = np.argsort(contents, kind="stable")
    ordered, names = contents[order], contents.copy()
    names[order] += (np.arange(len(order)) - np.searchsorted(ordered, ordered)).astype(np.uint64)
    return names


def savez(members: Members) -> bytes:
    """Return the file as NumPy writes it of whole arrays."""
    identities, contents = whole(members)
    order, file = np.argsort(identities, kind="stable"), io.BytesIO()
    arrays = {name: getattr(members, name) for name in ARRAYS}
    np.savez(file, identities=identities[order], contents=contents[order], **arrays)
    return file.getvalue()


def differ(now: Whole, earlier: Whole) -> np.ndarray:
    order = np.argsort(earlier[0], kind="stable")
    known = earlier[0][order]
    at = np.minimum(np.searchsorted(known, now[0]), max(len(known) - 1, 0))
    return np.isin(now[0], earlier[0]) & (earlier[1][order][at] != now[1] if len(known) else False)


@contextmanager
def small(at_once: int) -> Iterator[None]:
    """Let little be in memory at once."""
    with patch.object(module, "AT_ONCE", at_once), patch.object(npz, "AT_ONCE", at_once):
        yield


@settings(deadline=None, max_examples=40)
@given(
    seeds=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    counts=st.tuples(st.integers(0, 400), st.integers(0, 400)),
    different=st.integers(1, 1000),
    cuts=st.lists(st.floats(0, 1), max_size=5),
    at_once=st.integers(10, 500),
)
def test_answers_of_pieces_are_those_of_whole_arrays(
    home: Home, seeds: tuple[int, int], counts: tuple[int, int], different: int, cuts: list[float], at_once: int
) -> None:
    now, before = (units(home, seed, count, different) for seed, count in zip(seeds, counts, strict=True))
    with small(at_once):
        for one in (in_pieces(before, cuts), before):
            one.keep(home, "r-1")
            assert home.members_of("r-1").read_bytes() == savez(before)
        stored = members_of(home, "r-1")
        assert stored is not None
        assert stored.count == before.count
        for one in (now, in_pieces(now, cuts)):
            for earlier in (before, in_pieces(before, cuts), stored):
                check(one, earlier)
                check(earlier, one)


def check(now: Members, earlier: Members) -> None:
    own, before = whole(now), whole(earlier)
    common = np.isin(own[0], before[0])
    assert np.array_equal(np.concatenate([NONE, *now.in_common(earlier)]), common)
    assert share_units(now, earlier, max(1, common.sum())) == common.any()
    assert not share_units(now, earlier, common.sum() + 1)
    changed = now.changed(earlier)
    assert changed is not None
    assert np.array_equal(np.concatenate([NONE, *changed]), differ(own, before))
    names = [named_by_values(contents) for _, contents in (own, before)]
    assert counted(now.by_values.in_common(earlier.by_values)) == np.isin(*names).sum()
    if now.whole:
        assert np.array_equal(*now.by_values.in_common(earlier.by_values), np.isin(*names))
    changed = now.by_values.changed(earlier.by_values)
    assert changed is not None
    assert counted(changed) == 0


def test_units_that_are_not_in_order_are_not_those_that_were_kept(home: Home) -> None:
    units(home, 1, 50, 1000).keep(home, "r-3")
    with np.load(home.members_of("r-3")) as stored:
        arrays = dict(stored)
    for changed in ({"identities": arrays["identities"][::-1]}, {"contents": arrays["contents"][1:]}):
        np.savez(home.members_of("r-3"), **arrays | changed)
        assert members_of(home, "r-3") is None


def test_a_file_that_is_removed_meanwhile_is_read_to_its_end(home: Home) -> None:
    now = units(home, 1, 50, 1000)
    now.keep(home, "r-4")
    stored = members_of(home, "r-4")
    home.members_of("r-4").unlink()
    assert stored is not None
    assert counted(now.in_common(stored)) == 50
    assert members_of(home, "r-4") is None


def test_a_damaged_file_is_of_unknown_units_or_the_same(home: Home) -> None:
    now = units(home, 1, 20, 1000)
    now.keep(home, "r-5")
    file = home.members_of("r-5")
    kept = file.read_bytes()
    for at in range(0, len(kept), 3):
        file.write_bytes(kept[:at] + bytes([kept[at] ^ 9]) + kept[at + 1 :])
        stored = members_of(home, "r-5")
        assert stored is None or counted(now.in_common(stored)) == 20
