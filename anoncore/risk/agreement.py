"""Agreement: members distinguished from non-members by the released row that shares most of their rare values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from anoncore.kernels.agreement import Places, Weights, largest_agreement
from anoncore.microdata import Microdata, observed_precision
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import ComparedPeople, Flags, SortedValues
from anoncore.risk.matching import likelihood_ratios
from anoncore.risk.scores import SINGLE, AttackFamily, Certainty, NamedAttack

TOLERANCES = (0.0, 1.0, 10.0, 100.0)
ALL, HALF, QUASI_IDENTIFIERS = "all variables", "half of the variables", "quasi-identifiers"

Compared: TypeAlias = tuple[Places, Places, Weights]


@dataclass(frozen=True)
class Agreement(AttackFamily):
    """All forms of the agreement attack: what the attacker knows, how near numbers must be, and what is scored."""

    meaning: ClassVar[str] = (
        "How well members are distinguished from non-members by the released row that shares most of their rare "
        "values; 0.5 is guessing."
    )

    def with_knowledge(self, knowledge: str) -> NamedAttack | None:
        """Return the worst form with this knowledge: `ALL`, `HALF` or `QUASI_IDENTIFIERS`; None where none has it."""
        forms = [one for one in self.attacks if one.name.startswith(knowledge)]
        return max(forms, key=lambda one: one.attack.area.lower, default=None)


def agreement(
    original: Microdata,
    released: Microdata,
    reference: Microdata,
    *,
    quasi_identifiers: Sequence[str] = (),
    own: Indices | None = None,
    certainty: Certainty = SINGLE,
    rng: np.random.Generator,
) -> Agreement | None:
    """Attack membership with the sum of the rarities of the values that a person shares with a released row.

    For person x and row y the agreement is Σ_j [x_j = y_j] · −log s_j, with s_j the share of the other people
    (members and non-members) who hold x's value of variable j. Scored are the largest agreement over all rows, and the
    largest less the second largest. The attack is made with all variables, with the quasi-identifiers or the levels
    alone, and for each person with random subsets of 3, 5, 10 and half of the variables; and with numbers that agree
    within 1, 10 and 100 units of their recorded precision (all variables only). Likelihood ratios weigh agreement and
    disagreement by the law of the masking (`anoncore.risk.matching.likelihood_ratios`).

    Parameters
    ----------
    original, released, reference : Microdata; members, what is published, and non-members
    quasi_identifiers : names of what an attacker is expected to know
    own : (N,) int, the released row of each record of the original, −1 for none, from which the law of the masking is
        computed; None where rows are not known
    certainty : of the bounds; the lower ones hold for all forms of all attacks together
    rng : Generator, draws samples and subsets

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
    people = ComparedPeople.of(original, released, reference, rng)
    if people is None:
        return None
    rows = np.stack([SortedValues(column).places.astype(np.int32) for column in people.released])
    known = _knowledge(people, quasi_identifiers)
    scored: dict[str, Floats] = {}
    for tolerance in TOLERANCES if people.numeric.any() else TOLERANCES[:1]:
        compared = _compared(people, tolerance)
        for knowledge, columns in known.items() if not tolerance else [(ALL, len(people.names))]:
            name = knowledge + (f" within {tolerance:g} units" if tolerance else "")
            best, second = _scores(compared, rows, columns, rng)
            scored |= {f"{name}, largest": best, f"{name}, largest less second": best - second}
    ratios = likelihood_ratios(people, None if own is None else own[people.members], rng)
    scored |= {f"{ALL} by likelihood, {name}": values for name, values in ratios.items()}
    certain = certainty.over(len(scored))
    attacks = tuple(NamedAttack(name, people.attack(values, certain)) for name, values in scored.items())
    return Agreement(attacks, *people.n_units)


def _knowledge(people: ComparedPeople, quasi_identifiers: Sequence[str]) -> dict[str, int | Flags]:
    """Return what attackers know: the number of variables drawn for each person, or which variables they are."""
    n = len(people.names)
    known: dict[str, int | Flags] = {ALL: n}
    known |= {HALF: n // 2} if n > 1 else {}
    known |= {f"{size} variables": size for size in (3, 5, 10) if size < n and size != n // 2}
    chosen = {QUASI_IDENTIFIERS: np.isin(people.names, list(quasi_identifiers)), "levels": ~people.numeric}
    return known | {name: flags for name, flags in chosen.items() if 0 < flags.sum() < n}


def _compared(people: ComparedPeople, tolerance: float) -> Compared:
    """Return what each person's values agree with in the release, and the weight of each agreement."""
    lower, upper, weights = [], [], []
    for j, (values, released) in enumerate(zip(people.values, people.released, strict=True)):
        reach = 0.0
        if people.numeric[j] and tolerance:
            reach = tolerance * (observed_precision(values[: people.n_members]) or 0.0) * (1.0 + 1e-9)
        own = SortedValues(values)
        low, high = SortedValues(released).interval(own.known, reach)
        lower.append(low[own.places])
        upper.append(high[own.places])
        weights.append(-np.log(people.shares(j, reach)).astype(np.float32))
    return np.stack(lower, axis=1), np.stack(upper, axis=1), np.stack(weights, axis=1)


def _scores(compared: Compared, rows: Places, known: int | Flags, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the largest and second largest agreement of each person."""
    lower, upper, weights = compared
    if isinstance(known, int):
        places = rng.permuted(np.tile(np.arange(weights.shape[1]), (len(weights), 1)), axis=1)
        keep = places < known
    else:
        keep = np.broadcast_to(known, weights.shape)
    best, second, _ = largest_agreement(lower, upper, np.where(keep, weights, np.float32(0.0)), rows)
    return best.astype(np.float64), second.astype(np.float64)
