"""Every record agrees with k units, and no suppressed cell could be put back: against counting all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from anoncore import AnonymizationError
from anoncore.kernels.key_groups import agreeing_units, holding_units
from anoncore.kernels.local_suppression import local_suppression, suppression_of_wildcards


def counted(keys, units=None):
    """Count the units that each record agrees with, pair by pair."""
    agree = ((keys[:, None] == keys) | (keys[:, None] < 0) | (keys < 0)).all(axis=2)
    units = np.arange(len(keys)) if units is None else units
    return np.array([len(set(units[row])) for row in agree])


def held(keys, units=None):
    """Count the units that hold all keys which each record has, pair by pair."""
    agree = ((keys[:, None] == keys) | (keys[:, None] < 0)).all(axis=2)
    units = np.arange(len(keys)) if units is None else units
    return np.array([len(set(units[row])) for row in agree])


FORMS = [(local_suppression, held), (suppression_of_wildcards, counted)]


def table(seed, *, missing=0.05, keys=6, levels=4):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, levels, (120, keys)).astype(np.int32) * rng.integers(0, 2, (120, keys), dtype=np.int32)
    return np.where(rng.random(codes.shape) < missing, -1, codes).astype(np.int32), rng.integers(0, 50, 120)


@pytest.mark.parametrize("of_units", [False, True])
def test_agreement_is_that_of_all_pairs(of_units):
    codes, units = table(1)
    units = units if of_units else None
    counts = counted(codes, units)
    assert agreeing_units(codes, units).tolist() == counts.tolist()
    assert holding_units(codes, units).tolist() == held(codes, units).tolist()
    assert np.minimum(agreeing_units(codes, units, enough=3), 3).tolist() == np.minimum(counts, 3).tolist()


def test_keys_of_several_words_agree_as_those_of_one():
    codes, _ = table(2, keys=9)
    wide = np.where(codes < 0, -1, codes * 5000).astype(np.int32)
    assert agreeing_units(wide).tolist() == counted(codes).tolist()
    with pytest.raises(AnonymizationError, match="at most 30 key variables"):
        agreeing_units(np.zeros((2, 31), dtype=np.int32))


@pytest.mark.parametrize(("suppressed", "count"), FORMS)
@pytest.mark.parametrize(
    ("k", "of_units", "missing"), [(2, False, 0.0), (3, False, 0.05), (5, True, 0.05), (3, True, 0.0)]
)
def test_every_record_agrees_with_k_and_no_cell_could_be_put_back(suppressed, count, k, of_units, missing):
    codes, units = table(k, missing=missing)
    units = units if of_units else None
    importance = np.array([1.0, 1.0, 2.0, 2.0, 1.0, np.inf])
    cells = suppressed(codes, k, importance=importance, units=units)
    masked = np.where(cells, -1, codes).astype(np.int32)
    assert count(masked, units).min() >= k
    assert cells.any()
    assert not cells[:, 5].any()
    assert not (cells & (codes < 0)).any()
    for at in np.argwhere(cells):
        back = masked.copy()
        back[tuple(at)] = codes[tuple(at)]
        assert count(back, units).min() < k


def test_an_important_key_is_kept_where_another_suffices():
    codes, _ = table(4, missing=0.0)
    kept = [local_suppression(codes, 3, importance=np.array(w))[:, 0].sum() for w in ([1.0] * 6, [9.0] + [1.0] * 5)]
    assert kept[1] < kept[0]


def test_all_keys_are_suppressed_where_too_few_units_agree():
    assert local_suppression(np.array([[0], [0], [1]], dtype=np.int32), 4, importance=np.ones(1)).all()
    assert suppression_of_wildcards(np.array([[0], [0], [1]], dtype=np.int32), 4, importance=np.ones(1)).all()


def test_records_without_keys_help_no_other_record():
    keys = np.random.default_rng(0).integers(0, 5, (2000, 8)).astype(np.int32)
    strict, loose = (f(keys, 3, importance=np.ones(8)) for f, _ in FORMS)
    assert held(np.where(strict, -1, keys)).min() >= 3
    assert (held(np.where(loose, -1, keys)) < 3).sum() > 100
    assert strict.any(axis=1).sum() == (held(keys) < 3).sum()
