"""Halves that are each other's non-members: errors that cancel are measured, person by person."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest

from anoncore.risk import membership_attack
from anoncore.risk.halves import with_error_ratios
from anoncore.risk.membership import MembershipAttack

N = 200


def halves(common: float, seed: int = 1) -> tuple[MembershipAttack, MembershipAttack]:
    """Return the areas of halves whose people score by what both releases have in common, and by chance."""
    rng = np.random.default_rng(seed)
    person = rng.normal(size=(2, N))
    scores = [common * person + rng.normal(size=(2, N)) for _ in range(2)]
    return membership_attack(scores[0][0], scores[0][1]), membership_attack(scores[1][1], scores[1][0])


def test_the_share_is_that_of_the_errors_over_many_draws() -> None:
    """The mean of both areas varies by as much less as one draw says."""
    for common in (0.0, 1.0, 2.0):
        draws = [halves(common, seed) for seed in range(200)]
        each, mean = np.array([[a.auc, b.auc] for a, b in draws]), [(a.auc + b.auc) / 2 for a, b in draws]
        truth = np.std(mean) / np.sqrt(each.var(axis=0).sum() / 4)
        shares = [with_error_ratios(*pair)[0].error_ratio for pair in draws[:20]]
        assert np.mean(shares) == pytest.approx(truth, abs=0.12)
    assert np.std(shares) < 0.05


def test_scores_that_owe_nothing_to_the_release_have_errors_that_cancel() -> None:
    person = np.random.default_rng(2).normal(size=(2, N))
    one, other = membership_attack(person[0], person[1]), membership_attack(person[1], person[0])
    assert one.auc + other.auc == pytest.approx(1.0)
    assert with_error_ratios(one, other)[1].error_ratio == 0.2


@dataclass(frozen=True)
class Found:
    name: str
    attacks: tuple[MembershipAttack, ...]
    p: float = 0.3


def test_attacks_are_paired_where_they_stand_and_what_differs_stays() -> None:
    one, other = halves(1.0)
    first, second = with_error_ratios(Found("a", (one, one)), Found("a", (other, one)))
    assert first.attacks[0].error_ratio == second.attacks[0].error_ratio < 0.9
    assert first.p == 0.3
    assert with_error_ratios(Found("a", (one,)), Found("b", (other,)))[0].attacks[0].error_ratio == 1.0
    assert with_error_ratios(one, None)[0] is one
    few = membership_attack(np.arange(5.0), np.arange(5.0))
    assert with_error_ratios(few, few)[0].error_ratio == 1.0
    assert with_error_ratios(one, membership_attack(np.arange(30.0), np.arange(N)))[0].error_ratio == 1.0


def test_what_one_person_adds_is_no_field_and_goes_with_the_first_change() -> None:
    one, other = halves(1.0)
    assert one.placements is not None
    assert "placements" not in {field.name for field in fields(one)}
    assert "placements" not in repr(one)
    assert replace(one, tests=2).placements is None
    assert pickle.loads(pickle.dumps(one)).placements is None
    assert with_error_ratios(one, other)[0].placements is None
