"""Compiled part of `anoncore.kernels.local_suppression`: suppressing cells one by one, and putting them back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anoncore.kernels._compiled import compiled
from anoncore.kernels._key_groups_compiled import differences, matching

_NONE = np.uint64(0)
_ONE = np.uint64(1)


class Agreement(NamedTuple):
    """With how many units each item agrees, and with how many it must.

    ``have`` (n,) holds the units that each item agrees with. The first ``m`` items are those that may come to agree
    with more; ``runs`` (2, n) holds the first and the end of the run of items of the same unit, and is (0, n) where
    every item is a unit of its own. ``k`` units are enough.
    """

    have: Any
    m: int
    runs: Any
    k: int


class Choices(NamedTuple):
    """What may be dropped.

    ``single`` (p, n) counts the units that each item agrees with once one key is dropped, 0 where it may not be;
    ``fallback`` (n,) holds the keys to drop where none alone suffices, ``bits`` (p,) the bit of each key.
    """

    single: Any
    fallback: Any
    bits: Any
    importance: Any


@compiled
def suppress(keys, state, order, choices):  # type: ignore[no-untyped-def]
    """Suppress cells of the items ``order`` until each agrees with k units."""
    missing, have, m, k = keys.missing, state.have, state.m, state.k
    diff, near = np.empty(m, dtype=np.uint64), np.empty(m, dtype=np.int64)
    for a in order:
        if have[a] >= k:
            continue
        differences(keys, keys.words[:, a].copy(), 0, m, diff)
        n = 0
        for b in range(m):
            rest = diff[b] & ~(missing[a] | missing[b])
            near[n] = b
            n += rest & (rest - _ONE) == _NONE and rest != _NONE
        chosen = _best_key(diff, missing, state, a, near[:n], choices)
        before = missing[a]
        missing[a] |= choices.bits[chosen] if chosen >= 0 else choices.fallback[a]
        if chosen < 0:
            n = m
        for i in range(n):
            b = near[i] if chosen >= 0 else i
            now = diff[b] & ~(missing[a] | missing[b]) == _NONE
            if now and diff[b] & ~(before | missing[b]) != _NONE and _alone(keys, state.runs, a, b):
                have[b] += 1
        have[a] = k


@compiled
def _best_key(diff, missing, state, a, near, choices):  # type: ignore[no-untyped-def]
    """Return the least important key that suffices alone, of several the one that helps most others; −1 for none."""
    have, k, own_units = state.have, state.k, state.runs.shape[0] == 0
    single, bits, importance = choices.single[:, a], choices.bits, choices.importance
    p = len(single)
    extra, helped = np.zeros(p, dtype=np.int64), np.zeros(p, dtype=np.int64)
    for b in near:
        rest = diff[b] & ~(missing[a] | missing[b])
        for v in range(p):
            if bits[v] == rest:
                helped[v] += have[b] < k
                # Those that agree only thanks to their own missing cells are not among ``single``.
                extra[v] += own_units and diff[b] != rest
    chosen = -1
    for v in range(p):
        if single[v] == 0 or single[v] + extra[v] < k:
            continue
        if (
            chosen < 0
            or importance[v] < importance[chosen]
            or (importance[v] == importance[chosen] and helped[v] > helped[chosen])
        ):
            chosen = v
    return chosen


@compiled
def put_back(keys, state, items, cells):  # type: ignore[no-untyped-def]
    """Put back each of ``cells`` (c,), bits of the keys of ``items`` (c,), that no item needs to agree with k units."""
    missing, have, m, k = keys.missing, state.have, state.m, state.k
    diff, lost = np.empty(m, dtype=np.uint64), np.empty(m, dtype=np.int64)
    for c in range(len(cells)):
        a = items[c]
        row, before = keys.words[:, a].copy(), missing[a]
        differences(keys, row, 0, m, diff)
        missing[a] = before & ~cells[c]
        n, blocked = 0, False
        for b in range(m):
            parted = diff[b] & ~(missing[a] | missing[b]) != _NONE and diff[b] & ~(before | missing[b]) == _NONE
            if parted and _alone(keys, state.runs, a, b):
                lost[n] = b
                n += 1
                if have[b] <= k:
                    blocked = True
                    break
        if not blocked:
            own = matching(keys, row, missing[a], np.int64(2**62))
            blocked = own < k
        if blocked:
            missing[a] = before
        else:
            have[a] = own
            for i in range(n):
                have[lost[i]] -= 1


@compiled
def _alone(keys, runs, a, b):  # type: ignore[no-untyped-def]
    """Return whether no other item of the unit of ``a`` agrees with ``b``."""
    words, missing = keys.words, keys.missing
    if runs.shape[0]:
        for c in range(runs[0, a], runs[1, a]):
            differ = _NONE
            for v in range(words.shape[0]):
                differ |= ((words[v, c] ^ words[v, b]) + keys.low[v]) & keys.top[v]
            if c != a and differ & ~(missing[c] | missing[b]) == _NONE:
                return False
    return True
