"""Compiled part of `anoncore.kernels.minimal_uniques`: partitions of records, refined one variable at a time."""

from __future__ import annotations

import numpy as np

from anoncore.kernels._compiled import compiled


@compiled
def minimal_sets(codes, target, most, levels):  # type: ignore[no-untyped-def]
    """Return the rows and sets of all minimal uniques; see :func:`anoncore.kernels.minimal_uniques.minimal_uniques`.

    Sets are visited in the order of their bit masks: every subset comes before the sets that hold it. A set's
    partition is that of the set without its lowest variable, refined by that variable.
    """
    n, m = codes.shape
    rows, ends = np.empty((most + 1, n), np.int32), np.empty((most + 1, n), np.int32)
    sizes, head = np.zeros(most + 1, np.intp), np.empty(n, np.intp)
    if n > 0:
        ends[0, 0], sizes[0] = n, 1
        for i in range(n):
            rows[0, i], head[i] = i, -1
    counts, found, capacity = np.zeros((3, levels), np.int32), np.int64(0), max(16, n)
    owner, sets, following = np.empty(capacity, np.intp), np.empty(capacity, np.int64), np.empty(capacity, np.intp)
    members, depth, mask = np.empty(most + 1, np.intp), 0, np.int64(0)
    members[0] = m
    upcoming = np.zeros(most + 1, np.intp)
    while depth >= 0:
        if depth == most or upcoming[depth] >= members[depth] or sizes[depth] == 0:
            if depth > 0:
                mask ^= np.int64(1) << members[depth]
            depth -= 1
            continue
        variable = upcoming[depth]
        upcoming[depth] += 1
        mask |= np.int64(1) << variable
        start = found
        if found + n > capacity:
            capacity = 2 * capacity + n
            owner, sets, following = _longer(owner, capacity), _longer(sets, capacity), _longer(following, capacity)
        sizes[depth + 1], found = _refined(
            codes[:, variable],
            target,
            (rows[depth], ends[depth], sizes[depth]),
            (rows[depth + 1], ends[depth + 1]),
            counts,
            (owner, found),
        )
        found = _kept((start, found), mask, head, (owner, sets, following))
        depth += 1
        members[depth], upcoming[depth] = variable, 0
    return owner[:found], sets[:found]


@compiled
def _refined(values, target, parent, child, counts, alone):  # type: ignore[no-untyped-def]
    """Write the groups of ``parent`` split by ``values`` to ``child``, and the targets that are alone to ``owner``.

    Groups without a target are left out, and rows whose value is −1 join no group.
    """
    (rows, ends, groups), (owner, found) = parent, alone
    number, targets, place = counts
    begin, written, kept = 0, 0, 0
    for g in range(groups):
        for i in range(begin, ends[g]):
            value = values[rows[i]]
            if value >= 0:
                number[value] += 1
                targets[value] += target[rows[i]]
        for i in range(begin, ends[g]):
            value = values[rows[i]]
            if value < 0 or targets[value] == 0:
                continue
            if number[value] == 1:
                owner[found] = rows[i]
                found += 1
                continue
            if place[value] == 0:
                place[value] = written + 1
                written += number[value]
                child[1][kept] = written
                kept += 1
            child[0][place[value] - 1] = rows[i]
            place[value] += 1
        for i in range(begin, ends[g]):
            value = values[rows[i]]
            if value >= 0:
                number[value], targets[value], place[value] = 0, 0, 0
        begin = ends[g]
    return kept, found


@compiled
def _kept(span, mask, head, store):  # type: ignore[no-untyped-def]
    """Keep of the rows that are alone in a set those that are alone in none of its subsets; return their number."""
    (start, found), (owner, sets, following) = span, store
    last = start
    for i in range(start, found):
        row = owner[i]
        one = head[row]
        while one >= 0 and sets[one] & mask != sets[one]:
            one = following[one]
        if one < 0:
            owner[last], sets[last], following[last] = row, mask, head[row]
            head[row] = last
            last += 1
    return last


@compiled
def _longer(values, capacity):  # type: ignore[no-untyped-def]
    """Return the values at the start of a longer array."""
    longer = np.empty(capacity, values.dtype)
    for i in range(len(values)):
        longer[i] = values[i]
    return longer
