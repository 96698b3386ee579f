"""Rank swapping: values are exchanged in pairs of nearly equal rank, column by column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from anoncore.claims import NoFormalGuarantee
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError, InfeasibleError
from anoncore.kernels.rank_swap import rank_swap
from anoncore.method import LEVEL_COUNTS, MEANS, VALUES, Method, OverPartitions
from anoncore.microdata import Microdata, Variable
from anoncore.numbers_by_rank import drawn_in_order, drawn_note
from anoncore.parameters import not_below
from anoncore.release import Release

EVIDENCE = (
    "prediction distance, ambiguity and uncertainty not below the reference's, and released records not linked to "
    "their sources: every value stays near its rank, so that rows of many variables remain recognisable"
)


@dataclass(frozen=True, kw_only=True)
class RankSwapping(Method):
    """Rank swapping: the values of each variable are exchanged in pairs of nearly equal rank.

    Every released record stems from one record, whose values it holds moved by a few ranks: a baseline to compare
    others with. The smaller the window, the better are correlations kept and the easier are records linked. Levels
    without an order are put in a random order. Missing values stay where they are. Nothing is proven about a single
    record. Edits are left to the repair step.

    Source: Moore 1996, the controlled swapping that Lasko and Vinterbo 2010 name in section III-B1. Departs from it:
    the window that keeps correlations is found by measurement, one for all variables. Beyond it: levels without an
    order, drawn numbers.

    Parameters
    ----------
    window : float, above 0 and at most 1
        The largest difference of ranks, as a share of the records that have a value.
    correlation_tolerance : float above 0, or None
        Controlled swapping: ``window`` is halved until rank correlations between numbers or ordered levels have moved
        by no more on average. None swaps within ``window``.
    values : {"drawn", "exact"}
        What continuous variables hold: draws near the source's numbers, see `DataShuffling`, or "exact", the source's
        own, as the published method: **a number that one person holds gives that person's membership away**.
    k : int, at least 2
        Numbers that fewer records hold are not released as they are, when values are drawn.
    """

    title: ClassVar[str] = "Rank swapping"
    description: ClassVar[str] = (
        "The values of every variable were exchanged between people in pairs that rank close to each other. A released "
        "row stems from one person and lies near that person’s data."
    )

    over_partitions: ClassVar[OverPartitions] = "blocks"
    method: Literal["rank-swapping"] = "rank-swapping"
    window: float = 0.1
    correlation_tolerance: float | None = None
    values: Literal["drawn", "exact"] = "drawn"
    k: int = 5

    def __post_init__(self) -> None:
        if not 0 < self.window <= 1:
            raise AnonymizationError(f"window must be above 0 and at most 1, got {self.window}")
        if self.correlation_tolerance is not None and not 0 < self.correlation_tolerance < np.inf:
            raise AnonymizationError(f"correlation_tolerance must be above 0, got {self.correlation_tolerance}")
        not_below(2, k=self.k)

    @property
    def publishes_source_values(self) -> str:
        """Why numbers that a single record holds are published, with exact values."""
        exact = "values: exact publishes the numbers of the source, which give the membership of their holders away"
        return exact if self.values == "exact" else ""

    @property
    def invariants(self) -> tuple[str, ...]:
        """Level counts; with exact values, what numbers hold."""
        return (LEVEL_COUNTS, MEANS, VALUES) if self.values == "exact" else (LEVEL_COUNTS,)

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Exchange the values.

        Raises
        ------
        AnonymizationError
            With fewer than 2 records.
        InfeasibleError
            When even exchanges of neighbours move rank correlations by more than ``correlation_tolerance``.
        """
        if len(data) < 2:
            raise AnonymizationError(f"rank swapping needs at least 2 records, got {len(data)}")
        source = data.select(data.schema.masked)
        masked, exchanges, window = self._swapped(source, rng)
        if self.values == "drawn":
            masked = self._with_drawn_numbers(masked, source, exchanges, rng)
        hold = drawn_note(self.k) if self.values == "drawn" else "they are the source's own"
        return Release(
            data=masked,
            claims=(NoFormalGuarantee(evidence=EVIDENCE),),
            keeps_records=True,
            notes=(
                f"values of every variable were exchanged in pairs whose ranks differ by at most {window:.3g} of the "
                f"records; {hold}",
                "every released record stems from one person, and an attacker who knows that person's record finds it "
                "the more easily the more variables there are; missing values stay where they were",
            ),
            figures={"window": window},
        )

    def _swapped(self, source: Microdata, rng: np.random.Generator) -> tuple[Microdata, dict[str, _Exchange], float]:
        """Return the swapped table, how each variable was exchanged, and the window."""
        window, before = self.window, None
        while True:
            exchanges = {v.name: _Exchange.draw(source.frame[v.name], v, window, rng) for v in source.schema}
            columns = {name: one.applied(source.frame[name]) for name, one in exchanges.items()}
            masked = Microdata.trusted(pd.DataFrame(columns, index=source.frame.index), source.schema)
            if self.correlation_tolerance is None:
                return masked, exchanges, window
            before = _rank_correlations(source) if before is None else before
            moved = np.abs(_rank_correlations(masked) - before)[np.triu_indices(len(before), 1)]
            if not moved.size or moved.mean() <= self.correlation_tolerance:
                return masked, exchanges, window
            if window * len(source) <= 1:
                raise InfeasibleError(
                    f"correlation_tolerance {self.correlation_tolerance:g} is not met even by exchanges of neighbours; "
                    "allow more"
                )
            window /= 2

    def _with_drawn_numbers(
        self, masked: Microdata, source: Microdata, exchanges: dict[str, _Exchange], rng: np.random.Generator
    ) -> Microdata:
        """Return the swapped table with drawn numbers of the same ranks."""
        continuous = [v for v in source.schema if v.kind == "continuous"]
        columns = {}
        for variable in continuous:
            one = exchanges[variable.name]
            column = np.full(len(source), np.nan)
            if len(one.order):
                numbers = drawn_in_order(source, variable, one.order, n_variables=len(continuous), k=self.k, rng=rng)
                column[one.order] = np.sort(numbers)[one.partner]
            columns[variable.name] = column
        return Microdata.trusted(masked.frame.assign(**columns), masked.schema)


