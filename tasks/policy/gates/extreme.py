"""Records far from all others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anoncore.risk import ExtremeRecords
from tasks.common.formatting import count, plain
from tasks.policy.assessment import Assessment
from tasks.policy.attack import Aim, Attack, share_interval
from tasks.policy.criteria import Advantage, Criterion, Knowledge, Place
from tasks.policy.gate import Gate, GateResult, Metrics, fields_of
from tasks.policy.published import PublishedAssessment
from tasks.policy.rounding import people_counted

NAME = "extreme records"


def evaluate(assessment: Assessment, policy: Any) -> tuple[GateResult, ...]:
    """Count the extreme records that the release matches; one is too many."""
    extreme = assessment.risk.extreme
    return (
        GateResult(
            name=NAME,
            verdict=extreme.verdict,
            figure=f"{_matched(extreme)} matched",
            limit="0",
            baseline=f"{_up_to(extreme.baseline)}, the reference",
            records=extreme.n,
            meaning="people far from everyone else, whom a close released record would disclose",
        ),
    )


def metrics(assessment: Assessment) -> Metrics:
    """Return the counts."""
    return fields_of(assessment.risk.extreme, ("n", "n_extreme", "n_matched", "baseline"), "risk/extreme/")


def attacks(assessment: PublishedAssessment) -> tuple[Attack, ...]:
    """Return the rule for extreme records."""
    extreme = assessment.risk.extreme
    n, matched = extreme.n_extreme, extreme.n_matched
    attacker = (
        f"The same, for people more than {plain(extreme.factor)} times as far from their neighbour as 99 % of the "
        "people are."
    )
    return (
        Attack(
            Aim.SINGLING_OUT,
            "Extreme records",
            attacker,
            _matched(extreme),
            share_interval(matched, n),
            f"{_up_to(extreme.baseline)}, reference",
            f"{_up_to(n)} of {count(extreme.n)}",
            NAME,
            Place(Criterion.SINGLING_OUT, Knowledge.EVERYTHING),
            Advantage.of_counts(matched, extreme.baseline, n),
        ),
    )


def _matched(extreme: ExtremeRecords) -> str:
    return f"{_up_to(extreme.n_matched)} of {_up_to(extreme.n_extreme)}"


def _up_to(n: int) -> str:
    return f"at most {count(n)}" if n else "0"


def extreme_records(extreme: ExtremeRecords, step: float) -> ExtremeRecords:
    """Publish how many are matched as the next ten; that none is stands in the verdict."""
    shown = people_counted(extreme, step)
    none = {name: 0 for name in ("n_matched", "baseline") if not getattr(extreme, name)}
    return replace(shown, **none)  # type: ignore[arg-type]


GATE = Gate(
    name=NAME,
    description="Records whose nearest neighbour is farther than five times the 99th percentile of such distances. "
    "Fail when the release matches one of them within τ. All records are searched for them, also where the other "
    "measures are of a sample.",
    evaluate=evaluate,
    individual=True,
    publishes={"risk.extreme": extreme_records},
    metrics=metrics,
    attacks=attacks,
)
