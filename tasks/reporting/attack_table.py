"""The table of attacks: the rows of all gates, grouped by what the attacker aims at."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.policy.attack import Aim, Attack
from tasks.policy.gates import GATES
from tasks.policy.published import PublishedAssessment


@dataclass(frozen=True)
class AttackGroup:
    """Attacks with one aim."""

    aim: str
    attacks: tuple[Attack, ...]


def attack_groups(assessment: PublishedAssessment) -> list[AttackGroup]:
    """Return the attacks of an assessment by their aims; those that were not carried out with the reason."""
    rows = [row for gate in GATES for row in gate.attacks(assessment)]
    return [AttackGroup(aim, tuple(row for row in rows if row.aim == aim)) for aim in Aim]
