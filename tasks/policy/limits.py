"""Limits that several gates share."""

from __future__ import annotations

from pydantic import Field

from tasks.common.sections import Section


class ChanceLimit(Section):
    """The level of the exact tests on single records.

    Parameters
    ----------
    tail_p : Fail when chance alone produces as many identical, or unusually close, records less often than this.
    """

    tail_p: float = Field(default=0.01, gt=0, lt=1)


class MembershipLimit(Section):
    """How well members may be distinguished from non-members.

    Parameters
    ----------
    membership_auc : Fail when an attack distinguishes members from non-members better than this, at 99 %
        confidence. 0.5 is guessing.
    """

    membership_auc: float = Field(default=0.55, ge=0.5, le=1)
