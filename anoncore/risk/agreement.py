"""Agreement: members told from strangers by the released row that shares most of their rare values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.agreement import Places, Weights, largest_agreement
from anoncore.microdata import Microdata, observed_precision
from anoncore.risk._checks import Floats
from anoncore.risk._values import Flags, SortedValues, aligned_values, shared_variables, two_folds
from anoncore.risk.scores import ScoreAttack, score_attack

TOLERANCES = (0.0, 1.0, 10.0, 100.0)
_QUERIES = 5000
_ALL = "all variables"

Compared: TypeAlias = tuple[Places, Places, Weights]


@dataclass(frozen=True)
class AgreementForm:
    """One form of the attack: what the attacker knows, and how agreement is scored.

    Parameters
    ----------
    knowledge : which variables the attacker knows
    n_variables : how many these are
    tolerance : numbers agree within so many units of their recorded precision
    score : "best" (the largest agreement) or "margin" (the largest minus the second largest)
    """

    knowledge: str
    n_variables: int
    tolerance: float
    score: str


@dataclass(frozen=True)
class AgreementAttack:
    """One form of the attack and what comes of it: members told from strangers."""

    form: AgreementForm
    attack: ScoreAttack


@dataclass(frozen=True)
class Agreement:
    """All forms of the agreement attack.

    Parameters
    ----------
    attacks : each at a confidence that holds for all of them together
    n_members, n_strangers : people scored; of more than 5000 on a side a sample
    """

    meaning: ClassVar[str] = (
        "How well members are told from strangers by the released row that shares most of their rare values; "
        "0.5 is guessing."
    )

    attacks: tuple[AgreementAttack, ...]
    n_members: int
    n_strangers: int

    @property
    def worst(self) -> AgreementAttack:
        """Return the form whose area has the largest lower bound."""
        return max(self.attacks, key=lambda one: one.attack.area.lower)

    @property
    def worst_top(self) -> AgreementAttack:
        """Return the form whose highest scores are least explained by chance."""
        return min(self.attacks, key=lambda one: one.attack.top.p)


def agreement(
    original: Microdata,
    released: Microdata,
    reference: Microdata,
    *,
    quasi_identifiers: Sequence[str] = (),
    confidence: float = 0.99,
    rng: np.random.Generator,
) -> Agreement | None:
    """Attack membership with the sum of the rarities of the values that a person shares with a released row.

    For person x and row y the agreement is Σ_j [x_j = y_j] · −log s_j, with s_j the share of strangers who hold
    x's value of variable j. Scored are the largest agreement over all rows, and the largest minus the second
    largest. The attack is made with all variables, with the quasi-identifiers alone, and for each person with
    random subsets of 3, 5, 10 and half of the variables; and with numbers that agree within 0, 1, 10 and 100
    units of their recorded precision (all variables only). Rarity is taken from one half of the strangers, and
    the people scored with it are the other half and half of the members, in turn.

    Parameters
    ----------
    original, released, reference : Microdata; members, what is published, and strangers
    quasi_identifiers : names of what an attacker is expected to know
    confidence : 0 … 1, of all forms together
    rng : Generator, draws halves, samples and subsets

    Returns
    -------
    Agreement, or None where there are fewer than four people on a side or no variable in common

    Notes
    -----
    Source: Fellegi and Sunter 1969, *JASA* 64, 1183–1210 (weights of agreement); Narayanan and Shmatikov 2008,
    *IEEE S&P*, 111–125 (best and second best); docs/explanation/risk.md. O(people · rows · variables) for each form.

    Examples
    --------
    >>> from anoncore.microdata import Schema, Variable
    >>> import pandas as pd
    >>> schema = Schema([Variable("a", "ordinal", levels=range(9)), Variable("b", "ordinal", levels=range(9))])
    >>> draw = np.random.default_rng(0).integers
    >>> a, b = (Microdata(pd.DataFrame(draw(9, size=(60, 2)), columns=["a", "b"]), schema) for _ in range(2))
    >>> agreement(a, a, b, rng=np.random.default_rng(0)).worst.attack.area.auc > 0.6
    True
    """
    tables = (original, released, reference)
    names = shared_variables(tables)
    if min(len(original), len(reference)) < 4 or not names or not len(released):
        return None
    columns = [aligned_values(tables, name) for name in names]
    numbers = np.array([original.schema[name].kind == "continuous" for name in names])
    rows = np.stack([SortedValues(column[1]).places.astype(np.int32) for column in columns])
    people = [_drawn(len(original), rng), _drawn(len(reference), rng)]
    folds = [two_folds(len(original), rng), two_folds(len(reference), rng)]
    known = _knowledge(names, quasi_identifiers)
    scored: list[tuple[AgreementForm, tuple[Floats, Floats]]] = []
    for tolerance in TOLERANCES if numbers.any() else TOLERANCES[:1]:
        sides = [_compared(columns, numbers, tolerance, side, people[side], folds) for side in (0, 1)]
        for knowledge, columns_known in known.items() if not tolerance else [(_ALL, len(names))]:
            scores = [_scores(side, rows, columns_known, rng) for side in sides]
            for place, score in enumerate(("best", "margin")):
                form = AgreementForm(knowledge, int(np.sum(columns_known)), tolerance, score)
                scored.append((form, (scores[0][place], scores[1][place])))
    single = 1.0 - (1.0 - confidence) / len(scored)
    return Agreement(
        tuple(AgreementAttack(form, score_attack(*sides, confidence=single)) for form, sides in scored),
        *(len(one) for one in people),
    )


def _knowledge(names: Sequence[str], quasi_identifiers: Sequence[str]) -> dict[str, int | Flags]:
    """Return what attackers know: the number of variables drawn for each person, or which variables they are."""
    n = len(names)
    known: dict[str, int | Flags] = {_ALL: n}
    known |= {f"{size} variables": size for size in sorted({3, 5, 10, n // 2}) if 0 < size < n}
    chosen = np.isin(names, list(quasi_identifiers))
    return known | ({"quasi-identifiers": chosen} if 0 < chosen.sum() < n else {})


def _drawn(n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the people who are scored: all, or a sample of many."""
    return np.sort(rng.choice(n, min(n, _QUERIES), replace=False))


