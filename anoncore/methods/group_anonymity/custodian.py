"""The custodian's report on a hidden group: the counts before, and what else could have been done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from anoncore.custodian import (
    BarChart,
    Cell,
    CustodianReport,
    FlowChart,
    LineChart,
    Mark,
    Section,
    Table,
    TradeOffChart,
    TradeOffPanel,
)
from anoncore.kernels.wavelet.inversion import Audit, observer_bounds
from anoncore.kernels.wavelet.layout import Graph
from anoncore.kernels.wavelet.redistribution import Details
from anoncore.kernels.wavelet.tradeoff import Trial, sweep
from anoncore.risk.group_masking import Hidden

WAVELETS = ("haar", "db2", "db3", "db4", "sym4", "coif1")
LEVELS = (1, 2, 3)
PARTS = (0.0, 0.25, 0.5, 0.75)  # of the largest share of details
SWEPT_AREAS = 128  # with more, only the step's own wavelet and level are tried again
DETAILS: tuple[Details, ...] = ("plain", "winsorised")
EXACT_FIGURES = {
    "group_moved": ("members of the group moved", "{:,.0f}"),
    "records_moved": ("records whose area changed", "{:,.0f}"),
    "units_moved": ("households, or records without one, that changed places", "{:,.0f}"),
    "exact_share": ("share of the size of the details kept", "{:.6f}"),
    "agreement": ("cosine between the details before and after", "{:.4f}"),
    "mean_shift": ("largest shift of another variable’s mean in an area, in standard deviations", "{:.4f}"),
}


@dataclass(frozen=True)
class _Tried:
    """A trial with one kind of details: what it keeps and moves, and whether the inversion finds nothing."""

    details: Details
    trial: Trial

    @property
    def possible(self) -> bool:
        return self.trial.redistribution is not None and self.trial.audit is not None

    @property
    def point(self) -> tuple[float, float]:
        """The share of details kept and the members moved."""
        assert self.trial.redistribution is not None
        return self.trial.redistribution.beta, self.trial.redistribution.moved

    @property
    def hides(self) -> bool:
        checked = self.trial.audit
        return checked is not None and checked.passed and not len(_remaining_outliers(checked))

    def row(self) -> tuple[Cell, ...]:
        first = (self.details, self.trial.model.wavelet, self.trial.model.level)
        chosen = self.trial.redistribution
        if chosen is None:
            return (*first, None, None, None, self.trial.problem)
        mark = Mark(True, "finds nothing") if self.hides else Mark(False, "gives away")
        return (*first, f"{chosen.beta:.3f}", f"{chosen.agreement:.2f}", int(chosen.moved), mark)


def group_report(hidden: Hidden, route: str, confidential: Mapping[str, np.ndarray]) -> CustodianReport:
    """Return the report on one step.

    Parameters
    ----------
    hidden : Hidden, of m areas; its share of details is 0 where it is not known
    route : how the new counts were found
    confidential : ``flows`` (m, m) int, and exact figures under the names of `EXACT_FIGURES`
    """
    counted = "members" if hidden.group.weight is None else f"members by {hidden.group.weight}"
    unit = "share of the population" if hidden.model.ratio else counted
    return CustodianReport(
        warning="This page shows what the release hides: the true counts per area.",
        title="Where a group was, and where it is now",
        introduction=(
            f"Areas: {hidden.group.parameter}, {hidden.model.layout.title}. Signal: {unit} per area. Wavelet "
            f"{hidden.model.wavelet}, {hidden.model.level} level(s), {hidden.details} details, route: {route}."
        ),
        sections=(
            _signal_section(hidden, unit),
            *_exact_sections(confidential),
            _parts_section(hidden),
            _flow_section(hidden, np.asarray(confidential["flows"])),
            _trial_section(hidden, "exact_share" in confidential),
        ),
    )


def _names(hidden: Hidden) -> tuple[str, ...]:
    return tuple(str(area) for area in hidden.group.order)


def _signal_section(hidden: Hidden, unit: str) -> Section:
    names, goals = _names(hidden), hidden.goals
    heads = np.where(hidden.population > 0, hidden.population, 1) if hidden.model.ratio else np.ones(len(names))
    chart = BarChart(
        description=f"{unit} in {len(names)} areas before and after; the scale is logarithmic.",
        unit=unit,
        names=names,
        before=hidden.model.signal(hidden.original.astype(float)),
        after=hidden.model.signal(hidden.target.astype(float)),
        at_most={i: most / heads[i] for i, most in goals.caps.items()},
        at_least={i: least / heads[i] for i, least in goals.raises.items()},
    )
    caption = (
        "Grey: the counts before, which are the secret; where a step before moved records too, they are those that it "
        "left. Blue: the counts of the release. Orange: what the plan asks for. The scale is logarithmic, so that "
        "small areas can be read beside a large one."
    )
    return Section("The signal before and after", chart=chart, caption=caption, tables=(_area_table(hidden),))


def _area_table(hidden: Hidden) -> Table:
    checked = hidden.audit(None)
    attacks = [checked, hidden.audit(hidden.share)] if hidden.share else [checked]
    exposed = {int(i) for a in attacks for i in a.positions[a.exposed]}
    at = {int(i): k for k, i in enumerate(checked.positions)}
    asked = [int(i) for i, kind in zip(checked.positions, checked.kinds, strict=True) if kind != "protected"]
    ends = np.transpose(observer_bounds(hidden.target.astype(float), hidden.model, asked))
    possible = {i: f"{least:.0f} to {most:.0f}" for i, (least, most) in zip(asked, ends, strict=True)}
    rows: list[tuple[Cell, ...]] = []
    for i, name in enumerate(_names(hidden)):
        counts = tuple(int(side[i]) for side in (hidden.population, hidden.original, hidden.target))
        audited: tuple[Cell, ...] = (None, None, None)
        if i in at:
            mark = Mark(False, "given away") if i in exposed else Mark(True, "not found")
            audited = (round(float(checked.recovered[at[i]])), possible.get(i), mark)
        rows.append((name, *counts, _goal(hidden, i), *audited))
    return Table(
        caption=(
            "Areas with their counts. “Restored” is what an attacker who inverts the wavelet route gets where "
            "something was to be hidden; “Possible” what an observer cannot rule out who does not guess the "
            "scale of the details."
        ),
        columns=("Area", "Population", "Before", "After", "Goal", "Restored", "Possible", "Inversion"),
        rows=tuple(rows),
        numeric=("Population", "Before", "After", "Restored"),
    )


def _goal(hidden: Hidden, at: int) -> str:
    goals = hidden.goals
    parts = [f"at most {goals.caps[at]:g}"] if at in goals.caps else []
    parts += [f"at least {goals.raises[at]:g}"] if at in goals.raises else []
    return ", ".join(parts) or ("not above the count before" if at in goals.protected else "")


def _exact_sections(confidential: Mapping[str, np.ndarray]) -> tuple[Section, ...]:
    rows = tuple(
        (text, form.format(float(np.abs(confidential[name]).max())))
        for name, (text, form) in EXACT_FIGURES.items()
        if name in confidential
    )
    if not rows:
        return ()
    text = (
        "The release shows these rounded, or not at all: with one area capped, its count after plus the members "
        "moved is nearly its count before."
    )
    table = Table("", ("Figure", "Value"), rows, numeric=("Value",))
    return (Section("Exact figures", text, tables=(table,)),)


def _parts_section(hidden: Hidden) -> Section:
    m = len(hidden.original)
    before, after = (
        hidden.model.decompose(hidden.model.signal(counts.astype(float))) for counts in (hidden.original, hidden.target)
    )
    chart = LineChart(
        description=f"Approximation and details of the signal, {hidden.model.wavelet}, before and after.",
        names=_names(hidden),
        panels=(
            ("Approximation", before.approximation[:m], after.approximation[:m]),
            (f"Details, {hidden.model.level} level(s)", before.detail[:m], after.detail[:m]),
        ),
    )
    if hidden.details == "plain":
        caption = (
            "The approximation is replaced; the details keep their shape and are scaled, so an attacker who sees "
            "those of the release knows the shape of the true ones."
        )
    else:
        caption = (
            f"The approximation is replaced; the details are those of the {hidden.details} signal, from which the "
            "peaks are missing, and not the true ones."
        )
    return Section("What the wavelet keeps", chart=chart, caption=caption)


def _flow_section(hidden: Hidden, flows: np.ndarray) -> Section:
    names, m = _names(hidden), len(flows)
    chart = FlowChart(f"Members that moved between {m} areas: rows send, columns receive.", names, flows)
    used = sorted(zip(*np.nonzero(flows), strict=True), key=lambda pair: -flows[pair])
    rows = tuple((names[a], names[b], int(flows[a, b])) for a, b in used)
    caption = (
        "Members of the group sent from the area of the row to the area of the column. As many people outside the "
        "group came back."
    )
    table = Table(f"{len(rows):,} pairs of areas exchanged records.", ("From", "To", "Members"), rows, ("Members",))
    return Section("Who went where", chart=chart, caption=caption, tables=(table,) if rows else ())


def _trial_section(hidden: Hidden, share_known: bool) -> Section:
    tried = _tried(hidden)
    text = (
        "The same goals with other wavelets and levels, each with the largest share of details that the goals allow; "
        "and, joined by a line, this step’s own wavelet and level with a quarter, a half and three quarters of that "
        "share, and with none."
    )
    if len(hidden.original) > SWEPT_AREAS:
        text += " With so many areas only the step’s own wavelet and level are tried."
    moved = int(np.abs(hidden.target - hidden.original).sum() // 2)
    chart = TradeOffChart(
        description="Share of the details kept against members moved, by wavelet and level.",
        gain="share of the details kept",
        cost="members moved",
        good="inversion finds nothing",
        bad="gives a hidden count away",
        panels=tuple(
            _panel(hidden, details, tried, (hidden.share, moved) if share_known else None) for details in DETAILS
        ),
    )
    caption = (
        "Further right keeps more of the details, further down moves fewer members. Orange crosses: the inversion "
        "gives a hidden count away."
    )
    table = Table(
        caption=(
            f"A trial gives away when the inversion restores a hidden count within {hidden.tolerance:.0%}, shows its "
            "area as the extreme one, or leaves it an outlier."
        ),
        columns=("Details", "Wavelet", "Levels", "Share kept", "Agreement", "Moved", "Inversion"),
        rows=tuple(one.row() for one in tried),
        numeric=("Levels", "Share kept", "Agreement", "Moved"),
    )
    return Section("What else could be done", text, chart, caption, (table,))


def _panel(
    hidden: Hidden, details: Details, tried: Sequence[_Tried], released: tuple[float, float] | None
) -> TradeOffPanel:
    shown = [one for one in tried if one.details == details and one.possible]
    own = sorted(one.point for one in shown if one.trial.model is hidden.model)
    return TradeOffPanel(
        title=f"Details of the {details} signal",
        points=np.array([one.point for one in shown]).reshape(-1, 2),
        good=np.array([one.hides for one in shown], dtype=bool),
        own=np.array(own).reshape(-1, 2),
        released=released if details == hidden.details else None,
    )


def _tried(hidden: Hidden) -> list[_Tried]:
    """Return what other wavelets, levels and shares would have kept, moved and given away."""
    own, small = hidden.model, len(hidden.original) <= SWEPT_AREAS
    wavelets = dict.fromkeys((own.wavelet, *(WAVELETS if small and not isinstance(own.layout, Graph) else ())))
    levels = sorted({own.level, *(LEVELS if small else ())})
    models = [
        own if (name, level) == (own.wavelet, own.level) else replace(own, wavelet=name, level=level)
        for name in wavelets
        for level in levels
    ]
    tried = []
    for details in DETAILS:
        swept = partial(sweep, hidden.original, hidden.goals, details=details, tolerance=hidden.tolerance)
        trials = swept(models)
        largest = next(trial for trial in trials if trial.model is own).redistribution
        if largest is not None:
            trials += swept([own], shares=[part * largest.beta for part in PARTS])
        tried += [_Tried(details, trial) for trial in trials]
    return tried


def _remaining_outliers(checked: Audit) -> np.ndarray:
    """Return the audited positions, except merely protected ones, that were outliers and are still."""
    hidden = [i for i, kind in zip(checked.positions, checked.kinds, strict=True) if kind != "protected"]
    return np.intersect1d(hidden, checked.shared_outliers)
