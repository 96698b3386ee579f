"""Which rejections count against a later draw."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from tasks.common.home import Home
from tasks.policy.gates.unit_changes import NAME as CHANGE
from tasks.record.attempts import rejected_attempts
from tasks.record.entry import Event, SignedDecision, Terms
from tasks.record.members import Members
from tests.tasks.facts import KNOWN, enter

BY_A_PERSON = SignedDecision(approver="A. Smith", reason="no")


def test_rejections_of_the_same_masking_of_nearly_the_same_units_count_until_one_is_published(tmp_path: Path) -> None:
    home, number = Home.locate(tmp_path), count()

    def units(people: np.ndarray) -> Members:
        digests = people.astype(np.uint64)
        return Members.of(home, digests, digests, ["x"], named=len(people))

    now = units(np.arange(100))

    def after(event: Event, people: np.ndarray, **facts: Any) -> int:
        release = f"office-{next(number)}"
        units(people).keep(home, release)
        enter(home, event, release=release, name=release, **facts)
        return rejected_attempts(home, KNOWN["masking"], now)

    nearly, others = np.arange(8, 100), np.arange(20, 120)
    assert after("rejected", nearly) == 0, "for lost utility"
    assert after("rejected", nearly, open_risk=True) == 1
    assert after("rejected", others, open_risk=True) == 1
    assert after("rejected", nearly, open_risk=True, masking="8" * 64) == 1
    assert after("rejected", nearly, decided=BY_A_PERSON) == 2
    assert after("rejected", nearly, decided=BY_A_PERSON, gates={CHANGE: ("inconclusive", "")}) == 2
    late, ahead = Terms(expires="2020-01-01T00:00:00+00:00"), Terms(expires="2999-01-01T00:00:00+00:00")
    assert after("expired", nearly, open_risk=True, terms=ahead) == 2, "overtaken by another release"
    assert after("expired", nearly, open_risk=True, terms=late) == 3
    assert after("superseded", nearly, superseded_by="office-a") == 3, "every gate on risk had passed"
    assert after("superseded", nearly, open_risk=True, superseded_by="office-a") == 4
    assert after("awaiting", nearly, open_risk=True) == 5, "drawing again without deciding is not free"
    enter(home, "superseded", release=f"office-{next(number) - 1}", open_risk=True)
    assert rejected_attempts(home, KNOWN["masking"], now) == 5, "once, whatever became of it"
    assert after("published", others) == 5
    assert after("published", nearly) == 0
    assert after("rejected", nearly, open_risk=True) == 1
    home.members_of(f"office-{next(number) - 1}").unlink()
    assert rejected_attempts(home, KNOWN["masking"], now) == 1, "of units that are not known"
