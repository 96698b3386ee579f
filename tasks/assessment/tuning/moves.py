"""Which variations a search tries: methods that suit the table first, then changes of the best of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace

from anoncore.errors import AnonymizationError
from anoncore.method import Method
from anoncore.microdata import Microdata, Schema
from anoncore.registry import METHODS
from anoncore.utility.pairs import IS_MISSING
from tasks.assessment.tuning.trial import Trial, Tried
from tasks.assessment.tuning.variation import Variation

# Settings of a method worth a look besides its defaults.
SETTINGS: dict[str, tuple[dict[str, object], ...]] = {
    "sequential-trees": ({"significance": 0.2}, {"leaf": 20}),
    "spectral-swap": (
        {"numeric": "normal"},
        {"numeric": "normal", "marginals": "drawn"},
        {"numeric": "normal", "marginals": "drawn", "local": 4},
    ),
    "spectral-rhs": ({"k": 5},),
}
# Parameters that count the records that stand together for one; k does so in steps that prepare or make groups.
SIZES = ("k", "leaf")
# Parameters that follow the data more closely the larger they are, and the factors by which they are changed.
CLOSENESS: dict[str, tuple[float, ...]] = {"local": (4.0, 2.0, 0.25), "significance": (4.0, 0.25)}
# Steps that treat records at risk; a search adds them and makes them stronger, and never removes them.
TREATMENTS: tuple[tuple[str, dict[str, object]], ...] = (
    ("rare-levels", {"k": 5, "action": "redistribute"}),
    ("extreme-records", {"action": "set-aside"}),
    ("extreme-records", {"action": "top-code"}),
)
# Methods that keep the most in tables of mixed variables are tried first: time may end a search before the others.
EARLY = ("sequential-trees", "household-trees", "spectral-swap", "spectral-rhs", "spectral-synthesis", "data-shuffling")
COARSER = 10.0
# Of the variables that drive failed gates, how many are looked at.
DRIVERS = 3
# Topics of gates that treating rare or extreme records does not help.
SENSE = ("Sense", "Utility")
# Of the variables that lost most, how many are drawn first.
FIRST = 4


def first(own: Variation, acknowledged: Collection[str]) -> list[Variation]:
    """Return what a search begins with: the plan's own steps, and each masking method in their place.

    Left out are methods that release ranges, publish numbers of single records, or make a measure void that is not
    ``acknowledged``: that is for a person to decide, not for a search.
    """
    masking = [i for i, step in enumerate(own.steps) if not step.prepares]
    if not masking:
        return [own]
    prepared = [step for step in own.steps if step.prepares]
    at = sum(step.prepares for step in own.steps[: masking[0]])
    tried = (replace(own, steps=(*prepared[:at], one, *prepared[at:])) for one in _methods(acknowledged))
    return list({one.key: one for one in (own, *tried)}.values())


def _methods(acknowledged: Collection[str]) -> Iterator[Method]:
    for name in dict.fromkeys((*EARLY, *METHODS)):
        method = METHODS[name]
        if method.prepares or any(f.default is MISSING and f.default_factory is MISSING for f in fields(method)):
            continue
        for settings in ({}, *SETTINGS.get(name, ())):
            step = method(**settings)
            void = set(step.void_by_design) & {"uncertainty"}
            if not (step.releases_ranges or step.publishes_source_values or void - set(acknowledged)):
                yield step


def neighbours(
    best: Tried, schema: Schema, telling: Sequence[str], computed: Mapping[str, Collection[str]], *, enough: bool
) -> Iterator[Variation]:
    """Yield changes of one of the best variations so far: what protects more where gates fail, else what loses less.

    Parameters
    ----------
    telling : variables by which people differ most, for failed gates that name none
    computed : variables that edits compute, which no step draws, with those that they are computed from
    enough : whether the tables have the records to show the risk of following the data more closely
    """
    variation, trial = best.variation, best.trial
    if trial.decision == "not possible":
        return
    yield from _ordered(variation, trial, computed)
    if any(gate.topic not in SENSE for gate in trial.failed) or (enough and trial.open):
        yield from _treated(variation)
        yield from _sized(variation, 2.0)
    if trial.failed:
        at_risk = any(gate.topic not in SENSE for gate in trial.failed)
        yield from _less(variation, _drivers(trial) or (telling[:DRIVERS] if at_risk else ()), schema, computed)
    if enough:
        yield from _sized(variation, 0.5)
        yield from _closer(variation)


def _drivers(trial: Trial) -> list[str]:
    """Return the variables that drive the failed gates, the first of each gate first."""
    named = [name.removesuffix(IS_MISSING) for gate in trial.failed for name in gate.variables]
    return list(dict.fromkeys(named))[:DRIVERS]


def telling(data: Microdata, computed: Collection[str]) -> tuple[str, ...]:
    """Return the variables by which people differ most but for those computed: the more values, the earlier."""
    counts = data.frame[[name for name in data.schema.masked if name not in computed]].nunique()
    return tuple(sorted(counts.index, key=lambda name: -counts[name]))


def _treated(best: Variation) -> Iterator[Variation]:
    """Add a treatment of rare levels or extreme records where the steps have none."""
    present = {step.method for step in best.steps}
    for name, settings in TREATMENTS:
        if name not in present:
            yield replace(best, steps=(METHODS[name](**settings), *best.steps))


def _sized(best: Variation, factor: float) -> Iterator[Variation]:
    """Change the number of records that stand together, step by step.

    That of a step that prepares is never lowered, and groups are not made smaller than by default.
    """
    for i, step in enumerate(best.steps):
        for name in SIZES:
            size = getattr(step, name, None)
            grouping = name != "k" or step.prepares or step.void_by_design
            if not isinstance(size, int) or not grouping or (factor < 1 and step.prepares):
                continue
            new = round(size * factor)
            if name != "k" or new >= min(size, getattr(type(step), name)):
                yield from _changed(best, i, {name: new})


def _ordered(best: Variation, trial: Trial, computed: Collection[str]) -> Iterator[Variation]:
    """Draw first what lost most, so that its association depends on little else."""
    lost = (gate for gate in (*trial.failed, *trial.lost) if gate.topic in SENSE)
    named = dict.fromkeys(name.removesuffix(IS_MISSING) for gate in lost for name in gate.variables)
    worst = [name for name in named if name not in computed][:FIRST]
    for i, step in enumerate(best.steps):
        before = getattr(step, "first", None)
        if isinstance(before, tuple) and set(worst) - set(before):
            rest = tuple(name for name in before if name not in worst)
            yield from _changed(best, i, {"first": (*worst, *rest)})


def _closer(best: Variation) -> Iterator[Variation]:
    """Follow the data more closely, or less."""
    for i, step in enumerate(best.steps):
        for name, factors in CLOSENESS.items():
            value = getattr(step, name, None)
            if isinstance(value, int | float):
                for new in (value * factor for factor in factors):
                    yield from _changed(best, i, {name: int(new) if isinstance(value, int) else new})


def _changed(best: Variation, number: int, settings: dict[str, object]) -> Iterator[Variation]:
    try:
        changed = replace(best.steps[number], **settings)
    except AnonymizationError:
        return
    yield replace(best, steps=(*best.steps[:number], changed, *best.steps[number + 1 :]))


def _less(
    best: Variation, drivers: Iterable[str], schema: Schema, computed: Mapping[str, Collection[str]]
) -> Iterator[Variation]:
    """Round the variables that drive failed gates more coarsely, and leave them out, each by itself.

    What is computed from a variable that is left out is left out with it: a logarithm would say the same.
    """
    units = dict(best.rounded)
    for name in drivers:
        if name not in schema or name in best.without:
            continue
        unit = units.get(name, schema[name].precision)
        if unit is not None:
            yield replace(best, rounded=tuple((units | {name: unit * COARSER}).items()))
        dropped, latest = [], [name]
        while latest:
            dropped += latest
            gone = (*best.without, *dropped)
            latest = [n for n, parts in computed.items() if n not in gone and not set(latest).isdisjoint(parts)]
        rest = tuple((other, value) for other, value in best.rounded if other not in dropped)
        yield replace(best, without=(*best.without, *dropped), rounded=rest)
