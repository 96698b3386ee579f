"""Compiled part of `anoncore.kernels.agreement`: sums over tiles of rows for each record."""

from __future__ import annotations

import math

import numpy as np

from anoncore.kernels._compiled import compiled

TILE = 2048  # rows at a time, so that sums and columns stay in the nearest cache
BLOCK = 512  # rows at a time where counting may end early
GROUP = 128  # sums that are looked at together
FAR = np.float32(-20.0)  # logarithms below the largest that add nothing
LOG_2 = np.float32(math.log(2.0))
# Whole multiples of the first are exact in single precision.
HIGH = np.float32(0.693359375)
LOW = np.float32(math.log(2.0) - 0.693359375)


@compiled
def largest(lower, upper, weights, rows, best, second, place):  # type: ignore[no-untyped-def]
    """Write the two largest sums of agreeing columns' weights, and the row of the largest, for every record."""
    records, columns = lower.shape
    sums = np.empty(min(rows.shape[1], TILE), dtype=np.float32)
    for start in range(0, rows.shape[1], TILE):
        end = min(start + TILE, rows.shape[1])
        part = sums[: end - start]
        for t in range(records):
            _fill(part, np.float32(0.0))
            for j in range(columns):
                if weights[t, j] > 0.0 and upper[t, j] > lower[t, j]:
                    _add(part, rows[j][start:end], lower[t, j], upper[t, j] - lower[t, j], weights[t, j])
            for first in range(0, len(part), GROUP):
                group = part[first : first + GROUP]
                if _above(group, second[t]):
                    _taken(group, start + first, best[t : t + 1], second[t : t + 1], place[t : t + 1])


@compiled
def _fill(values, value):  # type: ignore[no-untyped-def]
    """Write one value everywhere, as assignment to an array does that takes several times as long to compile."""
    for i in range(len(values)):
        values[i] = value


@compiled
def _above(sums, least):  # type: ignore[no-untyped-def]
    """Return how many sums are above ``least``, in full vectors."""
    hits = np.int32(0)
    for i in range(len(sums)):
        hits = np.int32(hits + np.int32(sums[i] > least))  # in 32 bits, as the sums are
    return hits


@compiled
def _taken(sums, start, best, second, place):  # type: ignore[no-untyped-def]
    """Put the largest of some sums in the place of smaller ones."""
    for i in range(len(sums)):
        if sums[i] > best[0]:
            second[0], best[0], place[0] = best[0], sums[i], start + i
        elif sums[i] > second[0]:
            second[0] = sums[i]


@compiled
def _add(sums, row, low, width, weight):  # type: ignore[no-untyped-def]
    """Add the weight where the row lies within ``width`` above ``low``."""
    if width == 1:  # in fewer operations
        for i in range(len(sums)):
            sums[i] += weight if row[i] == low else np.float32(0.0)
        return
    for i in range(len(sums)):
        sums[i] += weight if np.uint32(row[i] - low) < np.uint32(width) else np.float32(0.0)


@compiled
def paired(asked, parents, rows, weights, sums):  # type: ignore[no-untyped-def]
    """Add what agreement in columns, and in columns and their parents, weighs."""
    for t in range(len(asked)):
        part = sums[t]
        for j in range(len(parents)):
            row, alone, both, code = rows[j], weights[0, j], weights[1, j], asked[t, j]
            p = max(parents[j], 0)
            parent, parents_code = rows[p], asked[t, p]
            for i in range(len(part)):
                more = both[i] if parent[i] == parents_code else np.float32(0.0)
                part[i] += alone[i] + more if row[i] == code else np.float32(0.0)


@compiled
def sole(lower, upper, columns, rows, units, found):  # type: ignore[no-untyped-def]
    """Write the one unit whose rows satisfy every condition of each predicate; −1 for none, −2 for several."""
    held = np.empty(min(rows.shape[1], BLOCK), dtype=np.int32)
    for t in range(len(lower)):
        found[t] = -1
        for start in range(0, rows.shape[1], BLOCK):
            end = min(start + BLOCK, rows.shape[1])
            part = held[: end - start]
            _fill(part, np.int32(1))
            for j in range(lower.shape[1]):
                if columns[t, j] >= 0:
                    width = max(upper[t, j] - lower[t, j], 0)
                    _narrow(part, rows[columns[t, j]][start:end], lower[t, j], width)
            if _above(part, 0) > 0:
                for i in range(len(part)):
                    if part[i] and found[t] == -1:
                        found[t] = units[start + i]
                    elif part[i] and units[start + i] != found[t]:
                        found[t] = -2
                        break
            if found[t] == -2:
                break


