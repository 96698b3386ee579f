"""The report: complete, honest about what is missing, and never a carrier of somebody else's markup."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import asdict
from html.parser import HTMLParser
from itertools import pairwise, product

import numpy as np
import pytest

from anoncore.risk import ExtremeRecords, MeasureComparison, MembershipAttack, TailTest
from tasks import pictures, report
from tasks.decide import PolicySection, decide

HOSTILE = "<script>alert('x')</script>\"><img src=http://evil.example/x.png onerror=alert(1)>"
MEDIANS = {"distance": (0.713, 0.702), "ambiguity": (0.913, 0.905), "uncertainty": (0.161, 0.148)}
SECTIONS = (
    "verdict",
    "why",
    "pictures",
    "risk",
    "utility",
    "promises",
    "made",
    "released",
    "limits",
    "definitions",
)
COLUMNS = ["age", "sex=f", "sex=m", "wt71", "wt82", "wt82 missing", "smokeintensity"]


def measure(name: str, excess: float, upper: float, verdict: str) -> dict:
    return asdict(
        MeasureComparison(
            name, excess, upper, excess - 0.02, 0.0004, 0.05, 0.05, 814, *MEDIANS[name], verdict
        )
    )


def utility(released: float, reference: float | None) -> dict:
    return {
        "released": {"median": released, "largest": released * 6},
        "reference": None if reference is None else {"median": reference, "largest": reference * 5},
        "sufficient": None if reference is None else released <= reference,
    }


def rule(name: str, violated: int | None, **fields: object) -> dict:
    return {
        "name": name,
        "description": "wt82_71 = wt82 − wt71",
        "kind": "linear",
        "success": violated == 0,
        "checked": 814,
        "violated": violated,
        "missing": 63,
        "error": None,
    } | fields


def dossier(
    decision: str = "publish",
    *,
    membership: bool = True,
    continuous: bool = True,
    reference: bool = True,
    edits: bool = True,
    by_design: bool = False,
    formal: bool = False,
) -> dict:
    """Return a dossier as a run on the NHEFS data would write it."""
    verdicts = {"publish": "pass", "reject": "fail", "await": "inconclusive"}
    comparison = {
        "verdict": verdicts[decision],
        "n_released": 814,
        "n_reference": 814,
        "draws": 1,
        "measures": [
            measure("distance", 0.0117, 0.0312, "pass"),
            measure("ambiguity", 0.0211, 0.0461, verdicts[decision]),
            measure("uncertainty", -0.0004, 0.0072, "by design" if by_design else "pass"),
        ],
    }
    claim = {
        "claim": "no formal guarantee; the protection rests on the measured risk",
        "holds": True,
        "found": "prediction distance, ambiguity and uncertainty not below the reference's",
        "records": 814,
        "kind": "NoFormalGuarantee",
    }
    promise = {
        "claim": "10-anonymity on all released variables",
        "holds": decision != "reject",
        "found": "smallest group of identical records: 10, 78 groups",
        "records": 814,
        "kind": "KAnonymity",
    }
    figures = {
        "records": {"original": 814, "released": 814, "reference": 814 if reference else None},
        "as_source": False,
        "k": 5,
        "columns": len(COLUMNS),
        "queries": {"used": 814, "of": 814, "epsilon": None},
        "comparison": comparison,
        "tail": asdict(TailTest(814, 0, 1, 2, 1, 2, 0.1, 0.01, 0.875, "pass")),
        "isolated": asdict(TailTest(9, 0, 0, 0, 0, 0, 0.1, 0.01, 1.0, "pass")),
        "identical": asdict(TailTest(814, 0, 0, 0, 0, 0, 0.0, 0.01, 1.0, "pass")),
        "extreme": asdict(ExtremeRecords(814, 1, 0, 0, 5.0, 0.1, "pass")) | {"sampled": False},
        "membership": asdict(MembershipAttack(0.512, 0.484, 0.54, 814, 814, "pass")) if membership else None,
        "continuous_form": copy.deepcopy(comparison) if continuous else None,
        "claims": [promise if formal else claim],
        "utility": {
            "mean": utility(0.0141, 0.0243 if reference else None),
            "variance": utility(0.0312, 0.0418 if reference else None),
            "correlation": utility(0.0316, 0.0321 if reference else None),
            "rank_correlation": utility(0.0352, 0.0318 if reference else None),
        },
        "utility_columns": [
            {
                "name": name,
                "mean": 0.0123,
                "variance": 0.0456,
                "reference_mean": 0.0211 if reference else None,
                "reference_variance": 0.0519 if reference else None,
            }
            for name in COLUMNS
        ],
        "boxes": None,
        "rare_levels": [{"variable": "marital", "levels": ["6", "8"]}] if edits else [],
    }
    policy = PolicySection(
        approval="person" if decision == "await" else "automatic",
        untested=() if membership else ("membership",),
    )
    verdict = json.loads(json.dumps(asdict(decide(figures, policy))))
    rules = [rule("weight change", 0), rule("schema: age", 0, kind="numbers", description="")]
    return {
        "plan": {
            "name": "nhefs",
            "title": "NHEFS: smoking cessation and weight, 1971 to 1982",
            "description": "The NHANES I epidemiologic follow-up study, for teaching.",
            "digest": "c0ffee" * 10 + "abcd",
        },
        "run": {
            "id": "20250301T081500Z-a1b2c3",
            "created": "2025-03-01T08:15:00+00:00",
            "versions": {"anonflow": "0.1.0", "numpy": "2.4.6", "scipy": "1.17.1", "pandas": "3.0.1"},
            "seed": "drawn from the operating system",
        },
        "individual_protection": "required",
        "source": {
            "records": 1629,
            "variables": 63,
            "dropped": ["seqn"],
            "digest": "dead" * 16,
            "notes": ["63 record(s) lack a value of wt82"],
        },
        "split": {
            "kind": "holdout" if reference else "leave-one-out",
            "original": 814,
            "reference": 814,
            "unused": 1,
            "disjoint": "no row number of the source stands on both sides",
            "coinciding": 2,
        },
        "edits": {
            "policy": "set-aside",
            "set_aside": 3 if edits else 0,
            "raw": {
                "success": False,
                "suite_digest": "1" * 64,
                "rules": [rule("weight change", 3), rules[1]],
            }
            if edits
            else None,
            "masked": {"success": True, "suite_digest": "2" * 64, "rules": rules, "silent": ()}
            if edits
            else None,
            "repaired": {
                "records": 118 if edits else 0,
                "cells": 118 if edits else 0,
                "edits": {"weight change": 118} if edits else {},
            },
        },
        "method": {
            "steps": [
                {"method": "rare-levels", "k": 5, "action": "merge", "label": "other"},
                {
                    "method": "spectral-swap",
                    "released": "calibrated",
                    "exact_covariance": False,
                    "jitter": None,
                },
            ],
            "notes": ["every principal score was permuted independently"],
        },
        "figures": figures,
        "verdict": verdict,
        "release": {
            "id": "nhefs-0123456789ab",
            "name": "nhefs",
            "records": 814,
            "variables": [
                {
                    "name": "age",
                    "kind": "continuous",
                    "role": "quasi-identifier",
                    "levels": None,
                    "precision": 1.0,
                    "description": "age in 1971",
                },
                {
                    "name": "sex",
                    "kind": "binary",
                    "role": "quasi-identifier",
                    "levels": [0, 1],
                    "precision": None,
                    "description": "",
                },
            ],
            "files": [
                {"name": "data.parquet", "bytes": 141_312, "sha256": "a" * 64},
                {"name": "data.csv", "bytes": 312_000, "sha256": "b" * 64},
            ]
            if edits
            else [],
        },
        "history": {"earlier_runs": 2 if edits else 0},
    }


def drawn(columns: int = 12) -> dict[str, bytes]:
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(2, 400, columns))
    curves = {
        f"{side}_{name}": np.sort(rng.random(400))
        for side in ("released", "reference")
        for name in ("distance", "ambiguity", "uncertainty")
    }
    return {
        "curves": pictures.cumulative_curves(curves),
        "correlations": pictures.correlations(x, y, [f"column {j}" for j in range(columns)]),
    }


class Reader(HTMLParser):
    """Collects what a browser would act on."""

    VOID = frozenset({"meta", "img", "br", "path", "circle"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)


def text_of(html: str) -> str:
    body = re.sub(r"<(style|svg)[ >].*?</\1>", "", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


@pytest.fixture(scope="module")
def images() -> dict[str, bytes]:
    return drawn()


COMBINATIONS = [
    dict(zip(("membership", "continuous", "reference", "edits", "by_design", "formal"), flags, strict=True))
    for flags in product((True, False), repeat=6)
]


@pytest.mark.parametrize("decision", ["publish", "reject", "await"])
def test_every_combination_of_what_may_be_missing_renders(decision):
    for options in COMBINATIONS:
        found = dossier(decision, **options)
        html = report.render(found, {})
        reader = Reader(html)
        assert not reader.unbalanced, options
        assert not reader.open, options
        ids = [attrs["id"] for _, attrs in reader.tags if "id" in attrs]
        assert set(SECTIONS) <= set(ids)
        assert len(ids) == len(set(ids))
        words = text_of(html)
        assert not re.search(r"\b(None|nan|Undefined)\b", words), options
        assert report.DECISIONS[decision][0] in words
        assert ("Not tested. It takes people" in words) is not options["membership"]
        assert ("silent by design" in words) is options["by_design"]
        assert ("no formal guarantee about a single person" in words) is not options["formal"]
        for write in (report.verdict_markdown, report.risk_markdown, report.utility_markdown):
            assert "None" not in write(found)


def test_the_verdict_comes_before_everything_else_and_not_by_colour_alone():
    for decision, word in (("publish", "Cleared"), ("reject", "Not cleared"), ("await", "Waits")):
        html = report.render(dossier(decision), {})
        assert html.index('id="verdict"') < html.index('id="why"') < html.index('id="pictures"')
        card = html[html.index('id="verdict"') : html.index("</section>", html.index('id="verdict"'))]
        assert word in card
        assert "<svg" in card


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "no easier to find than a person outside"),
        ({"prediction distance": "fail"}, "measurably higher risk"),
        ({"utility: mean": "fail"}, "protect people well enough"),
        ({"utility: mean": "fail", "membership": "fail"}, "The data also no longer tell"),
        ({"10-anonymity on all released variables": "fail"}, "A promise of the method does not hold"),
        ({"membership": "inconclusive"}, "The plan rejects in that case"),
    ],
)
def test_the_meaning_follows_from_the_gates_that_decided(change, words):
    found = dossier(formal=True)
    gate = found["verdict"]["gates"][0]
    found["verdict"]["gates"].append(gate | {"name": "utility: mean"})
    for gate in found["verdict"]["gates"]:
        gate["verdict"] = change.get(gate["name"], "pass")
    found["verdict"]["decision"] = "reject" if change else "publish"
    assert words in text_of(report.render(found, {}))


def test_nothing_is_loaded_and_nothing_runs(images):
    html = report.render(dossier(), images)
    reader = Reader(html)
    names = {tag for tag, _ in reader.tags}
    assert not names & {"script", "link", "iframe", "object", "embed", "form", "base"}
    for tag, attrs in reader.tags:
        assert not any(name.startswith("on") or name == "style" for name in attrs), tag
        assert (attrs.get("src") or "data:image/svg+xml;base64,").startswith("data:image/")
        assert (attrs.get("href") or "#").startswith("#")
    assert "url(" not in html
    assert "@import" not in html
    policy = next(a["content"] for _, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_internal_links_lead_somewhere_and_the_page_is_accessible(images):
    reader = Reader(report.render(dossier(), images))
    ids = {attrs["id"] for _, attrs in reader.tags if "id" in attrs}
    assert {a["href"][1:] for tag, a in reader.tags if tag == "a"} <= ids
    assert ("html", {"lang": "en"}) in reader.tags
    assert all(attrs.get("alt") for tag, attrs in reader.tags if tag == "img")
    assert all(attrs.get("scope") for tag, attrs in reader.tags if tag == "th")
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def poison(value, note: str):
    """Replace every free text of a dossier; keep what code chooses."""
    if isinstance(value, dict):
        kept = {"kind", "decision", "verdict", "policy", "method", "digest", "sha256", "created", "role"}
        return {k: v if k in kept and isinstance(v, str) else poison(v, note) for k, v in value.items()}
    if isinstance(value, list):
        return [poison(v, note) for v in value]
    return note if isinstance(value, str) else value


def test_hostile_texts_stay_text():
    found = dossier()
    names = [m["name"] for m in found["figures"]["comparison"]["measures"]]
    hostile = poison(found, HOSTILE)
    hostile["run"]["versions"] = {HOSTILE: HOSTILE}
    hostile["method"]["steps"].append({"method": HOSTILE, HOSTILE: HOSTILE})
    for measure_, name in zip(hostile["figures"]["comparison"]["measures"], names, strict=True):
        measure_["name"] = name
    html = report.render(hostile, {})
    assert html.count("&lt;script&gt;") > 20
    reader = Reader(html)
    assert not reader.unbalanced
    assert not {tag for tag, _ in reader.tags} & {"script", "img"}
    for _, attrs in reader.tags:
        assert not any(name.startswith("on") for name in attrs)
    for write in (report.verdict_markdown, report.risk_markdown, report.utility_markdown):
        markdown = write(hostile)
        assert not re.search(r"(?<!\\)[<>]", markdown)
        assert "://" not in markdown


def test_a_lone_surrogate_and_turned_text_do_no_harm():
    found = dossier()
    found["plan"]["title"] = "a\ud800b \u202edesrever"
    html = report.render(found, {})
    html.encode()
    assert "<h1><bdi>" in html


def test_figures_of_the_dossier_appear_with_baseline_and_size():
    words = text_of(report.render(dossier(), {}))
    for text in ("0.512", "0.484 to 0.540", "0.500, guessing", "814", "0.0316", "0.0321", "1,629", "−0.000"):
        assert (text in words) is (text != "−0.000"), text
    assert "118 cell(s) in 118 record(s)" in words
    assert "assessed 2 time(s) before" in words
    assert "dead" * 16 not in words


def test_a_public_seed_is_named_as_a_danger():
    found = dossier()
    assert "The seed of this run is public" not in report.render(found, {})
    found["run"]["seed"] = "public, stated in the plan (demonstration on public data)"
    assert "The seed of this run is public" in report.render(found, {})


def test_sampled_people_and_checks_that_could_not_run_are_told():
    found = dossier()
    found["figures"]["queries"] = {"used": 26_492, "of": 1_000_000, "epsilon": 0.01}
    found["edits"]["masked"]["rules"][0] |= {"success": False, "violated": None, "error": "column is gone"}
    words = text_of(report.render(found, {}))
    assert "26,492 of 1,000,000" in words
    assert "not checked" in words


def test_pictures_are_embedded_with_their_description(images):
    html = report.render(dossier(), images)
    alts = [a["alt"] for tag, a in Reader(html).tags if tag == "img"]
    assert alts == [
        "Cumulative distributions of prediction distance, ambiguity, uncertainty: "
        "released against reference.",
        "Correlation matrices of 12 columns before and after masking, and their difference.",
    ]
    png = report.render(dossier(), {"curves": b"\x89PNG rest"})
    assert "data:image/png;base64," in png


def test_the_report_of_a_wide_table_stays_small():
    found = dossier()
    row = found["figures"]["utility_columns"][0]
    found["figures"]["utility_columns"] = [row | {"name": f"column {j}"} for j in range(130)]
    variable = found["release"]["variables"][0]
    found["release"]["variables"] = [variable | {"name": f"variable {j}"} for j in range(130)]
    assert len(report.render(found, drawn(130)).encode()) < 2_000_000


def test_markdown_tables_have_one_shape():
    found = dossier()
    found["verdict"]["gates"][0]["figure"] = "a | b\n| c |"
    for write in (report.verdict_markdown, report.risk_markdown, report.utility_markdown):
        for table in re.findall(r"(?:^\|.*\n?)+", write(found), re.MULTILINE):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.strip().splitlines()}
            assert len(widths) == 1
    assert "AUC 0\\.512" in report.risk_markdown(found) or "AUC 0.512" in report.risk_markdown(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (report.number(-0.00004), "0.000"),
        (report.number(-0.25, 2), "−0.25"),
        (report.number(float("nan")), "not defined"),
        (report.number(None), "–"),
        (report.percent(0.0312), "3.1\u00a0%"),
        (report.pvalue(1e-9), "< 0.001"),
        (report.size(141_312), "141.3 kB"),
        (report.size(12), "12 bytes"),
        (report.plain(None), "not used"),
        (report.plain(True), "yes"),
        (report.plain([]), "none"),
        (report.sentence("ends already."), "Ends already."),
    ],
)
def test_figures_read_like_print(text, expected):
    assert text == expected


def test_contrast_of_text_is_sufficient_in_both_themes():
    css = (report.__file__).replace("report.py", "templates/report.css")
    with open(css) as file:
        blocks = re.findall(r":root \{([^}]*--page[^}]*)\}", file.read())
    assert len(blocks) == 2
    for block in blocks:
        colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
        pairs = [(text, back) for text in ("ink", "muted", "accent") for back in ("page", "card", "faint")]
        pairs += [(tone, f"{tone}-back") for tone in ("pass", "fail", "open", "none")]
        pairs += [(tone, "card") for tone in ("pass", "fail", "open", "none")]
        pairs += [("ink", f"{tone}-back") for tone in ("pass", "fail", "open")]
        for text, back in pairs:
            assert contrast(colours[text], colours[back]) >= 4.5, (text, back)


def contrast(first: str, second: str) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))
