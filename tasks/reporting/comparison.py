"""Compare settings: what each risks and loses, which no other beats, and which is the best that passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from anoncore.risk import MeasureComparison, RiskReport
from anoncore.utility import Propensity, UtilityReport
from tasks.common.formatting import NOTHING, count, markdown_cell, markdown_table, number
from tasks.policy.gate import GateResult
from tasks.policy.limits import UtilityLimits
from tasks.record.dossier import MethodStep

Status = Literal["passes", "awaiting", "rejected", "refused", "not possible"]

LEAST = 1e-9  # limit that figures are divided by

RISKS = {
    "distance": "excess share of members with a close released record, upper bound",
    "ambiguity": "excess share of members whose nearest released record stands out, upper bound",
    "uncertainty": "excess share of members whose nearest released records agree, upper bound",
    "membership": "membership inference, upper bound of the AUC",
}
LOSSES = {
    "overall": "worst of variable, total, pair and propensity score, in multiples of its limit",
    "variable": "largest distance of a variable's distributions beside its limit, 0 to 1",
    "total": "largest share of the total of a non-negative number that is lost or added beside its limit",
    "pair": "largest change of an association of two variables beside its limit",
    "propensity": "how well a classifier separates released from original records, in multiples of the null",
}


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


def loss_of(utility: UtilityReport, axis: str, limits: UtilityLimits) -> tuple[float | None, float | None]:
    """Return what the release loses and what the reference sample does; smaller is better.

    ``overall`` takes the worst variable, total and pair and the propensity score, each in multiples of its limit in
    the plan, which chance widens as in the gates: at 1 or below, all are within.
    """
    parts = {"variable": _variable, "total": _total, "pair": _pair, "propensity": _propensity}
    losses = {name: part(utility, limits) for name, part in parts.items()}
    if axis == "overall":
        own = [both for both, _ in losses.values() if both is not None]
        others = [both for _, both in losses.values() if both is not None]
        return max((one[1] for one in own), default=None), max((one[1] for one in others), default=None)
    ours, reference = losses[axis]
    return ours and ours[0], reference and reference[0]


# A figure, and the same in multiples of its limit.
_Loss = tuple[float, float] | None


def _variable(utility: UtilityReport, limits: UtilityLimits) -> tuple[_Loss, _Loss]:
    own = [(one, limits.distance(one.two_samples)) for one in utility.variables]
    ours = [_beside(one.released_shift.distance, limit) for one, limit in own]
    return _worst(ours), _worst([_beside(one.reference_shift.distance, at) for one, at in own if one.reference_shift])


def _total(utility: UtilityReport, limits: UtilityLimits) -> tuple[_Loss, _Loss]:
    totals = [one.total for one in utility.variables if one.total is not None]
    own = [(one, limits.share(one.error, len(totals))) for one in totals]
    ours = [_beside(abs(one.released - 1), limit) for one, limit in own]
    return _worst(ours), _worst([_beside(abs(one.reference - 1), at) for one, at in own if one.reference is not None])


def _pair(utility: UtilityReport, limits: UtilityLimits) -> tuple[_Loss, _Loss]:
    own = [(one, limits.change(one.two_samples)) for one in utility.pairs.worst]
    ours = [_beside(one.change, limit) for one, limit in own]
    return _worst(ours), _worst([_beside(one.reference, at) for one, at in own if one.reference is not None])


def _propensity(utility: UtilityReport, limits: UtilityLimits) -> tuple[_Loss, _Loss]:
    both = [one for one in (utility.propensity, utility.tree) if one is not None]
    own = [(one, limits.ratio(None if one.reference is None else one.reference.ratio)) for one in both]
    ours = [_beside(_ratio(one.released), limit) for one, limit in own]
    return _worst(ours), _worst([_beside(_ratio(one.reference), at) for one, at in own if one.reference is not None])


def _beside(figure: float, limit: float) -> tuple[float, float]:
    return figure, figure / max(limit, LEAST)


def _ratio(score: Propensity) -> float:
    return np.inf if score.ratio is None else score.ratio


def _worst(figures: Sequence[tuple[float, float]]) -> _Loss:
    return max(figures, key=lambda one: one[1], default=None)


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
    beside = "" if one.baseline is None else f", another sample's {number(one.baseline)}"
    return f"best utility among those that pass: {one.name}; {LOSSES[axis]}: {number(one.loss)}{beside}"


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