def _compared(
    columns: Sequence[Sequence[Floats]],
    numbers: Flags,
    tolerance: float,
    side: int,
    people: NDArray[np.intp],
    folds: Sequence[Flags],
) -> Compared:
    """Return what each person's values agree with in the release, and the weight of each agreement.

    Members (side 0) of one fold are weighed with strangers of that fold, strangers (side 1) with the other fold.
    """
    shape = (len(people), len(columns))
    lower, upper = np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.int32)
    weights = np.empty(shape, dtype=np.float32)
    fold = folds[side][people] ^ bool(side)
    for j, (members, released, strangers) in enumerate(columns):
        asked = (members, strangers)[side][people]
        reach = tolerance * (observed_precision(members) or 0.0) if numbers[j] else 0.0
        reach *= 1.0 + 1e-9
        lower[:, j], upper[:, j] = SortedValues(released).interval(asked, reach)
        for flag in (True, False):
            calibration = strangers[folds[1] == flag]
            share = (SortedValues(calibration).counts(asked[fold == flag], reach) + 0.5) / (len(calibration) + 1.0)
            weights[fold == flag, j] = -np.log(share)
    return lower, upper, weights


def _scores(compared: Compared, rows: Places, known: int | Flags, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the largest agreement of each person, and the largest minus the second largest."""
    lower, upper, weights = compared
    if isinstance(known, int):
        places = rng.permuted(np.tile(np.arange(weights.shape[1]), (len(weights), 1)), axis=1)
        keep = places < known
    else:
        keep = np.broadcast_to(known, weights.shape)
    best, second, _ = largest_agreement(lower, upper, np.where(keep, weights, np.float32(0.0)), rows)
    return best.astype(np.float64), best.astype(np.float64) - second
