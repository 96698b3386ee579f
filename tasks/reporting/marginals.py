"""The distributions of single variables before and after masking, in bars of several records each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from anoncore.microdata import Microdata, Variable, outer_limits
from tasks.policy.rounding import step_of
from tasks.reporting.figures import AFTER, BEFORE, EXCESS, MUTED, legend, new_figure, plain_number, shorten, style, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = 24
PANELS_PER_ROW = 4
BINS = 14
TAIL = 0.02
PANEL_LETTERS = 30  # that fit beneath a panel
NAMED_LEVELS = 6


@dataclass(frozen=True, eq=False)
class Marginal:
    """One variable before and after, in bars of at least k original records each.

    ``edges`` (bars + 1,) are set for numbers, ``labels`` for levels; ``before`` and ``after`` are
    shares of all records, those before in whole steps; ``missing`` the shares that have no value, where at
    least k original records have none; ``beyond`` the shares of released values below and above the
    original's range, an end that few units hold rounded outward.
    """

    name: str
    before: np.ndarray
    after: np.ndarray
    edges: np.ndarray | None = None
    labels: tuple[str, ...] = ()
    ordered: bool = False
    missing: tuple[float, float] | None = None
    beyond: tuple[float, float] = (0.0, 0.0)

    @property
    def shift(self) -> float:
        """The share of records that would have to move for the two distributions to agree."""
        return float(np.abs(self.before - self.after).sum() / 2)


def marginals(original: Microdata, released: Microdata, *, k: int) -> bytes:
    """Draw up to 24 variables before and after, the least preserved first.

    Parameters
    ----------
    original, released : Microdata
        Variables that are on one side only, such as probabilities, are left out.
    k : int
        The least number of original records in a bar; a whole step of them where that is more.

    Returns
    -------
    bytes
        SVG; its description says how many variables are shown.

    Notes
    -----
    Confidentiality, since the picture is published: heights of the original are rounded to the step of
    published figures, `step_of` its units, and no bar of it holds fewer than k records.
    Numbers are counted in bins whose edges are round numbers, never data; the outer
    bins begin at the k-th smallest and largest original value (or at 2 % where that is further
    in), rounded outward, and take in everything beyond, so no extreme shows; released values beyond the
    range of the original (an end that few units hold is rounded outward) have bars of their own at the ends; a bin
    with fewer than k records is merged with its neighbour. Levels with fewer than k original records are
    pooled, together with the next rarest where the pool is still below k; neighbours are pooled
    when the levels are ordered. A pool below k of which no level is released is left out, and how many levels
    a pool has is not shown: neither says whether a level is rare. Missing values are shown from k on.
    A variable that leaves a single bar is not drawn.
    """
    both = [v for v in released.schema if v.is_masked and v.name in original.schema]
    drawable = [m for v in both if (m := _marginal(v, original, released, k)) is not None]
    shown = sorted(drawable, key=lambda m: -m.shift)[:PANELS]
    rows = max(1, math.ceil(len(shown) / PANELS_PER_ROW))
    height = 0.36 + 1.16 * rows
    with style():
        figure = new_figure(9.6, height)
        for i, marginal in enumerate(shown):
            row, column = divmod(i, PANELS_PER_ROW)
            bottom = 1 - (0.36 + 1.16 * row + 0.88) / height
            axes = figure.add_axes((0.015 + 0.249 * column, bottom, 0.222, 0.64 / height))
            _marginal_panel(axes, marginal)
        entries = [("area", BEFORE, "before masking"), ("line", AFTER, "after masking")]
        if any(sum(marginal.beyond) for marginal in shown):
            entries.append(("area", EXCESS, "beyond the range before"))
        legend(figure, *entries)
        text = f"{len(shown)} of {len(both)} variables before and after masking, the least preserved first."
        return svg(figure, text)


def _marginal(variable: Variable, original: Microdata, released: Microdata, k: int) -> Marginal | None:
    """Count one variable; None when nothing can be shown without showing fewer than k records."""
    kind = original.schema[variable.name]
    if kind.is_categorical != variable.is_categorical:
        return None
    before, after = original.frame[variable.name], released.frame[variable.name]
    step = step_of(original.n_units)
    least = max(k, math.ceil(step * len(before) - 1e-9))
    observed = int(before.notna().sum())
    if observed < 2 * least or not after.notna().any():
        return None
    count = _levels if variable.is_categorical else _numbers
    marginal = count(kind, before, after, least)
    if marginal is None:
        return None
    if not variable.is_categorical:
        marginal = replace(marginal, beyond=_beyond(original, variable.name, after))
    if len(before) - observed >= least:
        missing = _whole_steps(float(before.isna().mean()), step)
        marginal = replace(marginal, missing=(float(missing), float(after.isna().mean())))
    return replace(marginal, before=_whole_steps(marginal.before, step))


def _whole_steps(share: np.ndarray | float, step: float) -> np.ndarray:
    return np.round(np.asarray(share) / step) * step


def _numbers(kind: Variable, before: pd.Series, after: pd.Series, k: int) -> Marginal | None:
    x, y = (side.dropna().to_numpy(dtype="float64") for side in (before, after))
    at = max(k, math.ceil(TAIL * len(x))) - 1
    low, high = np.partition(x, [at, len(x) - 1 - at])[[at, len(x) - 1 - at]]
    if not low < high:
        return None
    step = _round_step((high - low) / BINS, kind.precision)
    # The small shift keeps 0.3, which is 2.999… steps of 0.1, in its own bin.
    first, last = math.floor(low / step + 1e-9), math.floor(high / step + 1e-9)
    bins = last - first + 1
    counts, others = (
        np.bincount(np.clip(np.floor(v / step + 1e-9) - first, 0, bins - 1).astype(int), minlength=bins) for v in (x, y)
    )
    starts = _merge_small(counts, k)
    if len(starts) < 2:
        return None
    return Marginal(
        name=kind.name,
        before=np.add.reduceat(counts, starts) / len(before),
        after=np.add.reduceat(others, starts) / len(after),
        edges=(first + np.append(starts, bins)) * step,
    )


def _beyond(original: Microdata, name: str, after: pd.Series) -> tuple[float, float]:
    """Return the shares of numbers below and above the limits of the original's."""
    before = original.frame[name].to_numpy(dtype="float64")
    present = ~np.isnan(before)
    low, high = outer_limits(before[present], None if original.units is None else original.units[present])
    return float((after < low).mean()), float((after > high).mean())


