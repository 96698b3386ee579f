"""The search itself: many settings at a first look, the best of them on whole tables, then changes of the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from tasks.assessment.tuning.trial import Trial, Tried, unproven_gates
from tasks.assessment.tuning.variation import Variation

Stage = Literal["screen", "search", "confirm", "judge"]
# Of the settings at a first look, one in so many goes on, and at least so many do.
KEPT_ONE_IN, LEAST_KEPT = 3, 4
NEAREST = 3
# How many of the best have a second look.
CONFIRMED = 5

# Carries out one variation at a stage; None when the search must end.
Attempt = Callable[[Variation, Stage], Trial | None]


@dataclass(frozen=True)
class SearchResult:
    """What a search has come to on its own tables.

    Parameters
    ----------
    tried : on whole tables, the best first; empty where the search was ended before the first of them
    screened : how many had a first look only
    complete : whether it ended by itself, and not for time or by a person
    enough : whether the tables had the records to settle every gate
    """

    tried: tuple[Tried, ...]
    screened: int
    complete: bool
    enough: bool

    @property
    def candidates(self) -> tuple[Tried, ...]:
        """Those that may be judged, the best first: no gate fails for them.

        In tables with few records they may fail: in the release their units hide among twice as many.
        """
        possible = (one for one in self.tried if one.trial.decision != "not possible")
        return tuple(one for one in possible if not (self.enough and one.trial.rank()[0]))

    @property
    def nearest(self) -> tuple[Tried, ...]:
        """The three best ones of those that were possible."""
        possible = [one for one in self.tried if one.trial.decision != "not possible"]
        return tuple(possible[:NEAREST])


class _Ended(Exception):
    """The search must end."""


def search(
    first: Sequence[Variation],
    neighbours: Callable[[Tried], Iterable[Variation]],
    attempt: Attempt,
    *,
    screened: bool,
    enough: bool,
) -> SearchResult:
    """Return what was tried, the best first, once no change of the three best ones is better.

    Parameters
    ----------
    first : what to begin with, the plan's own first
    neighbours : changes of one of the best so far
    attempt : carries out one of them; None ends the search
    screened : whether all of ``first`` have a first look, of which one third is tried on whole tables
    enough : whether the tables have the records to settle every gate; else gates that are open for most settings count
        for nothing

    Notes
    -----
    First looks for which there is no time are left out, and the best of the others go on. The first look is successive
    halving with one round (Karnin, Koren, Somekh 2013), the rest is a best-first local search.
    """
    tried: dict[str, Tried] = {}

    def whole(variations: Iterable[Variation]) -> None:
        for one in variations:
            if one.key not in tried:
                tried[one.key] = Tried(one, _carried_out(attempt, one, "search"))

    def ranked() -> list[Tried]:
        return _ranked(list(tried.values()), enough=enough)

    complete, looked, unseen = False, 0, 0
    try:
        begin = list(first)
        whole(begin[:1])  # which shows how long a trial takes
        if screened:
            kept = max(LEAST_KEPT, len(begin) // KEPT_ONE_IN) - 1
            seen = list(takewhile(lambda one: one[1] is not None, ((one, attempt(one, "screen")) for one in begin[1:])))
            looks = _ranked([Tried(one, trial) for one, trial in seen if trial is not None], enough=False)
            unseen, looked = len(begin) - 1 - len(looks), len(looks[kept:])
            begin = [begin[0], *(one.variation for one in looks[:kept])]
        whole(begin)
        changed: set[str] = set()
        while following := [one for one in ranked()[:NEAREST] if one.variation.key not in changed]:
            changed.add(following[0].variation.key)
            whole(neighbours(following[0]))
        complete = not unseen
    except _Ended:
        pass
    return SearchResult(tuple(ranked()), looked, complete, enough)


def confirmed(candidates: Sequence[Tried], attempt: Attempt) -> Tried | None:
    """Return the best candidate that fails no gate at a second look either; None without a candidate.

    The best of many is the one that chance favoured at its first look. Where all fail at the second, it is the one
    that fails least in both; where a second look is not possible any more, the best that had none.
    """
    refused: list[tuple[int, int]] = []
    for number, one in enumerate(candidates[:CONFIRMED]):
        again = attempt(one.variation, "confirm")
        if again is None or not again.rank()[0]:
            return one
        refused.append((again.rank()[0] + one.trial.rank()[0], number))
    return candidates[min(refused)[1]] if refused else None


def _ranked(tried: Sequence[Tried], *, enough: bool) -> list[Tried]:
    """Return what was tried, the best first."""
    unproven = frozenset() if enough else unproven_gates([one.trial for one in tried])
    return sorted(tried, key=lambda one: one.trial.rank(unproven))


def _carried_out(attempt: Attempt, variation: Variation, stage: Stage) -> Trial:
    trial = attempt(variation, stage)
    if trial is None:
        raise _Ended
    return trial
