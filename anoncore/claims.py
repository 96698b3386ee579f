"""What a release promises; every promise is checked again on the output, never taken on trust."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from anoncore.kernels.groups import distinct_counts
from anoncore.kernels.key_groups import agreeing_units, holding_units
from anoncore.kernels.lattice import distances
from anoncore.microdata import Microdata
from anoncore.parameters import not_below
from anoncore.recoding import places

# Figures of claims of which the worst of several blocks is that of all. Shares are means over all records; all other
# figures are counts, and add up.
_FEWEST = (
    "smallest_group",
    "joint_k",
    "fewest_units",
    "fewest_values",
    "fewest_effective_records",
    "converged",
    "details_kept",
)
_LARGEST = ("worst_posterior", "distance")
_SHARES = ("share_above",)


@dataclass(frozen=True)
class ClaimCheck:
    """The outcome of checking one claim on a release.

    Parameters
    ----------
    kind : class of the claim
    claim : what is promised
    holds, observed : the outcome, and what it rests on
    records : how many were checked
    figures : what was observed, as numbers under short names
    formal : whether anything is promised at all
    recomputed : whether it was recomputed from the release alone, and not from what only the method knows
    """

    kind: str
    claim: str
    holds: bool
    observed: str
    records: int
    figures: Mapping[str, float] = field(default_factory=dict)
    formal: bool = True
    recomputed: bool = True

    @classmethod
    def of_blocks(cls, checks: Sequence[ClaimCheck]) -> ClaimCheck:
        """Return one claim that was checked on each block of a table: it holds where it holds of every block."""
        first = checks[0]
        if len(checks) == 1:
            return first
        figures = {name: _of_blocks(name, checks) for name in first.figures if all(name in c.figures for c in checks)}
        held = sum(one.holds for one in checks)
        observed = first.observed
        if any(one.observed != observed for one in checks) or figures:
            shown = [f"{name.replace('_', ' ')} {value:.{4 * (value % 1 != 0)}f}" for name, value in figures.items()]
            observed = ", ".join([f"holds in {held} of {len(checks)} blocks of records", *shown])
        records = sum(one.records for one in checks)
        return replace(first, holds=held == len(checks), observed=observed, records=records, figures=figures)


def _of_blocks(name: str, checks: Sequence[ClaimCheck]) -> float:
    """Return a figure of a claim over all blocks that it was checked on."""
    values = [one.figures[name] for one in checks]
    if name in _FEWEST:
        return min(values)
    if name in _LARGEST:
        return max(values)
    if name in _SHARES:
        return float(np.average(values, weights=[one.records for one in checks]))
    return sum(values)


class Claim(Protocol):
    """A promise about a release that is checked on the released data, never taken on trust."""

    formal: ClassVar[bool] = True
    recomputed: ClassVar[bool] = True

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""

    def check(self, released: Microdata) -> ClaimCheck:
        """Return whether ``released`` keeps the promise."""

    def outcome(self, holds: bool, observed: str, released: Sized, **figures: float) -> ClaimCheck:
        """Return the outcome of a check of this claim."""
        kind = type(self).__name__
        return ClaimCheck(kind, self.statement, holds, observed, len(released), figures, self.formal, self.recomputed)


_MEANINGS = {
    "level": "",
    "holders": ", counting for each record the units that hold all values which it has left",
    "wildcard": ", where a missing value agrees with every value",
}


@dataclass(frozen=True, kw_only=True)
class KAnonymity(Claim):
    """Every record is identical, on the released variables or on ``variables``, to records of k − 1 other units.

    Source: Samarati and Sweeney 1998, for statistical units: a group of k records of fewer than k units does not
    count.

    Parameters
    ----------
    k : int, at least 2
    variables : names; None for all that are released
    missing : what a missing cell is
        "level", a value of its own; "holders", a record's missing cells are not compared, and units count that hold all
        its others; "wildcard", it agrees with every value, so that records without any agree with all others.
    """

    k: int
    variables: tuple[str, ...] | None = None
    missing: Literal["level", "holders", "wildcard"] = "level"

    def __post_init__(self) -> None:
        not_below(2, k=self.k)

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        on = "all released variables" if self.variables is None else ", ".join(self.variables)
        return f"{self.k}-anonymity on {on}{_MEANINGS[self.missing]}"

    def check(self, released: Microdata) -> ClaimCheck:
        """Count the units of the smallest group of identical records, or of those that a record agrees with."""
        if self.missing != "level":
            counted = holding_units if self.missing == "holders" else agreeing_units
            agree = counted(key_codes(released, self.variables or released.frame.columns), released.units)
            fewest = int(agree.min(initial=len(agree)))
            observed = f"fewest units that a record agrees with: {fewest}"
            return self.outcome(fewest >= self.k, observed, released, fewest_units=fewest)
        groups = IdenticalRecords.of(released, list(self.variables or released.frame.columns))
        figures = {"smallest_group": groups.smallest, "groups": groups.count}
        return self.outcome(groups.smallest >= self.k, f"{groups.observed}, {groups.count} groups", released, **figures)


def key_codes(data: Microdata, names: Iterable[str]) -> NDArray[np.int32]:
    """Return (N, p) codes of the values of some variables, −1 where missing."""
    codes = [pd.factorize(data.frame[name])[0] for name in names]
    return np.column_stack(codes).astype(np.int32)


@dataclass(frozen=True)
class IdenticalRecords:
    """Groups of records that are identical on some variables.

    Parameters
    ----------
    smallest : the fewest statistical units of a group
    records : of that group, the fewest where there are several
    count : groups
    in_units : whether units and records differ
    """

    smallest: int
    records: int
    count: int
    in_units: bool

    @classmethod
    def of(cls, released: Microdata, names: list[str]) -> IdenticalRecords:
        """Group the released records by the variables ``names``."""
        group = released.frame.groupby(names, dropna=False, observed=True, sort=False).ngroup().to_numpy()
        records = np.bincount(group)
        if not len(records):
            return cls(0, 0, 0, released.units is not None)
        units = records if released.units is None else distinct_counts(group, released.units)
        smallest = int(units.min())
        return cls(smallest, int(records[units == smallest].min()), len(records), released.units is not None)

    @property
    def observed(self) -> str:
        """The smallest group in words."""
        if self.in_units:
            return f"fewest units in a group of identical records: {self.smallest} ({self.records} records)"
        return f"smallest group of identical records: {self.smallest}"


@dataclass(frozen=True, kw_only=True)
class BlockwiseKAnonymity(Claim):
    """Within each block of variables every record is identical to records of k − 1 other units; on all it need not.

    Source: Domingo-Ferrer and Mateo-Sanz 2002, where blocks of variables are aggregated one by one. The
    joint k, over all variables, is counted and reported, and not promised.
    """

    k: int
    blocks: tuple[tuple[str, ...], ...]

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        return f"{self.k}-anonymity within each of {len(self.blocks)} blocks of variables, not on all together"

    def check(self, released: Microdata) -> ClaimCheck:
        """Count the units of the smallest groups within the blocks, and on all variables together."""
        groups = [IdenticalRecords.of(released, list(block)) for block in self.blocks]
        smallest = min(groups, key=lambda one: one.smallest)
        joint = IdenticalRecords.of(released, list(released.frame.columns))
        observed = f"within a block, {smallest.observed}; on all together: {joint.smallest}"
        figures = {"smallest_group": smallest.smallest, "joint_k": joint.smallest, "joint_groups": joint.count}
        return self.outcome(smallest.smallest >= self.k, observed, released, **figures)


POSTERIOR_TOLERANCE = 1e-6


def _records_alone(released: Microdata) -> str:
    """Return what weakens a promise about records where they are of fewer units."""
    return (
        f"; {len(released)} records are of {n} units, which may be linked"
        if (n := released.n_units) < len(released)
        else ""
    )


@dataclass(frozen=True, kw_only=True)
class LinkagePosterior(Claim):
    """An attacker who knows a record and every centre links the record to its row with probability 1/k at most.

    The memberships behind it are confidential, so it cannot be recomputed from the release; the method
    computes it and the claim holds or falls with these figures. Where every record draws for itself, cluster
    sizes are chance, and the probability is an average over the drawings; centres that coincide are then
    no clusters of their own, and nothing is proven.

    Parameters
    ----------
    k : int
    worst : float, the largest posterior over records and centres
    share_above : float, the share of records whose posterior exceeds 1/k
    centres, distinct_centres : int, used by the method, and of them distinct
    sweeps : int, that the method took
    converged : bool, whether they sufficed
    average : bool, whether the records drew independently of each other
    blocks : int, of variables that were clustered apart; the probability is that within a block
    """

    k: int
    worst: float
    share_above: float
    centres: int
    distinct_centres: int
    sweeps: int
    converged: bool
    average: bool = False
    blocks: int = 1
    recomputed: ClassVar[bool] = False

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        where = f"within each of {self.blocks} blocks of variables, not on all together, " if self.blocks > 1 else ""
        when = ", on average over the drawings" if self.average else ""
        promise = f"no record is linked to its released row with more than probability 1/{self.k}"
        return f"{where}{promise}{when}"

    def check(self, released: Microdata) -> ClaimCheck:
        """Compare the worst posterior with 1/k."""
        holds = self.worst <= 1.0 / self.k + POSTERIOR_TOLERANCE
        holds = holds and not (self.average and self.distinct_centres < self.centres)
        ended = "converged after" if self.converged else "not converged after"
        observed = (
            f"worst posterior {self.worst:.4f}, {self.share_above:.1%} of the records above 1/{self.k}; "
            f"{self.distinct_centres} of {self.centres} centres distinct, {ended} {self.sweeps} sweeps"
            f"{_records_alone(released)}"
        )
        return self.outcome(
            holds,
            observed,
            released,
            worst_posterior=self.worst,
            share_above=self.share_above,
            centres=self.centres,
            distinct_centres=self.distinct_centres,
            converged=float(self.converged),
        )


@dataclass(frozen=True, kw_only=True)
class EffectiveRecords(Claim):
    """Every centre averages at least k records, counted as (Σ weight)² / Σ weight²: none is a single person's record.

    As with `LinkagePosterior`, the weights are confidential and the figure is the method's.
    """

    k: int
    fewest: float
    centres_below: int
    recomputed: ClassVar[bool] = False

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        return f"every centre averages an effective number of at least {self.k} records"

    def check(self, released: Microdata) -> ClaimCheck:
        """Compare the fewest effective records of a centre with k."""
        holds = self.fewest >= self.k * (1.0 - POSTERIOR_TOLERANCE)
        observed = f"fewest: {self.fewest:.2f}; centres below {self.k}: {self.centres_below}{_records_alone(released)}"
        figures = {"fewest_effective_records": self.fewest, "centres_below": self.centres_below}
        return self.outcome(holds, observed, released, **figures)


@dataclass(frozen=True, kw_only=True)
class LDiversity(Claim):
    """Every group of records identical on ``quasi_identifiers`` holds at least l values of ``sensitive``.

    Source: Machanavajjhala et al. 2007, distinct l-diversity, for statistical units: l values that l different units
    hold, since the values of one unit are that unit's. A missing cell counts as one value.
    """

    l: int  # noqa: E741  the field's standard letter
    quasi_identifiers: tuple[str, ...]
    sensitive: str

    def __post_init__(self) -> None:
        not_below(2, l=self.l)

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        return f"{self.l}-diversity of {self.sensitive} within {', '.join(self.quasi_identifiers)}"

    def check(self, released: Microdata) -> ClaimCheck:
        """Count the smallest number of sensitive values in a group of identical records, of each unit one at most."""
        groups = released.frame.groupby(list(self.quasi_identifiers), dropna=False, observed=True, sort=False)
        group = groups.ngroup().to_numpy()
        value = pd.factorize(released.frame[self.sensitive], use_na_sentinel=False)[0]
        distinct = _values_of_units(group, value, released.units)
        smallest = int(distinct.min()) if len(distinct) else 0
        of = "" if released.units is None else ", of different units"
        observed = f"fewest distinct values in a group{of}: {smallest}, {len(distinct)} groups"
        return self.outcome(smallest >= self.l, observed, released, fewest_values=smallest, groups=len(distinct))


def _values_of_units(group: np.ndarray, value: np.ndarray, units: np.ndarray | None) -> np.ndarray:
    """Return (G,) how many values of each group different units hold, each unit counting for one value."""
    if units is None:
        return distinct_counts(group, value)
    # As many pairs of a value and a unit as possible, each in one pair; units of two groups count in both.
    of_value, of_unit = (np.unique(np.stack([group, of], axis=1), axis=0, return_inverse=True) for of in (value, units))
    edges = of_value[1].ravel(), of_unit[1].ravel()
    graph = csr_array((np.ones(len(group)), edges), shape=(len(of_value[0]), len(of_unit[0])))
    matched = maximum_bipartite_matching(graph, perm_type="column") >= 0
    return np.bincount(of_value[0][matched, 0], minlength=int(group.max(initial=-1)) + 1)


@dataclass(frozen=True, kw_only=True)
class TCloseness(Claim):
    """In every group of records identical on ``quasi_identifiers``, ``sensitive`` is distributed nearly as in all.

    Source: Li, Li and Venkatasubramanian 2007, with the ordered distance for ordinal variables and the equal one for
    others. Records are counted, not statistical units: one with many records has so many shares. A missing cell counts
    as a level, of ordinal variables the first.
    """

    t: float
    quasi_identifiers: tuple[str, ...]
    sensitive: str

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        return (
            f"{self.t:g}-closeness of {self.sensitive} within {', '.join(self.quasi_identifiers)}, in shares of records"
        )

    def check(self, released: Microdata) -> ClaimCheck:
        """Compute the largest earth mover's distance of a group's distribution from that of all records."""
        groups = released.frame.groupby(list(self.quasi_identifiers), dropna=False, observed=True, sort=False)
        group, values = groups.ngroup().to_numpy().astype(np.intp), places(released.frame[self.sensitive])
        whole = np.bincount(values) / max(len(values), 1)
        ordered = released.schema[self.sensitive].kind == "ordinal"
        one = np.ones(len(values), dtype=np.int64)
        each = distances(group, int(group.max(initial=-1)) + 1, values, one, whole, ordered=ordered)
        far = float(each.max(initial=0.0))
        return self.outcome(far <= self.t + 1e-9, f"largest distance of a group: {far:.4f}", released, distance=far)


@dataclass(frozen=True, kw_only=True)
class NoFormalGuarantee(Claim):
    """The method proves nothing about a single record; its protection rests on measurement.

    Parameters
    ----------
    evidence : str
        What the measured risk must show for the release to be defended.
    """

    evidence: str
    formal: ClassVar[bool] = False
    statement: ClassVar[str] = "no formal guarantee; the protection rests on the measured risk"

    def check(self, released: Microdata) -> ClaimCheck:
        """Hold always, because nothing is promised; the figure of merit stands in ``evidence``."""
        return self.outcome(True, self.evidence, released)


@dataclass(frozen=True, kw_only=True)
class DistinctValues(Claim):
    """Every box holds at least l values of each variable that are ε apart, as the published counts say.

    Source: Machanavajjhala et al. 2007, distinct l-diversity, with values distinguished by ε as in Xiang et
    al. 2013. What stands in a range is not published, only how many values; the counts are the method's.
    """

    l: int  # noqa: E741  the field's standard letter
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        not_below(2, l=self.l)

    @property
    def statement(self) -> str:
        """Return the promise in one sentence."""
        names = ", ".join(c.removesuffix("_distinct") for c in self.columns)
        return f"at least {self.l} values of {names} in each box"

    def check(self, released: Microdata) -> ClaimCheck:
        """Take the fewest of the published counts; variables that a box's records all lack do not count."""
        counts = released.frame[list(self.columns)].min()
        fewest = int(counts.min()) if counts.notna().any() else 0
        observed = f"fewest values of a variable in a box: {fewest}"
        return self.outcome(fewest >= self.l, observed, released, fewest_values=fewest)
