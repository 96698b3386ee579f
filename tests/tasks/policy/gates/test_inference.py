"""Sensitive values guessed for members and for non-members."""

from __future__ import annotations

import pytest

from anoncore.risk._proportions import Difference
from tasks.policy.attack import NO_NON_MEMBERS, NO_QUASI_IDENTIFIERS, NO_SENSITIVE
from tasks.policy.disclosure_control import published
from tasks.policy.gates.inference import GATE, NAME
from tests.tasks.policy.sample import assessment, changed, results


def test_the_worst_variable_decides() -> None:
    assert results(GATE, assessment())[NAME].figure == "smokes: +0.06 [+0.02, +0.10]"
    worse = changed(assessment(), risk__inference__variables__0__excess=Difference(0.1, 0.051, 0.2))
    found = results(GATE, worse)[NAME]
    assert (found.verdict, found.figure) == ("fail", "income: +0.10 [+0.05, +0.20]")
    assert GATE.metrics(worse)["risk/inference/excess_lower"] == 0.051


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"), [(0.05, 0.15, "pass"), (0.0501, 0.06, "fail"), (0.05, 0.16, "inconclusive")]
)
def test_the_margin_is_the_measures(lower: float, upper: float, verdict: str) -> None:
    given = changed(assessment(), risk__inference__variables__1__excess=Difference(0.055, lower, upper))
    assert results(GATE, given)[NAME].verdict == verdict


def test_what_was_missing_is_said() -> None:
    bare = changed(assessment(), risk__inference=None)
    grouped = changed(bare, risk__disclosure="groups")
    alone = changed(grouped, records__reference=None)
    for given, reason in ((bare, NO_QUASI_IDENTIFIERS), (alone, NO_NON_MEMBERS), (grouped, NO_SENSITIVE)):
        assert not results(GATE, given)
        (row,) = GATE.attacks(published(given))
        assert row.attacker.endswith(f"Not tested: {reason}.")
