"""Short forms of the report in Markdown, for the observers of a run; aggregates only."""

from __future__ import annotations

from collections.abc import Iterable

from tasks.common.formatting import count, markdown_cell, markdown_table, number, percent, significant
from tasks.policy.published import PublishedAssessment, PublishedUtility
from tasks.policy.rounding import ceil_to
from tasks.policy.usefulness import QUESTION, Usefulness, headline
from tasks.record.dossier import Dossier
from tasks.reporting.attack_table import attack_groups
from tasks.reporting.report import DECISIONS, STATISTICS, THOUSANDTH


def verdict_markdown(dossier: Dossier) -> str:
    """Return the decision and its gates as Markdown; aggregates only."""
    verdict, release = dossier.verdict, dossier.release
    # The verdict beside the name: what lies to the right is out of sight on a narrow page.
    rows = ((g.name, g.verdict, g.figure, g.limit, g.baseline, count(g.records)) for g in verdict.gates)
    head = f"**{DECISIONS[verdict.decision][0]}**: {markdown_cell(verdict.reason)}"
    facts = f"{markdown_cell(release.id)}, {count(release.records)} records"
    return "\n\n".join(
        (head, facts, markdown_table(("Gate", "Verdict", "Observed", "Limit", "Baseline", "Records"), rows))
    )


def risk_markdown(assessment: PublishedAssessment) -> str:
    """Return the risk figures as Markdown tables, each with its baseline and sample size."""
    forms = [("as published", m) for m in assessment.risk.comparison.measures]
    if assessment.continuous_form is not None:
        forms += [("continuous form", m) for m in assessment.continuous_form.measures]
    measures = markdown_table(
        ("Measure", "Form", "Verdict", "Excess", "Upper bound", "Passes within", "Records"),
        (
            (
                m.name,
                form,
                m.verdict,
                number(m.sup_excess),
                number(ceil_to(m.upper, THOUSANDTH)),
                number(m.passes_within),
                count(m.n),
            )
            for form, m in forms
        ),
    )
    attacks = markdown_table(
        ("Attack", "Found", "Interval (95 % unless it says)", "Baseline", "Records"),
        (
            (one.name, one.outcome, one.interval, one.baseline, one.records)
            for group in attack_groups(assessment)
            for one in group.attacks
        ),
    )
    return f"{measures}\n\n{attacks}"


def utility_markdown(assessment: PublishedAssessment, answer: Usefulness) -> str:
    """Return the utility figures as Markdown: the answer, the worst figures, and tables with the reference's."""
    utility = assessment.utility
    rows = []
    for name, label in STATISTICS.items():
        one = utility.figure(name)
        keys = ("released_median", "reference_median", "released_largest", "reference_largest")
        rows.append((label, *(significant(getattr(one, key, None)) for key in keys)))
    head = ("Difference of", "Median", "Reference", "Largest", "Reference")
    lines = [f"**{QUESTION}** {answer.answer}", *(f"- {markdown_cell(headline(one))}" for one in answer.headlines)]
    sizes = f"{count(assessment.records.released)} released records, at most {count(assessment.risk.columns)} columns."
    beyond = markdown_table(("Figure", "Release", "Reference", "Expected by chance"), _beyond(utility))
    return "\n\n".join(("\n".join(lines), beyond, markdown_table(head, rows), sizes))


def _beyond(utility: PublishedUtility) -> Iterable[tuple[str, ...]]:
    score = utility.propensity
    if score is None:
        yield ("pMSE", "not measured: no column varies", number(None), number(None))
    else:
        released, reference = score.released, score.reference
        yield ("pMSE", *map(significant, (released.pmse, reference.pmse if reference else None, None)))
        ratios = (released.ratio, reference.ratio if reference else None)
        yield ("pMSE, ratio to chance", *map(significant, ratios), "1")
    for one in utility.marginals:
        values = (one.mean, one.reference_mean, one.expected_mean)
        yield (f"Tables of {one.size} variables, mean distance", *(number(v, 2) for v in values))
    for regression in utility.regressions:
        sides = (regression.released, regression.reference)
        overlaps = (percent(side.mean_overlap if side else None, 0) for side in sides)
        yield (f"Interval overlap of {regression.formula}", *overlaps, "about 70 %")
