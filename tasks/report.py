"""The risk and utility report: one HTML file, the verdict first, and its short forms in Markdown."""

from __future__ import annotations

import base64
import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from html import unescape
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

NOTHING = "–"
MINUS = "−"
PNG = b"\x89PNG"

RISK, PROMISE, USE = "Risk", "Promises", "Usefulness"

DECISIONS = {
    "publish": ("Cleared for publication", "pass"),
    "reject": ("Not cleared for publication", "fail"),
    "await": ("Waits for a person’s decision", "inconclusive"),
}
PICTURES = ("curves", "marginals", "correlations")
# Kinds of rules that follow from the declared variables and not from an edit.
FORM = ("columns", "levels", "numbers")
COUNTED = {
    "identical": "identical records",
    "tail": "anybody",
    "isolated": "the most isolated 1 %",
    "extreme": "extreme records",
}
STATISTICS = {
    "mean": "Means",
    "variance": "Variances",
    "correlation": "Correlations",
    "rank_correlation": "Rank correlations",
}


def render(dossier: dict[str, Any], pictures: dict[str, bytes]) -> str:
    """Return the report as one self-contained HTML file.

    Parameters
    ----------
    dossier : dict
        What the run found: names, counts and figures, no data. Its texts are taken as hostile.
    pictures : dict of bytes
        SVG or PNG, by the names "curves", "marginals" and "correlations"; any may be absent.

    Returns
    -------
    str
        HTML without script and without anything to load from elsewhere.
    """
    gates, groups = dossier["verdict"]["gates"], _gate_groups(dossier)
    html = (
        _environment()
        .get_template("report.html.j2")
        .render(
            dossier,
            pictures={name: _picture(pictures[name]) for name in PICTURES if name in pictures},
            answer=DECISIONS[dossier["verdict"]["decision"]],
            tally=_tally(gates),
            gate_groups=groups,
            failed=[name for name, members in groups if any(g["verdict"] == "fail" for g in members)],
            unsettled=any(g["verdict"] == "inconclusive" for g in gates),
            counted=_counted(dossier["figures"]),
            by_design=[g["name"] for g in gates if g["verdict"] == "by design"],
            rules=_rules(dossier["edits"]),
            promises=_promises(dossier["figures"]["claims"]),
            counted_names=COUNTED,
            statistics=STATISTICS,
        )
    )
    # A lone surrogate, which YAML can smuggle in, has no UTF-8 form.
    return html.encode("utf-8", "replace").decode()


def verdict_markdown(dossier: dict[str, Any]) -> str:
    """Return the decision and its gates as Markdown; aggregates only."""
    verdict, release = dossier["verdict"], dossier["release"]
    rows = (
        (g["name"], g["figure"], g["limit"], g["baseline"], count(g["records"]), g["verdict"])
        for g in verdict["gates"]
    )
    head = f"**{DECISIONS[verdict['decision']][0]}**: {markdown_cell(verdict['reason'])}"
    facts = f"{markdown_cell(release['id'])}, {count(release['records'])} records"
    return "\n\n".join(
        (head, facts, _table(("Gate", "Found", "Allowed", "Baseline", "Records", "Verdict"), rows))
    )


