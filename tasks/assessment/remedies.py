"""What may lower the risk that an in/out game found: changes of the plan, each tried by playing again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, fields, replace

import numpy as np

from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.method import Method
from anoncore.microdata import Microdata
from anoncore.registry import METHODS
from anoncore.risk import GameSettings, TargetRisk, play
from anoncore.risk.game import ISOLATED, Targets
from tasks.common.errors import Refused
from tasks.masking.anonymize import ShadowMask

EXTREME = "extreme-records"
# Of how many of the most vulnerable people the variables are counted.
VULNERABLE = 10
DIED = "a process that makes shadow releases has died; memory may be short"


@dataclass(frozen=True)
class Remedy:
    """A change of a plan, and what it does to the risk of the same people.

    Parameters
    ----------
    change : in words
    problem : why it could not be tried; then there are no figures
    score : by which the most isolated people are recognised best
    mean, lower, upper, largest : mean area over the most isolated people with its bounds, and that of the worst of them
    """

    change: str
    problem: str = ""
    score: str = ""
    mean: float = 0.0
    lower: float = 0.0
    upper: float = 0.0
    largest: float = 0.0


@dataclass(frozen=True, repr=False)
class Change:
    """A change of a plan that can be tried: the masking, and a variable that is left out."""

    name: str
    mask: ShadowMask
    without: str = ""

    def people(self, original: Microdata) -> Microdata:
        """Return the table that is masked."""
        return original.select([name for name in original.schema.names if name != self.without])


def changes(mask: ShadowMask, original: Microdata, targets: tuple[TargetRisk, ...]) -> Iterator[Change]:
    """Give the changes to try: larger groups, extremes treated, the most revealing variable left out."""
    coarser = tuple(_coarser(step) for step in mask.steps)
    if coarser != mask.steps:
        yield Change("k twice as large in every step that has one", replace(mask, steps=coarser))
    if all(step.method != EXTREME for step in mask.steps):
        extreme = METHODS[EXTREME]
        for words, settings in (
            ("extreme values top-coded first", {"action": "top-code", "tail": 0.02}),
            ("extreme records set aside first", {"action": "set-aside", "times": 1.5}),
        ):
            yield Change(words, replace(mask, steps=(extreme(**settings), *mask.steps)))
    if name := _most_revealing(targets, mask.edits):
        edits = mask.edits.within(other for other in original.schema.names if other != name)
        change = Change(f"without the variable {name}", replace(mask, edits=edits), name)
        if not any(step.problems(change.people(original).schema, edits) for step in mask.steps):
            yield change


def try_change(
    change: Change,
    original: Microdata,
    targets: Targets,
    *,
    settings: GameSettings,
    rng: np.random.Generator,
    on_round: Callable[[int], None],
) -> Remedy:
    """Play again with a changed plan and the same targets."""
    assert settings.variables is not None
    settings = replace(settings, variables=tuple(name for name in settings.variables if name != change.without))
    people = change.people(original)
    try:
        game = play(people, change.mask, targets, settings=settings, rng=rng, on_round=on_round).game
    except BrokenProcessPool:
        return Remedy(change.name, problem=DIED)
    except (AnonymizationError, Refused) as error:
        return Remedy(change.name, problem=str(error))
    worst = game.worst(ISOLATED)
    assert worst is not None
    return Remedy(change.name, "", worst.score, worst.mean, worst.lower, game.upper(ISOLATED), worst.largest)


def _coarser(step: Method) -> Method:
    """Return a step with groups twice as large; the same where it has none."""
    k = getattr(step, "k", None)
    if not isinstance(k, int) or "k" not in {field.name for field in fields(step)}:
        return step
    try:
        return replace(step, k=2 * k)
    except AnonymizationError:
        return step


def _most_revealing(targets: tuple[TargetRisk, ...], edits: EditSet) -> str:
    """Return the variable that reveals the most vulnerable people most, of those that no edit ties to others."""
    bound = {name for edit in edits.edits if len(set(edit.variables)) > 1 for name in edit.variables}
    shares: Mapping[str, float] = {}
    for target in targets[:VULNERABLE]:
        shares = dict(shares) | {n: shares.get(n, 0.0) + share for n, share in target.drivers if n not in bound}
    return max(shares, key=lambda name: shares[name], default="")
