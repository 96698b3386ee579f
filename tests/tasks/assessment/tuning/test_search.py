"""The search: what it begins with, where it goes, and when it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anoncore.methods import MDAV, AdditiveNoise, ExtremeRecords, RareLevels, SequentialTrees, SpectralSwap
from anoncore.microdata import Schema, Variable
from tasks.assessment.tuning import moves
from tasks.assessment.tuning.choice import Choice, clearly_better
from tasks.assessment.tuning.search import SearchResult, Stage, confirmed, search
from tasks.assessment.tuning.trial import Trial, Tried, unproven_gates
from tasks.assessment.tuning.variation import Variation
from tasks.policy.gate import GateResult, GateVerdict, Topic

SCHEMA = Schema([Variable("income", "continuous", precision=1.0), Variable("sex", "nominal", levels=("f", "m"))])


def gate(verdict: GateVerdict, name: str = "membership", *variables: str) -> GateResult:
    topic: Topic = "Utility" if name == "pair" else "Risk"
    return GateResult(name, verdict, "0.6", "0.5", "0.5", 100, "", topic, variables)


def trial(loss: float, *gates: GateResult, without: int = 0) -> Trial:
    decision = "reject" if any(one.verdict == "fail" for one in gates) else "publish"
    return Trial(f"loss {loss}", decision, "", gates, loss, 1.0, without)


def local(clusters: int) -> Variation:
    return Variation((SpectralSwap(local=clusters),))


def clusters_of(variation: Variation) -> int:
    (step,) = variation.steps
    assert isinstance(step, SpectralSwap)
    return step.local


def changes(own: Variation, of: Trial, *telling: str, enough: bool = True) -> list[Variation]:
    return list(moves.neighbours(Tried(own, of), SCHEMA, telling, {"tax": ("income",)}, enough=enough))


def searched(
    *, most: int = 100, screened: bool = False, first: int = 1
) -> tuple[SearchResult, list[tuple[Stage, int]]]:
    """Search for the number of clusters: up to 8 the loss falls, and with more a gate fails."""
    asked: list[tuple[Stage, int]] = []

    def attempt(variation: Variation, stage: Stage) -> Trial | None:
        if len(asked) == most:
            return None
        asked.append((stage, clusters_of(variation)))
        return trial(1 / clusters_of(variation), gate("pass" if clusters_of(variation) <= 8 else "fail"))

    def neighbours(best: Tried) -> list[Variation]:
        return [local(2 * clusters_of(best.variation))]

    begin = [local(1), *(local(3 + i) for i in range(first - 1))]
    return search(begin, neighbours, attempt, screened=screened, enough=True), asked


def test_the_best_that_passes_is_found_and_nothing_is_tried_twice() -> None:
    result, asked = searched()
    assert (clusters_of(result.candidates[0].variation), result.complete) == (8, True)
    assert asked == [("search", n) for n in (1, 2, 4, 8, 16)]


def test_settings_that_fail_are_judged_only_if_the_records_were_too_few() -> None:
    fails = tuple(Tried(local(n), trial(1.0 / n, gate("fail"))) for n in (2, 1))
    assert not SearchResult(fails, 0, complete=True, enough=True).candidates
    assert SearchResult(fails, 0, complete=True, enough=False).candidates == fails


def test_the_best_that_passes_a_second_look_too_is_chosen() -> None:
    tried = [Tried(local(n), trial(1.0 / n, gate("pass"))) for n in (8, 4, 2)]

    def chosen(*passing: int, most: int = 9) -> int:
        looks: list[Stage] = []

        def attempt(variation: Variation, stage: Stage) -> Trial | None:
            looks.append(stage)
            passes = clusters_of(variation) in passing
            return trial(1.0, gate("pass" if passes else "fail")) if len(looks) <= most else None

        one = confirmed(tried, attempt)
        assert one is not None
        assert set(looks) == {"confirm"}
        return clusters_of(one.variation)

    assert [chosen(8, 4), chosen(4, 2), chosen(), chosen(most=1)] == [8, 4, 8, 4]
    assert confirmed([], lambda variation, stage: None) is None


def test_a_search_that_is_ended_has_the_best_so_far() -> None:
    result, _ = searched(most=2)
    assert (clusters_of(result.candidates[0].variation), result.complete) == (2, False)
    assert not searched(most=0)[0].candidates


def test_after_a_first_look_one_third_goes_on_and_the_plans_own_always_does() -> None:
    result, asked = searched(screened=True, first=10)
    assert [n for stage, n in asked if stage == "screen"] == list(range(3, 12))
    assert [n for stage, n in asked if stage == "search"][:4] == [1, 8, 7, 6]
    assert result.screened == 6


def test_failed_gates_count_before_open_ones_variables_left_out_and_loss() -> None:
    ranked = [
        trial(2.0, gate("pass")),
        trial(0.1, gate("pass"), without=1),
        trial(0.1, gate("inconclusive")),
        trial(0.0, gate("fail")),
        Trial("", "not possible", ""),
    ]
    assert sorted(ranked, key=lambda one: one.rank()) == ranked
    assert trial(0.1, gate("inconclusive")).rank({"membership"}) < trial(2.0, gate("pass")).rank({"membership"})


def test_gates_that_are_open_for_most_settings_are_open_for_want_of_records() -> None:
    both = [gate("inconclusive"), gate("pass", "density")]
    trials = [trial(1.0, *both), trial(2.0, *both), trial(3.0, gate("pass"), gate("inconclusive", "density"))]
    assert unproven_gates(trials) == {"membership"}


def test_it_begins_with_the_plans_steps_and_methods_that_no_person_must_acknowledge() -> None:
    own = Variation((RareLevels(), AdditiveNoise(b=0.2), ExtremeRecords()))
    tried = moves.first(own, ())
    assert tried[0] == own
    assert all([s.method for s in one.steps[::2]] == ["rare-levels", "extreme-records"] for one in tried)
    assert "mdav" not in {one.steps[1].method for one in tried}
    assert "mdav" in {one.steps[1].method for one in moves.first(own, {"uncertainty"})}


def test_where_gates_fail_treatments_are_added_and_what_drives_them_is_rounded_or_left_out() -> None:
    own = Variation((RareLevels(k=5), MDAV(k=10)))
    tried = changes(own, trial(1.0, gate("fail", "inference", "income", "sex")))
    assert {(one.without, one.rounded) for one in tried} >= {
        (("income", "tax"), ()),
        ((), (("income", 10.0),)),
        (("sex",), ()),
    }
    unnamed = changes(own, trial(1.0, gate("fail")), "sex")
    assert {one.without for one in unnamed} == {(), ("sex",)}
    few = changes(own, trial(1.0, gate("fail")), "income", enough=False)
    # A tax that is computed from the income would say the same.
    assert {one.without for one in few} == {(), ("income", "tax")}
    assert {one.steps[0].method for one in tried} == {"rare-levels", "extreme-records"}
    assert {one.steps for one in tried} >= {(RareLevels(k=10), MDAV()), (RareLevels(k=5), MDAV(k=20))}


def test_what_passes_is_never_protected_less_than_the_plan_states() -> None:
    own = Variation((RareLevels(k=5), MDAV(k=40)))
    tried = changes(own, trial(1.0, gate("pass")))
    assert tried == [replace(own, steps=(RareLevels(k=5), MDAV(k=20)))]
    assert not changes(replace(own, steps=(MDAV(),)), trial(1.0, gate("pass")))
    trees = changes(Variation((SequentialTrees(leaf=8),)), trial(1.0, gate("pass")))
    assert not changes(own, trial(1.0, gate("inconclusive")), enough=False)
    lost = changes(
        Variation((SequentialTrees(first=("sex",)),)), trial(1.0, gate("to decide", "pair", "income", "tax", "sex"))
    )
    assert "sequential-trees first income, sex" in {one.name for one in lost}
    # Leaves of four are refused by the method.
    assert [one.name for one in trees] == [f"sequential-trees leaf 8 significance {s}" for s in (0.2, 0.0125)]


def test_a_plan_is_changed_for_gates_or_for_a_clearly_smaller_loss() -> None:
    failed = trial(0.5, gate("fail"))
    assert clearly_better([(trial(1.0), failed)])
    assert not clearly_better([(failed, trial(1.0))])
    assert clearly_better([(trial(0.7), trial(1.0)), (trial(0.8), trial(1.0))])
    assert not clearly_better([(trial(0.7), trial(1.0)), (trial(0.9), trial(1.0))])
    assert not clearly_better([(replace(trial(0.1), without=1), trial(1.0))])


@pytest.mark.parametrize(("changes", "name"), [({}, ""), ({"without": ("a",)}, "; without a")], ids=str)
def test_a_variation_is_named_by_what_differs_from_the_defaults(changes: dict, name: str) -> None:
    steps = (RareLevels(), SpectralSwap(local=4))
    assert Variation(steps, **changes).name == f"rare-levels + spectral-swap local 4{name}"


def test_a_plan_that_is_kept_is_compared_with_what_was_not_clearly_better() -> None:
    plan = Trial("own", "await", "a person must decide", loss=0.948, baseline=0.444)
    other = Trial("other", "await", "a person must decide", loss=0.654, baseline=0.444)
    kept = Choice(SearchResult((Tried(Variation(()), other),), 0, True, True), None, plan, other).sentence
    assert "; other has loss 0.654, another sample 0.444, which is not clearly better than the plan (a fifth" in kept
    assert kept.endswith("so the plan was kept")


@pytest.mark.parametrize("enough", [True, False])
def test_a_search_of_few_units_says_what_a_custodian_can_do(enough: bool) -> None:
    failed = Tried(Variation(()), Trial("own", "reject", "failed: density"))
    sentence = Choice(SearchResult((failed,), 0, True, enough), None, None, units=65).sentence
    assert sentence.startswith("nothing that was tried passes; best: own, which failed: density")
    assert ("with 65 units on each side of the search" in sentence) == (not enough)


def test_where_nothing_passes_it_says_which_changes_helped_and_who_people_are_told_apart_by() -> None:
    own, other = Variation((RareLevels(),)), Variation((RareLevels(),), without=("income",))
    helped = Tried(other, Trial(other.name, "reject", "failed: density", (gate("fail"),)))
    plan = Tried(own, Trial(own.name, "reject", "failed: density, agreement", (gate("fail"), gate("fail"))))
    result = SearchResult((helped, plan), 0, True, True)
    advice = Choice(result, None, None, own=own.key, telling=("income", "age")).advice
    assert advice[0] == "rare-levels; without income fails less than the plan: failed: density"
    assert advice[1].startswith("people differ most by income, age: ")
    assert len(advice) == 2
    waits = Choice(result, helped, replace(helped.trial, decision="await"), own=own.key)
    assert not waits.advice
    assert waits.remembered == (f"settings were searched already: {waits.sentence}",)
    passes = Choice(result, helped, replace(helped.trial, decision="publish"), own=own.key)
    assert passes.remembered == (f"settings were searched already: {passes.sentence}",)
