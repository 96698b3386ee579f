"""The report: complete, honest about what is missing, and never a carrier of somebody else's markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anoncore.claims import ClaimCheck
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.risk import AveragingAttack, BoxRisk, LocatedRecords, Queries
from anoncore.risk._proportions import Difference
from expectations import RuleOutcome, ValidationReport
from tasks.assessment.assess import AssessmentSection, assess
from tasks.common import formatting as wording
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.intake.split import Sides
from tasks.masking.anonymize import Masked
from tasks.policy.assessment import Assessment, PriorReleases, RareLevels
from tasks.policy.attack import NO_NON_MEMBERS, NO_QUASI_IDENTIFIERS, ONE_VARIABLE
from tasks.policy.disclosure_control import published
from tasks.policy.section import PolicySection
from tasks.policy.usefulness import usefulness
from tasks.policy.verdict import Verdict, decide
from tasks.record.dossier import (
    Dossier,
    EditFacts,
    History,
    MethodFacts,
    MethodStep,
    PlanIdentity,
    ReleasedFile,
    ReleaseIdentity,
    RepairSummary,
    SourceSummary,
    SplitSummary,
)
from tasks.reporting import charts, prefect_artifacts, report
from tasks.reporting.attack_table import attack_groups
from tests.tasks.dossiers import RUN
from tests.tasks.policy.sample import changed, harmless_attacks, texts_replaced

CHROMIUM = "/usr/bin/chromium"
HOSTILE = "<script>alert('x')</script>\"><img src=http://evil.example/x.png onerror=alert(1)>"
SECTIONS = (
    "verdict",
    "authority",
    "why",
    "pictures",
    "risk",
    "utility",
    "claims",
    "made",
    "released",
    "limits",
    "definitions",
)


def page(found: Dossier, pictures: dict[str, bytes] | None = None) -> str:
    """Return the report as a run would write it."""
    return report.render(found, published(found.assessment), pictures or {})


def markdown(found: Dossier) -> Iterator[str]:
    """Return what a run shows beside the report."""
    yield prefect_artifacts.verdict_markdown(found)
    yield prefect_artifacts.risk_markdown(published(found.assessment))
    yield prefect_artifacts.utility_markdown(published(found.assessment), usefulness(found.verdict.gates))


REGRESSIONS = [
    {"outcome": "income", "predictors": ["age", "sex", "region"]},
    {"outcome": "ill", "predictors": ["age", "sex"], "kind": "logistic"},
]
BOXES = LocatedRecords(
    records=120, inside=0.93, reidentification=0.2, largest_reidentification=0.25, uncertainty=0.31, log_volume=-0.4
)


def table(rng: np.random.Generator, n: int, roles: bool) -> Microdata:
    age = rng.normal(50, 9, n).round(3)
    frame = pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(["n", "e", "s"], n, p=[0.6, 0.3, 0.1]),
            "income": np.where(rng.random(n) < 0.05, np.nan, np.exp(7 + age / 40 + rng.normal(0, 0.7, n))),
            "ill": rng.choice(["no", "yes"], n),
            "w": rng.uniform(1, 5, n).round(3),
        }
    )
    given = {
        "age": "continuous",
        "sex": "binary",
        "region": "nominal",
        "income": "continuous",
        "ill": "binary",
    }
    role = {"income": "sensitive", "ill": "sensitive"} if roles else {}
    variables = [Variable(n, k, role=role.get(n, "quasi-identifier") if roles else "other") for n, k in given.items()]
    return Microdata(frame, Schema([*variables, Variable("w", "continuous", role="weight" if roles else "other")]))


@cache
def assessed(reference: bool, roles: bool, keeps: bool, constant: bool = False) -> Assessment:
    """Return the figures of a small release, as a run would measure them."""
    rng = np.random.default_rng(5)
    original, other = table(rng, 120, roles), table(rng, 90, roles)
    frame = original.frame.assign(age=original.frame["age"] + rng.normal(0, 3, 120))
    released = Microdata(frame if keeps else frame.iloc[rng.permutation(120)[:110]], original.schema)
    if constant:
        schema = Schema([Variable("age", "continuous")])
        original, other, released = (
            Microdata(pd.DataFrame({"age": [1.0] * len(side)}), schema) for side in (original, other, released)
        )
    with TemporaryDirectory() as folder:
        run = Run.start(Home.locate(Path(folder)), SeedSection(public=1, data_are_public=True))
        store = run.workspace.store
        sides = Sides(store("original", original), store("reference", other) if reference else None)
        masked = Masked(released=store("released", released), keeps_records=keeps and not constant)
        regressions = REGRESSIONS if roles and not constant else []
        return assess(run, sides, masked, AssessmentSection(regressions=regressions), PolicySection()).assessment


def rule(name: str, violated: int, **fields: Any) -> RuleOutcome:
    described = {"description": "wt82_71 = wt82 − wt71", "kind": "linear", "checked": 814, "missing": 63, "error": None}
    return RuleOutcome(name=name, success=violated == 0, violated=violated, **described | fields)


def full_figures(
    decision: str = "publish",
    *,
    reference: bool = True,
    roles: bool = True,
    keeps: bool = True,
    continuous: bool = True,
    edits: bool = True,
    by_design: bool = False,
    formal: bool = False,
    boxes: bool = False,
    constant: bool = False,
) -> Assessment:
    """Return all figures of an assessment; its verdicts are turned where a decision is asked for."""
    figures = assessed(reference, roles, keeps, constant)
    turned = {"publish": "pass", "reject": "fail", "await": "inconclusive"}[decision]
    risk = changed(
        figures.risk,
        comparison__distance__verdict="pass",
        comparison__ambiguity__verdict=turned,
        comparison__uncertainty__verdict="by design" if by_design else "pass",
        tail__p=0.875,
        tail__verdict="pass",
        tail__forms=(("all", 0.875),),
        identical__p=1.0,
        extreme__verdict="pass",
    )
    if risk.value_pairs is not None:
        risk = changed(risk, value_pairs__verdict="pass")
    if risk.membership is not None:
        attack = replace(risk.membership, auc=0.512, lower=0.484, upper=0.54)
        risk = changed(risk, membership=attack, score_coincidence__attack=attack)
        risk = replace(risk, **harmless_attacks())
    if risk.linkage is not None:
        risk = changed(risk, linkage__rate=replace(risk.linkage.rate, value=0.1, lower=0.05, upper=0.2))
    if risk.subset_linkage is not None:
        few = replace(risk.subset_linkage.worst.linked, value=0.1, lower=0.05, upper=0.2)
        sure = replace(few, value=0.0, lower=0.0, upper=0.01)
        harmless = replace(risk.subset_linkage.worst, certain=sure, linked=few)
        risk = changed(risk, subset_linkage__subsets=(harmless,))
    if risk.inference is not None:
        harmless_excess = {"excess": Difference(0.0, -0.1, 0.1), "upper": 0.1}
        for part in ("variables", "by_attack"):
            harmless = tuple(replace(one, **harmless_excess) for one in getattr(risk.inference, part))
            risk = changed(risk, **{f"inference__{part}": harmless})
    if boxes:
        others = replace(BOXES, records=90) if reference else None
        risk = replace(risk, boxes=BoxRisk(BOXES, others, risk.membership, 2))
    if formal:
        claim = ClaimCheck(
            "KAnonymity",
            "10-anonymity on all released variables",
            decision != "reject",
            "smallest group of identical records: 10, 78 groups",
            814,
        )
    else:
        claim = ClaimCheck(
            "NoFormalGuarantee",
            "no formal guarantee; the protection rests on the measured risk",
            True,
            "prediction distance, ambiguity and uncertainty not below the reference's",
            814,
            formal=False,
        )
    return replace(
        figures,
        risk=risk,
        continuous_form=risk.comparison if continuous else None,
        claims=(claim,),
        rare_levels=(RareLevels("marital", ("6", "8")),) if edits else (),
    )


def dossier(decision: str = "publish", **options: bool) -> Dossier:
    """Return a dossier as a run would gather it."""
    figures = full_figures(decision, **options)
    reference, edits = options.get("reference", True), options.get("edits", True)
    policy = PolicySection(
        approval="person" if decision == "await" else "automatic",
        untested=() if reference else ("membership",),
    )
    form = rule("schema: age", 0, kind="numbers", description="")
    return Dossier(
        plan=PlanIdentity(
            name="nhefs",
            digest="c0ffee" * 10 + "abcd",
            title="NHEFS: smoking cessation and weight, 1971 to 1982",
            description="The NHANES I epidemiologic follow-up study, for teaching.",
        ),
        run=replace(RUN, versions={"anonflow": "0.1.0", "numpy": "2.4.6", "scipy": "1.17.1", "pandas": "3.0.1"}),
        source=SourceSummary(
            records=1629,
            units=1629,
            unit=("seqn",),
            variables=63,
            dropped=("seqn",),
            digest="dead" * 16,
            records_digest="5" * 64,
            notes=("63 record(s) lack a value of wt82",),
        ),
        split=SplitSummary(
            kind="holdout" if reference else "leave-one-out",
            original=814,
            reference=814,
            unused=1,
            original_units=814,
            reference_units=814,
            disjoint="no row number of the source is on both sides",
            coinciding=2,
        ),
        edits=EditFacts(
            policy="set-aside",
            set_aside=3 if edits else 0,
            raw=ValidationReport((rule("weight change", 3), form) if edits else (), "1" * 64),
            masked=ValidationReport((rule("weight change", 0), form) if edits else (), "2" * 64),
            repaired=RepairSummary(118, 118, {"weight change": 118}, 0.01) if edits else RepairSummary(0, 0, {}, 0.0),
        ),
        method=MethodFacts(
            steps=(
                MethodStep("rare-levels", {"k": 5, "action": "merge", "label": "other"}),
                MethodStep("spectral-swap", {"released": "calibrated", "exact_covariance": False, "jitter": None}),
            ),
            notes=("every principal score was permuted independently",),
        ),
        assessment=figures,
        verdict=decide(figures, policy),
        release=ReleaseIdentity(
            id="nhefs-0123456789ab",
            name="nhefs",
            records=814,
            variables=(
                Variable("age", "continuous", role="quasi-identifier", precision=1.0, description="age in 1971"),
                Variable("sex", "binary", role="quasi-identifier", levels=(0, 1)),
            ),
            files=(
                ReleasedFile("data.parquet", 141_312, "a" * 64, 814),
                ReleasedFile("data.csv", 312_000, "b" * 64, 814),
            )
            if edits
            else (),
        ),
        history=History(earlier_runs=2 if edits else 0),
    )


def drawn(columns: int = 12) -> dict[str, bytes]:
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(2, 400, columns))
    curves = {
        f"{side}_{name}": np.sort(rng.random(400))
        for side in ("released", "reference")
        for name in ("distance", "ambiguity", "uncertainty")
    }
    return {
        "curves": charts.cumulative_curves(curves),
        "correlations": charts.correlations(x, y, [f"column {j}" for j in range(columns)]),
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


OPTIONS = ("reference", "roles", "keeps", "continuous", "edits", "by_design", "formal", "boxes")
# Of any three options all eight combinations: an orthogonal array of 16 runs and strength 3.
COMBINATIONS = [
    *(
        dict(zip(OPTIONS, (a, b, c, d, b ^ c ^ d, a ^ c ^ d, a ^ b ^ c, a ^ b ^ d), strict=True))
        for a, b, c, d in product((True, False), repeat=4)
    ),
    {"constant": True},
    {"constant": True, "reference": False},
]


@pytest.mark.parametrize(("start", "decision"), enumerate(("publish", "reject", "await")))
def test_every_combination_of_three_parts_that_may_be_missing_renders(start, decision):
    for options in COMBINATIONS[start::3]:
        found = dossier(decision, **options)
        html = page(found)
        reader = Reader(html)
        assert not reader.unbalanced, options
        assert not reader.open, options
        ids = [attrs["id"] for _, attrs in reader.tags if "id" in attrs]
        assert set(SECTIONS) <= set(ids)
        assert len(ids) == len(set(ids))
        words = text_of(html)
        assert not re.search(r"\b(None|nan|Undefined)\b", words), options
        assert report.DECISIONS[decision][0] in words
        assert (NO_NON_MEMBERS in words) is not options.get("reference", True), options
        assert ("carry no information by design" in words) is options.get("by_design", False)
        assert ("no formal guarantee about a single person" in words) is not options.get("formal", False)
        assert not any("None" in text for text in markdown(found))


def test_what_was_not_tested_is_said_with_its_reason():
    words = text_of(page(dossier(roles=False, keeps=False)))
    for text in (
        "Linkage An attacker who knows all values of all people takes the nearest released row for each "
        "person’s. Not tested: no released row stems from one person",
        NO_QUASI_IDENTIFIERS,
        "the plan declares no regression",
        "No survey weights are declared",
    ):
        assert text in words, text
    found = attack_groups(published(changed(full_figures(keeps=False), risk__inference=None)))
    assert ONE_VARIABLE in found[-1].attacks[0].attacker
    words = text_of(page(dossier(constant=True)))
    for text in (
        "Not measured: no column varies",
        "too few variables",
    ):
        assert text in words, text


@pytest.mark.parametrize("reference", [True, False])
def test_every_attack_has_a_figure_an_interval_a_baseline_and_a_size(reference):
    groups = attack_groups(published(dossier(reference=reference, boxes=True).assessment))
    assert len(groups) == 5
    rows = [one for group in groups for one in group.attacks]
    assert len(rows) > 15
    for one in rows:
        assert one.attacker.startswith(("An attacker", "The same")), one
        assert one.attacker.endswith((".", "?")), one
        if one.outcome == "not tested":
            assert "Not tested: " in one.attacker
        elif "There is no earlier one" not in one.attacker and "There is none so far away" not in one.attacker:
            assert "–" not in (one.outcome, one.interval, one.baseline, one.records), one
    assert sum(one.outcome == "not tested" for one in rows) == (1 if reference else 18)


def test_earlier_releases_are_told_with_what_they_give_together():
    found = dossier()
    shown = found.assessment
    found = replace(found, assessment=replace(shown, prior_releases=PriorReleases(3)))
    assert "none of the 3 earlier release(s) can be compared" in text_of(page(found))
    attack = shown.risk.membership
    together = AveragingAttack(replace(attack, auc=0.688), attack, replace(attack, auc=0.511), 3, 360)
    found = replace(found, assessment=replace(shown, prior_releases=PriorReleases(3, 2, together)))
    words = text_of(page(found))
    assert "2 of 3 earlier release(s) can be compared" in words
    assert "AUC 0.700" in words
    assert "0.500 by this release alone" in words


def test_what_steps_measured_is_told_in_tens():
    given = dossier()
    figures = {"step1.suppressed_cells": 13.0, "step2.loss": 0.25}
    told = text_of(page(replace(given, assessment=changed(given.assessment, method_figures=figures))))
    assert "step1, suppressed cells 20; step2, loss 0.2." in told


def test_sizes_that_differ_are_compared_at_one_size():
    words = text_of(page(dossier()))
    assert "for the release at its size, 90" in words
    assert "Release, 90 records" in words


def every_number(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from every_number(inner)


def test_no_number_that_stays_inside_is_in_the_page():
    full, found = full_figures(), dossier()
    told = {round(v, 12) for v in every_number(published(found.assessment).to_json())}
    html = page(found) + "".join(markdown(found))
    shown = set(re.findall(r"\d+(?:\.\d+)?", html.replace(",", "")))
    inside = [v for v in every_number(full.to_json()) if round(v, 12) not in told and 0 < abs(v) < 1e6]
    assert len(inside) > 200
    for value in inside:
        text = f"{abs(value):.5g}"
        # What is short by itself may stand there by chance; five digits may not.
        assert text not in shown or text == f"{abs(value):.3g}", value
    estimates = [row.original.estimate for one in full.utility.regressions for row in one.released.coefficients]
    means = [side.mean for one in full.utility.variables.variables for side in (one.original, one.reference)]
    for value in [v for v in (*estimates, *means) if v is not None]:
        for digits in (2, 3, 4):
            text = f"{abs(value):.{digits}f}"
            assert text not in shown or len(text.strip("0.")) < 3, (value, text)


def test_the_verdict_of_each_gate_stands_beside_its_name():
    shown = prefect_artifacts.verdict_markdown(dossier("await"))
    assert "| Gate | Verdict | " in shown
    # The artifact stays when the release was approved.
    assert shown.startswith("**A person decides**")


def test_the_verdict_comes_before_everything_else_and_not_by_colour_alone():
    for decision, word in (("publish", "Cleared"), ("reject", "Not cleared"), ("await", "A person decides")):
        html = page(dossier(decision))
        assert html.index('id="verdict"') < html.index('id="why"') < html.index('id="pictures"')
        card = html[html.index('id="verdict"') : html.index("</section>", html.index('id="verdict"'))]
        assert word in card
        assert "<svg" in card


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "no higher risk than non-members"),
        ({"prediction distance": "fail"}, "measurably higher risk"),
        ({"utility: mean": "fail"}, "too much information is lost"),
        ({"utility: mean": "fail", "membership": "fail"}, "Too much information is lost as well"),
        ({"10-anonymity on all released variables": "fail"}, "A claim of the method does not hold"),
        ({"membership": "inconclusive"}, "The plan rejects in that case"),
    ],
)
def test_the_meaning_follows_from_the_gates_that_decided(change, words):
    found = dossier(formal=True)
    gates = (*found.verdict.gates, replace(found.verdict.gates[0], name="utility: mean", topic="Utility"))
    gates = tuple(replace(gate, verdict=change.get(gate.name, "pass")) for gate in gates)
    verdict = Verdict("reject" if change else "publish", found.verdict.reason, gates)
    assert words in text_of(page(replace(found, verdict=verdict)))


def test_nothing_is_loaded_and_nothing_runs(images):
    html = page(dossier(), images)
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
    reader = Reader(page(dossier(), images))
    ids = {attrs["id"] for _, attrs in reader.tags if "id" in attrs}
    assert {a["href"][1:] for tag, a in reader.tags if tag == "a"} <= ids
    assert ("html", {"lang": "en"}) in reader.tags
    assert all(attrs.get("alt") for tag, attrs in reader.tags if tag == "img")
    assert all(attrs.get("scope") for tag, attrs in reader.tags if tag == "th")
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


# What code chooses, and not a person.
KEPT = (
    "kind",
    "decision",
    "verdict",
    "policy",
    "method",
    "digest",
    "sha256",
    "created",
    "role",
    "comparison",
    "continuous_form",
    "predictors",
)


def test_hostile_texts_stay_text():
    found = dossier()
    hostile = texts_replaced(found, HOSTILE, KEPT)
    figures = tuple(
        replace(one, name=own.name)
        for one, own in zip(*(d.assessment.utility.figures.figures for d in (hostile, found)), strict=True)
    )
    steps = (*hostile.method.steps, MethodStep(HOSTILE, {HOSTILE: HOSTILE}))
    hostile = changed(
        hostile, run__versions={HOSTILE: HOSTILE}, method__steps=steps, assessment__utility__figures__figures=figures
    )
    html = page(hostile)
    assert html.count("&lt;script&gt;") > 20
    reader = Reader(html)
    assert not reader.unbalanced
    assert not {tag for tag, _ in reader.tags} & {"script", "img"}
    for _, attrs in reader.tags:
        assert not any(name.startswith("on") for name in attrs)
    for text in markdown(hostile):
        assert not re.search(r"(?<!\\)[<>]", text)
        assert "://" not in text


def test_a_lone_surrogate_and_turned_text_do_no_harm():
    found = dossier()
    html = page(replace(found, plan=replace(found.plan, title="a\ud800b \u202edesrever")))
    html.encode()
    assert "<h1><bdi>" in html


def test_figures_of_the_dossier_appear_with_baseline_and_size():
    found = dossier()
    words = text_of(page(found))
    medians = published(found.assessment).utility.figure("correlation")
    texts = ["AUC 0.500", "0.450 to 0.550", "0.500, guessing", "120 members, 90 non-members"]
    texts += [wording.significant(value) for value in (medians.released_median, medians.reference_median)]
    texts += [
        "20\u00a0%",
        "0\u00a0% to 20\u00a0%",
        "0.83\u00a0%, guessing",
        "−10 to +10 points",
        "income ~ age + sex + region",
    ]
    for text in texts:
        assert re.sub(r"\s+", " ", text) in words, text
    assert "1,629" not in words, "with the size of the source follows how many records were set aside"
    assert "−0.000" not in words
    assert "118 cell(s) in 118 record(s), 1.0" in words
    assert "assessed 2 time(s) before" in words
    assert "dead" * 16 not in words


def test_a_public_seed_is_named_as_a_danger():
    found = dossier()
    assert "The seed of this run is public" not in page(found)
    run = replace(found.run, seed="public, stated in the plan (demonstration on public data)")
    assert "The seed of this run is public" in page(replace(found, run=run))


def test_sampled_people_and_checks_that_could_not_run_are_told():
    found = dossier()
    failed = replace(found.edits.masked.rules[0], success=False, checked=0, error="KeyError")
    edits = replace(found.edits, masked=ValidationReport((failed,), "2" * 64))
    queries = Queries(26_492, 1_000_000, 0.01)
    words = text_of(page(changed(found, edits=edits, assessment__risk__queries=queries)))
    assert "26,492 of 1,000,000" in words
    assert "not checked" in words


def test_pictures_are_embedded_with_their_description(images):
    html = page(dossier(), images)
    alts = [a["alt"] for tag, a in Reader(html).tags if tag == "img"]
    assert alts == [
        "Cumulative distributions of prediction distance, ambiguity, uncertainty: released against reference.",
        "Correlation matrices of 12 columns before and after masking, and their difference.",
    ]
    png = page(dossier(), {"curves": b"\x89PNG rest"})
    assert "data:image/png;base64," in png


def test_the_report_of_a_wide_table_stays_small():
    found = dossier()
    shown = published(found.assessment)
    columns = tuple(replace(shown.utility.columns[0], name=f"column {j}") for j in range(130))
    shown = changed(shown, utility__columns=columns)
    variables = tuple(replace(found.release.variables[0], name=f"variable {j}") for j in range(130))
    found = changed(found, release__variables=variables)
    assert len(report.render(found, shown, drawn(130)).encode()) < 2_000_000


def test_markdown_tables_have_one_shape():
    found = dossier()
    first, *others = found.verdict.gates
    gates = (replace(first, figure="a | b\n| c |"), *others)
    found = replace(found, verdict=replace(found.verdict, gates=gates))
    for text in markdown(found):
        for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.strip().splitlines()}
            assert len(widths) == 1
    assert "AUC 0.500" in prefect_artifacts.risk_markdown(published(found.assessment))
    assert "Attribute inference" in prefect_artifacts.risk_markdown(published(found.assessment))
    *_, text = markdown(found)
    assert "pMSE" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (wording.number(-0.00004), "0.000"),
        (wording.number(-0.25, 2), "−0.25"),
        (wording.number(float("nan")), "not defined"),
        (wording.number(None), "–"),
        (wording.percent(0.0312), "3.1\u00a0%"),
        (wording.pvalue(1e-9), "< 0.001"),
        (wording.size(141_312), "141.3 kB"),
        (wording.size(12), "12 bytes"),
        (wording.plain(None), "not used"),
        (wording.plain(True), "yes"),
        (wording.plain([]), "none"),
        (wording.plain([["a", "b"], ["c"]]), "(a, b), (c)"),
        (wording.plain({"n": 20, "smokes": (1,)}), "n: 20, smokes: (1)"),
        (wording.sentence("ends already."), "Ends already."),
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


@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"there is no {CHROMIUM} (Debian: chromium)")
def test_the_page_for_an_authority_is_printed_on_one_page(tmp_path):
    """With non-members and without, where every line holds a reason; A4 leaves 265 mm, 1001 pixels."""
    playwright = pytest.importorskip("playwright.sync_api")
    others = "body > header, main > :not(#authority), footer {display: none !important}"
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for reference in (True, False):
            file = tmp_path / "report.html"
            file.write_text(page(dossier(reference=reference, boxes=True)))
            tab = chromium.new_page(viewport={"width": 680, "height": 1001})
            tab.goto(file.as_uri())
            tab.emulate_media(media="print")
            box = tab.locator("#authority").bounding_box()
            assert 300 < box["height"] < 1001
            tab.add_style_tag(content=others)
            assert tab.pdf(format="A4", prefer_css_page_size=True).count(b"/Type /Page\n") == 1
        chromium.close()
