"""Figures of groups: compiled sums, extremes and shares against pandas and a fit by NumPy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from anoncore.kernels._group_figures_compiled import agreeing_shares, cell_figures


@pytest.mark.parametrize("seed", range(5))
def test_sums_and_extremes_of_cells_are_those_of_pandas(seed: int) -> None:
    draw = np.random.default_rng(seed)
    numbers = np.where(draw.random((300, 4)) < 0.2, np.nan, draw.normal(size=(300, 4)).round(2))
    cells = draw.integers(-1, 12, 300)
    values, counts = np.empty((5, 12, 4)), np.zeros((12, 4))
    cell_figures(numbers, cells, values, counts)
    grouped = pd.DataFrame(numbers[cells >= 0]).groupby(cells[cells >= 0])
    np.testing.assert_array_equal(counts, grouped.count().reindex(range(12), fill_value=0))
    varies = grouped.nunique().reindex(range(12)) > 1
    for found, expected in zip(values[[0, 2, 3, 4]], ("mean", "min", "max", "sum"), strict=True):
        np.testing.assert_allclose(found, grouped.agg(expected).reindex(range(12)).where(varies).to_numpy())
    assert np.isnan(values[1]).all()


@pytest.mark.parametrize("seed", range(5))
def test_shares_are_those_of_the_best_of_equality_a_constant_and_a_line(seed: int) -> None:
    draw = np.random.default_rng(seed)
    figure = draw.normal(size=30)
    figure[:3] = np.nan
    others = np.stack([figure, figure + 5.0, 3.0 - 2.0 * figure, draw.normal(size=30)]).T[None].repeat(2, axis=0)
    others[:, draw.random(30) < 0.3, 1] = np.nan
    others[:, 10:, 3] = np.nan  # too few are left of it
    others += 0.01 * draw.normal(size=others.shape)
    shares = np.zeros((2, 4))
    agreeing_shares(figure, others, 0.02, np.array([0.015, -1.0]), 8, shares)
    for k, shifted in enumerate((0.015, None)):
        for j in range(3):
            there = ~np.isnan(figure) & ~np.isnan(others[k, :, j])
            x, y = others[k, there, j], figure[there]
            fits = [np.abs(y - x) <= 0.02]
            if shifted is not None:
                residuals = y - x - np.median(y - x), y - np.polyval(np.polyfit(x, y, 1), x)
                fits += [np.abs(one) <= shifted for one in residuals]
            assert shares[k, j] == pytest.approx(max(fit.mean() for fit in fits))
    assert shares[:, 3].tolist() == [0.0, 0.0]
    assert shares[0, 1] > 0.5 > shares[1, 1]
