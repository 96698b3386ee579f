"""The report's pictures: small, self-contained SVG, legible in light and dark, sharp when printed.

They are published. None carries a value of a single person: curves are drawn through means of
groups of records, bars of the original stand for at least k records, correlations are quantised.
matplotlib is imported on the first picture, and only its object-oriented side.
"""

from __future__ import annotations

import io
import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd

from anoncore.microdata import Microdata, Variable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVE_POINTS = 400
CURVE_GROUP = 5
PANELS = 24
PANELS_PER_ROW = 4
BINS = 14
TAIL = 0.02
PANEL_LETTERS = 30  # that stand side by side beneath a panel
NAMED_LEVELS = 6
LABELLED_COLUMNS = 30
CORRELATION_STEP = 0.05
BLOCK = 65_536

PAPER, INK, MUTED, RULE = "#ffffff", "#1c2128", "#5b6470", "#d3d8df"
BEFORE, AFTER, EXCESS = "#c4cad3", "#1b5fad", "#e07b1a"
DARK = {
    PAPER: "#181b20",
    INK: "#e8eaed",
    MUTED: "#a9b1bc",
    RULE: "#3a414b",
    BEFORE: "#4b5462",
    AFTER: "#7cb7f7",
    EXCESS: "#f2a14a",
}
STYLE: dict[str, Any] = {
    "text.parse_math": False,
    "text.color": INK,
    "font.size": 9.0,
    "axes.edgecolor": RULE,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "axes.titlepad": 6.0,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",
    "svg.hashsalt": "anonflow",
}

MEASURES = (
    ("distance", "Prediction distance", "standard deviations"),
    ("ambiguity", "Ambiguity", "ratio of distances"),
    ("uncertainty", "Uncertainty", "variance"),
)


@dataclass(frozen=True, eq=False)
class Marginal:
    """One variable before and after, in bars that each stand for at least k original records.

    ``edges`` (bars + 1,) are set for numbers, ``labels`` for levels; ``before`` and ``after`` are
    shares of the records that have a value; ``missing`` the shares that have none, where at least
    k original records have none.
    """

    name: str
    before: np.ndarray
    after: np.ndarray
    edges: np.ndarray | None = None
    labels: tuple[str, ...] = ()
    ordered: bool = False
    missing: tuple[float, float] | None = None

    @property
    def shift(self) -> float:
        """The share of records that would have to move for the two distributions to agree."""
        return float(np.abs(self.before - self.after).sum() / 2)