def risk_markdown(dossier: dict[str, Any]) -> str:
    """Return the risk figures as Markdown tables, each with its baseline and sample size."""
    figures = dossier["figures"]
    forms = [("as published", m) for m in figures["comparison"]["measures"]]
    if figures["continuous_form"] is not None:
        forms += [("continuous form", m) for m in figures["continuous_form"]["measures"]]
    measures = _table(
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
    rows = [
        (
            COUNTED[row["key"]],
            count(row["released"]),
            count(row["reference"]),
            count(row["n"]),
            pvalue(row["p"]),
        )
        for row in _counted(figures)
    ]
    attack = figures["membership"]
    if attack is None:
        auc = "Membership: not tested, since nobody is known who took no part."
    else:
        interval = f"[{number(attack['lower'])}, {number(attack['upper'])}]"
        auc = (
            f"Membership: AUC {number(attack['auc'])} {interval}, 0.5 is guessing; "
            f"{count(attack['n_members'])} members, {count(attack['n_nonmembers'])} others."
        )
    found = _table(("Records met too closely", "By the release", "By the reference", "Records", "p"), rows)
    return "\n\n".join((measures, found, auc))


def utility_markdown(dossier: dict[str, Any]) -> str:
    """Return the four utility figures as a Markdown table beside the reference's."""
    figures = dossier["figures"]
    rows = []
    for name, label in STATISTICS.items():
        ours, theirs = figures["utility"][name]["released"], figures["utility"][name]["reference"] or {}
        rows.append(
            (
                label,
                number(ours["median"], 4),
                number(theirs.get("median"), 4),
                number(ours["largest"], 4),
                number(theirs.get("largest"), 4),
            )
        )
    head = ("Difference of", "Median", "Reference", "Largest", "Reference")
    sizes = f"{count(figures['records']['released'])} released records, {count(figures['columns'])} columns."
    return _table(head, rows) + "\n\n" + sizes


def _table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *([markdown_cell(c) for c in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def markdown_cell(value: Any) -> str:
    """Return text that stays text inside a Markdown table: no markup, no link, no line break."""
    text = "".join(" " if unicodedata.category(c)[0] == "C" else c for c in str(value))
    return re.sub(r"([\\`*_\[\]<>#|~&$@])", r"\\\1", text).replace("://", r":\//")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tasks"),
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
        "bytes": size,
        "plain": plain,
        "sentence": sentence,
    }
    environment.filters.update(filters)
    return environment


def count(value: float | None) -> str:
    """Return a count with thousands apart."""
    return NOTHING if value is None else f"{value:,}"


def number(value: float | None, digits: int = 3) -> str:
    """Return a figure with a real minus sign; a dash where there is none."""
    if value is None:
        return NOTHING
    if not math.isfinite(value):
        return "not defined"
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def percent(value: float | None, digits: int = 1) -> str:
    """Return a share as percentage."""
    return NOTHING if value is None else f"{number(100 * value, digits)}\u00a0%"


def pvalue(value: float | None) -> str:
    """Return a p-value, never as 0."""
    if value is None:
        return NOTHING
    return "< 0.001" if value < 0.001 else number(value)


def size(value: int) -> str:
    """Return a file size for people."""
    for unit, least in (("MB", 1_000_000), ("kB", 1_000)):
        if value >= least:
            return f"{value / least:.1f} {unit}"
    return f"{value} bytes"


def plain(value: Any) -> str:
    """Return a parameter's value in words."""
    if value is None:
        return "not used"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(str(v) for v in value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def sentence(text: str) -> str:
    """Return the text with a capital at its start and a stop at its end."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".") if text else text


def _picture(content: bytes) -> dict[str, Any]:
    """Return a picture as data URI, with the description that it carries."""
    kind = "png" if content.startswith(PNG) else "svg+xml"
    found = None if kind == "png" else re.search(rb"<desc>(.*?)</desc>", content, re.DOTALL)
    data = base64.b64encode(content).decode()
    return {
        "uri": Markup(f"data:image/{kind};base64,{data}"),  # noqa: S704  base64 has nothing to escape
        "description": unescape(found[1].decode()) if found else "",
    }


def _gate_groups(dossier: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the gates by what they guard; groups without a gate are left out."""
    claims = {claim["claim"] for claim in dossier["figures"]["claims"]}
    groups: dict[str, list[dict[str, Any]]] = {RISK: [], PROMISE: [], USE: []}
    for gate in dossier["verdict"]["gates"]:
        name = gate["name"]
        groups[PROMISE if name in claims else USE if name.startswith("utility:") else RISK].append(gate)
    return [(name, members) for name, members in groups.items() if members]


def _tally(gates: Iterable[dict[str, Any]]) -> list[tuple[str, int]]:
    verdicts = [gate["verdict"] for gate in gates]
    order = ("pass", "fail", "inconclusive", "by design", "waived", "not tested")
    return [(name, verdicts.count(name)) for name in order if name in verdicts]


def _counted(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rules that count records met too closely, in one form."""
    tail, isolated, extreme = figures["tail"], figures["isolated"], figures["extreme"]
    rows = [
        {"key": key, "released": f["n_released"], "reference": f["n_reference"], "n": f["n"], "p": f["p"]}
        for key, f in (("identical", figures["identical"]), ("tail", tail), ("isolated", isolated))
    ]
    matched, by_chance = extreme["n_matched"], extreme["baseline"]
    rows.append(
        {"key": "extreme", "released": matched, "reference": by_chance, "n": extreme["n_extreme"], "p": None}
    )
    return rows


def _rules(edits: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return each rule once, with its outcome on the raw and on the masked data; the plan's edits first."""
    raw, masked = (
        {rule["name"]: rule for rule in (edits[side] or {"rules": []})["rules"]} for side in ("raw", "masked")
    )
    groups: dict[str, list[dict[str, Any]]] = {"Edits of the plan": [], "Form of the table": []}
    stated, form = groups.values()
    for name in dict.fromkeys([*raw, *masked]):
        rule = masked.get(name) or raw[name]
        (form if rule["kind"] in FORM else stated).append(
            {
                "name": name,
                "rule": rule,
                "raw": raw.get(name),
                "masked": masked.get(name),
                "repaired": edits["repaired"]["edits"].get(name, 0),
            }
        )
    return [(title, rows) for title, rows in groups.items() if rows]


def _promises(claims: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [claim | {"formal": claim["kind"] != "NoFormalGuarantee"} for claim in claims]
