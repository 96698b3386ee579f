from dataclasses import replace

import pytest

from anoncore.risk import (
    AttackFamily,
    MembershipAttack,
    NamedAttack,
    ScoreAttack,
    SinglingOut,
    SinglingOutBySize,
    TopScores,
)
from anoncore.risk._proportions import Proportion
from anoncore.risk._residual import residual_risk
from tasks.policy.rounded_attacks import attacks_in_steps


def family(members: int, auc: float, people: int) -> AttackFamily:
    area = MembershipAttack(auc, auc - 0.03, auc + 0.03, people, people, "pass")
    share = members / 53
    top = TopScores(53, members, share, lower=share - 0.1, p=0.0123, accepted_p=0.0345, baseline=0.5)
    return AttackFamily((NamedAttack("nearest", ScoreAttack(area, top)),), people, people)


@pytest.mark.parametrize(("people", "step"), [(40, 0.1), (100, 0.05), (200, 0.02), (500, 0.01), (2000, 0.005)])
def test_an_area_is_published_in_steps_of_its_sample(people: int, step: float) -> None:
    published = attacks_in_steps(family(26, 0.5432, people), 0.01).attacks[0].attack.area
    for name in ("auc", "lower", "upper"):
        assert getattr(published, name) / step == pytest.approx(round(getattr(published, name) / step))
    assert published.auc == pytest.approx(0.5432, abs=step)
    assert (published.gate, published.confidence) == (0.55, 0.99)


def test_one_member_more_or_less_among_the_highest_scores_is_not_seen() -> None:
    shown = [attacks_in_steps(family(members, 0.55, 500), 0.01) for members in range(21, 31)]
    assert len(set(shown)) <= 2
    assert {one.attacks[0].attack.top.members for one in shown} == {30}
    assert {one.attacks[0].attack.top.n for one in shown} == {60}
    assert {one.attacks[0].attack.top.p for one in shown} == {0.01}


def test_what_is_no_attack_stays() -> None:
    assert attacks_in_steps(None, 0.01) is None
    one = family(26, 0.55, 500)
    assert attacks_in_steps(replace(one, attacks=()), 0.01) == replace(one, attacks=())


@pytest.mark.parametrize(
    ("predicates", "members", "nonmembers", "step"),
    [(12_000, 2000, 2000, 0.005), (12_000, 1000, 40, 0.5), (125, 1000, 40, 1)],
)
def test_singling_out_is_published_in_steps_that_ten_non_members_decide(
    predicates: int, members: int, nonmembers: int, step: float
) -> None:
    times = members / nonmembers

    def published(singled: int) -> SinglingOut:
        share = min(times * singled / predicates, 1.0)
        control = Proportion(share, share, share, predicates)
        risk = residual_risk(Proportion(0.3, 0.25, 0.35, predicates), control)
        return attacks_in_steps(SinglingOut((SinglingOutBySize(1, risk, 0.1234),), members, nonmembers), 0.01)

    for value in (published(3).sizes[0].residual.control.value, published(3).sizes[0].residual.value):
        assert value / step == pytest.approx(round(value / step))
    # Ten predicates more or less move a figure by a step at most.
    controls = [published(singled).sizes[0].residual.control.value for singled in range(11)]
    assert len(set(controls)) <= 2
    assert published(3).sizes[0].blind != 0.1234
