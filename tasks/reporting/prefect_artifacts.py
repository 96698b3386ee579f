"""Short forms of the report in Markdown, for whoever watches a run; aggregates only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tasks.common.formatting import count, markdown_cell, markdown_table, number, percent, significant
from tasks.record.dossier import Dossier
from tasks.reporting.attack_table import findings
from tasks.reporting.report import DECISIONS, STATISTICS


def verdict_markdown(dossier: Dossier) -> str:
    """Return the decision and its gates as Markdown; aggregates only."""
    verdict, release = dossier.verdict, dossier.release
    rows = ((g.name, g.figure, g.limit, g.baseline, count(g.records), g.verdict) for g in verdict.gates)
    head = f"**{DECISIONS[verdict.decision][0]}**: {markdown_cell(verdict.reason)}"
    facts = f"{markdown_cell(release.id)}, {count(release.records)} records"
    return "\n\n".join(
        (head, facts, markdown_table(("Gate", "Found", "Allowed", "Baseline", "Records", "Verdict"), rows))
    )


def risk_markdown(dossier: Dossier) -> str:
    """Return the risk figures as Markdown tables, each with its baseline and sample size."""
    figures = dossier.assessment
    forms = [("as published", m) for m in figures["comparison"]["measures"]]
    if figures["continuous_form"] is not None:
        forms += [("continuous form", m) for m in figures["continuous_form"]["measures"]]
    measures = markdown_table(
        ("Measure", "Form", "Excess", "Upper bound", "Margin", "Records", "Verdict"),
        (
            (
                m["name"],
                form,
                number(m["sup_excess"]),
                number(m["upper"]),
                number(m["margin"]),
                count(m["n"]),
                m["verdict"],
            )
            for form, m in forms
        ),
    )
    attacks = markdown_table(
        ("Attack", "Found", "Interval (95 % unless it says)", "Baseline", "Records"),
        (
            (one.name, one.found, one.interval, one.baseline, one.records)
            for group in findings(figures)
            for one in group.findings
        ),
    )
    return f"{measures}\n\n{attacks}"


def utility_markdown(dossier: Dossier) -> str:
    """Return the utility figures as Markdown tables beside the reference's."""
    figures = dossier.assessment
    rows = []
    for name, label in STATISTICS.items():
        ours, theirs = figures["utility"][name]["released"], figures["utility"][name]["reference"] or {}
        rows.append(
            (
                label,
                significant(ours["median"]),
                significant(theirs.get("median")),
                significant(ours["largest"]),
                significant(theirs.get("largest")),
            )
        )
    head = ("Difference of", "Median", "Reference", "Largest", "Reference")
    sizes = f"{count(figures['records']['released'])} released records, {count(figures['columns'])} columns."
    beyond = markdown_table(("Figure", "Release", "Reference", "Expected by chance"), _beyond(figures))
    return "\n\n".join((markdown_table(head, rows), beyond, sizes))


def _beyond(figures: dict[str, Any]) -> Iterable[tuple[str, ...]]:
    score = figures["utility_propensity"]
    if score is None:
        yield ("pMSE", "not measured: no column varies", number(None), number(None))
    else:
        ours, theirs = score["released"], score["reference"] or {}
        yield (
            "pMSE",
            significant(ours["pmse"]),
            significant(theirs.get("pmse")),
            significant(ours["expected"]),
        )
        yield ("pMSE, ratio to chance", significant(ours["ratio"]), significant(theirs.get("ratio")), "1")
    for one in figures["utility_marginals"]:
        values = (one["mean"], one["reference_mean"], one["expected_mean"])
        yield (f"Tables of {one['size']} variables, mean distance", *(number(v, 2) for v in values))
    for one in figures["utility_regressions"]:
        ours, theirs = one["released"], one["reference"] or {}
        overlaps = (percent(ours["mean_overlap"], 0), percent(theirs.get("mean_overlap"), 0))
        yield (f"Interval overlap of {one['formula']}", *overlaps, "about 70 %")
