"""The policy section of a plan: who approves, what is accepted, and the limits of the gates."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from tasks.policy.gates import GATES

Measure = Literal["ambiguity", "uncertainty"]
LIMITS = tuple(dict.fromkeys(gate.limits for gate in GATES if gate.limits))


class PolicySection(*LIMITS):  # type: ignore[misc]
    """When a release may be published. A failed gate always rejects.

    Parameters
    ----------
    approval : ``automatic`` publishes when every gate passes; ``person`` asks a person even then.
    approvers : How many different people must approve when a person decides.
    requester_may_approve : ``false``: the person who ran the plan may not approve it. Needs a list of people.
    approver_names : Only these people may approve; everyone on the list when empty.
    decide_within_days : A candidate that waits longer expires and is removed. Without it a candidate waits
        indefinitely.
    inconclusive : When the sample is too small to prove the release safe or unsafe: ask a person, or reject.
    by_design : Measures that carry no information about the method, as with groups of identical records.
    untested : ``membership`` accepts that attacks which compare members with non-members cannot be tested without a
        reference sample (leave-one-out); ``sampling units`` that what a released code of sampling units shows is not
        tested, as its values mean nothing outside the data; ``several records`` that records look like several of one
        unit, though each is of another. Otherwise a person is asked.
    individual_protection : ``none`` is for plans that only hide a group (``group-anonymity`` without another
        masking step): what is measured of single records is reported without a gate, and a person decides.
    individual_protection_reason : Why, with ``individual_protection: none``. It is written in the report and the
        ledger.

    Notes
    -----
    The limits are those that the gates in `tasks.policy.gates` declare.
    """

    approval: Literal["automatic", "person"] = "automatic"
    approvers: int = Field(default=1, ge=1, le=5)
    requester_may_approve: bool = True
    approver_names: tuple[str, ...] = ()
    decide_within_days: float | None = Field(default=None, gt=0, le=3650)
    inconclusive: Literal["person", "reject"] = "person"
    by_design: tuple[Measure, ...] = ()
    untested: tuple[Literal["membership", "sampling units", "several records"], ...] = ()
    individual_protection: Literal["required", "none"] = "required"
    individual_protection_reason: str = ""

    @model_validator(mode="after")
    def _waiving_has_a_reason(self) -> PolicySection:
        if (self.individual_protection == "none") != bool(self.individual_protection_reason.strip()):
            raise ValueError("individual_protection: none needs an individual_protection_reason, and only it has one")
        return self

    @model_validator(mode="after")
    def _enough_can_approve(self) -> PolicySection:
        names = {" ".join(name.split()).casefold() for name in self.approver_names}
        if "" in names or len(names) < len(self.approver_names):
            raise ValueError("approver_names must be different names, none of them empty")
        if names and len(names) < self.approvers:
            raise ValueError(
                f"approvers asks for {self.approvers} people, approver_names lists {len(names)}; name more"
            )
        return self
