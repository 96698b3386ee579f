"""Whether the same masking of nearly the same people was rejected before."""

from __future__ import annotations

from tasks.common.formatting import count
from tasks.common.sections import Section
from tasks.policy.assessment import Assessment
from tasks.policy.gate import Gate, GateResult, Metrics
from tasks.policy.published import published_series

NAME = "earlier attempts"


def evaluate(assessment: Assessment, policy: Section) -> tuple[GateResult, ...]:
    """Ask a person where an attempt was rejected: of several draws one passes by chance."""
    series = assessment.series
    if series is None or not series.rejected:
        return ()
    return (
        GateResult(
            name=NAME,
            verdict="inconclusive",
            figure=count(series.rejected),
            limit="0",
            baseline="0, a first attempt",
            records=assessment.records.original,
            meaning="earlier attempts with this masking on nearly the same units that were rejected, or not decided "
            "on: chance picks the best of several",
            needed="; change the steps, or let a person accept it",
        ),
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the number of attempts that were rejected, where there are some."""
    series = assessment.series
    return {} if series is None or not series.rejected else {"risk/rejected_attempts": series.rejected}


GATE = Gate(
    name=NAME,
    description="Attempts by the same steps, variables, edits and reference, under whatever plan's name, on nearly the "
    "same statistical units (nine tenths in common) that were rejected by a person, or that were rejected, expired, "
    "superseded or wait with a gate on risk failed or open, since the last one that was published. "
    "Inconclusive where there is one, so that a person decides: a plan that is drawn again under "
    "another title until it passes has been tested several times.",
    evaluate=evaluate,
    individual=True,
    publishes={"series": published_series},
    metrics=metrics,
)
