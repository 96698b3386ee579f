"""What only the custodian may see of a hidden group: the counts before, and what else could have been done.

The counts before are the secret. Nothing of this page is published, logged or tracked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anoncore.kernels.wavelet import decompose, pad_signal
from anoncore.kernels.wavelet.inversion import Audit, audit
from anoncore.kernels.wavelet.redistribution import Details, detail_source
from anoncore.kernels.wavelet.tradeoff import Trial, sweep
from anoncore.methods import GroupAnonymity
from tasks.reporting import charts as pictures
from tasks.reporting import report
from tasks.reporting.charts import AFTER, BEFORE, EXCESS, INK, MUTED, RULE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WAVELETS = ("haar", "db2", "db3", "db4", "sym4", "coif1")
LEVELS = (1, 2, 3)
PARTS = (0.0, 0.25, 0.5, 0.75)  # of the largest share of details
NAMED_AREAS = 32
SWEPT_AREAS = 128  # with more, only the step's own wavelet and level are tried again
WIDTH = 9.6
DETAILS: tuple[Details, ...] = ("plain", "winsorised")


@dataclass(frozen=True, eq=False)
class _Case:
    """One step with its confidential arrays, in the units of its signal."""

    step: GroupAnonymity
    before: np.ndarray
    after: np.ndarray
    population: np.ndarray
    flows: np.ndarray

    @property
    def names(self) -> list[str]:
        return [str(a) for a in self.step.order]

    @property
    def ratio(self) -> bool:
        return self.step.signal == "ratio"

    @property
    def unit(self) -> str:
        return "share of the population" if self.ratio else "members"

    def signal(self, counts: np.ndarray) -> np.ndarray:
        """Return the quantity or ratio signal."""
        return detail_source(counts.astype(float), [], "plain", self.population if self.ratio else None)

    def audited(self, share: float | None = None) -> Audit:
        """Return the inversion of the counts after."""
        return audit(
            self.before,
            self.after,
            self.step.goals(),
            wavelet=self.step.wavelet,
            level=self.step.level,
            tolerance=self.step.tolerance,
            population=self.population,
            ratio=self.ratio,
            share=share,
            pad=self.step.pad,
        )


def custodian_page(confidential: dict[str, np.ndarray], step: GroupAnonymity) -> str:
    """Return the custodian's page about one step as one self-contained HTML file.

    Parameters
    ----------
    confidential : dict
        ``before``, ``after``, ``population`` (m,) int and ``flows`` (m, m) int; the release's other
        confidential figures are told where they are there.
    step : GroupAnonymity

    Returns
    -------
    str
        HTML without script and without anything to load from elsewhere. Confidential as a whole.
    """
    case = _Case(step, *(np.asarray(confidential[k]) for k in ("before", "after", "population", "flows")))
    trials = _trials(case)
    drawn = {
        "signal": _draw_signal(case),
        "parts": _draw_parts(case),
        "flows": _draw_flows(case),
        "sweep": _draw_sweep(case, trials, confidential),
    }
    html = (
        report.environment()
        .get_template("custodian.html.j2")
        .render(
            step=step,
            pictures={name: report.picture(content) for name, content in drawn.items()},
            areas=_area_rows(case, float(confidential.get("exact_share", 0.0))),
            flows=_flow_rows(case),
            trials=[_trial_row(details, t) for details, t in trials],
            exact=_exact(confidential),
            unit=case.unit,
            plain_only=len(case.before) > SWEPT_AREAS,
        )
    )
    return html.encode("utf-8", "replace").decode()


def _trials(case: _Case) -> list[tuple[str, Trial]]:
    """Return what other wavelets, levels and shares would have kept, moved and given away."""
    step, small = case.step, len(case.before) <= SWEPT_AREAS
    wavelets = tuple(dict.fromkeys((step.wavelet, *(WAVELETS if small else ()))))
    levels = tuple(sorted({step.level, *(LEVELS if small else ())}))
    found = []
    for details in DETAILS:

        def tried(
            names: tuple[str, ...], depths: tuple[int, ...], shares: tuple[float | None, ...], how: Details
        ) -> list[Trial]:
            return sweep(
                case.before,
                step.goals(),
                names,
                depths,
                shares=shares,
                details=how,
                population=case.population,
                ratio=case.ratio,
                pad=step.pad,
                names=case.names,
                tolerance=step.tolerance,
            )

        trials = tried(wavelets, levels, (None,), details)
        own = next(t for t in trials if (t.wavelet, t.level) == (step.wavelet, step.level)).redistribution
        if own is not None:
            smaller = tuple(part * own.beta for part in PARTS)
            trials += tried((step.wavelet,), (step.level,), smaller, details)
        found += [(str(details), trial) for trial in trials]
    return found


def _trial_row(details: str, trial: Trial) -> dict[str, Any]:
    found, checked = trial.redistribution, trial.audit
    row: dict[str, Any] = {"wavelet": trial.wavelet, "level": trial.level, "details": details}
    if found is None or checked is None:
        return row | {"problem": trial.problem}
    return row | {
        "problem": "",
        "share": found.beta,
        "agreement": found.agreement,
        "moved": found.moved,
        "passed": checked.passed and not len(_standing(checked)),
    }


def _standing(checked: Audit) -> np.ndarray:
    """Return the audited positions, but for merely protected ones, that were outliers and are still."""
    hidden = [i for i, kind in zip(checked.positions, checked.kinds, strict=True) if kind != "protected"]
    return np.intersect1d(hidden, checked.shared_outliers)


def _area_rows(case: _Case, share: float | None) -> list[dict[str, Any]]:
    step, checked = case.step, case.audited()
    attacks = [checked, case.audited(share)] if share else [checked]
    exposed = {int(i) for a in attacks for i in a.positions[a.exposed]}
    at = {int(i): k for k, i in enumerate(checked.positions)}
    goals = {a: f"at most {v:g}" for a, v in step.caps.items()}
    goals |= {str(a): "not above the count before" for a in step.protected}
    for a, v in step.raises.items():
        goals[a] = f"{goals[a]}, at least {v:g}" if a in step.caps else f"at least {v:g}"
    return [
        {
            "name": name,
            "population": int(case.population[i]),
            "before": int(case.before[i]),
            "after": int(case.after[i]),
            "goal": goals.get(name, ""),
            "restored": float(checked.recovered[at[i]]) if i in at else None,
            "exposed": i in exposed if i in at else None,
        }
        for i, name in enumerate(case.names)
    ]


def _flow_rows(case: _Case) -> list[tuple[str, str, int]]:
    used = zip(*np.nonzero(case.flows), strict=True)
    return sorted(((case.names[a], case.names[b], int(case.flows[a, b])) for a, b in used), key=lambda f: -f[2])


def _exact(confidential: dict[str, np.ndarray]) -> list[tuple[str, str]]:
    words = {
        "group_moved": ("members of the group moved", "{:,.0f}"),
        "records_moved": ("records whose area changed", "{:,.0f}"),
        "units_moved": ("households, or records without one, that changed places", "{:,.0f}"),
        "exact_share": ("share of the size of the details kept", "{:.6f}"),
        "agreement": ("cosine between the details before and after", "{:.4f}"),
        "mean_shift": (
            "largest shift of another variable’s mean in an area, in standard deviations",
            "{:.4f}",
        ),
    }
    return [
        (told, form.format(float(np.abs(confidential[name]).max())))
        for name, (told, form) in words.items()
        if name in confidential
    ]


def _name_areas(axes: Axes, names: list[str], *, size: float = 7.4) -> None:
    m = len(names)
    shown = np.arange(m) if m <= NAMED_AREAS else np.unique(np.linspace(0, m - 1, 9).astype(int))
    axes.set_xticks(shown, [pictures.shorten(names[i], 12) for i in shown], fontsize=size, rotation=55 if m > 8 else 0)
    if m > 8:
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")


def _draw_signal(case: _Case) -> bytes:
    """Draw the counts (or shares) per area before and after, with goals."""
    before, after = case.signal(case.before), case.signal(case.after)
    at = np.arange(len(before))
    heads = np.where(case.population > 0, case.population, 1) if case.ratio else np.ones(len(before))
    with pictures.style():
        figure = pictures.new_figure(WIDTH, 3.3)
        axes = figure.add_axes((0.085, 0.16, 0.9, 0.73))
        axes.bar(at, before, 0.86, color=BEFORE)
        axes.bar(at, after, 0.5, color=AFTER)
        goals = case.step.goals()
        for bounds, sign in ((goals.caps, "v"), (goals.raises, "^")):
            where = list(bounds)
            heights = [bounds[i] / heads[i] for i in where]
            axes.hlines(heights, np.array(where) - 0.5, np.array(where) + 0.5, color=EXCESS, lw=1.6)
            axes.plot(where, heights, sign, color=EXCESS, ms=4, ls="none")
        # Equal steps near 0 and powers of ten beyond, so that small areas can be read beside a large one.
        top = float(max(before.max(), after.max(), 1e-12))
        axes.set_yscale("symlog", linthresh=top / 100, linscale=0.6)
        axes.set_ylim(0, top * 1.35)
        axes.yaxis.set_major_formatter(lambda v, _: f"{v:,.4g}")
        axes.yaxis.set_minor_locator(_no_ticks())
        axes.set_xlim(-0.8, len(at) - 0.2)
        axes.set_ylabel(case.unit, fontsize=7.6)
        axes.grid(axis="y", color=RULE, lw=0.5)
        axes.set_axisbelow(True)
        _name_areas(axes, case.names)
        pictures.legend(figure, ("area", BEFORE, "before (secret)"), ("line", AFTER, "after"), ("line", EXCESS, "goal"))
        return pictures.svg(figure, f"{case.unit} in {len(at)} areas before and after; the scale is logarithmic.")


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _draw_parts(case: _Case) -> bytes:
    """Draw approximation and details of the signal before and after."""
    step, m = case.step, len(case.before)
    parts = [
        decompose(pad_signal(case.signal(counts), step.level, step.pad), step.wavelet, step.level)
        for counts in (case.before, case.after)
    ]
    at = np.arange(m)
    with pictures.style():
        figure = pictures.new_figure(WIDTH, 3.1)
        for j, (title, values) in enumerate(
            (
                ("Approximation", [p.approximation[:m] for p in parts]),
                (f"Details, {step.level} level(s)", [p.detail[:m] for p in parts]),
            )
        ):
            axes = figure.add_axes((0.075 + 0.495 * j, 0.17, 0.415, 0.67))
            axes.axhline(0, color=RULE, lw=0.8)
            axes.plot(at, values[0], color=MUTED, lw=1.3, ls=(0, (4, 2)))
            axes.plot(at, values[1], color=AFTER, lw=1.7)
            axes.set_title(title, fontweight="bold")
            axes.set_xlim(-0.4, m - 0.6)
            axes.grid(axis="y", color=RULE, lw=0.5)
            _name_areas(axes, case.names, size=6.6)
        pictures.legend(figure, ("dashes", MUTED, "before (secret)"), ("line", AFTER, "after"))
        return pictures.svg(figure, f"Approximation and details of the signal, {step.wavelet}, before and after.")


def _draw_flows(case: _Case) -> bytes:
    """Draw how many members went from which area to which."""
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    m, most = len(case.flows), max(int(case.flows.max(initial=0)), 2)
    named = m <= NAMED_AREAS
    side = min(5.2, max(3.2, 0.3 * m)) if named else 4.6
    height = side + 1.25
    left = (WIDTH - side) / 2
    colours = LinearSegmentedColormap.from_list("flow", ("#cfe0f3", AFTER, "#0b2c52"))
    with pictures.style():
        figure = pictures.new_figure(WIDTH, height)
        axes = figure.add_axes((left / WIDTH, 0.2 / height, side / WIDTH, side / height))
        shown = np.ma.masked_equal(case.flows, 0)
        image = axes.imshow(shown, colours, interpolation="none", norm=LogNorm(1, most))
        axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
        if named:
            labels = [pictures.shorten(n, 12) for n in case.names]
            axes.set_xticks(range(m), labels, fontsize=7, rotation=55 if m > 8 else 0)
            axes.set_yticks(range(m), labels, fontsize=7)
            for label in axes.get_xticklabels() if m > 8 else ():
                label.set_horizontalalignment("left")
                label.set_rotation_mode("anchor")
            for a, b in zip(*np.nonzero(case.flows), strict=True):
                dark = np.log(case.flows[a, b]) > 0.3 * np.log(most)
                axes.text(b, a, f"{case.flows[a, b]}", ha="center", va="center", fontsize=6.2,
                          color="#fefefe" if dark else "#10243d")  # fmt: skip
            axes.set_xticks(np.arange(m + 1) - 0.5, minor=True)
            axes.set_yticks(np.arange(m + 1) - 0.5, minor=True)
            axes.grid(which="minor", color=RULE, lw=0.4)
            axes.tick_params(which="minor", length=0)
        axes.set_ylabel("from", fontsize=7.6)
        axes.spines[:].set_color(RULE)
        axes.spines[:].set_visible(True)
        bar = figure.add_axes(((left + side + 0.15) / WIDTH, 0.2 / height, 0.12 / WIDTH, side / height))
        figure.colorbar(image, cax=bar, format=lambda v, _: f"{v:,.0f}")
        bar.minorticks_off()
        bar.spines[:].set_visible(False)
        figure.text((left + side / 2) / WIDTH, 1 - 0.2 / height, "to", color=MUTED, fontsize=7.6, ha="center")
        return pictures.svg(figure, f"Members that moved between {m} areas: rows send, columns receive.")


def _draw_sweep(case: _Case, trials: list[tuple[str, Trial]], confidential: dict[str, np.ndarray]) -> bytes:
    """Draw the share of details kept against the members moved, and what the inversion says."""
    with pictures.style():
        figure = pictures.new_figure(WIDTH, 3.7)
        for j, details in enumerate(("plain", "winsorised")):
            axes = figure.add_axes((0.075 + 0.495 * j, 0.145, 0.415, 0.68))
            rows = [r for d, t in trials if d == details and not (r := _trial_row(d, t))["problem"]]
            _sweep_panel(axes, rows, case, chosen=details == case.step.details, told=confidential)
            axes.set_title(f"Details of the {details} signal", fontweight="bold")
            axes.set_xlabel("share of the details kept", fontsize=7.6)
            if j == 0:
                axes.set_ylabel("members moved", fontsize=7.6)
        _sweep_legend(figure)
        return pictures.svg(figure, "Share of the details kept against members moved, by wavelet and level.")


def _sweep_legend(figure: Any) -> None:
    from matplotlib.lines import Line2D

    marks: list[dict[str, Any]] = [
        {"marker": "o", "color": AFTER, "ms": 5, "label": "inversion finds nothing"},
        {"marker": "X", "color": EXCESS, "ms": 5.5, "label": "gives a hidden count away"},
        {"marker": "o", "mfc": "none", "mec": INK, "ms": 9, "label": "as released"},
    ]
    figure.legend(
        handles=[Line2D([], [], ls="none", **mark) for mark in marks],
        loc="upper right",
        bbox_to_anchor=(0.99, 1.0),
        ncols=len(marks),
        frameon=False,
        fontsize=8.2,
        labelcolor=MUTED,
        borderaxespad=0.3,
    )


def _sweep_panel(
    axes: Axes, rows: list[dict[str, Any]], case: _Case, *, chosen: bool, told: dict[str, np.ndarray]
) -> None:
    own = [r for r in rows if (r["wavelet"], r["level"]) == (case.step.wavelet, case.step.level)]
    own.sort(key=lambda r: float(r["share"]))
    axes.plot([r["share"] for r in own], [r["moved"] for r in own], color=RULE, lw=1.2, zorder=1)
    for passed, marker, colour in ((True, "o", AFTER), (False, "X", EXCESS)):
        picked = [r for r in rows if r["passed"] == passed]
        axes.plot([r["share"] for r in picked], [r["moved"] for r in picked], marker, color=colour, ms=5)
    if chosen and "exact_share" in told:
        moved = int(np.abs(case.after - case.before).sum() // 2)
        axes.plot([float(told["exact_share"])], [moved], "o", ms=11, mfc="none", mec=INK, mew=1.3, zorder=3)
    axes.set_xlim(-0.03, 1.05)
    axes.set_ylim(0, 1.12 * max([r["moved"] for r in rows] + [1]))
    axes.yaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
    axes.grid(color=RULE, lw=0.5)
    axes.set_axisbelow(True)
