"""Search, choose, and judge the choice on units that the search has not seen."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from tasks.assessment.tuning import moves
from tasks.assessment.tuning.attempts import Attempts
from tasks.assessment.tuning.parts import ENOUGH_UNITS, Parts
from tasks.assessment.tuning.search import SearchResult, confirmed, search
from tasks.assessment.tuning.store import TrialStore
from tasks.assessment.tuning.trial import Trial, Tried
from tasks.assessment.tuning.variation import Variation


@dataclass(frozen=True)
class Choice:
    """What a search chose, and how unseen units judge it; None where nothing may be chosen."""

    result: SearchResult
    best: Tried | None
    judged: Trial | None

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
            return f"nothing that was tried passes; nearest: {best.name}, which {best.reason}"
        if judged.decision == "publish":
            return f"{judged.name} passes every gate on units that the search has not seen; loss {_loss(judged)}"
        if judged.decision == "await":
            return f"a person would decide on {judged.name}: {judged.reason}"
        another = "; the same command judges the next best one" if len(result.candidates) > 1 else ""
        return f"the search chose, and unseen units refuse, {judged.name}: {judged.reason}{another}"


def choose(parts: Parts, own: Variation, acknowledged: Collection[str], attempts: Attempts) -> Choice:
    """Search from a plan's own steps, and judge the best setting that passes twice.

    Parameters
    ----------
    parts : the tables of the search and of the judgement
    own : the plan as it is
    acknowledged : measures that may be void by design
    attempts : carries out the trials
    """
    seen = parts.search.original
    enough = seen.n_units >= ENOUGH_UNITS
    result = search(
        moves.first(own, acknowledged),
        partial(moves.neighbours, schema=seen.schema, telling=moves.telling(seen), enough=enough),
        attempts.within_time,
        screened=parts.screen is not None,
        enough=enough,
    )
    second = attempts.within_time if parts.confirm else lambda variation, stage: None
    best = confirmed(_open(result, attempts.store), second)
    return Choice(result, best, None if best is None else attempts.trial(best.variation, "judge"))


def _open(result: SearchResult, store: TrialStore) -> list[Tried]:
    """Return the candidates that unseen units have not refused, those of methods not refused yet first."""
    refused = [one for one in result.candidates if store.refused(one.variation)]
    methods = {one.variation.masking for one in refused}
    rest = [one for one in result.candidates if one not in refused]
    return sorted(rest, key=lambda one: one.variation.masking in methods)


def _loss(trial: Trial) -> str:
    baseline = "" if trial.baseline is None else f", another sample {trial.baseline:g}"
    return "not measured" if trial.loss is None else f"{trial.loss:g}{baseline}"
