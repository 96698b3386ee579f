"""A cross: what two halves show together, and when one of them alone decides."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anoncore.risk import AveragingAttack, membership_attack
from anoncore.risk._proportions import Difference
from anoncore.risk.halves import with_error_ratios
from tasks.policy.assessment import Assessment, Half, PriorReleases, Records
from tasks.policy.disclosure_control import published
from tasks.policy.gate import BoundedFigure, Gate, GateResult
from tasks.policy.gates import GATES
from tasks.policy.halves import _bounded, metrics_of, results_of, rows_of
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide
from tests.tasks.policy.sample import assessment, changed

NONMEMBERS = (
    "singling_out",
    "membership",
    "score_coincidence",
    "presence",
    "agreement",
    "density",
    "partial_copies",
    "linkability",
    "inference",
    "value_pairs",
)
GOOD = assessment()
MEMBERSHIP = next(gate for gate in GATES if gate.name == "membership")
CLOSE = next(gate for gate in GATES if gate.name == "unusually close records")


def cross(*halves: dict[str, Any]) -> Assessment:
    """Return what all records show without non-members, and halves that show what the changes say."""
    whole = replace(GOOD.risk, **dict.fromkeys(NONMEMBERS, None))
    sides = tuple(
        Half(GOOD.records, changed(GOOD, **{f"risk__{path}": v for path, v in half.items()}).risk) for half in halves
    )
    return replace(GOOD, records=Records(GOOD.records.original, GOOD.records.released, None), risk=whole, halves=sides)


def results(given: Assessment, policy: PolicySection | None = None) -> dict[str, GateResult]:
    return {one.name: one for one in decide(given, policy or PolicySection()).gates}


def result_of(gate: Gate, given: Assessment, policy: PolicySection | None = None) -> GateResult:
    """Return the result that has the gate's name; all gates would take a hundred times as long."""
    return next(one for one in results_of(gate, given, policy or PolicySection()) if one.name == gate.name)


def test_harmless_halves_publish_a_release_of_all_records() -> None:
    given = cross({}, {})
    assert decide(given, PolicySection()).decision == "publish"
    assert set(results(GOOD)) == set(results(given))


def test_what_is_not_measured_of_halves_is_said_once() -> None:
    game = results(cross({}, {}), PolicySection(in_out_game="required"))["in/out game"]
    assert game.verdict == "not tested"
    assert "half" not in game.meaning


@pytest.mark.parametrize(
    ("p", "verdict"), [(0.2, "pass"), (0.02, "inconclusive"), (0.001, "fail")], ids=["explained", "hardly", "not"]
)
def test_close_records_that_chance_hardly_explains_in_both_halves_ask_a_person(p: float, verdict: str) -> None:
    """By Fisher's method 0.02 and 0.02 are 0.0035, which lies between the two levels."""
    found = result_of(CLOSE, cross(*({"tail__p": p} for _ in range(2))))
    assert found.verdict == verdict
    assert ("of both halves together" in found.figure) == (verdict != "pass")


def test_forms_of_a_test_are_joined_form_by_form() -> None:
    """Each half has a form of its own that chance hardly explains: together they are explained."""
    names = ("within 0.1", "within 0.5")
    given = [tuple(zip(names, ps, strict=True)) for ps in ((0.004, 0.5), (0.5, 0.004))]
    isolated = "isolated records"
    apart = cross(*({"isolated__p": 0.008, "isolated__forms": forms} for forms in given))
    alike = cross(*({"isolated__p": 0.008, "isolated__forms": given[0]} for _ in range(2)))
    found = [
        next(one for one in results_of(CLOSE, two, PolicySection()) if one.name == isolated) for two in (apart, alike)
    ]
    assert [one.verdict for one in found] == ["pass", "fail"]


