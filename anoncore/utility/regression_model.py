"""A regression whose results a release should keep, as it is declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from anoncore.errors import AnonymizationError
from anoncore.microdata import Schema

RegressionKind = Literal["linear", "logistic"]


@dataclass(frozen=True, kw_only=True)
class Regression:
    """A regression whose results the release should keep.

    Parameters
    ----------
    outcome : name of the dependent variable: continuous for linear; for logistic one with levels
    predictors : names; continuous ones enter as they are, all others by one column per level but the first
    kind : the model, linear or logistic
    event : the outcome's level whose probability is modelled; None for the second of two levels
    level : confidence level of the intervals, 0.5 … 1

    Raises
    ------
    AnonymizationError
        When there is no predictor, a name occurs twice, or a parameter is out of range.

    Examples
    --------
    >>> Regression(outcome="income", predictors=("age", "sex")).formula
    'income ~ age + sex'
    """

    outcome: str
    predictors: tuple[str, ...]
    kind: RegressionKind = "linear"
    event: str | int | float | None = None
    level: float = 0.95

    def __post_init__(self) -> None:
        object.__setattr__(self, "predictors", tuple(self.predictors))
        if self.kind not in get_args(RegressionKind):
            raise AnonymizationError(f"kind must be linear or logistic, got {self.kind!r}")
        if not self.predictors:
            raise AnonymizationError(f"the regression of {self.outcome!r} needs at least one predictor")
        named = (self.outcome, *self.predictors)
        if repeated := sorted({name for name in named if named.count(name) > 1}):
            raise AnonymizationError(f"the regression of {self.outcome!r} names twice: {', '.join(repeated)}")
        if not 0.5 < self.level < 1:
            raise AnonymizationError(f"level must be between 0.5 and 1, got {self.level:g}")
        if self.kind == "linear" and self.event is not None:
            raise AnonymizationError("event is for logistic regressions; leave it out of a linear one")

    @property
    def formula(self) -> str:
        """The model as analysts write it."""
        return f"{self.outcome} ~ {' + '.join(self.predictors)}"

    def problems(self, schema: Schema) -> list[str]:
        """Return what is wrong with the regression for a table, one sentence each."""
        problems = [
            f"{name!r} is not among the variables that are released"
            for name in (self.outcome, *self.predictors)
            if name not in schema.masked
        ]
        if self.outcome in schema and (problem := self._outcome_problem(schema)):
            problems.append(problem)
        return [f"regression {self.formula}: {problem}" for problem in problems]

    def _outcome_problem(self, schema: Schema) -> str:
        variable = schema[self.outcome]
        if variable.is_categorical == (self.kind == "linear"):
            needed = "a continuous outcome" if self.kind == "linear" else "an outcome with levels"
            return f"a {self.kind} regression needs {needed}"
        if variable.levels is None:
            return ""
        if self.event is None and len(variable.levels) != 2:
            return f"the outcome has {len(variable.levels)} levels; state as event the one that is modelled"
        unknown = self.event is not None and str(self.event) not in map(str, variable.levels)
        return "event is not a level of the outcome" if unknown else ""
