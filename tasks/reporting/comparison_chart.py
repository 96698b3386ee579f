"""Draw settings by risk and lost utility, with the policy's limit and the settings that no other beats.

Source: the risk-utility map of Duncan, Keller-McNulty and Stokes (2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.reporting.comparison import LOSSES, RISKS, Tried, best, frontier, place, sentence
from tasks.reporting.figures import (
    AFTER,
    EXCESS,
    INK,
    MUTED,
    PAPER,
    RULE,
    add_legend,
    new_figure,
    plain_number,
    shorten,
    style,
    svg,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# A scale is logarithmic where its values span more than this factor.
WIDE = 15.0
# Colour, shape, and whether it is filled: verdicts also differ without colours.
MARKS = {
    "passes": (AFTER, "o", True),
    "awaiting": (EXCESS, "D", True),
    "rejected": (INK, "X", True),
    "refused": (MUTED, "s", False),
}
WORDS = {
    "passes": "passes",
    "awaiting": "a person must decide",
    "rejected": "rejected",
    "refused": "lacks an acknowledgement",
}
LABEL = 30
DECADES = tuple(v * 10.0**d for d in range(-6, 7) for v in (1, 3))
ACROSS = 3
TICKS = (-0.1, -0.05, 0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1)
# In pixels: half a mark and the best one's, how far a label needs no line, and who is a neighbour.
MARK, RING, NEAR, CROWD = 7.0, 10.0, 22.0, 60.0


def draw(tried: Sequence[Tried], *, risk: str, loss: str) -> bytes:
    """Draw risk against lost utility, the policy's line, and the settings that no other beats.

    Parameters
    ----------
    tried : settings; those without figures are named below the map
    risk, loss : keys of ``RISKS`` and ``LOSSES``

    Returns
    -------
    bytes
        SVG; verdicts differ in colour and in shape.
    """
    drawn = [t for t in tried if t.drawn]
    absent = [t.label for t in tried if not t.drawn]
    edge, winner = frontier(tried), best(tried)
    baseline = next((t.baseline for t in drawn if t.baseline is not None), None)
    limit = next((t.limit for t in drawn if t.limit is not None), None)
    with style():
        figure = new_figure(9.6, 5.6)
        axes = figure.add_axes((0.07, 0.19, 0.915, 0.69))
        axes.set_xlabel("risk, less is better")
        axes.set_ylabel("lost utility, less is better")
        axes.grid(color=RULE, lw=0.5)
        axes.set_axisbelow(True)
        _scales(axes, drawn, limit, baseline)
        _lines(axes, edge, limit, baseline)
        for one in drawn:
            colour, shape, filled = MARKS[one.status]
            axes.plot(*place(one), shape, ms=8, mfc=colour if filled else PAPER, mec=colour, mew=1.5, zorder=3)
        if winner is not None and winner.drawn:
            axes.plot(*place(winner), "o", ms=15, mfc="none", mec=AFTER, mew=1.2, zorder=3)
        _label(figure, axes, drawn, (edge, limit, baseline), winner)
        _key(figure, drawn, edge, winner, baseline)
        notes = [f"risk: {RISKS[risk]}", f"lost utility: {LOSSES[loss]}"]
        if absent:
            notes.append(shorten(f"not on the map: {', '.join(absent)}", 150))
        figure.text(0.07, 0.012, "\n".join(notes), color=MUTED, fontsize=8, linespacing=1.35)
        summary = shorten(sentence(tried, loss), 300)
        return svg(figure, f"{len(drawn)} settings by risk and lost utility: {summary}.")


def _scales(axes: Axes, drawn: Sequence[Tried], limit: float | None, baseline: float | None) -> None:
    """Choose ranges that hold every point and both lines, logarithmic where they span too much."""
    if not drawn:
        axes.set_xticks([])
        axes.set_yticks([])
        return
    risks, losses = np.array([place(t) for t in drawn]).T
    x = np.append(risks, [] if limit is None else limit)
    y = np.append(losses, [] if baseline is None else baseline)
    if limit is not None and x.max() > WIDE * limit:
        axes.set_xscale("symlog", linthresh=2 * limit, linscale=1.2)
    if y.min() > 0 and y.max() > WIDE * y.min():
        axes.set_yscale("log")
    elif 0 <= y.min() < y.max() / 2:
        y = np.append(y, 0.0)
    for values, axis, set_ends in ((x, axes.xaxis, axes.set_xlim), (y, axes.yaxis, axes.set_ylim)):
        shown = axis.get_transform().transform(values)
        margin = 0.06 * (shown.max() - shown.min()) or 0.05
        back = axis.get_transform().inverted()
        outer = back.transform(np.array([shown.min() - margin, shown.max() + margin]))
        set_ends(float(outer[0]), float(outer[1]))
        axis.set_major_formatter(lambda value, _: plain_number(value))
    for scale, ticks, ends, choose in (
        (axes.get_xscale(), TICKS, axes.get_xlim(), axes.set_xticks),
        (axes.get_yscale(), DECADES, axes.get_ylim(), axes.set_yticks),
    ):
        if scale != "linear":
            choose([v for v in ticks if ends[0] <= v <= ends[1]])
            choose([], minor=True)


def _lines(axes: Axes, edge: Sequence[Tried], limit: float | None, baseline: float | None) -> None:
    """Draw the policy's line with what cannot pass, the reference, and the frontier."""
    if limit is not None:
        axes.axvspan(limit, axes.get_xlim()[1], color=EXCESS, alpha=0.08, lw=0)
        axes.axvline(limit, color=EXCESS, lw=1.5)
        across = axes.get_xaxis_transform()
        axes.text(limit, 1.012, f"passes up to {limit:g}", color=INK, fontsize=8.2, ha="center", transform=across)
    if baseline is not None:
        axes.axhline(baseline, color=MUTED, lw=1.0, ls=(0, (1, 2)))
    if edge:
        axes.step(*zip(*map(place, edge), strict=True), where="post", color=MUTED, lw=1.1)


