"""The risk and utility report: one HTML file, the verdict first, then why, then pictures, then tables."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from html import unescape
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from anoncore.registry import METHODS
from anoncore.utility.variables import MEANINGS
from expectations.report import RuleOutcome
from tasks.common.formatting import (
    amount,
    count,
    number,
    percent,
    plain,
    points,
    pvalue,
    sentence,
    shares,
    significant,
    size,
)
from tasks.policy.assessment import Records
from tasks.policy.attack import amounts, between
from tasks.policy.gate import WORST_FIRST, GateResult
from tasks.policy.published import PublishedAssessment, PublishedVariable
from tasks.policy.rounding import ceil_to, floor_to
from tasks.policy.usefulness import QUESTION, headline, usefulness
from tasks.record.dossier import Dossier, PublishedEdits
from tasks.reporting.attack_table import attack_groups, authority_page

PNG = b"\x89PNG"
# Last digit of a figure with three decimals.
THOUSANDTH = 0.001

# Stays true when people have decided: the report is part of the published release.
DECISIONS = {
    "publish": ("Cleared for publication", "pass"),
    "reject": ("Not cleared for publication", "fail"),
    "await": ("A person decides", "inconclusive"),
}
# Of the 95 % quantile: of a normal variable, and of Kolmogorov's distance times √N.
NORMAL, KOLMOGOROV = 1.96, 1.358
PICTURES = ("curves", "marginals", "correlations")
# Kinds of rules that follow from the declared variables and not from an edit.
FORM = ("columns", "levels", "numbers")
FIGURES = {
    "distance": "Distance",
    "missing": "Missing",
    "mean": "Mean",
    "kolmogorov": "Kolmogorov",
    "quantile": "Quantiles",
    "total_variation": "Total variation",
    "beyond": "Beyond range",
    "spike": "Frequent value",
}
STATISTICS = {
    "mean": "Means",
    "correlation": "Pearson correlations",
    "rank_correlation": "Spearman correlations",
}


@dataclass(frozen=True)
class Picture:
    """A picture as a page embeds it: a data URI, and what it shows in one sentence."""

    uri: Markup
    description: str


@dataclass(frozen=True)
class LargestShift:
    """The variable that moved most by one figure, among ``of`` variables that have the figure."""

    key: str
    figure: str
    meaning: str
    variable: str
    moved: float
    of: int


@dataclass(frozen=True)
class RuleRow:
    """One rule with its outcome on the released data, and how many cells were repaired for it."""

    rule: RuleOutcome
    repaired: int


def render(dossier: Dossier, assessment: PublishedAssessment, pictures: dict[str, bytes]) -> str:
    """Return the report as one self-contained HTML file.

    Parameters
    ----------
    dossier : its texts are taken as hostile
    assessment : as published; its texts are taken as hostile
    pictures : dict of bytes
        SVG or PNG, by the names "curves", "marginals" and "correlations"; any may be absent.

    Returns
    -------
    str
        HTML without script and without anything to load from elsewhere.
    """
    gates, groups = dossier.verdict.gates, _gate_groups(dossier.verdict.gates)
    html = (
        environment()
        .get_template("report.html.j2")
        .render(
            **dossier.published_parts(assessment),
            pictures={name: picture(pictures[name]) for name in PICTURES if name in pictures},
            answer=DECISIONS[dossier.verdict.decision],
            tally=_tally(gates),
            gate_groups=groups,
            failed=[name for name, members in groups if any(g.verdict == "fail" for g in members)],
            useful=usefulness(gates),
            headline=headline,
            question=QUESTION,
            to_decide=any(g.verdict == "to decide" for g in gates),
            unsettled=any(g.verdict == "inconclusive" for g in gates),
            attacks=attack_groups(assessment),
            authority=authority_page(assessment, gates),
            gate_verdicts={gate.name: gate.verdict for gate in gates},
            largest_shifts=_largest_shifts(assessment.utility.variables),
            chance=_chance(assessment.records),
            not_compared=_not_compared(dossier, assessment),
            by_design=[g.name for g in gates if g.verdict == "by design"],
            rules=_rules(dossier.edits.published),
            claims=assessment.claims,
            statistics=STATISTICS,
        )
    )
    # A lone surrogate, which YAML can smuggle in, has no UTF-8 form.
    return html.encode("utf-8", "replace").decode()


@cache
def environment() -> Environment:
    """Return what pages are made with: escaped throughout, with the filters that word figures."""
    made = Environment(
        loader=PackageLoader("tasks.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "count": count,
        "number": number,
        "percent": percent,
        "pvalue": pvalue,
        "shares": shares,
        "significant": significant,
        "amount": amount,
        "bytes": size,
        "plain": plain,
        "points": points,
        "sentence": sentence,
        "lower_bound": lambda figure: number(floor_to(figure, THOUSANDTH)),
        "upper_bound": lambda figure: number(ceil_to(figure, THOUSANDTH)),
    }
    made.filters.update(filters)
    made.globals |= {"zip": zip, "methods": METHODS, "between": between, "amounts": amounts}
    made.globals |= {"number": number, "points": points}
    return made


def picture(content: bytes) -> Picture:
    """Return a picture as data URI, with the description that it carries."""
    kind = "png" if content.startswith(PNG) else "svg+xml"
    description = None if kind == "png" else re.search(rb"<desc>(.*?)</desc>", content, re.DOTALL)
    data = base64.b64encode(content).decode()
    uri = Markup(f"data:image/{kind};base64,{data}")  # noqa: S704  base64 has nothing to escape
    return Picture(uri, unescape(description[1].decode()) if description else "")


def _gate_groups(results: Iterable[GateResult]) -> list[tuple[str, list[GateResult]]]:
    """Return the gates by their topic; topics without a gate are left out."""
    topics: dict[str, list[GateResult]] = {}
    for result in results:
        topics.setdefault(result.topic, []).append(result)
    return list(topics.items())


def _tally(gates: Iterable[GateResult]) -> list[tuple[str, int]]:
    verdicts = [gate.verdict for gate in gates]
    return [(name, verdicts.count(name)) for name in WORST_FIRST if name in verdicts]


def _largest_shifts(variables: Iterable[PublishedVariable]) -> list[LargestShift]:
    """Return, of each figure, the variable that moved most; figures that no variable has are left out."""
    rows = []
    for key, meaning in MEANINGS.items():
        moved = {one.name: shift for one in variables if (shift := getattr(one.released_shift, key)) is not None}
        if moved:
            worst = max(moved, key=moved.__getitem__)
            rows.append(LargestShift(key, FIGURES[key], meaning, worst, moved[worst], len(moved)))
    return rows


def _chance(records: Records) -> dict[str, float]:
    """Return what one variable of two samples of these sizes differs by less than, 95 times in 100."""
    scale = math.sqrt(1 / records.original + 1 / records.released)
    return {"mean": NORMAL * scale, "kolmogorov": KOLMOGOROV * scale}


def _not_compared(dossier: Dossier, assessment: PublishedAssessment) -> list[str]:
    """Return the released variables without a utility figure."""
    compared = {one.name for one in assessment.utility.variables}
    return [v.name for v in dossier.release.variables if v.name not in compared]


def _rules(edits: PublishedEdits) -> list[tuple[str, list[RuleRow]]]:
    """Return each rule that is published; the plan's edits first."""
    rows = [RuleRow(rule, edits.repaired.edits.get(rule.name, 0)) for rule in edits.rules]
    groups = {
        "Edits of the plan": [row for row in rows if row.rule.kind not in FORM],
        "Form of the table": [row for row in rows if row.rule.kind in FORM],
    }
    return [(title, members) for title, members in groups.items() if members]
