"""How often a released row is traced to its person."""

from __future__ import annotations

import pytest

from anoncore.risk._proportions import Proportion
from tasks.policy.assessment import ExternalFiles
from tasks.policy.disclosure_control import published
from tasks.policy.gates.linkage import CERTAIN, GATE, NAME
from tests.tasks.policy.sample import assessment, by_subset, changed, results


@pytest.mark.parametrize(("lower", "verdict"), [(0.2, "pass"), (0.201, "fail")])
def test_the_lower_bound_decides(lower: float, verdict: str) -> None:
    given = changed(assessment(), risk__linkage__rate__lower=lower)
    assert results(GATE, given)[NAME].verdict == verdict
    assert results(GATE, given, linkage_rate=0.5)[NAME].verdict == "pass"


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"), [(0.1, 0.2, "pass"), (0.201, 0.3, "fail"), (0.19, 0.21, "inconclusive")]
)
def test_the_set_of_variables_that_links_most_decides(lower: float, upper: float, verdict: str) -> None:
    given = changed(assessment(), risk__subset_linkage=by_subset(lower, upper))
    found = results(GATE, given)[NAME]
    assert found.verdict == verdict
    assert "4 unchanged variables; worst of 3 sets" in found.meaning
    assert GATE.metrics(given)["risk/linkage/subset_lower"] == lower
    rows = {row.name: row for row in GATE.attacks(published(given))}
    assert "values of 10\u00a0% of the non-members" in rows["Linkage by some variables, with certainty"].attacker
    assert rows["Linkage by some variables"].gate == NAME
    assert rows["Linkage by some variables, with certainty"].gate == CERTAIN


@pytest.mark.parametrize(
    ("certain", "verdict"), [((0.01, 0.02), "pass"), ((0.021, 0.03), "fail"), ((0.01, 0.021), "inconclusive")]
)
def test_links_of_which_an_attacker_is_certain_have_a_limit_of_their_own(
    certain: tuple[float, float], verdict: str
) -> None:
    given = changed(assessment(), risk__subset_linkage=by_subset(0.1, 0.15, certain))
    found = results(GATE, given)
    assert {name: (one.limit, one.verdict) for name, one in found.items()} == {
        NAME: ("≤ 0.2", "pass"),
        CERTAIN: ("≤ 0.02", verdict),
    }
    assert results(GATE, given, linkage_certain=0.1)[CERTAIN].verdict == "pass"


def test_without_rows_of_single_persons_there_is_no_gate() -> None:
    given = changed(assessment(), risk__linkage=None)
    assert not results(GATE, given)
    assert not GATE.metrics(given)
    (row,) = GATE.attacks(published(given))
    assert "no released row stems from one person" in row.attacker
    (row,) = GATE.attacks(published(changed(given, external=ExternalFiles(0, 0))))
    assert "no released row stems from one person" not in row.attacker
    assert "which row of the file stems from which person is not known" in row.reason
    assert "`--aligned`" in row.reason


def test_the_table_shows_the_rate_its_bound_and_how_right_matches_are_recognised() -> None:
    given = changed(
        assessment(),
        risk__linkage__among_nonmembers=Proportion(0.5, 0.4, 0.6, 814),
        risk__linkage__n_suppressed=3,
        risk__linkage__ambiguity__n_right=0,
    )
    rows = {row.name: row for row in GATE.attacks(published(given))}
    assert len(rows) == 6
    assert "3 of the people have no row" in rows["Linkage, people linked"].attacker
    assert rows["Right matches recognised by ambiguity"].outcome == "–"
    assert rows["Right matches recognised by distance"].outcome == "AUC 0.50"
    assert [row.gate for row in rows.values()] == [NAME, *[""] * 5]