def _round_step(width: float, unit: float | None) -> float:
    """Return the next of 1, 2, 5 × 10ⁿ that is at least ``width``, in whole units of the recording."""
    scale = 10.0 ** math.floor(math.log10(width))
    step = next(s * scale for s in (1, 2, 5, 10) if s * scale >= width * (1 - 1e-9))
    if unit is None:
        return step
    return max(1, math.ceil(step / unit - 1e-9)) * unit


def _merge_small(counts: np.ndarray, k: int) -> np.ndarray:
    """Return where each bar starts when neighbours are merged until every bar holds k records."""
    starts, held = [0], 0
    for i, count in enumerate(counts):
        if held >= k:
            starts.append(i)
            held = 0
        held += int(count)
    if held < k and len(starts) > 1:
        starts.pop()
    return np.array(starts)


def _levels(kind: Variable, before: pd.Series, after: pd.Series, k: int) -> Marginal | None:
    counts = {str(level): int(n) for level, n in before.value_counts(sort=False).items()}
    others = {str(level): int(n) for level, n in after.value_counts(sort=False).items()}
    names = list(dict.fromkeys([*counts, *others]))
    ordered = kind.kind == "ordinal" and set(others) <= set(counts)
    groups = _neighbour_groups(names, counts, k) if ordered else _pooled_groups(names, counts, others, k)
    if len(groups) < 2:
        return None
    frequent = {name for name, count in counts.items() if count >= k}
    return Marginal(
        name=kind.name,
        before=np.array([sum(counts.get(n, 0) for n in g) for g in groups]) / len(before),
        after=np.array([sum(others.get(n, 0) for n in g) for g in groups]) / len(after),
        labels=tuple(_group_label(g, frequent, ordered=ordered) for g in groups),
        ordered=ordered,
    )


