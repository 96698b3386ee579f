"""Render what a method shows to the custodian alone as one page. Nothing of it is published, logged or tracked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from anoncore.custodian import BarChart, Chart, CustodianReport, FlowChart, LineChart, TradeOffChart, TradeOffPanel
from tasks.reporting import figures, report
from tasks.reporting.figures import AFTER, BEFORE, EXCESS, INK, MUTED, RULE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED_AREAS = 32
WIDTH = 9.6


def custodian_page(shown: CustodianReport) -> str:
    """Return the report as one self-contained HTML file, without script and without anything to load.

    Confidential as a whole.
    """
    drawn = {
        str(number): report.picture(_draw(section.chart))
        for number, section in enumerate(shown.sections)
        if section.chart is not None
    }
    html = report.environment().get_template("custodian.html.j2").render(shown=shown, pictures=drawn)
    return html.encode("utf-8", "replace").decode()


def _draw(chart: Chart) -> bytes:
    """Return a chart as SVG."""
    with figures.style():
        if isinstance(chart, BarChart):
            figure = _bars(chart)
        elif isinstance(chart, LineChart):
            figure = _lines(chart)
        elif isinstance(chart, FlowChart):
            figure = _flows(chart)
        else:
            figure = _trade_off(chart)
        return figures.svg(figure, chart.description)


def _name_areas(axes: Axes, names: tuple[str, ...], *, size: float = 7.4) -> None:
    m = len(names)
    shown = np.arange(m) if m <= NAMED_AREAS else np.unique(np.linspace(0, m - 1, 9).astype(int))
    axes.set_xticks(shown, [figures.shorten(names[i], 12) for i in shown], fontsize=size, rotation=55 if m > 8 else 0)
    if m > 8:
        _lean(axes, "right")


def _lean(axes: Axes, side: Literal["left", "right"]) -> None:
    """Let rotated labels end, or begin, at their ticks."""
    for label in axes.get_xticklabels():
        label.set_horizontalalignment(side)
        label.set_rotation_mode("anchor")


def _bars(chart: BarChart) -> Figure:
    from matplotlib.ticker import NullLocator

    at = np.arange(len(chart.names))
    figure = figures.new_figure(WIDTH, 3.3)
    axes = figure.add_axes((0.085, 0.16, 0.9, 0.73))
    axes.bar(at, chart.before, 0.86, color=BEFORE)
    axes.bar(at, chart.after, 0.5, color=AFTER)
    for bounds, sign in ((chart.at_most, "v"), (chart.at_least, "^")):
        where, heights = list(bounds), list(bounds.values())
        axes.hlines(heights, np.array(where) - 0.5, np.array(where) + 0.5, color=EXCESS, lw=1.6)
        axes.plot(where, heights, sign, color=EXCESS, ms=4, ls="none")
    # Equal steps near 0 and powers of ten beyond, so that small areas can be read beside a large one.
    top = float(max(chart.before.max(), chart.after.max(), 1e-12))
    axes.set_yscale("symlog", linthresh=top / 100, linscale=0.6)
    axes.set_ylim(0, top * 1.35)
    axes.yaxis.set_major_formatter(lambda v, _: f"{v:,.4g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlim(-0.8, len(at) - 0.2)
    axes.set_ylabel(chart.unit, fontsize=7.6)
    axes.grid(axis="y", color=RULE, lw=0.5)
    axes.set_axisbelow(True)
    _name_areas(axes, chart.names)
    figures.legend(figure, ("area", BEFORE, "before (secret)"), ("line", AFTER, "after"), ("line", EXCESS, "goal"))
    return figure


def _lines(chart: LineChart) -> Figure:
    m = len(chart.names)
    at = np.arange(m)
    figure = figures.new_figure(WIDTH, 3.1)
    for j, (title, before, after) in enumerate(chart.panels):
        axes = figure.add_axes((0.075 + 0.495 * j, 0.17, 0.415, 0.67))
        axes.axhline(0, color=RULE, lw=0.8)
        axes.plot(at, before, color=MUTED, lw=1.3, ls=(0, (4, 2)))
        axes.plot(at, after, color=AFTER, lw=1.7)
        axes.set_title(title, fontweight="bold")
        axes.set_xlim(-0.4, m - 0.6)
        axes.grid(axis="y", color=RULE, lw=0.5)
        _name_areas(axes, chart.names, size=6.6)
    figures.legend(figure, ("dashes", MUTED, "before (secret)"), ("line", AFTER, "after"))
    return figure


def _flows(chart: FlowChart) -> Figure:
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    m, most = len(chart.counts), max(int(chart.counts.max(initial=0)), 2)
    named = m <= NAMED_AREAS
    side = min(5.2, max(3.2, 0.3 * m)) if named else 4.6
    height, left = side + 1.25, (WIDTH - side) / 2
    colours = LinearSegmentedColormap.from_list("flow", ("#cfe0f3", AFTER, "#0b2c52"))
    figure = figures.new_figure(WIDTH, height)
    axes = figure.add_axes((left / WIDTH, 0.2 / height, side / WIDTH, side / height))
    image = axes.imshow(np.ma.masked_equal(chart.counts, 0), colours, interpolation="none", norm=LogNorm(1, most))
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
    if named:
        _name_flows(axes, chart, most)
    axes.set_ylabel("from", fontsize=7.6)
    axes.spines[:].set_color(RULE)
    axes.spines[:].set_visible(True)
    bar = figure.add_axes(((left + side + 0.15) / WIDTH, 0.2 / height, 0.12 / WIDTH, side / height))
    figure.colorbar(image, cax=bar, format=lambda v, _: f"{v:,.0f}")
    bar.minorticks_off()
    bar.spines[:].set_visible(False)
    figure.text((left + side / 2) / WIDTH, 1 - 0.2 / height, "to", color=MUTED, fontsize=7.6, ha="center")
    return figure


def _name_flows(axes: Axes, chart: FlowChart, most: int) -> None:
    """Write the names of the areas beside the matrix, and the counts into its cells."""
    m, labels = len(chart.counts), [figures.shorten(n, 12) for n in chart.names]
    axes.set_xticks(range(m), labels, fontsize=7, rotation=55 if m > 8 else 0)
    axes.set_yticks(range(m), labels, fontsize=7)
    if m > 8:
        _lean(axes, "left")
    for a, b in zip(*np.nonzero(chart.counts), strict=True):
        colour = "#fefefe" if np.log(chart.counts[a, b]) > 0.3 * np.log(most) else "#10243d"
        axes.text(b, a, f"{chart.counts[a, b]}", ha="center", va="center", fontsize=6.2, color=colour)
    axes.set_xticks(np.arange(m + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(m + 1) - 0.5, minor=True)
    axes.grid(which="minor", color=RULE, lw=0.4)
    axes.tick_params(which="minor", length=0)


def _trade_off(chart: TradeOffChart) -> Figure:
    from matplotlib.lines import Line2D

    figure = figures.new_figure(WIDTH, 3.7)
    for j, panel in enumerate(chart.panels):
        axes = figure.add_axes((0.075 + 0.495 * j, 0.145, 0.415, 0.68))
        _trials(axes, panel)
        axes.set_xlabel(chart.gain, fontsize=7.6)
        if j == 0:
            axes.set_ylabel(chart.cost, fontsize=7.6)
    marks = [
        Line2D([], [], ls="none", marker="o", color=AFTER, ms=5, label=chart.good),
        Line2D([], [], ls="none", marker="X", color=EXCESS, ms=5.5, label=chart.bad),
        Line2D([], [], ls="none", marker="o", mfc="none", mec=INK, ms=9, label="as released"),
    ]
    figures.add_legend(figure, marks)
    return figure


def _trials(axes: Axes, panel: TradeOffPanel) -> None:
    axes.plot(*panel.own.T, color=RULE, lw=1.2, zorder=1)
    for good, marker, colour in ((True, "o", AFTER), (False, "X", EXCESS)):
        axes.plot(*panel.points[panel.good == good].T, marker, color=colour, ms=5)
    if panel.released is not None:
        axes.plot(*panel.released, "o", ms=11, mfc="none", mec=INK, mew=1.3, zorder=3)
    axes.set_title(panel.title, fontweight="bold")
    axes.set_xlim(-0.03, 1.05)
    axes.set_ylim(0, 1.12 * max(panel.points[:, 1].max(initial=0), 1))
    axes.yaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
    axes.grid(color=RULE, lw=0.5)
    axes.set_axisbelow(True)