def _label(
    figure: Figure,
    axes: Axes,
    drawn: Sequence[Tried],
    lines: tuple[Sequence[Tried], float | None, float | None],
    winner: Tried | None,
) -> None:
    """Name every point beside it, with a thin line where there is no room."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if not drawn:
        return
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    texts = [
        figure.text(
            0,
            0,
            shorten(t.label, LABEL),
            fontsize=8.4,
            fontweight="bold" if t is winner else None,
            ha="center",
            va="center_baseline",
        )
        for t in drawn
    ]
    boxes = [text.get_window_extent(renderer) for text in texts]
    sizes = np.array([(box.width, box.height) for box in boxes])
    points = axes.transData.transform([place(t) for t in drawn])
    room = axes.get_window_extent(renderer)
    covers = _covers(axes, *lines, winner)
    middles = place_labels(points, sizes, (room.x0, room.y0, room.x1, room.y1), covers)
    back = figure.transFigure.inverted()
    for text, size, point, middle in zip(texts, sizes, points, middles, strict=True):
        x, y = back.transform(middle)
        text.set_position((float(x), float(y)))
        nearest = np.clip(point, middle - size / 2, middle + size / 2)
        if np.hypot(*(nearest - point)) > NEAR:
            figure.add_artist(_line(*back.transform([point, nearest]).T, color=MUTED, lw=0.6))


def _covers(
    axes: Axes, edge: Sequence[Tried], limit: float | None, baseline: float | None, winner: Tried | None
) -> np.ndarray:
    """Return (m, 4) opposite corners in pixels of the lines, and of the ring around the best."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    ends: list[tuple[float, float, float, float]] = []
    for first, second in pairwise(map(place, edge)):
        ends += [(*first, second[0], first[1]), (second[0], first[1], *second)]
    if limit is not None:
        ends.append((limit, bottom, limit, top))
    if baseline is not None:
        ends.append((left, baseline, right, baseline))
    corners = axes.transData.transform(np.reshape(ends, (-1, 2))).reshape(-1, 4)
    if winner is not None and winner.drawn:
        x, y = axes.transData.transform(place(winner))
        corners = np.vstack([corners, (x - RING, y - RING, x + RING, y + RING)])
    return corners


