"""Coding of single numbers: top and bottom coding at stated limits, and rounding to a base."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from anoncore.claims import Claim, ClaimCheck
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.method import LEVEL_COUNTS, Method
from anoncore.microdata import Microdata, Schema
from anoncore.recoding import Coding, Recoding, multiples
from anoncore.release import Release


@dataclass(frozen=True, kw_only=True)
class ValueCoding(Method):
    """Coding of numbers: values beyond stated limits become the limit, and values are rounded to multiples of a base.

    Claims that no released number lies beyond its limits, and that each is a multiple of its base; made to hold again
    after later steps. Nothing else is changed, so it is a step before masking.

    Source: Hundepool et al. 2012, Statistical Disclosure Control, sections 3.2.3 (top and bottom coding) and 3.3
    (rounding); controlled rounding by systematic selection, Cox 1987, A constructive procedure for unbiased controlled
    rounding, for the total alone.

    Parameters
    ----------
    top, bottom : mapping of variable name to float
        The largest and the least value that is released of a number.
    base : mapping of variable name to float above 0
        Numbers are rounded to multiples of it.
    rounding : {"nearest", "random", "controlled"}
        To the nearest multiple; or up or down at random, so that the expectation is the value; or so that the total of
        a variable besides moves by less than the base.
    """

    title: ClassVar[str] = "Top and bottom coding, and rounding"
    description: ClassVar[str] = "Numbers beyond stated limits become the limit, and numbers are rounded to a base."
    prepares: ClassVar[bool] = True
    treats_records_alone: ClassVar[bool] = True

    method: Literal["value-coding"] = "value-coding"
    top: Mapping[str, float] = field(default_factory=dict)
    bottom: Mapping[str, float] = field(default_factory=dict)
    base: Mapping[str, float] = field(default_factory=dict)
    rounding: Literal["nearest", "random", "controlled"] = "nearest"

    def __post_init__(self) -> None:
        if wrong := [n for n in self.top if n in self.bottom and self.bottom[n] >= self.top[n]]:
            raise AnonymizationError(f"bottom of {', '.join(wrong)} must be below top")
        for name, base in self.base.items():
            if not 0 < base < np.inf:
                raise AnonymizationError(f"base of {name} must be above 0, got {base}")
            for limit in (self.top.get(name), self.bottom.get(name)):
                if limit is not None and abs(limit - float(multiples(limit, base))) > 1e-9 * base:
                    raise AnonymizationError(f"limits of {name} must be multiples of its base")

    @property
    def invariants(self) -> tuple[str, ...]:
        """The levels of all other variables."""
        return (LEVEL_COUNTS,)

    def treated(self, schema: Schema) -> tuple[str, ...]:
        """Return the numbers that are rounded at random; figures of coded values are exact otherwise."""
        return tuple(self.base) if self.rounding == "random" else ()

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        numbers = {v.name for v in schema if v.kind == "continuous" and v.is_masked}
        coded = {*self.top, *self.bottom, *self.base}
        problems = [] if coded else ["state top, bottom or base of a variable"]
        problems += [f"{name} is no released number" for name in sorted(coded - numbers)]
        return problems + [
            f"edit {edit.name} speaks of {', '.join(sorted(at))}: coded values may violate it; leave one of them out"
            for edit in edits.edits
            if edit not in edits.dependents and (at := coded & set(edit.variables))
        ]

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Code and round.

        Raises
        ------
        AnonymizationError
            When a variable is no released number, or an edit speaks of it.
        """
        if problems := self.problems(data.schema, edits):
            raise AnonymizationError("\n".join(problems))
        limits = {n: (self.bottom.get(n), self.top.get(n)) for n in dict.fromkeys((*self.bottom, *self.top))}
        notes = [
            f"{n} is released within {_phrase(*limit)}: values beyond become the limit" for n, limit in limits.items()
        ]
        notes += [f"{n} is rounded to multiples of {base:g} ({self.rounding})" for n, base in self.base.items()]
        return Release(
            data=self._coded(data, rng),
            claims=(CodedValues(top=self.top, bottom=self.bottom, base=self.base),),
            keeps_records=True,
            notes=tuple(notes),
            recodings=self._recodings(),
        )

    def _recodings(self) -> tuple[Recoding, ...]:
        """Return what everyone can do to a source: limits, and rounding to the nearest multiple."""
        base = self.base if self.rounding == "nearest" else {}
        names = dict.fromkeys((*self.top, *self.bottom, *base))
        return tuple(Recoding(n, coding=Coding(self.bottom.get(n), self.top.get(n), base.get(n))) for n in names)

    def restore(
        self, data: Microdata, claims: tuple[Claim, ...], *, edits: EditSet, rng: np.random.Generator
    ) -> tuple[Microdata, tuple[str, ...]]:
        """Code and round what later steps moved."""
        if all(claim.check(data).holds for claim in claims):
            return data, ()
        return self._coded(data, rng), ("numbers that later steps moved are coded and rounded again",)

    def _coded(self, data: Microdata, rng: np.random.Generator) -> Microdata:
        frame = data.frame.copy()
        for name in dict.fromkeys((*self.top, *self.bottom, *self.base)):
            values = np.clip(frame[name].to_numpy(), self.bottom.get(name, -np.inf), self.top.get(name, np.inf))
            if name in self.base:
                present = ~np.isnan(values)
                values[present] = rounded(values[present], self.base[name], self.rounding, rng)
            frame[name] = values
        # Later steps round to the precision of a variable.
        schema = Schema(replace(v, precision=self.base[v.name]) if v.name in self.base else v for v in data.schema)
        return Microdata.trusted(frame, schema, data.units)