def test_one_half_that_fails_rejects() -> None:
    worse = results(cross({}, {"membership__lower": 0.56, "membership__upper": 0.7}))["membership"]
    assert worse.verdict == "fail"
    assert "of one half" in worse.meaning


def test_a_half_that_predicts_better_asks_a_person_where_all_records_do_not() -> None:
    given = cross({}, {"comparison__uncertainty__verdict": "fail"})
    asked = results(given)["prediction uncertainty"]
    assert asked.verdict == "inconclusive"
    assert "all records pass" in asked.meaning
    given = replace(given, risk=replace(given.risk, comparison=given.halves[1].risk.comparison))
    assert results(given)["prediction uncertainty"].verdict == "fail"


def test_extreme_records_of_one_half_reject_whatever_all_records_show() -> None:
    assert results(cross({}, {}))["extreme records"].verdict == "pass"
    assert results(cross({}, {"extreme__verdict": "fail"}))["extreme records"].verdict == "fail"


def test_what_fails_on_all_records_fails_whatever_the_halves_show() -> None:
    given = cross({}, {})
    given = replace(given, risk=replace(given.risk, tail=replace(given.risk.tail, p=1e-6)))
    assert results(given)["unusually close records"].verdict == "fail"


def test_tests_of_halves_keep_the_level_together() -> None:
    def close(one: float, other: float) -> str:
        return result_of(CLOSE, cross({"tail__p": one}, {"tail__p": other})).verdict

    assert close(0.009, 0.9) == "pass"
    assert close(0.01, 0.01) == "fail"
    assert close(0.0001, 0.9) == "fail"
    assert close(math.nan, 1.0) == "fail"
    rng = np.random.default_rng(1)
    assert np.mean([close(*rng.uniform(size=2)) == "fail" for _ in range(400)]) == pytest.approx(0.01 / 7, abs=0.006)


@pytest.mark.parametrize("name", ["density", "partial copies", "agreement"])
@pytest.mark.parametrize(
    ("beyond", "verdict"),
    [((0.3, 0.4), "pass"), ((0.05, 0.2), "inconclusive"), ((0.01, 0.4), "inconclusive"), ((0.001, 0.2), "fail")],
)
def test_highest_scores_of_halves_reject_where_an_accepted_area_does_not_explain_them(
    name: str, beyond: tuple[float, float], verdict: str
) -> None:
    gate, field = next(gate for gate in GATES if gate.name == name), name.replace(" ", "_")

    def with_top(p: float, accepted_p: float) -> dict[str, Any]:
        attacks = getattr(GOOD.risk, field).attacks
        top = replace(attacks[0].attack.top, p=p, accepted_p=accepted_p)
        return {f"{field}__attacks": (replace(attacks[0], attack=replace(attacks[0].attack, top=top)),)}

    found = result_of(gate, cross(with_top(0.0005, beyond[0]), with_top(0.2, beyond[1])))
    assert found.verdict == verdict
    assert "of both halves together" in found.figure
    assert "were the area 0.55; pass" in found.limit
    assert ("not shown to be more frequent" in found.explanation) == (verdict == "inconclusive")
    assert result_of(gate, cross(with_top(0.005, beyond[0]), with_top(0.9, beyond[1]))).verdict == "pass"
    assert result_of(gate, cross(with_top(math.nan, 0.9), with_top(0.9, 0.9))).verdict == "fail"


def test_two_open_halves_may_pass_together_and_not_if_both_are_high() -> None:
    at = {"membership__auc": 0.5, "membership__lower": 0.37, "membership__upper": 0.63}
    together = results(cross(at, at))["membership"]
    reach = 0.13 / math.sqrt(2.0)
    assert together.bounds is not None
    assert (together.bounds.worst.lower, together.bounds.upper) == pytest.approx((0.5 - reach, 0.5 + reach))
    assert together.verdict == "pass"
    high = {"membership__auc": 0.53, "membership__lower": 0.4, "membership__upper": 0.66}
    assert result_of(MEMBERSHIP, cross(high, high)).verdict == "inconclusive"