def cumulative_curves(curves: dict[str, np.ndarray]) -> bytes:
    """Draw the cumulative distribution of each risk measure, released against reference.

    Parameters
    ----------
    curves : dict of (n,) float64
        ``released_distance``, ``reference_distance``, and likewise ambiguity and uncertainty;
        each sorted. A measure that has not both sides is left out.

    Returns
    -------
    bytes
        SVG. At most 400 points per curve, each the mean of at least 5 neighbouring values.

    Notes
    -----
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
    ours, share = _grouped(released)
    theirs, their_share = _grouped(reference)
    level = np.interp(share, their_share, theirs)
    axes.fill_betweenx(share, ours, level, where=(ours < level).tolist(), color=EXCESS, alpha=0.35, lw=0)
    axes.plot(theirs, their_share, color=MUTED, lw=1.3, ls=(0, (4, 2)))
    axes.plot(ours, share, color=AFTER, lw=1.7)
    right = float(max(np.interp(0.99, share, ours), np.interp(0.99, their_share, theirs)))
    axes.set_xlim(0, right * 1.04 if right > 0 else 1.0)
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100 %"] if first else [""] * 5)
    axes.grid(axis="y", color=RULE, lw=0.5)
    axes.locator_params(axis="x", nbins=5)
    if first:
        axes.set_ylabel("share of people at or below", fontsize=7.6)


def _grouped(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the means (m,) of equal groups of the sorted values, and the share at each group's middle."""
    groups = max(1, min(CURVE_POINTS, len(values) // CURVE_GROUP))
    cuts = np.linspace(0, len(values), groups + 1).astype(int)
    means = np.add.reduceat(values, cuts[:-1]) / np.diff(cuts)
    return means, (cuts[:-1] + cuts[1:]) / (2 * len(values))


def marginals(original: Microdata, released: Microdata, *, k: int) -> bytes:
    """Draw up to 24 variables before and after, the least preserved first.

    Parameters
    ----------
    original, released : Microdata
        Variables that are on one side only, such as probabilities, are left out.
    k : int
        The least number of original records that a bar stands for.

    Returns
    -------
    bytes
        SVG; its description says how many variables are shown.

    Notes
    -----
    Confidentiality, since the picture is published: no bar of the original stands for fewer than
    k records. Numbers are counted in bins whose edges are round numbers, never data; the outer
    bins begin at the k-th smallest and largest original value (or at 2 % where that is further
    in), rounded outward, and take in everything beyond, so no extreme shows; a bin with fewer
    than k records is merged with its neighbour. Levels with fewer than k original records are
    pooled, together with the next rarest where the pool is still below k; neighbours are pooled
    when the levels are ordered. Missing values are told from k on. A variable that leaves a single
    bar is not drawn.
    """
    both = [v for v in released.schema if v.is_masked and v.name in original.schema]
    found = [_marginal(v, original, released, k) for v in both]
    ranked = sorted((m for m in found if m is not None), key=lambda m: -m.shift)
    shown = ranked[:PANELS]
    rows = max(1, math.ceil(len(shown) / PANELS_PER_ROW))
    height = 0.36 + 1.16 * rows
    with style():
        figure = new_figure(9.6, height)
        for i, marginal in enumerate(shown):
            row, column = divmod(i, PANELS_PER_ROW)
            bottom = 1 - (0.36 + 1.16 * row + 0.88) / height
            axes = figure.add_axes((0.015 + 0.249 * column, bottom, 0.222, 0.64 / height))
            _marginal_panel(axes, marginal)
        legend(figure, ("area", BEFORE, "before masking"), ("line", AFTER, "after masking"))
        text = f"{len(shown)} of {len(both)} variables before and after masking, the least preserved first."
        return svg(figure, text)


def _marginal(variable: Variable, original: Microdata, released: Microdata, k: int) -> Marginal | None:
    """Count one variable; None when nothing can be told without showing fewer than k records."""
    kind = original.schema[variable.name]
    if kind.is_categorical != variable.is_categorical:
        return None
    before, after = original.frame[variable.name], released.frame[variable.name]
    told = int(before.notna().sum())
    if told < 2 * k or not after.notna().any():
        return None
    count = _levels if variable.is_categorical else _numbers
    bars = count(kind, before.dropna(), after.dropna(), k)
    if bars is None:
        return None
    missing = None
    if len(before) - told >= k:
        missing = (float(before.isna().mean()), float(after.isna().mean()))
    return Marginal(variable.name, missing=missing, **bars)


def _numbers(kind: Variable, before: pd.Series, after: pd.Series, k: int) -> dict[str, Any] | None:
    x, y = before.to_numpy(dtype="float64"), after.to_numpy(dtype="float64")
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
    return {
        "before": np.add.reduceat(counts, starts) / len(x),
        "after": np.add.reduceat(others, starts) / len(y),
        "edges": (first + np.append(starts, bins)) * step,
    }


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


def _levels(kind: Variable, before: pd.Series, after: pd.Series, k: int) -> dict[str, Any] | None:
    counts = {str(level): int(n) for level, n in before.value_counts(sort=False).items()}
    others = {str(level): int(n) for level, n in after.value_counts(sort=False).items()}
    names = list(dict.fromkeys([*counts, *others]))
    ordered = kind.kind == "ordinal" and set(others) <= set(counts)
    groups = _neighbour_groups(names, counts, k) if ordered else _pooled_groups(names, counts, k)
    if len(groups) < 2:
        return None
    frequent = {name for name, count in counts.items() if count >= k}
    return {
        "before": np.array([sum(counts.get(n, 0) for n in g) for g in groups]) / len(before),
        "after": np.array([sum(others.get(n, 0) for n in g) for g in groups]) / len(after),
        "labels": tuple(_group_label(g, frequent, ordered=ordered) for g in groups),
        "ordered": ordered,
    }


def _neighbour_groups(names: list[str], counts: dict[str, int], k: int) -> list[list[str]]:
    starts = _merge_small(np.array([counts.get(n, 0) for n in names]), k)
    return [list(part) for part in np.split(np.array(names, dtype=object), starts[1:])]


def _pooled_groups(names: list[str], counts: dict[str, int], k: int) -> list[list[str]]:
    """Return the frequent levels in their order, each alone, and then the pool of all others."""
    by_size = sorted(names, key=lambda n: -counts.get(n, 0))
    kept = [n for n in by_size if counts.get(n, 0) >= k]
    if len(kept) > NAMED_LEVELS:
        kept = kept[: NAMED_LEVELS - 1]
    while kept and len(kept) < len(names) and sum(counts.get(n, 0) for n in names if n not in kept) < k:
        kept.pop()
    pool = [n for n in names if n not in kept]
    return [[n] for n in names if n in kept] + ([pool] if pool else [])


def _group_label(group: list[str], frequent: set[str], *, ordered: bool) -> str:
    """Name a bar by the levels that enough people hold; the others may be nobody's in the release."""
    named = [name for name in group if name in frequent]
    if not ordered and len(group) > 1:
        return f"{len(group)} others"
    if not named:
        return f"{len(group)} rare"
    ends = shorten(named[0], 9) if len(named) == 1 else f"{shorten(named[0], 5)}–{shorten(named[-1], 5)}"
    return ends if len(named) == len(group) else f"{ends}, rare"


def _marginal_panel(axes: Axes, marginal: Marginal) -> None:
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    title = shorten(marginal.name, 27 if marginal.missing is None else 16)
    axes.set_title(title, fontweight="bold", fontsize=8.6, pad=4)
    if marginal.missing is not None:
        gaps = "gaps {:.0%} → {:.0%}".format(*marginal.missing)
        axes.set_title(gaps, loc="right", fontsize=7.2, color=MUTED, pad=4)
    if marginal.edges is not None:
        edges = marginal.edges
        width = np.diff(edges)
        before, after = marginal.before / width, marginal.after / width
        axes.stairs(before, edges, fill=True, color=BEFORE, lw=0)
        axes.stairs(after, edges, color=AFTER, lw=1.3)
        axes.set_xlim(edges[0], edges[-1])
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
        told = [marginal.labels[i] for i in labelled]
        names = [t if t.endswith((" rare", " others")) else shorten(t, room) for t in told]
        axes.set_xticks(labelled, names, fontsize=7.2 if few else 8.0)
        axes.set_xlim(-0.6, len(at) - 0.4)
    axes.set_ylim(0, 1.06 * float(max(before.max(), after.max())))


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
        SVG; colours in steps of 0.05, the same for all three.
    """
    from matplotlib.colors import LinearSegmentedColormap

    hidden = _rare_columns(original, k)
    before, after = _correlation(original, hidden), _correlation(released, hidden)
    labelled = len(names) <= LABELLED_COLUMNS
    steps = round(2 / CORRELATION_STEP) + 1
    colours = LinearSegmentedColormap.from_list(
        "diverging", ("#86380c", "#e0842f", "#f7f7f5", "#3f86d0", "#0d3566"), N=steps
    )
    end = 1 + CORRELATION_STEP / 2
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

    An encoded level with gaps has a third value between its two, the filling of the gaps.
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


@contextmanager
def style() -> Iterator[None]:
    """Draw in our style, whatever the machine's own matplotlib settings."""
    from matplotlib import style

    with style.context(["default", STYLE]):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches, without a window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def legend(figure: Figure, *entries: tuple[str, str, str]) -> None:
    """Write a one-line legend into the top margin."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    make: dict[str, Callable[[str, str], Any]] = {
        "line": lambda c, t: Line2D([], [], color=c, lw=1.7, label=t),
        "dashes": lambda c, t: Line2D([], [], color=c, lw=1.3, ls=(0, (4, 2)), label=t),
        "area": lambda c, t: Patch(facecolor=c, alpha=0.35 if c == EXCESS else 1.0, lw=0, label=t),
    }
    figure.legend(
        handles=[make[form](colour, text) for form, colour, text in entries],
        loc="upper right",
        bbox_to_anchor=(0.99, 1.0),
        ncols=len(entries),
        frameon=False,
        fontsize=8.2,
        labelcolor=MUTED,
        borderaxespad=0.3,
        handlelength=1.8,
        columnspacing=1.8,
    )


def svg(figure: Figure, description: str) -> bytes:
    """Return the figure as SVG with its description and its dark colours."""
    buffer = io.BytesIO()
    # Without metadata the bytes depend on the picture alone, not on date or version.
    plain = {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(buffer, format="svg", metadata=plain)
    text = buffer.getvalue().decode()
    # The colours of the light theme stand in the elements, for viewers that know no media queries.
    dark = "".join(
        f'[style*="{part}: {light}"]{{{part}:{night} !important}}'
        for light, night in DARK.items()
        for part in ("fill", "stroke")
    )
    style = (
        "<style>text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif !important}"
        f"@media (prefers-color-scheme:dark){{{dark}}}</style>"
    )
    start = text.index("<svg ")
    inside = text.index(">", start) + 1
    return f"{text[start:inside]}<desc>{escape(description)}</desc>{style}{text[inside:]}".encode()


def shorten(name: object, length: int) -> str:
    """Return a name that XML can carry and a panel can hold."""
    text = "".join(c if unicodedata.category(c)[0] != "C" else "\ufffd" for c in str(name))
    return text if len(text) <= length else text[: length - 1] + "…"


def plain_number(value: float) -> str:
    """Return a number as an axis shows it."""
    if value != 0 and (abs(value) >= 1e6 or abs(value) < 1e-3):
        return f"{value:.3g}"
    return f"{value:,.10g}" if abs(value) >= 1e4 else f"{round(value, 6):g}"
