"""Values guessed for members and for non-members."""

from __future__ import annotations

import pytest

from anoncore.risk._proportions import Difference
from tasks.policy.attack import NO_NON_MEMBERS, ONE_VARIABLE
from tasks.policy.criteria import Knowledge
from tasks.policy.disclosure_control import published
from tasks.policy.gates.inference import GATE, NAME
from tests.tasks.policy.sample import assessment, changed, results


def test_the_worst_variable_decides() -> None:
    found = results(GATE, assessment())[NAME]
    assert (found.verdict, found.figure) == ("pass", "smokes: +0.06, shown > +0.02; of all ≤ +0.10")
    worse = changed(assessment(), risk__inference__variables__0__excess=Difference(0.1, 0.051, 0.2))
    found = results(GATE, worse)[NAME]
    assert (found.verdict, found.figure) == ("fail", "income: +0.10, shown > +0.05; of all ≤ +0.10")
    assert "most confident 25 % of the guesses, by the nearest" in found.meaning
    assert GATE.metrics(worse)["risk/inference/excess_lower"] == 0.051
    rows = GATE.attacks(published(worse))
    assert [row.place and row.place.knowledge for row in rows] == list(Knowledge)
    assert all(row.name.endswith(", most confident 25 %") for row in rows)
    assert all("Worst of 2: smokes, among the most confident 25 %" in row.attacker for row in rows)


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"), [(0.05, 0.15, "pass"), (0.0501, 0.06, "fail"), (0.05, 0.16, "inconclusive")]
)
def test_the_margin_is_the_measures(lower: float, upper: float, verdict: str) -> None:
    given = changed(
        assessment(),
        risk__inference__variables__1__excess=Difference(0.055, lower, upper),
        risk__inference__variables__1__upper=upper,
    )
    assert results(GATE, given)[NAME].verdict == verdict


def test_what_was_missing_is_said() -> None:
    single = changed(assessment(), risk__inference=None)
    alone = changed(single, records__reference=None)
    for given, reason in ((single, ONE_VARIABLE), (alone, NO_NON_MEMBERS)):
        for row in GATE.attacks(published(given)):
            assert row.attacker.endswith(f"Not tested: {reason}.")
    assert not results(GATE, single)
    assert results(GATE, alone)[NAME].verdict == "not tested"