@dataclass(frozen=True, kw_only=True)
class CodedValues(Claim):
    """No released number lies beyond its limits, and each is a multiple of its base."""

    top: Mapping[str, float]
    bottom: Mapping[str, float]
    base: Mapping[str, float]

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        limited = ", ".join(dict.fromkeys((*self.bottom, *self.top)))
        parts = [f"no value of {limited} beyond its limits"] if limited else []
        parts += [f"multiples of {base:g} in {name}" for name, base in self.base.items()]
        return "; ".join(parts)

    def check(self, released: Microdata) -> ClaimCheck:
        """Count the values beyond a limit, and those that are no multiple."""
        beyond = odd = 0
        for name in dict.fromkeys((*self.top, *self.bottom, *self.base)):
            values = released.frame[name].dropna().to_numpy() if name in released.frame else np.empty(0)
            beyond += int(((values > self.top.get(name, np.inf)) | (values < self.bottom.get(name, -np.inf))).sum())
            if base := self.base.get(name):
                odd += int((np.abs(values - multiples(values, base)) > 1e-6 * base).sum())
        observed = f"{beyond} values beyond a limit, {odd} no multiple"
        return self.outcome(beyond + odd == 0, observed, released, beyond_limits=beyond, no_multiples=odd)


def rounded(values: np.ndarray, base: float, how: str, rng: np.random.Generator) -> np.ndarray:
    """Return (n,) multiples of ``base`` next to values; see `ValueCoding`.

    Examples
    --------
    >>> rounded(np.array([4.0, 6.0, 10.0]), 5.0, "nearest", np.random.default_rng(0)).tolist()
    [5.0, 5.0, 10.0]
    """
    if how == "nearest":
        return np.asarray(multiples(values, base))
    shares = np.round(values / base, 9)
    lower = np.floor(shares)
    if how == "random":
        up = rng.random(len(values)) < shares - lower
    else:
        # One selection per unit of the sum, so that the total moves by less than the base.
        order = rng.permutation(len(values))
        sums = np.floor(np.cumsum((shares - lower)[order]) + rng.random())
        up = np.zeros(len(values), dtype=bool)
        up[order] = np.diff(sums, prepend=0.0) > 0
    return np.asarray(np.round((lower + up) * base, 9))


def _phrase(bottom: float | None, top: float | None) -> str:
    if bottom is None or top is None:
        return f"at most {top:g}" if bottom is None else f"at least {bottom:g}"
    return f"{bottom:g} to {top:g}"
