"""The claims of the method, checked on the release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.rounding import as_measured, at_least_ten, coarse

# Figures of steps that follow from the release alone, and those in shares.
OF_THE_RELEASE = ("boxes", "smallest_box", "largest_box", "groups", "classes", "nodes", "window")
# Those that the method has rounded itself, and what is 0 unless the method fails.
ROUNDED = (
    "details_kept",
    "records_moved_at_most",
    "largest_mean_shift_at_most",
    "cost_per_record",
    "counts_off",
    "populations_off",
    "goals_unmet",
)
SHARES = ("loss", "share_below_k", "fixed_values")
# What follows from the source's squares, of which one value may be nearly all, so that any digits give it away.
WITHHELD = ("information_loss",)


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Fail where a claim does not hold; of claims in the same words each is a result of its own."""
    formal = [claim for claim in assessment.claims if claim.formal]
    return tuple(
        GateResult(
            name=name,
            verdict="pass" if claim.holds else "fail",
            figure=claim.observed,
            limit="holds",
            baseline="the release alone" if claim.recomputed else "by the method",
            records=claim.records,
            meaning="what the method claims",
            topic="Claims",
        )
        for name, claim in zip(_numbered([claim.claim for claim in formal], "{} ({})"), formal, strict=True)
    )


def _numbered(names: Sequence[str], form: str) -> list[str]:
    """Return names, the second and later ones of the same words in a form that holds their number."""
    before = [names[:place].count(name) for place, name in enumerate(names)]
    return [form.format(name, n + 1) if n else name for name, n in zip(names, before, strict=True)]


def metrics(assessment: Assessment) -> Metrics:
    """Return the figures of each claim, and what the masking steps measured themselves."""
    figures_of_steps = _shown(assessment.method_figures)
    flat: dict[str, float | None] = {f"method/{name}": value for name, value in figures_of_steps.items()}
    formal = [claim for claim in assessment.claims if claim.formal]
    for kind, claim in zip(_numbered([claim.kind for claim in formal], "{}.{}"), formal, strict=True):
        figures = {**claim.figures, "holds": float(claim.holds)}
        flat |= {f"claim/{kind}/{key}": value for key, value in figures.items()}
    return flat


def _shown(figures: Mapping[str, float]) -> Mapping[str, float]:
    """Return the figures of steps without those that are withheld: who reads tracking need not see the source."""
    return {name: value for name, value in figures.items() if name.partition(".")[2] not in WITHHELD}


def step_figures(figures: Mapping[str, float], step: float) -> Mapping[str, float]:
    """Publish the figures of steps: what counts people of the source as the next ten, and shares in whole steps.

    An attacker who knows all other people could compute the last one from an exact count, and a range of the source
    from an exact loss.
    """
    shown = {}
    for name, value in _shown(figures).items():
        of = name.partition(".")[2]
        if of in SHARES:
            value = coarse(value, step)
        elif of not in (*OF_THE_RELEASE, *ROUNDED) and float(value).is_integer():
            value = at_least_ten(int(value))
        shown[name] = value
    return shown


GATE = Gate(
    name="claims",
    description="Every claim of the masking method, such as k-anonymity, is checked on the release. Fail when one does "
    "not hold.",
    evaluate=evaluate,
    publishes={"claims": as_measured, "method_figures": step_figures},
    metrics=metrics,
)
