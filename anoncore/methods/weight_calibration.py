"""Weight calibration: released weights add up to totals of the population."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from anoncore.claims import Claim, ClaimCheck
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.kernels.calibration import MISSED, calibrated, drawn_parts, hiding_columns
from anoncore.method import LEVEL_COUNTS, MEANS, VALUES, Method
from anoncore.microdata import Microdata, Schema
from anoncore.parameters import not_below
from anoncore.release import Release

# Decimals of a released weight.
DECIMALS = 4
# Share of a total up to which it is met, with rounded weights; beyond it weights are calibrated again.
_MET = 1e-5


@dataclass(frozen=True)
class Total:
    """What weights add up to.

    Parameters
    ----------
    variable : whose records or values are added up; "" for all records
    level : whose records are counted, as text; "" for the sum of the values
    total : of the population
    """

    variable: str
    level: str
    total: float

    def column(self, frame: pd.DataFrame) -> np.ndarray:
        """Return (N,) what each record adds for each unit of its weight; a missing value adds nothing."""
        if not self.variable:
            return np.ones(len(frame))
        values = frame[self.variable]
        if not self.level:
            return np.nan_to_num(values.to_numpy(dtype=np.float64))
        return (values.astype("string").fillna("") == self.level).to_numpy(dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class WeightsAddUp(Claim):
    """Released weights add up to stated totals.

    Parameters
    ----------
    weight : the variable that holds them
    totals : tuple of Total
    """

    weight: str
    totals: tuple[Total, ...]

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        # Not how many: which levels of the source have a total depends on single units.
        return f"the weights add up to totals of {_named(self.totals)}, up to {MISSED:.0%} of what is added up"

    def check(self, released: Microdata) -> ClaimCheck:
        """Return the largest distance from a total, as a share of what is added up."""
        if absent := self.absent(released.frame):
            return self.outcome(False, f"{', '.join(absent)} is not released", released)
        missed = self.missed(released.frame)
        return self.outcome(
            missed <= MISSED, f"they miss a total by at most {missed:.1g} of what is added up", released
        )

    def absent(self, frame: pd.DataFrame) -> list[str]:
        """Return the variables that the totals need and a table lacks."""
        needed = {self.weight, *(one.variable for one in self.totals if one.variable)}
        return sorted(needed - {*map(str, frame)})

    def missed(self, frame: pd.DataFrame) -> float:
        """Return the largest distance of a weighted sum from its total, as a share of the sum of its parts' sizes."""
        weight = np.nan_to_num(frame[self.weight].to_numpy(dtype=np.float64))
        columns = (one.column(frame) for one in self.totals)
        return float(
            max(
                abs(weight @ column - one.total) / max(weight @ np.abs(column), abs(one.total))
                for one, column in zip(self.totals, columns, strict=True)
            )
        )