def _neighbour_groups(names: list[str], counts: dict[str, int], k: int) -> list[list[str]]:
    starts = _merge_small(np.array([counts.get(n, 0) for n in names]), k)
    return [list(part) for part in np.split(np.array(names, dtype=object), starts[1:])]


def _pooled_groups(names: list[str], counts: dict[str, int], others: dict[str, int], k: int) -> list[list[str]]:
    """Return the frequent levels in their order, each alone, and then the pool of all others."""
    by_size = sorted(names, key=lambda n: -counts.get(n, 0))
    kept = [n for n in by_size if counts.get(n, 0) >= k]
    if len(kept) > NAMED_LEVELS:
        kept = kept[: NAMED_LEVELS - 1]
    rest = [n for n in names if n not in kept]
    if sum(counts.get(n, 0) for n in rest) < k and not any(others.get(n, 0) for n in rest):
        return [[n] for n in names if n in kept]
    while kept and sum(counts.get(n, 0) for n in names if n not in kept) < k:
        kept.pop()
    return [[n] for n in names if n in kept] + [[n for n in names if n not in kept]]


def _group_label(group: list[str], frequent: set[str], *, ordered: bool) -> str:
    """Name a bar by the levels that enough people hold; the others may be absent from the release."""
    named = [name for name in group if name in frequent]
    if not named or (not ordered and len(group) > 1):
        return "others"
    return shorten(named[0], 9) if len(named) == 1 else f"{shorten(named[0], 5)}–{shorten(named[-1], 5)}"


def _show_beyond(axes: Axes, marginal: Marginal, edges: np.ndarray, width: float) -> None:
    """Draw the released values beyond the original's range as bars of their own outside the axis, and say how many."""
    below, above = marginal.beyond
    left, right = width * (below > 0), width * (above > 0)
    axes.bar([edges[0] - left / 2, edges[-1] + right / 2], [below / width, above / width], [left, right], color=EXCESS)
    axes.set_xlim(edges[0] - left, edges[-1] + right)
    if below + above > 0:
        text = f"beyond {max(below + above, 0.001):.1%}"
        axes.text(0.99, 0.97, text, transform=axes.transAxes, ha="right", va="top", fontsize=7.2, color=EXCESS)


def _marginal_panel(axes: Axes, marginal: Marginal) -> None:
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    title = shorten(marginal.name, 27 if marginal.missing is None else 16)
    axes.set_title(title, fontweight="bold", fontsize=8.6, pad=4)
    if marginal.missing is not None:
        shares = "missing {:.0%} → {:.0%}".format(*marginal.missing)
        axes.set_title(shares, loc="right", fontsize=7.2, color=MUTED, pad=4)
    if marginal.edges is not None:
        edges = marginal.edges
        width = np.diff(edges)
        before, after = marginal.before / width, marginal.after / width
        axes.stairs(before, edges, fill=True, color=BEFORE, lw=0)
        axes.stairs(after, edges, color=AFTER, lw=1.3)
        _show_beyond(axes, marginal, edges, float(np.diff(edges).mean()))
        axes.set_xticks([edges[0], edges[-1]], [plain_number(edges[0]), plain_number(edges[-1])])
        low, high = axes.get_xticklabels()
        low.set_horizontalalignment("left")
        high.set_horizontalalignment("right")
    else:
        before, after = marginal.before, marginal.after
        at = np.arange(len(before))
        axes.bar(at, before, 0.78, color=BEFORE)
        axes.bar(at, after, 0.78, facecolor="none", edgecolor=AFTER, lw=1.3)
        few = len(at) <= NAMED_LEVELS
        labelled = at if few else at[[0, len(at) // 2, -1]]
        room = max(3, PANEL_LETTERS // len(labelled))
        names = [shorten(marginal.labels[i], room) for i in labelled]
        axes.set_xticks(labelled, names, fontsize=7.2 if few else 8.0)
        axes.set_xlim(-0.6, len(at) - 0.4)
    axes.set_ylim(0, 1.06 * float(max(before.max(), after.max())))
