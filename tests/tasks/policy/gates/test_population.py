"""Risk in the population, decided where a policy gives limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.policy.assessment import Assessment, Half
from tasks.policy.disclosure_control import published
from tasks.policy.gates.population import GATE, NAME
from tasks.policy.halves import results_of
from tasks.policy.section import PolicySection
from tests.tasks.policy.sample import changed, results


def test_without_limits_it_is_reported_alone(measured: Assessment) -> None:
    assert not results(GATE, measured)
    rows = {row.name: row for row in GATE.attacks(published(measured))}
    assert list(rows) == [
        "Expected re-identifications in the population",
        "Unique in the population",
        "Special uniques",
    ]
    found = measured.risk.disclosure.released.population
    assert GATE.metrics(measured)["risk/population/traced"] == found.records.expected / found.records.n


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"), [(0.0, 9.0, "pass"), (40.0, 50.0, "fail"), (9.0, 50.0, "inconclusive")]
)
def test_the_interval_is_compared_with_the_limit(measured: Assessment, lower, upper, verdict) -> None:
    n = measured.risk.disclosure.released.population.records.n
    records = "risk__disclosure__released__population__records"
    given = changed(measured, **{f"{records}__lower": lower, f"{records}__upper": upper})
    assert results(GATE, given, population={"risk": 10.0 / n})[NAME].verdict == verdict


def test_households_uniques_and_k_map_have_limits(measured: Assessment) -> None:
    found = measured.risk.disclosure.released.population
    limits = {"households": 0.1, "uniques": found.uniqueness.dankar, "k_map": found.k_map * 2}
    limits["presence"] = found.presence
    asked = results(GATE, measured, population=limits)
    assert [one.verdict for one in asked.values()] == ["not tested", "pass", "pass", "fail"]
    traced = changed(measured, risk__disclosure__released__population__households=0.2 * found.records.n)
    assert results(GATE, traced, population=limits)["households traced"].verdict == "fail"
    shown = published(traced).risk.disclosure.released.population
    assert shown.households % 10 == 0


def test_limits_that_no_or_few_records_can_show_are_not_passed(measured: Assessment) -> None:
    part = "risk__disclosure__released__population"
    bare = changed(measured, **{f"{part}__k_map": None})
    assert results(GATE, bare, population={"k_map": 1})["k-map"].verdict == "not tested"
    few = changed(measured, **{f"{part}__counted": 0.01})
    asked = results(GATE, few, population={"risk": 1.0, "uniques": 1.0, "k_map": 1.0, "presence": 1.0})
    assert {one.verdict for one in asked.values()} == {"inconclusive"}
    assert results(GATE, few, population={"k_map": 1e9})["k-map"].verdict == "fail"


def test_halves_of_a_cross_are_no_samples_of_their_own(measured: Assessment) -> None:
    least = measured.risk.disclosure.released.population.k_map
    half = Half(measured.records, changed(measured.risk, disclosure__released__population__k_map=least / 2))
    crossed, policy = replace(measured, halves=(half, half)), PolicySection(population={"k_map": least})
    assert [one.verdict for one in results_of(GATE, crossed, policy)] == ["pass"]


def test_a_limit_needs_the_size_of_the_population(measured: Assessment) -> None:
    bare = changed(measured, risk__disclosure__released__population=None)
    assert results(GATE, bare, population={"risk": 0.1})[NAME].verdict == "not tested"
    row = GATE.attacks(published(bare))[0]
    assert "size of the population is not known" in row.attacker


def test_figures_of_other_people_are_published_in_tens(measured: Assessment) -> None:
    shown = published(measured).risk.disclosure.reference.population
    assert shown.records.expected % 10 == shown.records.upper % 10 == shown.individual % 10 == 0
    assert shown.k_map is shown.highest is None
