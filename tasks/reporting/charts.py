"""Charts of risk measures and correlations: small, self-contained SVG, legible in light and dark and in print.

They are published. What is drawn of the source is no finer than published figures: curves are read at round
numbers, and their heights and the correlations are rounded to steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tasks.policy.rounding import step_of
from tasks.reporting.figures import AFTER, EXCESS, MUTED, RULE, legend, new_figure, shorten, style, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE_INTERVALS = 100
LABELLED_COLUMNS = 30
CORRELATION_STEP = 0.05
BLOCK = 65_536

MEASURES = (
    ("distance", "Prediction distance", "standard deviations"),
    ("ambiguity", "Ambiguity", "ratio of distances"),
    ("uncertainty", "Uncertainty", "variance"),
)


def cumulative_curves(curves: Mapping[str, np.ndarray]) -> bytes:
    """Draw the cumulative distribution of each risk measure, released against reference.

    Parameters
    ----------
    curves : mapping to (n,) float64
        ``released_distance``, ``reference_distance``, and likewise ambiguity and uncertainty;
        each sorted. A measure that has not both sides is left out.

    Returns
    -------
    bytes
        SVG.

    Notes
    -----
    Each curve is read at 40 to 110 equidistant round numbers, and its heights are rounded to the step of published
    figures: no value of a record is drawn, and no count of records is exact. The axis ends at a round number
    beyond the 99 % quantiles.

    Source: Lasko and Vinterbo 2010, Figure 2.
    """
    shown = [m for m in MEASURES if f"released_{m[0]}" in curves and f"reference_{m[0]}" in curves]
    with style():
        figure = new_figure(9.6, 2.85)
        for j, (key, title, label) in enumerate(shown):
            axes = figure.add_axes((0.058 + 0.325 * j, 0.165, 0.272, 0.665))
            _curve_panel(axes, curves[f"released_{key}"], curves[f"reference_{key}"], first=j == 0)
            axes.set_title(title, fontweight="bold")
            axes.set_xlabel(label, fontsize=7.6)
            if key == "ambiguity":
                axes.set_xlim(0, 1.02)
        legend(
            figure,
            ("line", AFTER, "released"),
            ("dashes", MUTED, "reference"),
            ("area", EXCESS, "released is riskier"),
        )
        names = ", ".join(title.lower() for _, title, _ in shown)
        return svg(figure, f"Cumulative distributions of {names}: released against reference.")


def _curve_panel(axes: Axes, released: np.ndarray, reference: np.ndarray, *, first: bool) -> None:
    at = _round_numbers(float(max(np.quantile(released, 0.99), np.quantile(reference, 0.99))))
    of_release, of_reference = _shares(released, at), _shares(reference, at)
    axes.fill_between(
        at,
        of_release,
        of_reference,
        where=(of_release > of_reference).tolist(),
        color=EXCESS,
        alpha=0.35,
        lw=0,
    )
    axes.plot(at, of_reference, color=MUTED, lw=1.3, ls=(0, (4, 2)))
    axes.plot(at, of_release, color=AFTER, lw=1.7)
    axes.set_xlim(0, at[-1])
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100 %"] if first else [""] * 5)
    axes.grid(axis="y", color=RULE, lw=0.5)
    axes.locator_params(axis="x", nbins=5)
    if first:
        axes.set_ylabel("share of people at or below", fontsize=7.6)


def _round_numbers(end: float) -> np.ndarray:
    """Return equidistant numbers from 0 to beyond ``end``, whose distance is 1, 2 or 5 × 10ⁿ; ten more at a time."""
    width = max(end, 1e-6) / CURVE_INTERVALS
    scale = 10.0 ** math.floor(math.log10(width))
    step = next(s * scale for s in (1, 2, 5, 10) if s * scale >= width * (1 - 1e-9))
    return step * np.arange(10 * math.ceil(end / (10 * step) - 1e-9) + 1 if end > 0 else CURVE_INTERVALS + 1)


def _shares(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the shares (m,) of sorted values that are at most each of ``at`` (m,), in whole steps."""
    step = step_of(len(values))
    return np.round(np.searchsorted(values, at * (1 + 1e-12), side="right") / len(values) / step) * step