@dataclass(frozen=True, eq=False, repr=False)
class _Exchange:
    """How the values of a variable are exchanged.

    Parameters
    ----------
    order : (n,) int, the records that have a value, by rank
    partner : (n,) int, for each rank the one whose value it receives
    """

    order: np.ndarray
    partner: np.ndarray

    @classmethod
    def draw(cls, column: pd.Series, variable: Variable, window: float, rng: np.random.Generator) -> _Exchange:
        """Draw pairs of nearly equal rank, levels without an order in a random one."""
        present = np.flatnonzero(column.notna().to_numpy())
        values = _ordered(column, variable)[present]
        if variable.kind == "nominal":
            values = rng.permutation(len(column.cat.categories))[values.astype(np.intp)].astype(float)
        order, partner = rank_swap(values, max(1, round(window * len(values))), rng=rng)
        return cls(present[order], partner)

    def applied(self, column: pd.Series) -> pd.Series:
        """Return the values as exchanged; missing ones stay where they are."""
        rows = np.arange(len(column))
        rows[self.order] = self.order[self.partner]
        return pd.Series(column.iloc[rows].array, index=column.index)


def _ordered(column: pd.Series, variable: Variable) -> np.ndarray:
    """Return numbers in the order of a variable's values, NaN where missing."""
    if variable.kind == "continuous":
        return column.to_numpy()
    return column.cat.codes.astype(float).where(column.notna()).to_numpy()


def _rank_correlations(data: Microdata) -> np.ndarray:
    """Return Spearman's correlations of all pairs of ordered variables, missing values with the average rank."""
    kept = [v for v in data.schema if v.kind != "nominal"]
    ranks = pd.DataFrame({v.name: _ordered(data.frame[v.name], v) for v in kept}).rank()
    ranks = ranks.loc[:, ranks.max() > ranks.min()].fillna(ranks.mean())
    return np.corrcoef(ranks.to_numpy(), rowvar=False) if ranks.shape[1] > 1 else np.zeros((0, 0))
