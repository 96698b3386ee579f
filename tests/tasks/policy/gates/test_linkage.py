"""How often a released row is traced to its person."""

from __future__ import annotations

import pytest

from anoncore.risk._proportions import Proportion
from tasks.policy.disclosure_control import published
from tasks.policy.gates.linkage import GATE, NAME
from tests.tasks.policy.sample import assessment, changed, results


@pytest.mark.parametrize(("lower", "verdict"), [(0.2, "pass"), (0.201, "fail")])
def test_the_lower_bound_decides(lower: float, verdict: str) -> None:
    given = changed(assessment(), risk__linkage__rate__lower=lower)
    assert results(GATE, given)[NAME].verdict == verdict
    assert results(GATE, given, linkage_rate=0.5)[NAME].verdict == "pass"


def test_without_rows_of_single_persons_there_is_no_gate() -> None:
    given = changed(assessment(), risk__linkage=None)
    assert not results(GATE, given)
    assert not GATE.metrics(given)
    (row,) = GATE.attacks(published(given))
    assert "no released row stems from one person" in row.attacker


def test_the_table_shows_the_rate_its_bound_and_how_right_matches_are_recognised() -> None:
    given = changed(
        assessment(),
        risk__linkage__among_strangers=Proportion(0.5, 0.4, 0.6, 814),
        risk__linkage__n_suppressed=3,
        risk__linkage__ambiguity__n_right=0,
    )
    rows = {row.name: row for row in GATE.attacks(published(given))}
    assert len(rows) == 6
    assert "3 of the people have no row" in rows["Linkage, people linked"].attacker
    assert rows["Right matches recognised by ambiguity"].outcome == "–"
    assert rows["Right matches recognised by distance"].outcome == "AUC 0.50"
    assert [row.gate for row in rows.values()] == [NAME, *[""] * 5]
