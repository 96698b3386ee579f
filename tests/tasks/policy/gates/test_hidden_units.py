"""Records that look like several of one unit: not tested, until a plan accepts it; nothing where nothing was found."""

from __future__ import annotations

import pytest

from anoncore.risk import HiddenUnits
from tasks.policy.assessment import Assessment
from tasks.policy.gates.hidden_units import GATE, NAME
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide
from tests.tasks.policy.sample import assessment, changed, results

FOUND = HiddenUnits(2000, ("age", "height", "sex"), 7.23, 7301, 831.4)


def test_it_is_not_tested_whose_the_records_are() -> None:
    one = results(GATE, changed(assessment(), hidden_units=FOUND))[NAME]
    assert (one.verdict, one.variables) == ("not tested", FOUND.variables)
    assert "7.2 others for each" in one.figure


@pytest.mark.parametrize(("untested", "decision"), [((), "await"), (("several records",), "publish")])
def test_a_person_is_asked_unless_the_plan_accepts_it(untested: tuple[str, ...], decision: str) -> None:
    verdict = decide(changed(assessment(), hidden_units=FOUND), PolicySection(untested=untested), [GATE])
    assert verdict.decision == decision


@pytest.mark.parametrize("found", [None, HiddenUnits(2000)])
def test_nothing_is_said_where_nothing_was_found(found: HiddenUnits | None) -> None:
    assert not results(GATE, changed(assessment(), hidden_units=found))


def test_it_is_stored_with_the_assessment() -> None:
    given = changed(assessment(), hidden_units=FOUND)
    assert Assessment.from_json(given.to_json()).hidden_units == FOUND