def place_labels(
    points: np.ndarray,
    sizes: np.ndarray,
    room: tuple[float, float, float, float],
    others: np.ndarray | None = None,
) -> np.ndarray:
    """Return where labels go so that they cover neither each other nor a point, as near as they can.

    Parameters
    ----------
    points : (n, 2) pixels
    sizes : (n, 2) widths and heights of the labels, pixels
    room : left, bottom, right, top, in which the labels must lie
    others : (m, 4) two opposite corners each of what is not to be covered besides

    Returns
    -------
    ndarray
        (n, 2) their middles. Where there is no free place, the one that covers least.
    """
    low, high = np.array(room[:2]), np.array(room[2:])
    angles = np.pi / 8 * np.array([0, 8, 4, 12, 2, 14, 6, 10, 1, 15, 7, 9, 3, 13, 5, 11])
    turns = np.column_stack([np.cos(angles), np.sin(angles)])
    reach = np.array([9, 16, 26, 40, 58, 80, 106, 136, 170, 210])
    middles = np.empty_like(points, dtype=float)
    # The most crowded first: they have the fewest places to go.
    gaps = np.hypot(*(points[:, None] - points[None]).T)
    order = np.argsort(-(gaps < CROWD).sum(axis=1), kind="stable")
    taken = [(point - MARK, point + MARK) for point in points]
    for first, second in [] if others is None else others.reshape(-1, 2, 2):
        taken.append((np.minimum(first, second) - 1, np.maximum(first, second) + 1))
    for i in order:
        half = sizes[i] / 2 + 1
        tries = points[i] + (reach[:, None, None] * turns + turns * half).reshape(-1, 2)
        inside = np.clip(tries, low + half, high - half)
        covered = np.abs(tries - inside).sum(axis=1) * 100
        for start, end in taken:
            sides = np.minimum(tries + half, end) - np.maximum(tries - half, start)
            covered += np.prod(np.maximum(sides, 0), axis=1)
        middles[i] = tries[np.argmin(covered)]
        taken.append((middles[i] - half, middles[i] + half))
    return middles


def _line(x: np.ndarray, y: np.ndarray, **options: Any) -> Line2D:
    from matplotlib.lines import Line2D

    return Line2D(x, y, **options)


def _key(
    figure: Figure,
    drawn: Sequence[Tried],
    edge: Sequence[Tried],
    winner: Tried | None,
    baseline: float | None,
) -> None:
    """Say above the map what its marks and lines mean."""
    empty = np.empty(0)
    handles = [
        _line(empty, empty, ls="", marker=shape, ms=7, mfc=colour if filled else PAPER, mec=colour, label=word)
        for status, word in WORDS.items()
        if any(t.status == status for t in drawn)
        for colour, shape, filled in [MARKS[status]]
    ]
    if winner is not None and winner.drawn:
        handles.append(_line(empty, empty, ls="", marker="o", ms=10, mfc="none", mec=AFTER, label="best that passes"))
    if edge:
        handles.append(_line(empty, empty, color=MUTED, lw=1.1, label="no setting is better in both"))
    if baseline is not None:
        handles.append(
            _line(empty, empty, color=MUTED, lw=1.0, ls=(0, (1, 2)), label="another sample of the population")
        )
    add_legend(figure, handles, left=0.075, columns=-(-len(handles) // 2) if len(handles) > ACROSS else 0)
