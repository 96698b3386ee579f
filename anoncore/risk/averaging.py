"""Several releases of one table: what an attacker gains by putting them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anoncore.errors import AnonymizationError
from anoncore.kernels.neighbors import nearest
from anoncore.microdata import Units
from anoncore.microdata.units import unit_codes
from anoncore.risk._checks import Floats, matrix
from anoncore.risk.membership import MembershipAttack, membership_attack
from anoncore.risk.scores import SINGLE, Certainty

_SAME = 1e-9  # standard deviations; nearer rows are one


@dataclass(frozen=True)
class AveragingAttack:
    """Members distinguished from non-members by all releases together, and by the newest alone.

    Parameters
    ----------
    averaged : by the distance to the mean of the nearest rows, one of each release; noise averages out
    gathered : by the mean logarithm of the distances to the nearest rows: every release adds evidence
    newest : by the last release alone, what the others have to be set beside
    n_releases, n_rows : releases, and rows of all of them
    histories : by the distance to the nearest history, the mean of all rows of one pseudonym; None where rows of
        different releases cannot be joined
    """

    meaning: ClassVar[str] = (
        "How well a member is distinguished from a non-member by all releases of these data together; "
        "0.5 is guessing. Fresh randomness in every release averages out, and what is left is the person."
    )

    averaged: MembershipAttack
    gathered: MembershipAttack
    newest: MembershipAttack
    n_releases: int
    n_rows: int
    histories: MembershipAttack | None = None

    @property
    def together(self) -> dict[str, MembershipAttack]:
        """The attacks by all releases, by their names."""
        forms = {"averaged": self.averaged, "gathered": self.gathered}
        return forms if self.histories is None else forms | {"histories": self.histories}


def averaging_attack(
    original: ArrayLike,
    reference: ArrayLike,
    releases: Sequence[ArrayLike],
    *,
    certainty: Certainty = SINGLE,
    pseudonyms: Sequence[Units] | None = None,
) -> AveragingAttack:
    """Attack membership with several releases of one table.

    The attacker knows a person's record x and takes from each release its nearest row. He averages these
    rows m̄ and scores −|x − m̄|; or he scores −mean log(|x − row| + δ), δ a billionth of a standard
    deviation. Rows need not be aligned: the person's own record aligns them. Where they carry pseudonyms he
    averages all rows of each, and scores minus the distance of the mean x̄ of the person's records to the nearest of
    these histories.

    Parameters
    ----------
    original : (N, n) members of every release, encoded, in standard deviations
    reference : (L, n) people in none of them, same population and encoding
    releases : matrices (M_t, n), same encoding, the newest last
    certainty : of the bounds of areas, with the units of all people
    pseudonyms : for each release (M_t,), whose row each is, the same in all of them; None where rows carry none

    Returns
    -------
    AveragingAttack

    Raises
    ------
    AnonymizationError
        When there is no release, or the tables do not fit together.

    Notes
    -----
    Who is in the reference must have been in no release, or the two sides would be mixed and the attack seem
    to fail. With releases that owe nothing to the members both areas are ½ on average, whatever their number.
    Source: docs/explanation/risk.md.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> members, others = rng.normal(size=(2, 200, 20))
    >>> noisy = [members + rng.normal(size=members.shape) for _ in range(20)]
    >>> alone, together = (averaging_attack(members, others, r) for r in (noisy[:1], noisy))
    >>> together.averaged.auc > alone.averaged.auc + 0.1
    True
    """
    members = matrix("original", original)
    others = matrix("reference", reference, members.shape[1])
    if not len(releases):
        raise AnonymizationError("releases must hold at least one matrix, got none")
    tables = [matrix("releases", release, members.shape[1]) for release in releases]
    scores = [_scores(people, tables) for people in (members, others)]
    units = certainty.units
    attack = partial(membership_attack, confidence=certainty.confidence, tests=certainty.tests, units=units)
    averaged, gathered, newest = (attack(one, other) for one, other in zip(*scores, strict=True))
    sizes = len(tables), sum(len(table) for table in tables)
    if pseudonyms is None:
        return AveragingAttack(averaged, gathered, newest, *sizes)
    means = _unit_means(np.concatenate(tables), np.concatenate(list(pseudonyms)))[0]
    sides = (members, units.members), (others, units.nonmembers)
    own = [_by_histories(people, of_records, means) for people, of_records in sides]
    return AveragingAttack(averaged, gathered, newest, *sizes, attack(*own))


def _by_histories(people: Floats, units: Units | None, histories: Floats) -> Floats:
    """Return (N,) scores of records: minus the distance from the mean of their unit's records to a history."""
    means, codes = _unit_means(people, units)
    return -nearest(means, histories, 1)[0][codes, 0]


def _unit_means(rows: Floats, units: Units | None) -> tuple[Floats, NDArray[np.intp]]:
    """Return the mean row of each unit, and (N,) the unit of each row."""
    codes = unit_codes(units, len(rows))
    means = np.zeros((int(codes.max(initial=-1)) + 1, rows.shape[1]))
    np.add.at(means, codes, rows)
    return means / np.bincount(codes)[:, None], codes


def _scores(people: Floats, tables: list[Floats]) -> tuple[Floats, Floats, Floats]:
    """Return (N,) scores: by the averaged rows, by gathered evidence, and by the last table."""
    total, evidence = np.zeros_like(people), np.zeros(len(people))
    distance = evidence
    for table in tables:
        distances, place = nearest(people, table, 1)
        distance = distances[:, 0]
        total += table[place[:, 0]]
        evidence = evidence - np.log(distance + _SAME)
    apart = people - total / len(tables)
    return -np.sqrt(np.einsum("ij,ij->i", apart, apart)), evidence / len(tables), -distance