@dataclass(frozen=True, kw_only=True)
class WeightCalibration(Method):
    """Weight calibration: released weights add up to stated totals, or to those of the source, whatever steps follow.

    Weights are changed as little as possible, by a ratio within bounds, so that weighted counts of levels and sums of
    numbers are the totals. Masking moves values and weights apart; calibration makes design-based estimates of the
    calibrated variables those of the totals again. It is a step before masking, and is carried out again on the records
    to be released.

    Claims that the weights add up to the totals; nothing is proven about a single record.

    Source: Deville and Särndal 1992, *JASA* 87, 376–382 (the logit distance, case 6). Departs from it: the weights that
    are calibrated are those that masking has made.

    Parameters
    ----------
    weight : str
        The variable that holds the weights; by default the one with the role weight.
    totals : mapping of variable to a mapping of level to float above 0
        The population at levels of variables, as official statistics state it.
    sums : mapping of number to float
        Sums of numbers over the population.
    variables : tuple of variable names
        In place of stated totals, those whose weighted counts, or sums, are near those of the source: totals are drawn
        so that they show little of whether any single unit takes part, see `drawn_parts`.
    k : int, at least 2
        Units of equal parts, at least, that vary as a total does, for it to be kept: levels that fewer units hold, or
        sums that a few units dominate, are left out. So are totals that together would show a unit.
    lower, upper : float
        Limits of the ratio of new and given weights, below 1 and above 1.
    """

    title: ClassVar[str] = "Weight calibration"
    description: ClassVar[str] = (
        "The weights of the released rows are changed a little, so that they add up to known totals of the population."
    )
    prepares: ClassVar[bool] = True

    method: Literal["weight-calibration"] = "weight-calibration"
    weight: str = ""
    totals: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    sums: Mapping[str, float] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    k: int = 10
    lower: float = 0.2
    upper: float = 5.0

    def __post_init__(self) -> None:
        not_below(2, k=self.k)
        if not 0 <= self.lower < 1 < self.upper < np.inf:
            raise AnonymizationError(f"lower must be below 1 and upper above it, got {self.lower} and {self.upper}")
        stated = [*self.sums.values(), *(total for levels in self.totals.values() for total in levels.values())]
        if not all(np.isfinite(total) and total for total in stated):
            raise AnonymizationError("totals and sums must be finite and not 0")

    @property
    def invariants(self) -> tuple[str, ...]:
        """All but the weights."""
        return LEVEL_COUNTS, MEANS, VALUES

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        weight, released = self._weight(schema), set(schema.masked)
        if weight not in released or schema[weight].is_categorical:
            return ["weight: name a released number, or give one the role weight"]
        named = {*self.totals, *self.sums, *self.variables}
        wrong = (
            ("totals, sums, variables", named - released, "is not released; name released variables"),
            ("totals", {n for n in {*self.totals} & released if not schema[n].is_categorical}, "has no levels"),
            ("sums", {n for n in {*self.sums} & released if schema[n].is_categorical}, "is no number"),
            (
                "variables",
                set(self.variables) if self.totals or self.sums else set(),
                "is of the source, which stated totals contradict",
            ),
            ("totals, sums, variables", named & {weight}, "holds the weights"),
        )
        problems = [f"{what}: {', '.join(sorted(names))} {problem}" for what, names, problem in wrong if names]
        return problems if named else ["state totals, sums or variables"]

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Calibrate the weights of the source.

        Raises
        ------
        AnonymizationError
            When parameters do not suit the table, or weights are missing or not above 0.
        InfeasibleError
            When no weights within the bounds meet the totals.
        """
        if problems := self.problems(data.schema, edits):
            raise AnonymizationError("\n".join(problems))
        claim = WeightsAddUp(weight=self._weight(data.schema), totals=self._totals(data, rng))
        return Release(
            data=self._calibrated(data, claim),
            claims=(claim,),
            keeps_records=True,
            notes=(
                f"weights were calibrated to totals of {_named(claim.totals)}, each by a factor between "
                f"{self.lower:g} and {self.upper:g}",
            ),
        )

    def restore(
        self, data: Microdata, claims: tuple[Claim, ...], *, edits: EditSet, rng: np.random.Generator
    ) -> tuple[Microdata, tuple[str, ...]]:
        """Calibrate the weights of the records to be released."""
        claim = next(claim for claim in claims if isinstance(claim, WeightsAddUp))
        if claim.absent(data.frame) or (missed := claim.missed(data.frame)) <= _MET:
            return data, ()
        again = self._calibrated(data, claim)
        if claim.missed(again.frame) > missed / 2:
            # Totals that contradict each other were met as nearly as they can be.
            return data, ()
        return again, ("after the later steps, weights were calibrated again",)

    def _weight(self, schema: Schema) -> str:
        return self.weight or next((v.name for v in schema if v.role == "weight"), "")

    def _stated(self) -> Iterator[Total]:
        for name, levels in self.totals.items():
            yield from (Total(name, str(level), float(total)) for level, total in levels.items())
        yield from (Total(name, "", float(total)) for name, total in self.sums.items())

    def _totals(self, data: Microdata, rng: np.random.Generator) -> tuple[Total, ...]:
        """Return the stated totals; or drawn ones of the source that do not follow from the ones before them."""
        if not self.variables:
            return tuple(self._stated())
        weight, unit = data.frame[self._weight(data.schema)].to_numpy(dtype=np.float64), data.unit_codes
        totals, columns = [], []
        for one in self._candidates(data):
            column = np.bincount(unit, weight * one.column(data.frame))
            squares = np.square(column)
            # As many units of equal parts would add up to a total that varies as this one.
            if np.count_nonzero(column) >= self.k and squares.sum() >= self.k * squares.max() > 0:
                totals.append(one)
                columns.append(column / np.sqrt(squares.sum()))
        parts = np.stack(columns, axis=1) if columns else np.empty((data.n_units, 0))
        safe = hiding_columns(parts)
        if not safe:
            raise AnonymizationError("variables: every total of the source would show a few records; state totals")
        totals = [totals[at] for at in safe]
        factor = drawn_parts(parts[:, safe], rng)[unit]
        drawn = (float((weight * factor) @ one.column(data.frame)) for one in totals)
        return tuple(replace(one, total=total) for one, total in zip(totals, drawn, strict=True))

    def _candidates(self, data: Microdata) -> Iterator[Total]:
        """Yield what could be added up of the source: all records, levels and numbers."""
        yield Total("", "", 1.0)
        for name in self.variables:
            levels = data.schema[name].levels if data.schema[name].is_categorical else ("",)
            yield from (Total(name, str(level), 1.0) for level in levels or ())

    def _calibrated(self, data: Microdata, claim: WeightsAddUp) -> Microdata:
        given = data.frame[claim.weight].to_numpy(dtype=np.float64)
        if bad := int((~(np.isfinite(given) & (given > 0))).sum()):
            raise AnonymizationError(f"variable {claim.weight!r}: {bad} record(s) have no weight above 0")
        columns = [one.column(data.frame) for one in claim.totals]
        if empty := {t.variable for t, column in zip(claim.totals, columns, strict=True) if not column.any()}:
            raise AnonymizationError(f"totals: no record has a stated level, or a value, of {', '.join(sorted(empty))}")
        wanted = np.array([one.total for one in claim.totals])
        new = calibrated(given, np.stack(columns, axis=1), wanted, self.lower, self.upper).round(DECIMALS)
        frame = data.frame.assign(**{claim.weight: new})
        unit = 10.0**-DECIMALS
        schema = Schema(replace(v, precision=unit) if v.name == claim.weight else v for v in data.schema)
        return Microdata.trusted(frame, schema, data.units)


def _named(totals: tuple[Total, ...]) -> str:
    return ", ".join(dict.fromkeys(one.variable or "all records" for one in totals))
