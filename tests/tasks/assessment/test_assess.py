"""Risk and utility on real people: what must fail fails, and what is harmless never does."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.recoding import Recoding, recoded
from anoncore.risk import Queries, sample_size
from tasks.assessment.assess import Assessed, AssessmentSection, assess, with_published_risk
from tasks.common.home import Home
from tasks.common.randomness import SeedSection
from tasks.common.run import Run
from tasks.intake.split import Sides
from tasks.masking.anonymize import Masked
from tasks.policy.assessment import Assessment, RareLevels, Records
from tasks.policy.disclosure_control import published
from tasks.policy.rounding import step_of
from tasks.policy.section import PolicySection
from tasks.policy.verdict import decide


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home.locate(tmp_path_factory.mktemp("assess"))


def stored(
    home: Home, original: Microdata, released: Microdata, reference: Microdata | None
) -> tuple[Run, Sides, Masked]:
    run = Run.start(home, SeedSection(public=3, data_are_public=True))
    store = run.workspace.store
    sides = Sides(store("original", original), None if reference is None else store("reference", reference))
    return run, sides, Masked(released=store("released", released), keeps_records=False)


def measured(
    home: Home, original: Microdata, released: Microdata, reference: Microdata | None, **section: Any
) -> tuple[Assessment, Assessed]:
    assessed = assess(*stored(home, original, released, reference), AssessmentSection(**section), PolicySection())
    plain = json.loads(json.dumps(assessed.assessment.to_json(), allow_nan=False))
    assert Assessment.from_json(plain).to_json() == assessed.assessment.to_json() == plain
    return assessed.assessment, assessed


def verdicts(figures: Assessment, **policy: Any) -> dict[str, str]:
    return {gate.name: gate.verdict for gate in decide(figures, PolicySection(**policy)).gates}


def _few_variables(data: Microdata) -> Microdata:
    """Return the first 14 variables: time grows with their number, and what is tested here does not."""
    names = list(data.schema.names)[:14]
    return Microdata(data.frame[names], Schema([data.schema[name] for name in names]))


@pytest.fixture(scope="module")
def people(nhefs: Microdata) -> Microdata:
    return _few_variables(nhefs)


@pytest.fixture(scope="module")
def halves(nhefs_halves: tuple[Microdata, Microdata]) -> tuple[Microdata, Microdata]:
    original, reference = (_few_variables(half) for half in nhefs_halves)
    return original, reference


@pytest.fixture(scope="module")
def copied(home: Home, halves: tuple[Microdata, Microdata]) -> Assessment:
    """The figures of the worst release there is: the original itself."""
    original, reference = halves
    return measured(home, original, original, reference)[0]


@pytest.fixture(scope="module")
def independent(home: Home, halves: tuple[Microdata, Microdata]) -> tuple[Assessment, Assessed]:
    """The figures of a release that holds nobody of the original: the reference sample."""
    original, reference = halves
    return measured(home, original, reference, reference)


def test_releasing_the_original_fails_in_every_way(copied: Assessment) -> None:
    found = verdicts(copied)
    assert found["prediction distance"] == "fail"
    assert found["unusually close records"] == "fail"
    assert found["identical records"] == "fail"
    assert found["membership"] == "fail"
    assert copied.risk.identical.n_released == 814
    assert copied.risk.membership.auc > 0.99
    assert copied.risk.tail.n_released == 814 - copied.risk.tail.n_duplicates
    assert copied.risk.comparison.verdict == "fail"
    assert decide(copied, PolicySection()).decision == "reject"


def test_releasing_the_original_keeps_every_statistic(copied: Assessment) -> None:
    for figure in copied.utility.figures.figures:
        assert figure.released_median == figure.released_largest == 0.0
        assert figure.sufficient_median


def test_releasing_the_reference_never_fails(independent: tuple[Assessment, Assessed]) -> None:
    figures = independent[0]
    assert set(verdicts(figures).values()) <= {"pass", "inconclusive"}
    assert verdicts(figures)["unusually close records"] == "pass"
    assert verdicts(figures)["extreme records"] == "pass"
    assert all(m.sup_excess == 0 for m in figures.risk.comparison.measures)
    assert decide(figures, PolicySection()).decision in ("publish", "await")
    for figure in figures.utility.figures.figures:
        assert (figure.released_median, figure.released_largest) == (figure.reference_median, figure.reference_largest)


def test_another_sample_of_the_population_never_fails(home: Home, people: Microdata) -> None:
    order = np.random.default_rng(0).permutation(len(people))
    figures, _ = measured(home, *(people.take(order[i * 400 : (i + 1) * 400]) for i in range(3)))
    assert "fail" not in verdicts(figures).values()


def test_a_few_copied_records_fail_the_tail_though_distributions_agree(
    home: Home, halves: tuple[Microdata, Microdata]
) -> None:
    original, reference = halves
    frame = reference.frame.reset_index(drop=True)
    spiked = frame.copy()
    spiked.iloc[:24] = original.frame.iloc[:24].astype(object).to_numpy()
    figures, _ = measured(home, original, Microdata(spiked, original.schema), reference)
    assert verdicts(figures)["unusually close records"] == "fail"
    assert verdicts(figures)["prediction distance"] != "fail"


def test_sizes_and_settings_stand_beside_the_figures(copied: Assessment) -> None:
    assert copied.records == Records(814, 814, 814)
    assert copied.risk.queries == Queries(814, 814, None)
    assert copied.risk.k == 5
    assert copied.continuous_form is None
    assert {m.name: m.n for m in copied.risk.comparison.measures} == {
        "distance": 814,
        "ambiguity": 814,
        "uncertainty": 814,
    }
    assert len(copied.utility.columns) == copied.risk.columns


def test_curves_are_sorted_so_that_no_value_has_a_record(independent: tuple[Assessment, Assessed]) -> None:
    curves = independent[1].curves.load()
    assert set(curves) == {
        f"{side}_{name}" for side in ("released", "reference") for name in ("distance", "ambiguity", "uncertainty")
    }
    for curve in curves.values():
        assert curve.shape == (814,)
        assert (np.diff(curve) >= 0).all()


def test_the_same_run_measures_the_same_again(home: Home, halves: tuple[Microdata, Microdata]) -> None:
    reference = halves[1]
    few = [side.take(np.arange(200)) for side in halves]
    given = stored(home, few[0], reference.take(np.arange(100)), few[1])
    once, again = (assess(*given, AssessmentSection(), PolicySection()).assessment for _ in range(2))
    assert once.to_json() == again.to_json()


# Leave-one-out


def test_leave_one_out_fails_the_original_and_tests_no_membership(
    home: Home, halves: tuple[Microdata, Microdata]
) -> None:
    original = halves[0].take(np.arange(400))
    figures, _ = measured(home, original, original, None)
    found = verdicts(figures)
    assert found["prediction distance"] == "fail"
    assert found["unusually close records"] == "fail"
    assert found["membership"] == "not tested"
    assert figures.risk.membership is None
    assert figures.records.reference is None
    assert all(figure.reference_median is None for figure in figures.utility.figures.figures)


def test_leave_one_out_does_not_fail_people_who_took_no_part(home: Home, halves: tuple[Microdata, Microdata]) -> None:
    original, others = halves
    figures, _ = measured(home, original, others, None)
    assert "fail" not in verdicts(figures).values()


def test_leave_one_out_of_fewer_released_records(home: Home, halves: tuple[Microdata, Microdata]) -> None:
    original, others = halves
    some = np.random.default_rng(0).choice(len(others), 400, replace=False)
    figures, _ = measured(home, original, others.take(some), None)
    # Whoever is among the 400 drawn from the source is compared with the other 399.
    assert (figures.risk.comparison.n_released, figures.risk.comparison.n_reference) == (400, 399)
    assert "fail" not in verdicts(figures).values()


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_leave_one_out_forgives_what_few_columns_meet_by_chance(home: Home, columns: int) -> None:
    names = [f"x{i}" for i in range(columns)]
    schema = Schema(Variable(name, "continuous") for name in names)
    values = np.random.default_rng(columns).normal(size=(2, 500, columns))
    people, others = (Microdata(pd.DataFrame(v, columns=names), schema) for v in values)
    figures, _ = measured(home, people, others, None)
    assert verdicts(figures)["unusually close records"] == "pass"
    copies = Microdata(pd.concat([people.frame[:100], others.frame[100:]], ignore_index=True), schema)
    found = verdicts(measured(home, people, copies, None)[0])
    assert found["unusually close records"] == "fail"
    assert found["identical records"] == "fail"


# Unequal sizes


@pytest.mark.parametrize(("released", "reference"), [(200, 400), (400, 200)])
def test_unequal_sizes_are_compared_at_the_smaller(
    home: Home, halves: tuple[Microdata, Microdata], released: int, reference: int
) -> None:
    original, others = halves[0].take(np.arange(400)), halves[1]
    size = min(released, reference)
    copy, _ = measured(home, original, original.take(np.arange(released)), others.take(np.arange(reference)))
    comparison = copy.risk.comparison
    assert (comparison.n_released, comparison.n_reference) == (size, size)
    assert comparison.draws > 1
    assert verdicts(copy)["prediction distance"] == "fail"
    assert verdicts(copy)["unusually close records"] == "fail"
    assert copy.risk.membership.n_nonmembers == reference


# Sampled queries


def test_above_the_limit_queries_are_sampled_and_the_error_is_stated(home: Home, people: Microdata) -> None:
    figures, assessed = measured(home, people, people, None, sample_above=1000, epsilon=0.06)
    used = figures.risk.queries.used
    assert used == sample_size(0.06, 0.01) < len(people) == figures.risk.queries.of
    assert 0 < figures.risk.queries.epsilon <= 0.06
    assert assessed.curves.load()["released_distance"].shape == (used,)
    assert all(m.n == used for m in figures.risk.comparison.measures)
    assert verdicts(figures)["prediction distance"] == "fail"
    assert figures.risk.queries.sampled


def test_sampled_membership_takes_as_many_people_from_both_sides(home: Home, people: Microdata) -> None:
    original, others = people.take(np.arange(1020)), people.take(np.arange(1020, 1629))
    section = {"sample_above": 1000, "epsilon": 0.09}
    figures, _ = measured(home, original, original, others, **section)
    attack = figures.risk.membership
    assert attack.n_members == attack.n_nonmembers == figures.risk.queries.used < 609
    assert verdicts(figures)["membership"] == "fail"


def test_exhaustive_forbids_sampling(home: Home, people: Microdata) -> None:
    figures, _ = measured(home, people, people, None, sample_above=1000, exhaustive=True)
    assert figures.risk.queries == Queries(1629, 1629, None)


# Awkward tables


def test_constant_and_empty_columns_break_no_figure(home: Home, mixed: Microdata) -> None:
    original, reference = mixed.take(np.arange(120)), mixed.take(np.arange(120, 240))
    figures, _ = measured(home, original, reference, reference)
    assert "fail" not in verdicts(figures).values()
    assert not any(c.startswith(("constant", "empty")) for c in figures.utility.columns)


def test_a_column_that_is_constant_in_the_release_breaks_no_figure(home: Home, mixed: Microdata) -> None:
    original, reference = mixed.take(np.arange(120)), mixed.take(np.arange(120, 240))
    flat = reference.frame.assign(income=np.nan, change=1.0, grade=reference.frame["grade"].cat.categories[0], sex=0)
    released = Microdata(flat, original.schema)
    figures, _ = measured(home, original, released, reference)
    assert not figures.utility.figure("variance").sufficient_median


def test_many_identical_records_break_no_figure(home: Home, mixed: Microdata) -> None:
    rows = np.repeat(np.arange(6), 40)
    twins = mixed.take(rows)
    figures, _ = measured(home, twins.take(np.arange(120)), twins, twins.take(np.arange(120, 240)))
    assert figures.risk.tail.n_duplicates == 120


def test_rare_released_levels_are_named_for_the_report(home: Home, mixed: Microdata) -> None:
    released = mixed.take(np.flatnonzero(mixed.frame["region"].to_numpy() != "w"))
    rare = mixed.take(np.concatenate([released.frame.index[:100], mixed.frame.index[mixed.frame["region"] == "w"][:2]]))
    figures, _ = measured(home, mixed, rare, None)
    assert RareLevels("region", ("w",)) in figures.rare_levels


@pytest.mark.parametrize(
    "wrong",
    [{"k": 1}, {"margin": 0}, {"alpha": 0.5}, {"tau": 1}, {"sample_above": 10}, {"epsilon": 0}, {"more": 1}],
    ids=str,
)
def test_impossible_settings_are_refused_with_the_plan(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AssessmentSection(**wrong)


def test_a_recoded_release_is_compared_with_the_source_in_the_same_levels(home: Home) -> None:
    rng = np.random.default_rng(8)
    schema = Schema([Variable("age", "continuous"), Variable("town", "nominal"), Variable("pay", "continuous")])
    sides = []
    for _ in range(2):
        columns = {
            "age": rng.integers(18, 90, 200),
            "town": rng.choice(["a", "b", "c"], 200),
            "pay": rng.normal(size=200),
        }
        sides.append(Microdata(pd.DataFrame(columns).round(3), schema))
    coarser = Recoding("age", width=10.0), Recoding("town", {"a": "a or b", "b": "a or b", "c": "c"})
    run, given, masked = stored(home, sides[0], recoded(sides[0], coarser), sides[1])
    masked = replace(masked, recodings=coarser)
    figures = assess(run, given, masked, AssessmentSection(), PolicySection()).assessment
    assert figures.risk.identical.n_released == 200


def test_risk_is_published_without_a_part_of_the_members_and_decided_with_all(
    home: Home, halves: tuple[Microdata, Microdata]
) -> None:
    """Forty copied members that the published part lacks are rejected; the figures do not show on whom that rests."""
    original, reference = halves
    copies = np.arange(40)
    released = reference.take(np.arange(len(original)))
    frame = released.frame.reset_index(drop=True)
    frame.iloc[copies] = original.frame.iloc[copies].to_numpy()
    released = Microdata(frame, released.schema)
    run, sides, masked = stored(home, original, released, reference)
    left_out = np.arange(len(original)) < 160
    sides = replace(sides, left_out=run.workspace.store_arrays("left-out", risk=left_out, utility=left_out))
    section, policy = AssessmentSection(), PolicySection()
    assessed = assess(run, sides, masked, section, policy)
    both = with_published_risk(run, sides, masked, assessed, section, policy)
    figures, shown = both.assessment, published(both.assessment)
    assert figures.risk == assessed.assessment.risk
    assert figures.risk.identical.n_released >= 40 > figures.risk_published.identical.n_released
    assert (shown.risk_of_part, shown.risk.queries.of) == (True, len(original) - 160)
    assert len(both.curves.load()["released_distance"]) == len(original) - 160
    verdict = {one.name: one for one in decide(figures, policy).gates}
    assert verdict["unusually close records"].verdict == "fail"
    assert verdict["unusually close records"].figure.startswith("at most 10 (")
    assert verdict["unusually close records"].figure.endswith(", decided by exact figures of all units")
    # No figure of the published part counts more members than it has, and its step is that of so many.
    told = json.dumps(shown.risk, default=vars)
    assert max(map(int, re.findall(r'"(?:n_members|n_queries|n_people)": (\d+)', told))) == len(original) - 160
    assert shown.continuous_form is None
    excess = shown.risk.comparison.distance.sup_excess / step_of(len(original) - 160)
    assert excess == pytest.approx(round(excess))
    nobody = replace(sides, left_out=run.workspace.store_arrays("nobody", risk=~left_out & left_out))
    for known in (replace(sides, left_out=None), nobody):
        assert with_published_risk(run, known, masked, assessed, section, policy) is assessed


def test_a_part_with_few_neighbours_is_measured_with_fewer(home: Home, people: Microdata) -> None:
    few = people.take(np.arange(45))
    run, sides, masked = stored(home, few, people.take(np.arange(45, 90)), None)
    left_out = run.workspace.store_arrays("left-out", risk=np.arange(45) < 22, utility=np.zeros(45, dtype=bool))
    section, policy, sides = AssessmentSection(k=25), PolicySection(), replace(sides, left_out=left_out)
    assessed = assess(run, sides, masked, section, policy)
    found = with_published_risk(run, sides, masked, assessed, section, policy).assessment
    assert (found.risk.k, found.risk_published.k) == (25, 21)
