"""Microaggregation of mixed data: groups by Gower's distance, means, medians and modes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from anoncore.claims import KAnonymity
from anoncore.edits.model import EditSet
from anoncore.edits.repair import repair
from anoncore.encoding import Encoder
from anoncore.errors import AnonymizationError, InfeasibleError
from anoncore.kernels.gower import ONE, gower_groups, group_medians, group_modes
from anoncore.kernels.groups import group_means
from anoncore.method import IDENTICAL_GROUPS, MEANS, MEDOID_NOTE, VALUES, Method, OverPartitions
from anoncore.microaggregation import ROUNDING_NOTE, dominated_pools, of_k_units, pooled_note, units_note
from anoncore.microdata import Microdata, Variable, round_to
from anoncore.parameters import not_below
from anoncore.release import Release


@dataclass(frozen=True, kw_only=True)
class GowerMicroaggregation(Method):
    """Gower microaggregation: groups of k … 2k − 1 similar records of mixed data share all values.

    Distances are Gower's: differences of numbers as shares of their range, of ordered levels by their places, of other
    levels 0 or 1; a missing value is a value of its own. A group gets the mean or median of its numbers, the median of
    ordered levels, the commonest other level, or the level of one of its records; a value is missing where it is for
    most. Edits are made to hold by the repair. Groups of records of fewer than k statistical units are joined with the
    nearest.

    Claims k-anonymity on all released variables. As with MDAV, an attacker who knows the groups' values assigns nearly
    every record to its own. Ambiguity and uncertainty are void by design.

    Source: Gower 1971, A general coefficient of similarity and some of its properties; Domingo-Ferrer and Torra 2005,
    Ordinal, continuous and heterogeneous k-anonymity through microaggregation (MDAV-generic).

    Parameters
    ----------
    k : int, at least 2
        Groups hold k … 2k − 1 records.
    numbers : {"mean", "median"}
        What a group's numbers become. A median is mostly **the number of one person**.
    levels : {"mode", "draw"}
        What a group's levels without an order become: the commonest, or that of one of its records at random, which
        keeps their frequencies in expectation.
    """

    title: ClassVar[str] = "Microaggregation (Gower)"
    description: ClassVar[str] = (
        "People who resemble each other in numbers and levels are put into groups of at least k, and every member of a "
        "group gets the same values: the mean or median of numbers and the commonest level."
    )
    void_by_design: ClassVar[tuple[str, ...]] = IDENTICAL_GROUPS

    over_partitions: ClassVar[OverPartitions] = "blocks"
    method: Literal["gower-microaggregation"] = "gower-microaggregation"
    k: int = 10
    numbers: Literal["mean", "median"] = "mean"
    levels: Literal["mode", "draw"] = "mode"

    def __post_init__(self) -> None:
        not_below(2, k=self.k)

    @property
    def publishes_source_values(self) -> str:
        """Why numbers that a single record holds are published, with medians."""
        return f"numbers: median: {MEDOID_NOTE}" if self.numbers == "median" else ""

    @property
    def invariants(self) -> tuple[str, ...]:
        """The mean of each number, or with medians what numbers hold."""
        return (MEANS,) if self.numbers == "mean" else (VALUES,)

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Group the records and replace their values.

        Raises
        ------
        AnonymizationError
            With fewer than k records.
        InfeasibleError
            When edits contradict each other.
        """
        if len(data) < self.k:
            raise AnonymizationError(f"microaggregation with k = {self.k} needs as many records, got {len(data)}")
        source = data.select(data.schema.masked)
        edits = edits.within(source.schema.names)
        if conflict := edits.conflict():
            raise InfeasibleError(f"no record can satisfy these edits together: {', '.join(conflict)}")
        codes = np.column_stack([_scaled(source.frame[v.name], v) for v in source.schema])
        number = np.array([v.kind in ("continuous", "ordinal") for v in source.schema])
        groups = gower_groups(codes, number, self.k)
        encoded = Encoder.fit(source, numeric="linear").encode(source)
        groups = of_k_units(source, encoded, groups, self.k)
        pools = self._pools(source, groups, group_means(encoded, groups))
        columns = {v.name: self._shared(source.frame[v.name], v, groups, pools.get(v.name), rng) for v in source.schema}
        masked = Microdata.trusted(pd.DataFrame(columns, index=source.frame.index), source.schema)
        levels = "commonest level" if self.levels == "mode" else "level of one of its records, drawn at random"
        return Release(
            data=repair(masked, edits, rng=rng).data if len(edits) else masked,
            claims=(KAnonymity(k=self.k),),
            keeps_records=True,
            notes=(
                f"records were grouped {self.k} to {2 * self.k - 1} at a time by Gower's distance; numbers became the "
                f"group's {self.numbers}, ordered levels the median and others the {levels}; values are missing where "
                "they are for most of a group. Variances are smaller than in the source",
                *units_note(data, self.k),
                *pooled_note(tuple(pools)),
                *((ROUNDING_NOTE,) if len(edits) else ()),
            ),
        )

    def _pools(self, source: Microdata, groups: np.ndarray, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Return, of each number whose mean would be mostly one unit's in a group, the pools of groups."""
        found = {}
        for v in source.schema if self.numbers == "mean" else ():
            if v.kind == "continuous":
                values = source.frame[v.name].to_numpy(dtype=np.float64)
                means = _means(values, groups, np.arange(len(positions)))
                pools = dominated_pools(v.name, groups, positions, means, source, self.k)
                if pools.max() + 1 < len(positions):
                    found[v.name] = pools
        return found

    def _shared(
        self,
        column: pd.Series,
        variable: Variable,
        groups: np.ndarray,
        pools: np.ndarray | None,
        rng: np.random.Generator,
    ) -> pd.Series:
        """Return what each record's group gets of a variable; the mean of its pool, where groups are pooled."""
        missing = column.isna().to_numpy()
        if variable.kind == "continuous":
            values = column.to_numpy(dtype="float64")
            present = np.bincount(groups, ~missing)
            means = _means(values, groups, np.arange(len(present)) if pools is None else pools)
            shared = group_medians(values, groups) if self.numbers == "median" else means
            shared = np.where(2 * present < np.bincount(groups), np.nan, round_to(shared, variable.precision))
            return pd.Series(shared[groups] + 0.0, index=column.index)
        codes = column.cat.codes.to_numpy().astype(np.intp)
        if variable.kind == "ordinal":
            medians = group_medians(np.where(missing, np.nan, codes), groups, lower=True)
            lacking = 2 * np.bincount(groups, missing) > np.bincount(groups)
            chosen = np.where(lacking, -1, np.nan_to_num(medians, nan=-1)).astype(np.intp)
        elif self.levels == "mode":
            chosen = group_modes(codes, groups)
        else:
            drawn = rng.permutation(len(codes))
            chosen = codes[drawn[np.unique(groups[drawn], return_index=True)[1]]]
        levels = pd.Categorical.from_codes(chosen[groups], categories=column.cat.categories, ordered=column.cat.ordered)
        return pd.Series(levels, index=column.index)


def _means(values: np.ndarray, groups: np.ndarray, pools: np.ndarray) -> np.ndarray:
    """Return (G,) the mean of the numbers that each group's pool holds, NaN without one."""
    present = ~np.isnan(values)
    sums, counts = np.bincount(groups, np.where(present, values, 0.0)), np.bincount(groups, present)
    with np.errstate(invalid="ignore"):
        return np.asarray((np.bincount(pools, sums) / np.bincount(pools, counts))[pools])


def _scaled(column: pd.Series, variable: Variable) -> np.ndarray:
    """Return (N,) int32 shares of the range in units of 2⁻²⁸, or codes of levels without an order; −1 where missing."""
    if variable.kind in ("binary", "nominal"):
        return column.cat.codes.to_numpy().astype(np.int32)
    values = column.to_numpy() if variable.kind == "continuous" else column.cat.codes.to_numpy().astype(float)
    present = column.notna().to_numpy()
    low, high = (values[present].min(), values[present].max()) if present.any() else (0.0, 0.0)
    if variable.kind == "ordinal":
        low, high = 0.0, float(len(column.cat.categories) - 1)
    shares = (np.where(present, values, low) - low) / (high - low or 1.0)
    return np.where(present, np.rint(shares * ONE), -1).astype(np.int32)
