"""Groups on the quasi-identifiers, and the limits that a policy may give."""

from __future__ import annotations

from tasks.policy.assessment import Assessment
from tasks.policy.attack import NO_QUASI_IDENTIFIERS, NO_SENSITIVE
from tasks.policy.disclosure_control import published
from tasks.policy.gates.quasi_identifiers import GATE
from tests.tasks.policy.sample import changed, results


def test_groups_are_reported_and_decide_nothing(measured: Assessment) -> None:
    assert not results(GATE, measured)
    rows = {row.name: row for row in GATE.attacks(published(measured))}
    assert list(rows) == [
        "Uniqueness",
        "Combinations below k = 5",
        "k-anonymity, smallest group",
        "Expected re-identifications in the sample",
        "Sensitive value disclosed",
        "ℓ-diversity",
        "t-closeness",
        "β-likeness",
    ]
    assert all(row.baseline.endswith("reference") for row in rows.values())
    assert GATE.metrics(measured)["risk/groups/smallest"] == measured.risk.disclosure.released.groups.smallest


def test_what_is_missing_is_said(measured: Assessment) -> None:
    (row,) = GATE.attacks(published(changed(measured, risk__disclosure=None)))
    assert NO_QUASI_IDENTIFIERS in row.attacker
    bare = changed(measured, risk__disclosure__released__sensitive=())
    rows = GATE.attacks(published(bare))
    assert NO_SENSITIVE in rows[-1].attacker


def test_closeness_is_enforced_where_the_policy_gives_a_limit(measured: Assessment) -> None:
    rows = measured.risk.disclosure.released.sensitive
    worst, gain = max(rows, key=lambda row: row.t), max(rows, key=lambda row: row.beta)
    limits = {"t_closeness": worst.t - 0.001, "beta_likeness": gain.beta + 0.001}
    # Groups of classes show what fails, and not that anything passes.
    for cut, verdicts in ((("age",), ["fail", "not tested"]), ((), ["fail", "pass"])):
        asked = results(GATE, changed(measured, risk__disclosure__cut=cut), groups=limits)
        assert [one.verdict for one in asked.values()] == verdicts
    assert asked["t-closeness"].variables == (worst.name,)
    bare = changed(measured, risk__disclosure__released__sensitive=())
    assert results(GATE, bare, groups={"t_closeness": 0.2})["t-closeness"].verdict == "not tested"


def test_the_smallest_group_of_other_people_is_not_published(measured: Assessment) -> None:
    groups = "risk__disclosure__reference__groups"
    few, more = (
        published(changed(measured, **{f"{groups}__smallest": n, f"{groups}__n_groups": 40 + n})) for n in (1, 2)
    )
    assert few.risk == more.risk
    assert few.risk.disclosure.reference.groups.smallest is None
