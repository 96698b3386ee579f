"""The page for an authority: three criteria, three attackers, the worst attack of each, nothing passed over."""

from __future__ import annotations

import json

import pytest

from anoncore.risk import Proportion, proportion, residual_risk
from tasks.policy.assessment import Assessment
from tasks.policy.attack import NO_NON_MEMBERS, NO_QUASI_IDENTIFIERS
from tasks.policy.criteria import Advantage, Criterion, Knowledge, Place
from tasks.policy.disclosure_control import published
from tasks.policy.gates import GATES
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide
from tasks.reporting.attack_table import FORMAT, AuthorityPage, PlaceResult, authority_page
from tests.tasks.policy.sample import assessment, attack, changed, family, inferred


def page(given: Assessment) -> AuthorityPage:
    return authority_page(published(given), decide(given, PolicySection()).gates)


def at(found: AuthorityPage, criterion: Criterion, knowledge: Knowledge) -> PlaceResult:
    (row,) = [one for one in found.criteria if one.criterion == criterion]
    (place,) = [one for one in row.attackers if one.attacker == knowledge]
    return place


def test_every_criterion_has_every_attacker_with_figure_control_interval_and_size() -> None:
    found = page(assessment())
    assert [one.criterion for one in found.criteria] == ["Singling out", "Linkability", "Inference"]
    for row in found.criteria:
        assert [one.attacker for one in row.attackers] == list(Knowledge)
        for place in row.attackers:
            if place.worst is None:
                assert (place.verdict, place.tried) == ("not tested", 0)
                assert place.reason
                continue
            best = place.worst.advantage
            assert place.verdict == place.worst.verdict == "pass"
            assert best.lower <= best.value <= best.upper
            assert best.n > 0


def test_the_worst_verdict_stands_on_the_page_though_another_figure_is_larger() -> None:
    from anoncore.risk import Density

    failing = {"auc": 0.6, "lower": 0.57, "upper": 0.63}
    given = changed(assessment(), risk__density=family(Density, **failing), risk__membership=attack(0.62, 0.4, 0.7))
    found = page(given)
    place = at(found, Criterion.INFERENCE, Knowledge.EVERYTHING)
    assert (place.verdict, place.worst and place.worst.name) == ("fail", "Membership by density")
    assert place.tried > 3
    assert found.worst == place.worst


def test_what_was_not_tested_has_its_reason() -> None:
    alone = dict.fromkeys(("presence", "agreement", "density", "singling_out", "linkability", "value_pairs"))
    none = {f"risk__{name}": None for name in (*alone, "membership", "score_coincidence", "inference", "linkage")}
    found = page(changed(assessment(), records__reference=None, **none))
    assert at(found, Criterion.SINGLING_OUT, Knowledge.QUASI_IDENTIFIERS).reason == NO_NON_MEMBERS
    assert at(found, Criterion.LINKABILITY, Knowledge.HALF).reason == NO_NON_MEMBERS
    assert at(found, Criterion.INFERENCE, Knowledge.HALF).reason == NO_NON_MEMBERS
    keyless = changed(assessment(), risk__inference__by_attack=(inferred("smokes", 0.06),))
    assert NO_QUASI_IDENTIFIERS in at(page(keyless), Criterion.INFERENCE, Knowledge.QUASI_IDENTIFIERS).reason
    assert at(found, Criterion.SINGLING_OUT, Knowledge.EVERYTHING).tried == 4


def test_the_page_is_json_with_the_number_of_its_format() -> None:
    found = page(assessment())
    stored = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert stored["format"] == FORMAT
    assert stored["worst"]["verdict"] == "pass"
    place = stored["criteria"][1]["attackers"][1]
    assert set(place["worst"]["advantage"]) == {
        *("success", "control", "value", "lower", "upper", "n", "scale", "at_most")
    }


def test_gates_declare_where_their_attacks_stand() -> None:
    rows = [row for gate in GATES for row in gate.attacks(published(assessment()))]
    assert all(
        row.advantage is not None for row in rows if row.place and not row.reason and row.name != "Extreme records"
    )
    places = {row.place for row in rows if row.place}
    assert places == {Place(c, k) for c in Criterion for k in Knowledge}


def test_success_is_read_on_one_scale() -> None:
    assert Advantage.of_area(0.75, attack(0.75, 0.7, 0.8), 1628) == Advantage(
        0.75, 0.5, 0.5, pytest.approx(0.4), pytest.approx(0.6), 1628, "AUC"
    )
    share = Advantage.of_share(Proportion(0.55, 0.5, 0.6, 100), 0.1)
    assert (share.value, share.lower, share.upper) == pytest.approx((0.5, 0.4 / 0.9, 0.5 / 0.9))
    certain = Advantage.of_counts(50, 0, 50)
    assert certain is not None
    assert (certain.value, certain.n) == (1.0, 50)
    assert Advantage.of_counts(0, 0, 0) is None
    # A leak of at most ten records, of which as many are published for the control.
    few = Advantage.of_counts(10, 10, 1000)
    assert few is not None
    assert few.at_most
    assert few.value == pytest.approx(0.01)
    assert few.lower < 0
    half = residual_risk(proportion(60, 100), proportion(20, 100))
    assert Advantage.of_residual(half).value == pytest.approx(0.5)