@pytest.mark.parametrize(("reach", "advice"), [(0.08, "near the limit"), (0.4, "about 8 times as many units")])
def test_what_is_open_says_whether_more_units_or_less_risk_would_settle_it(reach: float, advice: str) -> None:
    area = {"membership__auc": 0.56, "membership__lower": 0.56 - reach, "membership__upper": 0.56 + reach}
    assert advice in result_of(MEMBERSHIP, cross(area, area)).explanation


def test_a_bound_of_something_else_does_not_shrink_by_pooling() -> None:
    half = {"inference__variables__0__excess": Difference(0.12, 0.02, 0.42), "inference__variables__0__upper": 0.2}
    assert results(cross(half, half))["attribute inference"].verdict == "inconclusive"


@pytest.mark.parametrize("compared", [1, 3])
def test_earlier_releases_that_were_not_compared_leave_two_open_halves_open(compared: int) -> None:
    area = membership_attack(np.arange(60.0) % 7, np.arange(60.0) % 7)
    area = replace(area, auc=0.53, lower=0.45, upper=0.61)
    prior = PriorReleases(3, compared, AveragingAttack(area, area, area, 4, 100))
    given = cross({}, {})
    halves = tuple(replace(half, prior_releases=prior) for half in given.halves)
    open_ = replace(given, halves=halves, prior_releases=None)
    assert results(open_)["earlier releases"].verdict == ("pass" if compared == 3 else "inconclusive")
    (gate,) = (gate for gate in GATES if gate.name == "earlier releases")
    assert [row.gate for row in rows_of(gate, published(open_))] == ["earlier releases"] * 2


def test_the_pooled_interval_covers_the_area_of_a_leaking_procedure() -> None:
    """Each half is the other's non-members; coverage is at least that stated, for harmless and harmful scores.

    Who is easily mistaken for a member of one half is so for the other: intervals are narrower than of independent
    errors by a third, and cover nevertheless.
    """
    rng, never_fails = np.random.default_rng(5), PolicySection(membership_auc=1.0, membership_pass=1.0)
    for shift, truth in ((0.0, 0.5), (0.5, 0.6382)):
        inside, runs = 0, 300
        for _ in range(runs):
            person = rng.normal(size=(2, 150))
            found = []
            for members, others in ((0, 1), (1, 0)):
                one, other = person[members] + rng.normal(size=150) + shift * math.sqrt(2.0), person[others]
                other = other + rng.normal(size=150)
                found.append(membership_attack(one, other, confidence=0.9))
            names = ("auc", "lower", "upper", "error_ratio")
            halves = with_error_ratios(*found)
            sides = ({f"membership__{name}": getattr(one, name) for name in names} for one in halves)
            bounds = result_of(MEMBERSHIP, cross(*sides), never_fails).bounds
            assert bounds is not None
            assert 0.5 < halves[0].error_ratio < 0.9
            inside += bounds.worst.lower <= truth <= bounds.upper
        assert inside / runs >= 0.87


def test_metrics_and_rows_of_non_members_are_those_of_the_halves() -> None:
    given = cross({"membership__auc": 0.5}, {"membership__auc": 0.52})
    assert metrics_of(MEMBERSHIP, given)["risk/membership/auc"] == pytest.approx(0.51)
    rows = rows_of(MEMBERSHIP, published(given))
    assert not any(row.reason for row in rows)
    assert all(row.name.endswith("(worse half)") for row in rows)


def test_an_upper_bound_below_the_figure_is_called_that_of_all() -> None:
    worst = BoundedFigure("hatype", 0.595, 0.0, 0.335, 0.0)
    assert _bounded(worst, 0.335) == "0.595, shown > 0.000; of all ≤ 0.335"
    assert _bounded(replace(worst, value=0.2), 0.335) == "0.200 [0.000, 0.335]"
