"""Settings beside each other: what each risks and loses, which no other beats, which is the best that passes.

The picture is the risk-utility map of Duncan, Keller-McNulty and Stokes (2001), with the policy's line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from anoncore.risk import MeasureComparison, RiskReport
from anoncore.utility import UtilityReport
from tasks.common.formatting import NOTHING, count, markdown_cell, markdown_table, number
from tasks.policy.gate import GateResult
from tasks.record.dossier import MethodStep
from tasks.reporting.charts import (
    AFTER,
    EXCESS,
    INK,
    MUTED,
    PAPER,
    RULE,
    new_figure,
    plain_number,
    shorten,
    style,
    svg,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Status = Literal["passes", "awaiting", "rejected", "refused", "not possible"]

# A median of the reference below this counts as this: in large samples it is sampling error and nothing else.
LEAST_MEDIAN = 0.001
# A scale is logarithmic where its values span more than this factor.
WIDE = 15.0

RISKS = {
    "distance": "how many more people than in the reference find a close record, upper bound",
    "ambiguity": "how many more people than in the reference find a record that stands out, upper bound",
    "uncertainty": "how many more people than in the reference find records that agree, upper bound",
    "membership": "how well those who took part are told from others, lower bound of the AUC",
}
LOSSES = {
    "overall": "largest of the four differences, in multiples of the reference's",
    "mean": "median difference of means, in standard deviations",
    "variance": "median difference of variances, as a share",
    "correlation": "median difference of correlations",
    "rank_correlation": "median difference of rank correlations",
    "propensity": "how well released records are told from original ones, 0 to 1",
}
# Colour, shape, and whether it is filled: verdicts are told apart without colours too.
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
# Without a reference there is nothing to be a multiple of.
BARE = "largest of the four median differences"


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One setting: its figures on the two axes and what the policy says.

    Parameters
    ----------
    name : as the user has written it, or "plan"
    label : how pictures and steps call it
    status : "refused" lacks an acknowledgement, "not possible" could not be carried out
    risk, limit : the figure and the policy's line; None where nothing was measured, or it says nothing
    loss, baseline : how much is lost, smaller is better, and what the reference sample loses
    """

    name: str
    label: str
    status: Status
    reason: str
    steps: tuple[MethodStep, ...] = ()
    risk: float | None = None
    limit: float | None = None
    loss: float | None = None
    baseline: float | None = None
    records: int | None = None
    gates: tuple[GateResult, ...] = ()
    seconds: float = 0.0

    @property
    def drawn(self) -> bool:
        """Whether it has a place on the map."""
        return self.risk is not None and self.loss is not None


def risk_of(risk: RiskReport, axis: str) -> float | None:
    """Return the bound that the policy's line is put to; None where it was not tested or says nothing."""
    if axis == "membership":
        return None if risk.membership is None else risk.membership.lower
    measure: MeasureComparison = getattr(risk.comparison, axis)
    return None if measure.verdict == "by design" else measure.upper


def loss_of(utility: UtilityReport, axis: str) -> tuple[float | None, float | None]:
    """Return what the release loses and what the reference sample does; smaller is better.

    ``overall`` divides the medians of the four figures by the reference's and takes the largest: at 1 or
    below, no statistic is further off than in another sample of the same population.
    """
    if axis == "propensity":
        score = utility.propensity
        if score is None:
            return None, None
        return score.released.share_of_maximum, score.reference.share_of_maximum if score.reference else None
    if axis != "overall":
        figure = utility.figure(axis)
        return (None, None) if figure is None else (figure.released_median, figure.reference_median)
    # Without figures there was nothing to compare: no column varies, or there is one alone.
    if utility.figures is None:
        return None, None
    pairs = [(one.released_median, one.reference_median) for one in utility.figures.figures]
    ratios = [ours / max(other, LEAST_MEDIAN) for ours, other in pairs if other is not None]
    return (max(ratios), 1.0) if len(ratios) == len(pairs) else (max(ours for ours, _ in pairs), None)


def frontier(tried: Sequence[Tried]) -> tuple[Tried, ...]:
    """Return the settings of which no other is as good on both axes and better on one, by risk."""
    drawn = [t for t in tried if t.drawn]
    kept = [t for t in drawn if not any(_beats(other, t) for other in drawn)]
    return tuple(sorted(kept, key=_place))


def best(tried: Sequence[Tried]) -> Tried | None:
    """Return the setting that loses least among those that pass; of equals the one that risks less."""
    passing = [t for t in tried if t.status == "passes" and t.loss is not None]
    return min(passing, key=lambda t: (t.loss, np.inf if t.risk is None else t.risk), default=None)


