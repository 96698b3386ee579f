"""The table of attacks: the rows of all gates, by what the attacker aims at, and by the criteria of an authority."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.common import values
from tasks.policy.attack import Aim, Attack
from tasks.policy.criteria import Advantage, Criterion, Knowledge, Place
from tasks.policy.gate import WORST_FIRST, GateResult, GateVerdict
from tasks.policy.gates import GATES
from tasks.policy.halves import rows_of
from tasks.policy.published import PublishedAssessment

FORMAT = 1
# An attack without a gate of its own comes after those that decide.
ORDER = (*WORST_FIRST, "reported")
MEANINGS = {
    Criterion.SINGLING_OUT: "isolating a person’s record, or a condition that one person alone meets",
    Criterion.LINKABILITY: "tracing what is known of a person to a released row, or joining two files by it",
    Criterion.INFERENCE: "deducing what is not known of a person; of one who is known entirely, being in the data",
}
NO_ATTACK = "no attack of this kind is carried out"


@dataclass(frozen=True)
class AttackGroup:
    """Attacks with one aim."""

    aim: str
    attacks: tuple[Attack, ...]


@dataclass(frozen=True)
class TriedAttack:
    """The attack that did best in one place of the page, and the verdict of its gate."""

    name: str
    attacker: str
    advantage: Advantage
    verdict: GateVerdict | str


@dataclass(frozen=True)
class PlaceResult:
    """What one attacker achieves by one criterion.

    Parameters
    ----------
    attacker : what is known of a person
    verdict : the worst of the attacks in this place; "not tested" where there is none
    tried : how many attacks were carried out
    worst : of these; None where there is none
    reason : why nothing was tested, "" otherwise
    """

    attacker: str
    verdict: str
    tried: int
    worst: TriedAttack | None
    reason: str = ""


@dataclass(frozen=True)
class CriterionResults:
    """One criterion with all attackers."""

    criterion: str
    meaning: str
    attackers: tuple[PlaceResult, ...]


@dataclass(frozen=True)
class AuthorityPage:
    """The criteria of WP216 by attackers, as a data protection authority asks for them.

    Parameters
    ----------
    criteria : the three of them
    worst : of all attacks; None where none was carried out
    """

    criteria: tuple[CriterionResults, ...]
    worst: TriedAttack | None

    def to_json(self) -> dict[str, Any]:
        """Return the page as JSON takes it, with the number of its format."""
        return {"format": FORMAT, **values.to_json(self, whole=True)}


def attack_groups(assessment: PublishedAssessment) -> list[AttackGroup]:
    """Return the attacks of an assessment by their aims; those that were not carried out with the reason."""
    rows = _rows(assessment)
    return [AttackGroup(aim, tuple(row for row in rows if row.aim == aim)) for aim in Aim]


def authority_page(assessment: PublishedAssessment, gates: Iterable[GateResult]) -> AuthorityPage:
    """Return the page for an authority: in each place the worst verdict, and the gain that is best shown.

    Notes
    -----
    Source: Article 29 Working Party, opinion 05/2014 on anonymisation techniques (WP216), section 2.2.
    """
    verdicts = {gate.name: gate.verdict for gate in gates}
    rows = _rows(assessment)
    criteria = tuple(
        CriterionResults(
            str(one), MEANINGS[one], tuple(_place(rows, Place(one, known), verdicts) for known in Knowledge)
        )
        for one in Criterion
    )
    tried = [place.worst for one in criteria for place in one.attackers if place.worst is not None]
    return AuthorityPage(criteria, max(tried, key=_harm, default=None))


def _rows(assessment: PublishedAssessment) -> list[Attack]:
    return [row for gate in GATES for row in rows_of(gate, assessment)]


def _place(rows: list[Attack], place: Place, verdicts: Mapping[str, GateVerdict]) -> PlaceResult:
    """Return what the attacks in one place achieve."""
    here = [row for row in rows if row.place == place]
    tried = [_tried(row, row.advantage, verdicts) for row in here if row.advantage is not None]
    worst = max(tried, key=_harm, default=None)
    attacker = str(place.knowledge)
    if worst is None:
        reasons = dict.fromkeys(row.reason for row in here if row.reason)
        return PlaceResult(attacker, "not tested", 0, None, "; ".join(reasons) or NO_ATTACK)
    return PlaceResult(attacker, worst.verdict, len(tried), worst)


def _tried(row: Attack, advantage: Advantage, verdicts: Mapping[str, GateVerdict]) -> TriedAttack:
    return TriedAttack(row.name, row.attacker, advantage, verdicts.get(row.gate, "reported"))


def _harm(attack: TriedAttack) -> tuple[int, float, float]:
    """Order attacks by their verdicts, by the gain that is shown, and by how near a gain is to being shown."""
    gain = attack.advantage
    reach = gain.value - gain.lower
    return -ORDER.index(attack.verdict), max(gain.lower, 0.0), gain.value / reach if reach > 0.0 else 0.0
