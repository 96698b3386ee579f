"""Likelihood ratios: how much better masking a person explains the rows of a release than the population does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anoncore.kernels.agreement import Places, Weights, log_mean_evidence
from anoncore.risk._checks import Floats, Indices
from anoncore.risk._values import ComparedPeople, SortedValues

# Shares of all people, next to a person on either side, whose numbers a masked number may be drawn from.
WINDOWS = (0.005, 0.03, 0.12, 0.35)
_PEOPLE, _PAIRS = 400, 2000  # from whom a law is learned
_ROUNDS = 15
_LEAST = 1e-3  # of the probability that a value is drawn from all; sets of less are left out


@dataclass(frozen=True, eq=False, repr=False)
class Nearby:
    """Nested sets of values around those of each person, variable by variable, the smallest first.

    Parameters
    ----------
    lower, upper : (P, E) int32, half-open intervals of places of released values
    shares : (P, E) of the other people who hold a value of the set, half a person added
    variable : (E,) int, whose values they are
    variables : number of variables
    """

    lower: Places
    upper: Places
    shares: Floats
    variable: Indices
    variables: int

    @classmethod
    def of(cls, people: ComparedPeople) -> Nearby:
        """Return each value by itself and, of numbers, the windows of `WINDOWS`."""
        lower, upper, shares, variable = [], [], [], []
        for j, (values, released) in enumerate(zip(people.values, people.released, strict=True)):
            own, there = SortedValues(values), SortedValues(released)
            for window in (0.0, *WINDOWS) if people.numeric[j] else (0.0,):
                ends = own.next_to(round(window * len(values)))
                among = there.interval_between(*ends)
                lower.append(among[0][own.places])
                upper.append(among[1][own.places])
                shares.append(((own.between(*ends) - 0.5) / len(values))[own.places])
                variable.append(j)
        return cls(
            np.stack(lower, axis=1),
            np.stack(upper, axis=1),
            np.stack(shares, axis=1),
            np.array(variable),
            len(people.values),
        )

    def of_people(self, people: Indices) -> Nearby:
        """Return the sets around some people."""
        return Nearby(self.lower[people], self.upper[people], self.shares[people], self.variable, self.variables)

    def of_sets(self, sets: NDArray[np.bool_]) -> Nearby:
        """Return some of the sets."""
        ends = self.lower[:, sets], self.upper[:, sets]
        return Nearby(*ends, self.shares[:, sets], self.variable[sets], self.variables)

    def ratios(self, law: Law) -> Floats:
        """Return (P, E) Σ λ/s over each set and those that contain it, and the probability of all values."""
        ratios = law.sets / self.shares
        for at in range(len(self.variable) - 2, -1, -1):
            if self.variable[at] == self.variable[at + 1]:
                ratios[:, at] += ratios[:, at + 1]
        return np.asarray(ratios + law.rest[self.variable])

    def weights(self, law: Law) -> Weights:
        """Return (P, E) what the log ratio gains by a value that is in a set besides those that contain it."""
        logs = np.log(self.ratios(law))
        beyond = np.append(self.variable[1:] != self.variable[:-1], True)
        after = np.where(beyond, np.log(law.rest)[self.variable], np.roll(logs, -1, axis=1))
        return np.asarray((logs - after).astype(np.float32))


@dataclass(frozen=True, eq=False, repr=False)
class Law:
    """Probabilities that a masked value is drawn from people in each set around it, or from all people.

    Parameters
    ----------
    sets : (E,) of the sets of `Nearby`
    rest : (n,) of each variable, from all people
    """

    sets: Floats
    rest: Floats

    @classmethod
    def of(cls, sets: Floats, near: Nearby) -> Law:
        """Return the law with these probabilities of the sets, at most 0.999 of a variable together."""
        together = np.bincount(near.variable, sets, near.variables)
        sets = sets * np.minimum(1.0, (1.0 - _LEAST) / np.maximum(together, _LEAST))[near.variable]
        drawn = np.bincount(near.variable, sets, near.variables)
        return cls(np.asarray(sets, dtype=np.float64), np.asarray(1.0 - drawn, dtype=np.float64))

    @classmethod
    def guessed(cls, near: Nearby) -> Law:
        """Return a law by which half of the values are drawn from the sets, to begin with."""
        return cls.of(0.5 / np.bincount(near.variable)[near.variable], near)

    def updated(self, near: Nearby, inside: Floats | Weights, certain: Floats | Weights) -> Law:
        """Return the law expected where the drawn values are inside the sets with these probabilities.

        Parameters
        ----------
        near : Nearby of P people
        inside : (P, E) probability that a person's released value is inside each set, given that the person is in
        certain : (P,) probability that the person is in
        """
        exactly = inside.astype(np.float64)
        nested = near.variable[1:] == near.variable[:-1]
        exactly[:, 1:] -= np.where(nested, inside[:, :-1], 0.0)
        # A value in a set, but in none that it contains, was drawn from it or from one that contains it.
        by_ratio = certain[:, None] * exactly / near.ratios(self)
        for at in range(1, len(near.variable)):
            if nested[at - 1]:
                by_ratio[:, at] += by_ratio[:, at - 1]
        return Law.of((by_ratio * self.sets / near.shares).sum(axis=0) / max(float(certain.sum()), 1.0), near)


def likelihood_ratios(people: ComparedPeople, own: Indices | None, rng: np.random.Generator) -> dict[str, Floats]:
    """Return scores of all people by the likelihood ratio of the release.

    A masked value is modelled as drawn, with probabilities λ of its variable, from the people who hold the same value,
    from those whose numbers are within windows of ranks, or from all people: the laws of PRAM, rank swapping, noise
    and partial copies are of this kind or near to it. For person x and row y the ratio is Π_j Σ_c λ_jc [y_j ∈ N_c(x_j)]
    / s_jc, with s_jc the share of other people in the set N_c(x_j). Scored is the logarithm of its mean over all rows.

    Parameters
    ----------
    people : ComparedPeople
    own : (m,) int, the released row of each scored member, −1 for none; None where rows are not known
    rng : Generator, draws the people from whom the law is learned

    Returns
    -------
    dict of law to (P,) scores: the law that expectation and maximisation finds from release and people, and, where
    rows are known, the law of the masking, which an attacker reads in the method statement

    Notes
    -----
    The law that is found favours no one: it is learned from as many members as non-members, and which they are is not
    used. The law of the masking is a few probabilities per variable; no one's own row is used to score.

    Source: Fellegi and Sunter 1969, *JASA* 64, 1183–1210; Winkler 1988, *Proc. Survey Research Methods, ASA*, 667–671
    (probabilities by EM); Gouweleeuw, Kooiman, Willenborg and de Wolf 1998, *JOS* 14(4) (transition probabilities).
    """
    near = Nearby.of(people)
    rows = np.stack([SortedValues(column).places.astype(np.int32) for column in people.released])
    laws = {"estimated law": _estimated(near, rows, people, rng)}
    linked = np.flatnonzero(own >= 0) if own is not None else np.empty(0, dtype=np.intp)
    if own is not None and len(linked):
        members = rng.permutation(linked)[:_PAIRS]
        laws["law of the masking"] = _of_pairs(near.of_people(members), rows[:, own[members]])
    scores: dict[str, Floats] = {}
    for name, law in laws.items():
        # Sets that hardly any value is drawn from take time and show nothing.
        kept = law.sets >= _LEAST
        used, law = near.of_sets(kept), Law(law.sets[kept], law.rest)
        mean, _ = log_mean_evidence(used.lower, used.upper, used.weights(law), used.variable, rows)
        scores[name] = mean.astype(np.float64)
    return scores


def _estimated(near: Nearby, rows: Places, people: ComparedPeople, rng: np.random.Generator) -> Law:
    """Return the law by expectation and maximisation: some people are in the release with one row, some are not."""
    sides = np.arange(people.n_members), np.arange(people.n_members, len(people))
    size = min(_PEOPLE // 2, *map(len, sides))
    near = near.of_people(np.concatenate([rng.choice(side, size, replace=False) for side in sides]))
    law, share = Law.guessed(near), 0.5
    for _ in range(_ROUNDS):
        mean, inside = log_mean_evidence(near.lower, near.upper, near.weights(law), near.variable, rows, parts=True)
        odds = share / (1.0 - share) * np.exp(np.clip(mean + np.log(law.rest).sum(), -50.0, 50.0))
        certain = odds / (1.0 + odds)
        law, share = law.updated(near, inside, certain), float(np.clip(certain.mean(), 0.01, 0.99))
    return law


def _of_pairs(near: Nearby, rows: Places) -> Law:
    """Return the law by which people, (P, E), became their own rows, (n, P)."""
    values = rows[near.variable].T
    inside = ((near.lower <= values) & (values < near.upper)).astype(np.float64)
    law = Law.guessed(near)
    for _ in range(_ROUNDS):
        law = law.updated(near, inside, np.ones(len(inside)))
    return law