def sentence(tried: Sequence[Tried], axis: str) -> str:
    """Say which setting has the best utility among those that pass, or that none does."""
    one = best(tried)
    if one is None:
        waiting = sum(t.status == "awaiting" for t in tried)
        return "nothing passes" + (f"; {waiting} must be decided by a person" if waiting else "")
    if axis == "overall" and one.baseline is not None:
        how = f"its statistics differ at most {number(one.loss, 2)} times as much as another sample's"
    else:
        beside = "" if one.baseline is None else f", another sample's {number(one.baseline)}"
        how = f"{label_of(axis, one.baseline)}: {number(one.loss)}{beside}"
    return f"best utility among those that pass: {one.name}; {how}"


def label_of(axis: str, baseline: float | None) -> str:
    """Return what a utility axis counts."""
    return BARE if axis == "overall" and baseline is None else LOSSES[axis]


def _place(one: Tried) -> tuple[float, float]:
    assert one.risk is not None
    assert one.loss is not None
    return one.risk, one.loss


def _beats(one: Tried, other: Tried) -> bool:
    (risk, loss), (their_risk, their_loss) = _place(one), _place(other)
    return risk <= their_risk and loss <= their_loss and (risk, loss) != (their_risk, their_loss)


def markdown(tried: Sequence[Tried], sentence: str) -> str:
    """Return the settings as a Markdown table, with the sentence that names the best."""
    head = ("Setting", "Verdict", "Why", "Risk", "Limit", "Utility loss", "Reference", "Records")
    return f"{markdown_cell(sentence)}\n\n{markdown_table(head, map(row, tried))}"


def row(one: Tried) -> tuple[str, ...]:
    """Return a setting as the cells of a table."""
    figures = (number(v) for v in (one.risk, one.limit, one.loss, one.baseline))
    records = NOTHING if one.records is None else count(one.records)
    return one.name, one.status, one.reason, *figures, records


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
            axes.plot(*_place(one), shape, ms=8, mfc=colour if filled else PAPER, mec=colour, mew=1.5, zorder=3)
        if winner is not None and winner.drawn:
            axes.plot(*_place(winner), "o", ms=15, mfc="none", mec=AFTER, mew=1.2, zorder=3)
        _label(figure, axes, drawn, (edge, limit, baseline), winner)
        _key(figure, drawn, edge, winner, baseline)
        notes = [f"risk: {RISKS[risk]}", f"lost utility: {label_of(loss, baseline)}"]
        if absent:
            notes.append(shorten(f"not on the map: {', '.join(absent)}", 150))
        figure.text(0.07, 0.012, "\n".join(notes), color=MUTED, fontsize=8, linespacing=1.35)
        told = shorten(sentence(tried, loss), 300)
        return svg(figure, f"{len(drawn)} settings by risk and lost utility: {told}.")


def _scales(axes: Axes, drawn: Sequence[Tried], limit: float | None, baseline: float | None) -> None:
    """Choose ranges that hold every point and both lines, logarithmic where they span too much."""
    if not drawn:
        axes.set_xticks([])
        axes.set_yticks([])
        return
    risks, losses = np.array([_place(t) for t in drawn]).T
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
    """Draw the policy's line with what it forbids, the reference, and the frontier."""
    if limit is not None:
        axes.axvspan(limit, axes.get_xlim()[1], color=EXCESS, alpha=0.08, lw=0)
        axes.axvline(limit, color=EXCESS, lw=1.5)
        across = axes.get_xaxis_transform()
        axes.text(limit, 1.012, f"limit {limit:g}", color=INK, fontsize=8.2, ha="center", transform=across)
    if baseline is not None:
        axes.axhline(baseline, color=MUTED, lw=1.0, ls=(0, (1, 2)))
    if edge:
        axes.step(*zip(*map(_place, edge), strict=True), where="post", color=MUTED, lw=1.1)


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
    points = axes.transData.transform([_place(t) for t in drawn])
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
    for first, second in pairwise(map(_place, edge)):
        ends += [(*first, second[0], first[1]), (second[0], first[1], *second)]
    if limit is not None:
        ends.append((limit, bottom, limit, top))
    if baseline is not None:
        ends.append((left, baseline, right, baseline))
    found = axes.transData.transform(np.reshape(ends, (-1, 2))).reshape(-1, 4)
    if winner is not None and winner.drawn:
        x, y = axes.transData.transform(_place(winner))
        found = np.vstack([found, (x - RING, y - RING, x + RING, y + RING)])
    return found


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


def _line(x: np.ndarray, y: np.ndarray, **style: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D(x, y, **style)


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
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.075, 1.0),
        ncols=max(1, -(-len(handles) // 2) if len(handles) > ACROSS else len(handles)),
        frameon=False,
        fontsize=8.2,
        labelcolor=MUTED,
        borderaxespad=0.3,
        handlelength=1.8,
        columnspacing=1.6,
    )
