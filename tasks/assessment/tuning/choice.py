"""Search, choose, and judge the choice on units that the search has not seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tasks.assessment.tuning import moves
from tasks.assessment.tuning.attempts import Attempts
from tasks.assessment.tuning.outlook import Obstacle, obstacle, units_needed
from tasks.assessment.tuning.parts import ENOUGH_UNITS, Parts
from tasks.assessment.tuning.search import SearchResult, confirmed, search
from tasks.assessment.tuning.store import TrialStore
from tasks.assessment.tuning.trial import NOT_POSSIBLE, Trial, Tried
from tasks.assessment.tuning.variation import Variation

# What a custodian can do where a search has few units: where the table has enough for a run, and where it has not.
FEW = "; with {} units on each side of the search many gates stay open: "
RUN = "anonflow run, which attacks all {} units, can settle them"
MORE = (
    "that {} units show a harmless release to be harmless is not to be expected, it takes more than {}: let a person "
    "decide on a run, take units of more periods or places, or release fewer variables"
)
UNTRIED = (
    "people differ most by {}: release them in classes (global-recoding), leave them out together, or release fewer "
    "variables beside them"
)
MOST_TELLING = 3
# By how much the loss must be smaller, in every look at both, before a plan is changed: chance makes a few percent. The
# sentence that says why a plan was kept names it.
CLEARLY = 0.8


@dataclass(frozen=True)
class Choice:
    """What a search chose, and how unseen units judge it; None where nothing may be chosen.

    Parameters
    ----------
    result : of the search
    best, judged : the choice, and what unseen units say of it
    unclear : what the search found best, where the plan as it is was kept, since it was not clearly better
    units, all_units : on each side of the search, and in the table
    own : how the search remembers the plan as it is
    telling : the variables by which people differ most
    """

    result: SearchResult
    best: Tried | None
    judged: Trial | None
    unclear: Trial | None = None
    units: int = 0
    all_units: int = 0
    own: str = ""
    telling: tuple[str, ...] = ()

    @property
    def accepted(self) -> Variation | None:
        """The choice, unless unseen units refuse it."""
        refused = self.judged is None or self.judged.decision == "reject"
        return None if self.best is None or refused else self.best.variation

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        result, judged = self.result, self.judged
        if not result.tried:
            return "the search was ended before anything was tried; give it more --minutes"
        if judged is None:
            best = result.tried[0].trial
            if not best.rank()[0]:
                return "everything that passed in the search was refused by unseen units before; change the plan"
            return f"{self._none}; best: {best.name}, which {best.reason}{self._few}"
        if judged.decision == "publish":
            return _of_judged(judged, another=False) + self._kept
        stopped = self._obstacle
        why = f"; {stopped.sentence}" if stopped is not None and stopped.stops_all else ""
        return _of_judged(judged, another=len(result.candidates) > 1) + self._kept + why + self._few

    @property
    def advice(self) -> tuple[str, ...]:
        """What would help where the choice does not pass: what was tried and fails fewer gates, and what was not."""
        if (self.judged is not None and self.judged.decision != "reject") or not self.result.tried:
            return ()
        own = next((one.trial.rank() for one in self.result.tried if one.variation.key == self.own), NOT_POSSIBLE)
        better = (one.trial for one in self.result.nearest if one.trial.rank()[:2] < own[:2])
        lines = tuple(f"{one.name} fails less than the plan: {one.reason}" for one in better)
        return (*lines, UNTRIED.format(", ".join(self.telling))) if self.telling else lines

    @property
    def remembered(self) -> tuple[str, ...]:
        """What a later run of the plan repeats in place of advice to search: the advice, or what the search chose.

        A run attacks all units, of which it can show more than the search could of a part.
        """
        if self.judged is None or self.judged.decision == "reject":
            return self.advice
        return (f"settings were searched already: {self.sentence}",)

    @property
    def _obstacle(self) -> Obstacle | None:
        return obstacle(self.result.tried, enough=self.result.enough)

    @property
    def _none(self) -> str:
        """That nothing passes, and the gate that stops it; of a search that ended by itself, that nothing can."""
        stopped = self._obstacle
        why = "" if stopped is None else f": {stopped.sentence}"
        exhausted = self.result.complete and stopped is not None and stopped.stops_all
        none = "no setting that this search knows can pass with these variables and records"
        return (none if exhausted else "nothing that was tried passes") + why

    @property
    def _few(self) -> str:
        if self.result.enough or not self.result.nearest:
            return ""
        needed = units_needed(self.result.nearest[0].trial, self.units)
        enough = RUN.format(self.all_units) if self.all_units >= needed else MORE.format(self.all_units, needed)
        return FEW.format(self.units) + enough

    @property
    def _kept(self) -> str:
        if self.unclear is None:
            return ""
        return (
            f"; {self.unclear.name} has loss {_loss(self.unclear)}, which is not clearly better than the plan (a fifth "
            "less in each look at both), so the plan was kept"
        )


def _of_judged(judged: Trial, *, another: bool) -> str:
    if judged.decision == "publish":
        return f"{judged.name} passes every gate on units that the search has not seen; loss {_loss(judged)}"
    if judged.decision == "await":
        return f"a person would decide on {judged.name}: {judged.reason}"
    more = "; the same command judges the next best one" if another else ""
    return f"the search chose, and unseen units refuse, {judged.name}: {judged.reason}{more}"


def choose(
    parts: Parts,
    own: Variation,
    acknowledged: Collection[str],
    computed: Mapping[str, Collection[str]],
    attempts: Attempts,
) -> Choice:
    """Search from a plan's own steps, and judge the best setting that passes twice, and the plan beside it.

    Parameters
    ----------
    parts : the tables of the search and of the judgement
    own : the plan as it is
    acknowledged : measures that may be void by design
    computed : variables that edits compute, which no step masks, with those that they are computed from
    attempts : carries out the trials
    """
    seen = parts.search.original
    enough = seen.n_units >= ENOUGH_UNITS
    telling = moves.telling(seen, computed)
    changes = partial(moves.neighbours, schema=seen.schema, telling=telling, computed=computed)
    result = search(
        moves.first(own, acknowledged),
        partial(changes, enough=enough),
        attempts.within_time,
        screened=parts.screen is not None,
        enough=enough,
    )
    none = Choice(result, None, None, None, seen.n_units, parts.all_units, own.key, telling[:MOST_TELLING])
    second = attempts.within_time if parts.confirm else lambda variation, stage: None
    best = confirmed(_open(result, attempts.store), second)
    if best is None:
        return none
    judged = attempts.trial(best.variation, "judge")
    changed = replace(none, best=best, judged=judged)
    given = None if best.variation.key == own.key else attempts.within_time(own, "judge")
    if given is None:
        return changed
    looks = [(judged, given)]
    again, before = attempts.store.get(best.variation, "confirm"), second(own, "confirm")
    if again is not None and before is not None:
        looks.append((again, before))
    if clearly_better(looks):
        return changed
    kept = next(one for one in result.tried if one.variation.key == own.key)
    return replace(none, best=kept, judged=given, unclear=judged)


def clearly_better(looks: Sequence[tuple[Trial, Trial]]) -> bool:
    """Return whether a setting, the first of each pair, is better than the plan; the first look is the judgement.

    It is where fewer gates fail or are open; else where it leaves no more variables out and loses at most `CLEARLY` as
    much in every look.
    """
    changed, given = looks[0]
    if changed.rank()[:2] != given.rank()[:2]:
        return changed.rank()[:2] < given.rank()[:2]
    if changed.without > given.without:
        return False
    losses = [(one.loss, other.loss) for one, other in looks]
    return all(one is not None and other is not None and one <= CLEARLY * other for one, other in losses)


def _open(result: SearchResult, store: TrialStore) -> list[Tried]:
    """Return the candidates that unseen units have not refused, those of methods not refused yet first."""
    refused = [one for one in result.candidates if store.refused(one.variation)]
    methods = {one.variation.masking for one in refused}
    rest = [one for one in result.candidates if one not in refused]
    return sorted(rest, key=lambda one: one.variation.masking in methods)


def _loss(trial: Trial) -> str:
    baseline = "" if trial.baseline is None else f", another sample {trial.baseline:g}"
    return "not measured" if trial.loss is None else f"{trial.loss:g}{baseline}"
