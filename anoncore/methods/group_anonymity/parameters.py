"""Parameters of group anonymity, and the masking itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pywt

from anoncore.claims import Claim, ClaimCheck
from anoncore.custodian import CustodianReport
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError, InfeasibleError
from anoncore.kernels.streams import Stream
from anoncore.kernels.wavelet.layout import Graph, Grid, Layout, Line
from anoncore.kernels.wavelet.redistribution import Goals, JointRoute, PaperRoute, Redistribution, redistribute
from anoncore.kernels.wavelet.relocation import net_flows
from anoncore.kernels.wavelet.signal_model import SignalModel
from anoncore.method import LEVEL_COUNTS, MEANS, VALUES, Method, OverPartitions, unchecked_claim
from anoncore.methods.group_anonymity.custodian import group_report
from anoncore.methods.group_anonymity.exchange import (
    check_countable,
    exchange_back,
    exchanged_to,
    populations,
    with_claimed_counts,
)
from anoncore.methods.group_anonymity.partitions import computed_apart, exchanged_over, figures_over, tallies_over
from anoncore.methods.group_anonymity.pool import Counterparts, Exchange
from anoncore.methods.group_anonymity.report import figures_of, notes_of
from anoncore.microdata import Microdata, Schema
from anoncore.parameters import not_below
from anoncore.partitions.hidden_groups import group_counts_check, reinference_check
from anoncore.partitions.release import PartitionedRelease
from anoncore.partitions.store import Executor, work_name
from anoncore.partitions.table import PartitionedTable
from anoncore.release import Release
from anoncore.risk.group_masking import Group, GroupCounts, Hidden, InversionAudit, ReinferenceAudit

RESTORED = (
    "after the later steps the group's counts were restored by moving members again, also from other areas, or to "
    "them, where later steps have changed how many are in the areas in order"
)


@dataclass(frozen=True, kw_only=True)
class GroupAnonymity(Method):
    """Group anonymity: members of a group move between areas until their counts meet goals; populations are kept.

    New counts come from one linear program: the wavelet details of the counts are kept in the largest share β
    that the goals allow, then as few records as possible are moved. Each moved record, or its whole household
    where the schema declares one, changes places with the most similar record or household of the same size
    that has no member in the group, so that every area keeps its population. Only what is exchanged changes
    (``swapped``). A record that satisfied an edit satisfies it in its new area too. Where
    single records are counted, and an area has more than 20 000 members, or others, that may move, about so many are
    considered, or twice those that move, drawn at random.

    Claims the new counts, recounted in the release; and that neither the inversion of the wavelet route nor
    counting once more from the other variables recovers a hidden count. Nothing is claimed about a single
    record, which stays as it was apart from its place.

    Source: Chertov and Tavrov 2010. Departs: goals hold on the counts themselves; whole households; the claim
    that there is no way back is tested and not believed.

    Parameters
    ----------
    vital : tuple of mappings of variable to values
        Who belongs to the group: everyone who has, for one of the mappings, one of the values of each of its
        variables.
    parameter : str
        The variable whose values are the areas.
    order : tuple
        The areas that take part, in the order in which neighbours stand; records elsewhere stay as they are, unless
        later steps that change areas carry members there, or from there.
    signal : {"quantity", "ratio"}
        Whether the details to be kept are those of the counts or of the shares in each area's population.
    caps, raises : mapping of area to float
        Largest (caps) and smallest (raises) count of the group in an area.
    protected : tuple
        Areas whose count must not grow.
    free : tuple, optional
        Areas whose count may take any value; every area not named otherwise when not stated. When stated,
        areas that are named nowhere count as protected.
    wavelet : str
        Name of a discrete wavelet of PyWavelets.
    level : int
        Levels of detail to keep. The number of areas is a multiple of 2^level.
    route : {"joint", "paper"}
        "joint" finds the largest share of details and then the fewest moves under the goals; "paper" is
        Chertov and Tavrov's, which does not heed the goals after its shift and scale.
    details : {"plain", "winsorised", "capped"}
        Whose details are kept: the signal's; or, against the inversion, the signal's with outliers and hidden
        areas pulled in, or with hidden areas alone at their goal.
    share : float in [0, 1], optional
        Share of the details to keep, instead of the largest.
    spread : float, above 0, optional
        Standard deviation of the counts, as a multiple of theirs before: 1 keeps it, as their mean is kept anyway.
        Comes before the largest share of details and the fewest moves. With 1 a peak moves to other areas and is not
        levelled, and who knows that it is kept knows about how large it was.
    coefficients : tuple of float, optional
        New approximation coefficients, for the paper's route.
    shift : float, optional
        What is added to every area, for the paper's route.
    pad : {"refuse", "zero", "repeat"}
        What to do when the number of areas is no multiple of 2^level.
    columns : int, optional
        Areas in a row, where ``order`` lists those of a map row by row: the wavelet is then that of two dimensions, and
        rows and columns are multiples of 2^level.
    neighbours : mapping of area to tuple of areas
        Which areas border on each other, each border stated once or twice: the details are then Haar's on the tree
        that joins neighbours in pairs, whatever the order. Only with ``wavelet: haar``.
    weights : mapping of area to float
        What a moved record counts there, 1 when not stated.
    match_on : tuple of variables
        By which the counterpart of a moved record or household is chosen; all that are released, but for the
        areas and the group's own variables, when not stated. What is matched on keeps its distribution in
        every area, and so keeps telling where the group was: see `ReinferenceAudit`.
    swapped : {"area", "group"}
        What a member and a counterpart exchange: their areas; or, where areas cannot change, the values of the
        variables that make a member. Households then stay where they are, and counterparts are single records.
    follows : tuple of variables
        Variables that belong to the place, such as a region, a stratum of the sample or a sampling unit, and are
        exchanged with it: one that stayed with the person would show who moved, and from where.
    weight : str, optional
        The variable whose sums are counted in place of records. A weight belongs to the place too, so that every area
        keeps its total; counterparts are of the nearest weight. Goals then hold up to a record's weight.
    kept : tuple of mappings of variable to values
        Other groups, one for each mapping, whose count in every area stays: a member changes places only with someone
        who belongs to the same of them. Several groups are hidden by a step for each that keeps those before it.
    tolerance : float, above 0
        A hidden count that is restored within this share of the truth counts as found.
    """

    vital: tuple[Mapping[str, tuple[Any, ...]], ...]
    parameter: str
    order: tuple[Any, ...]
    title: ClassVar[str] = "Group anonymity"
    description: ClassVar[str] = (
        "Members of a group changed places with people outside it, or exchanged with them what makes a member, so that "
        "the group’s counts per area are no longer the true ones; the step leaves every area its population. Apart "
        "from what was exchanged it leaves every record as it was."
    )
    prepares: ClassVar[bool] = True
    method: Literal["group-anonymity"] = "group-anonymity"
    signal: Literal["quantity", "ratio"] = "quantity"
    caps: Mapping[str, float] = field(default_factory=dict)
    raises: Mapping[str, float] = field(default_factory=dict)
    protected: tuple[Any, ...] = ()
    free: tuple[Any, ...] | None = None
    wavelet: str = "db2"
    level: int = 2
    route: Literal["joint", "paper"] = "joint"
    details: Literal["plain", "winsorised", "capped"] = "plain"
    share: float | None = None
    spread: float | None = None
    coefficients: tuple[float, ...] | None = None
    shift: float | None = None
    pad: Literal["refuse", "zero", "repeat"] = "refuse"
    columns: int | None = None
    neighbours: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    match_on: tuple[str, ...] = ()
    swapped: Literal["area", "group"] = "area"
    follows: tuple[str, ...] = ()
    weight: str | None = None
    kept: tuple[Mapping[str, tuple[Any, ...]], ...] = ()
    tolerance: float = 0.1
    # A reader of these learns which areas were to be hidden, or bounds on what was there.
    confidential_parameters: ClassVar[tuple[str, ...]] = (
        "caps",
        "raises",
        "protected",
        "free",
        "share",
        "spread",
        "coefficients",
        "shift",
        "weights",
    )

    def __post_init__(self) -> None:
        if not self.vital or not all(self.vital) or not all(v for one in self.vital for v in one.values()):
            raise AnonymizationError("vital must name at least one variable with at least one of its values")
        if not all(self.kept) or not all(v for one in self.kept for v in one.values()):
            raise AnonymizationError("kept must name variables with at least one of their values for each group")
        areas = [str(a) for a in self.order]
        if len(areas) < 2 or len(set(areas)) < len(areas):
            raise AnonymizationError(f"order must list at least 2 areas, each once, got {len(areas)}")
        not_below(1, level=self.level)
        if self.wavelet not in pywt.wavelist(kind="discrete"):
            raise AnonymizationError(
                f"wavelet must be a discrete one of PyWavelets, such as haar or db2, got {self.wavelet!r}"
            )
        self._check_map(set(areas))
        # Refuses a number of areas that does not suit the level, unless it is to be padded.
        coefficients = len(self.model(np.ones(len(areas))).decompose(np.zeros(len(areas))).coefficients)
        if not 0 < self.tolerance < 1:
            raise AnonymizationError(f"tolerance must lie between 0 and 1, got {self.tolerance:g}")
        self._check_numbers(coefficients)
        self._check_goals(set(areas))

    def _check_map(self, areas: set[str]) -> None:
        if self.columns is not None and self.neighbours:
            raise AnonymizationError("columns and neighbours are two ways to state a map; remove one")
        if (self.columns is not None or self.neighbours) and self.pad != "refuse":
            raise AnonymizationError("pad belongs to areas in a line; remove it")
        not_below(1, columns=self.columns)
        if self.neighbours and self.wavelet != "haar":
            raise AnonymizationError(f"neighbours: the wavelets of a graph are haar, got {self.wavelet!r}")
        stated = {*self.neighbours, *(str(b) for others in self.neighbours.values() for b in others)}
        if strange := sorted(stated - areas):
            raise AnonymizationError(f"neighbours: {', '.join(strange)} is none of the areas in order")

    def _check_numbers(self, coefficients: int) -> None:
        if self.share is not None and not 0 <= self.share <= 1:
            raise AnonymizationError(f"share must lie in 0 to 1, got {self.share:g}")
        for name in ("caps", "raises", "weights"):
            if not all(np.isfinite(v) and v >= 0 for v in getattr(self, name).values()):
                raise AnonymizationError(f"{name} must be 0 or more for every area")
        if self.route == "joint" and (self.coefficients is not None or self.shift is not None):
            raise AnonymizationError("coefficients and shift belong to route: paper; remove them")
        if self.route == "paper" and (self.share is not None or self.spread is not None or self.weights):
            raise AnonymizationError("share, spread and weights belong to route: joint; remove them")
        if self.spread is not None and not 0 < self.spread < np.inf:
            raise AnonymizationError(f"spread must be above 0 and finite, got {self.spread:g}")
        if self.coefficients is not None and len(self.coefficients) != coefficients:
            raise AnonymizationError(
                f"coefficients must be {coefficients} for {len(self.order)} areas and level {self.level}, got "
                f"{len(self.coefficients)}"
            )

    def _check_goals(self, areas: set[str]) -> None:
        free, bound = {str(a) for a in self.free or ()}, {*self.caps, *self.raises, *map(str, self.protected)}
        if strange := sorted({*bound, *free, *self.weights} - areas):
            raise AnonymizationError(f"{', '.join(strange)} is none of the areas in order")
        if crossed := sorted(a for a, most in self.caps.items() if self.raises.get(a, 0) > most):
            raise AnonymizationError(f"the cap of {', '.join(crossed)} lies below its raise")
        if both := sorted(bound & free):
            raise AnonymizationError(f"{', '.join(both)} is named free and also capped, raised or protected")
        if not bound and self.free is None and self.share is None and self.spread is None and self.coefficients is None:
            raise AnonymizationError("nothing would be hidden: state caps, raises, protected areas or a share")

    @property
    def hidden_variables(self) -> tuple[str, ...]:
        """The variables that are exchanged."""
        return self._swapped

    @property
    def group_variables(self) -> tuple[str, ...]:
        """The variables of the areas, of the group, and of the groups that are kept."""
        counted = () if self.weight is None else (self.weight,)
        return tuple(dict.fromkeys((self.parameter, *(n for one in (*self.vital, *self.kept) for n in one), *counted)))

    @property
    def _swapped(self) -> tuple[str, ...]:
        """The variables that a member and a counterpart exchange."""
        if self.swapped == "group":
            return self.group().variables
        counted = () if self.weight is None else (self.weight,)
        return tuple(dict.fromkeys((self.parameter, *self.follows, *counted)))

    @property
    def invariants(self) -> tuple[str, ...]:
        """Everything: members are moved by exchanges."""
        return LEVEL_COUNTS, MEANS, VALUES

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        used = {*self.group_variables, *self.match_on, *self._swapped}
        if computed := sorted(used & {str(e.dependent) for e in edits.dependents}):
            return [
                f"{', '.join(computed)} is computed by an edit after masking, so that it identifies no record "
                "before; use its parts, or declare the edit without dependent"
            ]
        if absent := sorted(n for n in used if n not in schema or not schema[n].is_masked):
            return [f"{', '.join(absent)}: no such variable is released, by which records could be distinguished"]
        problems = []
        if not schema[self.parameter].is_categorical:
            problems.append(f"parameter: {self.parameter!r} has no levels; declare it nominal or ordinal")
        problems += self._misused(schema)
        for name, stated in (
            (self.parameter, self.order),
            *(item for one in (*self.vital, *self.kept) for item in one.items()),
        ):
            levels = schema[name].levels
            if levels is not None and (strange := {str(v) for v in stated} - {str(v) for v in levels}):
                problems.append(f"{len(strange)} value(s) given for {name!r} are none of its levels")
            if not schema[name].is_categorical and not all(_is_number(v) for v in stated):
                problems.append(f"{name!r} holds numbers, and a value given for it is none")
        return problems

    def _misused(self, schema: Schema) -> list[str]:
        """Return which variables are named in places that exclude each other, one sentence each."""
        problems = []
        own = {n for one in self.vital for n in one}
        if self.parameter in own or any(self.parameter in one for one in self.kept):
            problems.append("vital, kept and parameter must be different variables")
        if self.swapped == "group" and own & {n for one in self.kept for n in one}:
            problems.append("kept names variables of the group, which are exchanged; keep other groups, or swap areas")
        staying = [n for n in schema.with_role("stratum", "sampling-unit") if schema[n].is_masked]
        if self.swapped == "area" and (showing := sorted(set(staying) - {self.parameter, *own, *self.follows})):
            problems.append(
                f"{', '.join(showing)}: strata and sampling units that stay with a person show where they came from; "
                "name them in follows"
            )
        if placed := sorted({self.parameter, *own} & set(self.follows)):
            problems.append(f"follows lists {', '.join(placed)}, which is the area or makes a member; remove it")
        if self.weight is not None and schema[self.weight].kind != "continuous":
            problems.append(f"weight: {self.weight!r} holds no numbers; declare it continuous")
        if telling := sorted({self.parameter, *own} & set(self.match_on)):
            problems.append(f"match_on lists {', '.join(telling)}, which defines the group or its area; remove it")
        return problems

    def goals(self) -> Goals:
        """Return the goals by position in ``order``."""
        at = {str(a): i for i, a in enumerate(self.order)}
        return Goals(
            caps={at[a]: v for a, v in self.caps.items()},
            raises={at[a]: v for a, v in self.raises.items()},
            protected=[at[str(a)] for a in self.protected],
            free=None if self.free is None else [at[str(a)] for a in self.free],
            names=list(at),
        )

    def model(self, population: np.ndarray) -> SignalModel:
        """Return the signal of the group's counts in areas of (m,) records."""
        return SignalModel(self.wavelet, self.level, self.pad, population, self.signal == "ratio", self._layout())

    def _layout(self) -> Layout:
        if self.columns is not None:
            return Grid(self.columns)
        if not self.neighbours:
            return Line()
        at = {str(a): i for i, a in enumerate(self.order)}
        return Graph(tuple((at[a], at[str(b)]) for a, others in self.neighbours.items() for b in others))

    def group(self) -> Group:
        """Return who belongs to the group, and the areas."""
        return Group(vital=self.vital, parameter=self.parameter, order=self.order, weight=self.weight)

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Move members of the group.

        Raises
        ------
        AnonymizationError
            When a name or value is unknown, the number of areas does not suit the level, or no record is in the group.
        InfeasibleError
            When goals contradict each other (it names them), or too few records can move.
        """
        self._check(data.schema, edits)
        group = self.group()
        if not (group.weights(data.frame) > 0).all():
            raise AnonymizationError(f"weight: {self.weight!r} must be above 0 in every record, and missing in none")
        counts, population = group.counts(data.frame), populations(group, data.frame)
        chosen = self._new_counts(counts, population)
        target = chosen.target if self.weight is None else chosen.unrounded * (counts.sum() / chosen.unrounded.sum())
        masked, moves = exchanged_to(data, group, target, self._counterparts(), edits, Stream.of(rng))
        if self.weight is not None:
            chosen = replace(chosen, target=group.counts(masked.frame))
            self._check_reached(counts, chosen.target, float(group.weights(data.frame).max()))
        hidden = self._hidden(counts, population, chosen.target, chosen.beta)
        figures, exact = figures_of(data, masked, hidden, chosen, moves)
        return Release(
            data=masked,
            claims=_claims(hidden),
            keeps_records=True,
            notes=notes_of(hidden, figures, self._swapped, in_households=bool(data.schema.with_role("household"))),
            figures=figures,
            confidential={"before": counts, "after": chosen.target, "population": population} | exact,
        )

    @property
    def over_partitions(self) -> OverPartitions:
        """As in memory where records are counted; weights are counted in memory alone."""
        return "exact" if self.weight is None else "none"

    def anonymize_partitioned(
        self, run: Executor, table: PartitionedTable, *, name: str, edits: EditSet, rng: np.random.Generator
    ) -> PartitionedRelease:
        """Move members of the group in a table in partitions.

        Variables that edits compute are copied, and play no part: they are computed again afterwards.
        """
        if self.over_partitions == "none":
            return super().anonymize_partitioned(run, table, name=name, edits=edits, rng=rng)
        own = computed_apart(table, edits)
        self._check(own.schema, edits)
        counted, m = tallies_over(run, own, self.group()), len(self.order)
        counts, population = counted[1, :m], counted[:, :m].sum(axis=0)
        chosen, counterparts = self._new_counts(counts, population), self._counterparts()
        flows = net_flows(counts, chosen.target, counterparts.distances)
        exchange = Exchange(self.group(), flows, counterparts, edits.within(own.schema.masked), Stream.of(rng))
        masked, moves = exchanged_over(run, own, exchange, counted, name)
        hidden = self._hidden(counts, population, chosen.target, chosen.beta)
        figures, exact = figures_over(run, (own, masked), hidden, chosen, moves)
        return PartitionedRelease(
            data=replace(masked, schema=table.schema),
            claims=_claims(hidden),
            keeps_records=True,
            given=table,
            notes=notes_of(hidden, figures, self._swapped, in_households=False),
            figures=figures,
            confidential={"before": counts, "after": chosen.target, "population": population} | exact,
        )

    def _check(self, schema: Schema, edits: EditSet) -> None:
        if problems := self.problems(schema, edits):
            raise AnonymizationError("\n".join(problems))

    def restore(
        self, data: Microdata, claims: tuple[Claim, ...], *, edits: EditSet, rng: np.random.Generator
    ) -> tuple[Microdata, tuple[str, ...]]:
        """Move members once more where later steps have carried them away.

        Raises
        ------
        InfeasibleError
            When later steps have changed the size of the group, or too few records can move.
        """
        before = data
        for claim in claims:
            if isinstance(claim, GroupCounts):
                stream = Stream.of(rng)
                if not claim.check(data).holds:
                    data = with_claimed_counts(data, claim.hidden, self._counterparts_of(claim), edits, stream)
        return data, () if data is before else (RESTORED,)

    def restore_partitioned(
        self,
        run: Executor,
        table: PartitionedTable,
        claims: tuple[Claim, ...],
        *,
        edits: EditSet,
        rng: np.random.Generator,
    ) -> tuple[PartitionedTable, tuple[str, ...]]:
        """Move members of a table in partitions once more where later steps have carried them away."""
        own = computed_apart(table, edits)
        for claim in claims:
            if isinstance(claim, GroupCounts):
                stream, hidden = Stream.of(rng), claim.hidden
                check_countable(hidden.group, own.schema)
                counted = tallies_over(run, own, hidden.group)
                back = exchange_back(hidden, counted, self._counterparts_of(claim), own.schema, edits, stream)
                if back is not None:
                    masked, _ = exchanged_over(run, own, back, counted, work_name("restored"))
                    return replace(masked, schema=table.schema), (RESTORED,)
        return table, ()

    def check_partitioned(
        self, run: Executor, table: PartitionedTable, claims: tuple[Claim, ...]
    ) -> tuple[ClaimCheck, ...]:
        """Check the claims on all records; what they find is the same as in memory.

        Raises
        ------
        AnonymizationError
            When a claim is none of this method's.
        """
        checks = []
        for claim in claims:
            if isinstance(claim, GroupCounts):
                checks.append(group_counts_check(run, table, claim))
            elif isinstance(claim, ReinferenceAudit):
                checks.append(reinference_check(run, table, claim))
            elif isinstance(claim, InversionAudit):
                checks.append(claim.check(table))
            else:
                raise unchecked_claim(self.method, claim)
        return tuple(checks)

    def custodian_report(self, confidential: Mapping[str, np.ndarray]) -> CustodianReport:
        """Return the counts before and after, and what other settings would have kept, moved and given away."""
        before, after, population = (np.asarray(confidential[name]) for name in ("before", "after", "population"))
        share = float(confidential.get("exact_share", 0.0))
        return group_report(self._hidden(before, population, after, share), self.route, confidential)

    def _counterparts_of(self, claim: GroupCounts) -> Counterparts:
        return self._counterparts() if claim.hidden.group == self.group() else Counterparts()

    def _counterparts(self) -> Counterparts:
        kept = tuple(Group(vital=(one,), parameter=self.parameter, order=self.order) for one in self.kept)
        return Counterparts(self.match_on, kept, self._swapped, self._layout().distances(len(self.order)))

    def _check_reached(self, before: np.ndarray, after: np.ndarray, largest: float) -> None:
        """Raise where sums of weights (m,) miss a goal, or the group's total, by more than the largest weight."""
        bounds = self.goals().bounds(before)
        missed = [b.name for b in bounds if not b.low - largest <= after[b.at] <= b.high + largest]
        if abs(after.sum() - before.sum()) > largest:
            missed.append("the total of the group")
        if missed:
            raise InfeasibleError(
                f"too few counterparts of near weights: {', '.join(missed)} would be missed by more than a record's "
                "weight; loosen goals, match on fewer variables, or count records instead of weights"
            )

    def _hidden(self, counts: np.ndarray, population: np.ndarray, target: np.ndarray, share: float) -> Hidden:
        return Hidden(
            group=self.group(),
            original=counts,
            target=target,
            goals=self.goals(),
            model=self.model(population),
            details=self.details,
            share=share,
            tolerance=self.tolerance,
            match_on=self.match_on,
        )

    def _new_counts(self, counts: np.ndarray, population: np.ndarray) -> Redistribution:
        """Return the new counts (m,) of the group.

        Raises
        ------
        AnonymizationError
            When no record is in the group.
        InfeasibleError
            When goals contradict each other, or no record would move.
        """
        if not counts.any():
            raise AnonymizationError("vital: no record of the areas in order belongs to the group")
        chosen = self._redistributed(counts, population)
        if not chosen.moved:
            raise InfeasibleError("the goals move no record; state one that the counts do not meet already")
        return chosen

    def _redistributed(self, counts: np.ndarray, population: np.ndarray) -> Redistribution:
        route: JointRoute | PaperRoute
        if self.route == "paper":
            given = self.coefficients
            route = PaperRoute(coefficients=None if given is None else np.array(given), shift=self.shift)
        else:
            weights = [self.weights.get(str(a), 1.0) for a in self.order]
            paid = np.array(weights) if self.weights else None
            route = JointRoute(share=self.share, weights=paid, spread=self.spread)
        return redistribute(counts, self.goals(), self.model(population), route=route, details=self.details)


def _claims(hidden: Hidden) -> tuple[Claim, ...]:
    return GroupCounts(hidden=hidden), InversionAudit(hidden=hidden), ReinferenceAudit(hidden=hidden)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