@compiled
def _narrow(held, row, low, width):  # type: ignore[no-untyped-def]
    """Clear what lies outside ``width`` above ``low``."""
    for i in range(len(held)):
        held[i] &= np.int32(np.uint32(row[i] - low) < np.uint32(width))


@compiled
def evidence(lower, upper, weights, columns, rows, mean, inside):  # type: ignore[no-untyped-def]
    """Write the log of every record's mean of exponentiated sums; if asked for, each interval's share of the mean.

    Terms are relative to the largest sum so far, and what was added up is scaled down when a larger one comes.
    """
    size = 1
    while size < min(rows.shape[1], TILE):
        size *= 2
    sums, terms = np.empty(size, dtype=np.float32), np.empty(size, dtype=np.float32)
    powers = np.empty(size, dtype=np.int32)
    tops, masses = np.empty(len(lower), dtype=np.float32), np.zeros(len(lower))
    _fill(tops, np.float32(-np.inf))
    shares = np.zeros(inside.shape)
    for start in range(0, rows.shape[1], size):
        end = min(start + size, rows.shape[1])
        part = sums[: end - start]
        _fill(terms[end - start :], np.float32(0.0))
        for t in range(len(lower)):
            _fill(part, np.float32(0.0))
            for j in range(len(columns)):
                if upper[t, j] > lower[t, j]:
                    _add(part, rows[columns[j]][start:end], lower[t, j], upper[t, j] - lower[t, j], weights[t, j])
            top = _largest(part, tops[t])
            scale, tops[t] = np.exp(np.float64(tops[t] - top)), top
            _exponentiate(part, top, powers, terms)
            masses[t] = masses[t] * scale + _total(terms)
            for j in range(shares.shape[1] if len(shares) else 0):
                shares[t, j] *= scale
                if upper[t, j] > lower[t, j]:
                    row = rows[columns[j]][start:end]
                    _select(terms[: end - start], part, row, lower[t, j], upper[t, j] - lower[t, j])
                    shares[t, j] += _total(terms)
    for t in range(len(lower)):
        mean[t] = tops[t] + np.log(masses[t] / rows.shape[1])
        for j in range(shares.shape[1] if len(shares) else 0):
            inside[t, j] = shares[t, j] / masses[t]


@compiled
def _largest(sums, top):  # type: ignore[no-untyped-def]
    for i in range(len(sums)):
        top = max(top, sums[i])
    return top


@compiled
def _exponentiate(sums, top, powers, terms):  # type: ignore[no-untyped-def]
    """Replace sums by exponentials relative to ``top``, copied to ``terms``; far below, a row adds nothing.

    In full vectors, and alike everywhere, as no library's function is: exp(x) = 2ⁿ·exp(r) with x = n·log 2 + r, and
    the series of exp(r), which is off by less than 10⁻⁸ of it. ``powers`` (int32) are for the bits of 2ⁿ.
    """
    for i in range(len(sums)):
        x = max(sums[i] - top, FAR)
        n = np.floor(x / LOG_2 + np.float32(0.5))
        powers[i] = (np.int32(n) + np.int32(127)) << np.int32(23)
        r = (x - n * HIGH) - n * LOW
        series = np.float32(1 / 5040)
        series = series * r + np.float32(1 / 720)
        series = series * r + np.float32(1 / 120)
        series = series * r + np.float32(1 / 24)
        series = series * r + np.float32(1 / 6)
        series = series * r + np.float32(1 / 2)
        terms[i] = (series * r + np.float32(1.0)) * r + np.float32(1.0)
    scales = powers.view(np.float32)
    for i in range(len(sums)):
        sums[i] = terms[i] * scales[i] if sums[i] - top > FAR else np.float32(0.0)
        terms[i] = sums[i]


@compiled
def _select(terms, sums, row, low, width):  # type: ignore[no-untyped-def]
    """Write the sums where the row lies within ``width`` above ``low``, 0 elsewhere."""
    for i in range(len(sums)):
        terms[i] = sums[i] if np.uint32(row[i] - low) < np.uint32(width) else np.float32(0.0)


@compiled
def _total(terms):  # type: ignore[no-untyped-def]
    """Return the sum of a power of two of terms, which are overwritten: by halves, in vectors and alike everywhere."""
    size = len(terms)
    while size > 1:
        size //= 2
        for i in range(size):
            terms[i] += terms[size + i]
    return terms[0]
