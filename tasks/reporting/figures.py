"""How the pictures of a report are drawn: colours, sizes, legend, and self-contained SVG for light and dark pages.

matplotlib is imported on the first picture, and only its object-oriented side.
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

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
STYLE = {
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

    make: dict[str, Callable[[str, str], Artist]] = {
        "line": lambda c, t: Line2D([], [], color=c, lw=1.7, label=t),
        "dashes": lambda c, t: Line2D([], [], color=c, lw=1.3, ls=(0, (4, 2)), label=t),
        "area": lambda c, t: Patch(facecolor=c, alpha=0.35 if c == EXCESS else 1.0, lw=0, label=t),
    }
    add_legend(figure, [make[form](colour, text) for form, colour, text in entries])


def add_legend(figure: Figure, handles: Sequence[Artist], *, left: float | None = None, columns: int = 0) -> None:
    """Write a legend into the top margin: at the right, or from ``left`` on, in so many columns."""
    figure.legend(
        handles=handles,
        loc="upper right" if left is None else "upper left",
        bbox_to_anchor=(0.99 if left is None else left, 1.0),
        ncols=columns or len(handles) or 1,
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
    # The elements have the colours of the light theme, for viewers without media queries.
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
