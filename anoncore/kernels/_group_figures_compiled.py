"""Compiled part of `anoncore.kernels.group_figures`: sums and extremes of cells, and shares of groups that agree."""

from __future__ import annotations

import numpy as np

from anoncore.kernels._compiled import compiled


@compiled
def cell_figures(numbers, cells, values, counts):  # type: ignore[no-untyped-def]
    """Write mean, NaN, least, greatest and sum (5, cells, n) of numbers (M, n) by cells (M,), and add up the counts.

    Those below 0 are in no cell; NaN is passed over, and all are NaN where a number does not vary in its cell.
    """
    means, _, low, high, sums = values
    low[:], high[:], sums[:] = np.inf, -np.inf, 0.0
    for i in range(len(cells)):
        cell = cells[i]
        if cell < 0:
            continue
        for j in range(numbers.shape[1]):
            value = numbers[i, j]
            if value == value:
                counts[cell, j] += 1.0
                sums[cell, j] += value
                low[cell, j] = min(low[cell, j], value)
                high[cell, j] = max(high[cell, j], value)
    for cell in range(counts.shape[0]):
        for j in range(counts.shape[1]):
            if high[cell, j] > low[cell, j]:
                means[cell, j], values[1, cell, j] = sums[cell, j] / counts[cell, j], np.nan
            else:
                values[:, cell, j] = np.nan


@compiled
def agreeing_shares(figure, others, within, shifted, fewest, shares):  # type: ignore[no-untyped-def]
    """Write (k, n) in which share of the groups with both a figure (G,) is one of others (k, G, n), where enough have.

    It is where both differ by ``within`` at most; and, unless ``shifted`` (k,) is below 0, by ``shifted`` from the
    median difference, or from a line by least squares: the most of the three decide.
    """
    kinds, groups, columns = others.shape
    x, y, differences = np.empty(groups), np.empty(groups), np.empty(groups)
    for k in range(kinds):
        for j in range(columns):
            known, equal = 0, 0
            for g in range(groups):
                if figure[g] == figure[g] and others[k, g, j] == others[k, g, j]:
                    x[known], y[known] = others[k, g, j], figure[g]
                    differences[known] = y[known] - x[known]
                    equal += abs(differences[known]) <= within
                    known += 1
            if known < fewest:
                continue
            if shifted[k] >= 0.0:
                equal = max(equal, *_near_a_line(x[:known], y[:known], differences[:known], shifted[k]))
            shares[k, j] = equal / known


@compiled
def _near_a_line(x, y, differences, shifted):  # type: ignore[no-untyped-def]
    """Count what lies near the median difference, and near the line by least squares."""
    known = len(x)
    ranked = np.sort(differences)
    middle = (ranked[(known - 1) // 2] + ranked[known // 2]) / 2.0
    x_mean, y_mean, spread, together = x.mean(), y.mean(), 0.0, 0.0
    for g in range(known):
        spread += (x[g] - x_mean) ** 2
        together += (x[g] - x_mean) * (y[g] - y_mean)
    slope = together / spread if spread > 0.0 else 0.0
    by_constant, by_line = 0, 0
    for g in range(known):
        by_constant += abs(differences[g] - middle) <= shifted
        by_line += abs(y[g] - y_mean - slope * (x[g] - x_mean)) <= shifted
    return by_constant, by_line
