"""What a search may change of a plan: its steps, variables that are left out, and the precision of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from anoncore.edits.model import Edit
from anoncore.method import Method
from anoncore.microdata import Microdata, Schema, Variable

E = TypeVar("E", bound=Edit)


@dataclass(frozen=True)
class Variation:
    """Changes of a plan.

    Parameters
    ----------
    steps : in place of the plan's
    without : variables that are left out, with the edits that name them
    rounded : coarser precisions of continuous variables, by name
    """

    steps: tuple[Method, ...]
    without: tuple[str, ...] = ()
    rounded: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """The variation in words: methods with what differs from their defaults, and changed variables."""
        words = [" + ".join(_words(step) for step in self.steps)]
        words += [f"without {', '.join(self.without)}"] if self.without else []
        words += [f"{name} in units of {unit:g}" for name, unit in self.rounded]
        return "; ".join(words)

    @property
    def masking(self) -> tuple[str, ...]:
        """The methods that mask, whatever their settings."""
        return tuple(step.method for step in self.steps if not step.prepares)

    @property
    def key(self) -> str:
        """What distinguishes variations, also those whose parameters have no hash; for the memory of a search alone."""
        return repr(self)

    def in_share(self, share: float) -> Variation:
        """Return the variation as it treats a share of the units: what is rare among all is so in a part of them.

        Masking methods keep their settings: records hide among as many others as in the release.
        """
        return replace(self, steps=tuple(step.in_share(share) for step in self.steps))

    def of(self, data: Microdata) -> Microdata:
        """Return the table that is masked: the records as they are, without the variables that are left out."""
        kept = data.select([name for name in data.schema.names if name not in self.without])
        return Microdata.trusted(kept.frame, Schema(self._declared(kept.schema)), kept.units)

    def variables(self, declared: Iterable[Variable]) -> tuple[Variable, ...]:
        """Return the declarations of a plan that has these changes."""
        return tuple(
            replace(one, role="excluded") if one.name in self.without else one for one in self._declared(declared)
        )

    def edits(self, edits: Iterable[E]) -> tuple[E, ...]:
        """Return the edits that name no variable that is left out."""
        return tuple(edit for edit in edits if not set(edit.variables) & set(self.without))

    def _declared(self, variables: Iterable[Variable]) -> list[Variable]:
        units = dict(self.rounded)
        return [replace(one, precision=units[one.name]) if one.name in units else one for one in variables]


def _words(step: Method) -> str:
    stated = [
        f"{field.name} {_brief(getattr(step, field.name))}"
        for field in fields(step)
        if field.name not in ("method", *step.confidential_parameters)
        and getattr(step, field.name) != getattr(type(step), field.name, None)
    ]
    return " ".join([step.method, *stated])


def _brief(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_brief, value))
    return str(value) if isinstance(value, str | int | float | None) else "…"