def correlations(original: np.ndarray, released: np.ndarray, names: Sequence[str], *, k: int = 5) -> bytes:
    """Draw the correlation matrices of original and released data, and their difference.

    Parameters
    ----------
    original, released : (N, m), (M, m) float64, encoded
    names : sequence of m str
        Shown beside the rows when there are at most 30.
    k : int
        A column in which fewer than k original records differ, such as a rare level, is drawn as
        0, like a constant one: two such columns would show that one person holds both values.

    Returns
    -------
    bytes
        SVG; colours in steps of 0.05, or of published figures where these are larger, the same for all three.
        The difference is that from the rounded correlations of the original.
    """
    from matplotlib.colors import LinearSegmentedColormap

    hidden = _rare_columns(original, k)
    step = max(CORRELATION_STEP, step_of(len(original)))
    before, after = np.round(_correlation(original, hidden) / step) * step, _correlation(released, hidden)
    labelled = len(names) <= LABELLED_COLUMNS
    steps = round(2 / step) + 1
    colours = LinearSegmentedColormap.from_list(
        "diverging", ("#86380c", "#e0842f", "#f7f7f5", "#3f86d0", "#0d3566"), N=steps
    )
    end = 1 + step / 2
    left, side = (0.135, 0.251) if labelled else (0.012, 0.293)
    height = 9.6 * side + 0.48
    with style():
        figure = new_figure(9.6, height)
        panels = (("before masking", before), ("after masking", after), ("difference", after - before))
        for j, (title, matrix) in enumerate(panels):
            bottom, tall = 0.14 / height, 9.6 * side / height
            axes = figure.add_axes((left + j * (side + 0.014), bottom, side, tall))
            image = axes.imshow(
                np.clip(matrix, -1, 1), colours, aspect="auto", interpolation="none", vmin=-end, vmax=end
            )
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(False)
            axes.set_title(title, fontweight="bold")
            if labelled and j == 0:
                size = 7.4 if len(names) <= 22 else 6.2
                axes.set_yticks(range(len(names)), [shorten(n, 19) for n in names], fontsize=size)
        bar = figure.add_axes((left + 3 * (side + 0.014) + 0.004, 0.14 / height, 0.012, tall))
        figure.colorbar(image, cax=bar, ticks=[-1, -0.5, 0, 0.5, 1])
        bar.set_yticklabels(["−1", "−0.5", "0", "0.5", "1"])
        bar.spines[:].set_visible(False)
        return svg(
            figure,
            f"Correlation matrices of {len(names)} columns before and after masking, and their difference.",
        )


def _rare_columns(matrix: np.ndarray, k: int) -> np.ndarray:
    """Return (m,) bool: columns whose correlations rest on fewer than k records."""
    return np.array([_rests_on_few(column, k) for column in matrix.T], dtype=bool)


def _rests_on_few(column: np.ndarray, k: int) -> bool:
    """Whether fewer than k records differ from the rest, or hold one end of a scale of two.

    An encoded level with missing values has a third value between its two, the imputed one.
    """
    if np.count_nonzero(column != np.median(column)) < k:
        return True
    low, high = column.min(), column.max()
    between = column[(column != low) & (column != high)]
    ends = min(np.count_nonzero(column == low), np.count_nonzero(column == high))
    return bool(ends < k and (between.size == 0 or between.min() == between.max()))


def _correlation(matrix: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Return (m, m) in blocks of rows; 0 where a column is constant or hidden."""
    mean = matrix.mean(axis=0)
    products = np.zeros((matrix.shape[1], matrix.shape[1]))
    for start in range(0, len(matrix), BLOCK):
        centred = matrix[start : start + BLOCK] - mean
        products += centred.T @ centred
    spread = np.sqrt(np.diag(products))
    flat = hidden | (spread <= 1e-9 * math.sqrt(len(matrix)))
    spread[flat] = np.inf
    return products / spread[:, None] / spread[None, :]
