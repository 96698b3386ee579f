"""Compare settings: what each risks and loses, which no other beats, and which is the best that passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from anoncore.risk import MeasureComparison, RiskReport
from anoncore.utility import UtilityReport
from tasks.common.formatting import NOTHING, count, markdown_cell, markdown_table, number
from tasks.policy.gate import GateResult
from tasks.record.dossier import MethodStep

Status = Literal["passes", "awaiting", "rejected", "refused", "not possible"]

# A median of the reference below this counts as this: in large samples it is sampling error and nothing else.
LEAST_MEDIAN = 0.001

RISKS = {
    "distance": "excess share of members with a close released record, upper bound",
    "ambiguity": "excess share of members whose nearest released record stands out, upper bound",
    "uncertainty": "excess share of members whose nearest released records agree, upper bound",
    "membership": "membership inference, upper bound of the AUC",
}
LOSSES = {
    "overall": "largest of the four differences, in multiples of the reference's",
    "mean": "median difference of means, in standard deviations",
    "variance": "median difference of variances, as a share",
    "correlation": "median difference of correlations",
    "rank_correlation": "median difference of rank correlations",
    "propensity": "how well a classifier separates released from original records, 0 to 1",
}
# Without a reference there is nothing to be a multiple of.
BARE = "largest of the four median differences"


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One setting: its figures on the two axes and what the policy says.

    Parameters
    ----------
    name : as the user has written it, or "plan"
    label : how pictures and steps call it
    status : "refused" lacks an acknowledgement, "not possible" could not be carried out
    risk, limit : the upper bound of the figure, and what it must be within to pass; None where nothing was measured, or
        it says nothing
    loss, baseline : how much is lost, smaller is better, and what the reference sample loses
    """

    name: str
    label: str
    status: Status
    reason: str
    steps: tuple[MethodStep, ...] = ()
    risk: float | None = None
    limit: float | None = None
    loss: float | None = None
    baseline: float | None = None
    records: int | None = None
    gates: tuple[GateResult, ...] = ()
    seconds: float = 0.0

    @property
    def drawn(self) -> bool:
        """Whether it has a place on the map."""
        return self.risk is not None and self.loss is not None


def risk_of(risk: RiskReport, axis: str) -> float | None:
    """Return the upper bound, which must be within the limit to pass; None where it was not tested or says nothing."""
    if axis == "membership":
        return None if risk.membership is None else risk.membership.upper
    measure: MeasureComparison = getattr(risk.comparison, axis)
    return None if measure.verdict == "by design" else measure.upper


def loss_of(utility: UtilityReport, axis: str) -> tuple[float | None, float | None]:
    """Return what the release loses and what the reference sample does; smaller is better.

    ``overall`` divides the medians of the four figures by the reference's and takes the largest: at 1 or
    below, no statistic is further off than in another sample of the same population.
    """
    if axis == "propensity":
        score = utility.propensity
        if score is None:
            return None, None
        return score.released.share_of_maximum, score.reference.share_of_maximum if score.reference else None
    if axis != "overall":
        figure = utility.figure(axis)
        return (None, None) if figure is None else (figure.released_median, figure.reference_median)
    # Without figures there was nothing to compare: no column varies, or there is one alone.
    if utility.figures is None:
        return None, None
    pairs = [(one.released_median, one.reference_median) for one in utility.figures.figures]
    ratios = [ours / max(other, LEAST_MEDIAN) for ours, other in pairs if other is not None]
    return (max(ratios), 1.0) if len(ratios) == len(pairs) else (max(ours for ours, _ in pairs), None)


def frontier(tried: Sequence[Tried]) -> tuple[Tried, ...]:
    """Return the settings of which no other is as good on both axes and better on one, by risk."""
    drawn = [t for t in tried if t.drawn]
    kept = [t for t in drawn if not any(_beats(other, t) for other in drawn)]
    return tuple(sorted(kept, key=place))


def best(tried: Sequence[Tried]) -> Tried | None:
    """Return the setting that loses least among those that pass; of equals the one that risks less."""
    passing = [t for t in tried if t.status == "passes" and t.loss is not None]
    return min(passing, key=lambda t: (t.loss, np.inf if t.risk is None else t.risk), default=None)


def sentence(tried: Sequence[Tried], axis: str) -> str:
    """Say which setting has the best utility among those that pass, or that none does."""
    one = best(tried)
    if one is None:
        waiting = sum(t.status == "awaiting" for t in tried)
        return "nothing passes" + (f"; {waiting} must be decided by a person" if waiting else "")
    if axis == "overall" and one.baseline is not None:
        how = f"its statistics differ at most {number(one.loss, 2)} times as much as another sample's"
    else:
        beside = "" if one.baseline is None else f", another sample's {number(one.baseline)}"
        how = f"{label_of(axis, one.baseline)}: {number(one.loss)}{beside}"
    return f"best utility among those that pass: {one.name}; {how}"


def label_of(axis: str, baseline: float | None) -> str:
    """Return what a utility axis counts."""
    return BARE if axis == "overall" and baseline is None else LOSSES[axis]


def place(one: Tried) -> tuple[float, float]:
    """Return risk and loss of a setting that has both."""
    assert one.risk is not None
    assert one.loss is not None
    return one.risk, one.loss


def _beats(one: Tried, other: Tried) -> bool:
    (risk, loss), (their_risk, their_loss) = place(one), place(other)
    return risk <= their_risk and loss <= their_loss and (risk, loss) != (their_risk, their_loss)


def markdown(tried: Sequence[Tried], sentence: str) -> str:
    """Return the settings as a Markdown table, with the sentence that names the best."""
    head = ("Setting", "Verdict", "Why", "Risk", "Limit", "Utility loss", "Reference", "Records")
    return f"{markdown_cell(sentence)}\n\n{markdown_table(head, map(row, tried))}"


def row(one: Tried) -> tuple[str, ...]:
    """Return a setting as the cells of a table."""
    figures = (number(v) for v in (one.risk, one.limit, one.loss, one.baseline))
    records = NOTHING if one.records is None else count(one.records)
    return one.name, one.status, one.reason, *figures, records
