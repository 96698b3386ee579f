"""What every masking method offers: the protocol that its parameter class follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from anoncore.claims import Claim, ClaimCheck
from anoncore.custodian import CustodianReport
from anoncore.edits.model import EditSet
from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema
from anoncore.partitions.release import PartitionedRelease
from anoncore.partitions.store import Executor
from anoncore.partitions.table import PartitionedTable
from anoncore.release import MethodReport, Release

# Measures that say nothing of groups of identical records: ambiguity is 1 and uncertainty 0, whatever the risk.
IDENTICAL_GROUPS = ("ambiguity", "uncertainty")
# What must be shown for a method that proves nothing about a single record.
EVIDENCE = (
    "prediction distance, ambiguity and uncertainty not below the reference's, no record closer than "
    "its reference neighbour would be, and members not distinguished from non-members"
)
MEDOID_NOTE = "the numbers of one real person per group are published, among them numbers that no one else has"


# So many units left out at random keep what is read off a unit's levels by subtracting releases within 2 points, for
# every method of decision record 24.
ENOUGH = 200

# What a method may keep exactly, so that the difference of two releases is the figure of who joined or left.
LEVEL_COUNTS = "the number of records at each level"
MEANS = "the mean of each number, up to rounding"
VALUES = "the values of numbers, but for a few extreme ones"


def enough_left_out(units: int) -> int:
    """Return how many of so many units left out at random hide a single one: `ENOUGH`, or all of fewer."""
    return min(ENOUGH, units)


def unit_weight(data: Microdata) -> float:
    """Return the mean square of how many records a unit has: by so much it moves a variance more than one record."""
    sizes = np.bincount(data.unit_codes)
    return float(np.mean(sizes[sizes > 0].astype(np.float64) ** 2)) if len(sizes) else 1.0


def draws_enough(data: Microdata, share: float = 1.0) -> bool:
    """Return whether records that are drawn one by one vary as much as where enough units were left out.

    With N records a count of the share p has the variance N·p(1 − p) times the ``share`` that is drawn anew; where L
    units with m records each are left out, L·m²·p(1 − p) if all records of a unit are alike.
    """
    return share * len(data) >= enough_left_out(data.n_units) * unit_weight(data)


# How a method masks a table in partitions: the same release as in memory; random blocks of records, each by itself;
# or not at all.
OverPartitions = Literal["exact", "blocks", "none"]


class Method(Protocol):
    """A masking method: a frozen parameter class that masks microdata and declares what follows from it.

    A method is added by one module with its parameter class, and one line in `anoncore.methods`. Everything else
    asks what is declared here, never which method it is. Only ``title``, ``description``, ``method`` and
    ``anonymize`` have no default.

    Attributes
    ----------
    title, description : str
        The method's name and one or two sentences on how it works, for readers of the report.
    prepares : bool
        Whether it leaves the single record as it was, apart from what it treats, so that another step must mask.
    rebuilds_households : bool
        Whether it releases households of its own making, with new numbers.
    treats_records_alone : bool
        Whether it decides by all records and then treats each without the values of single others, so that the treated
        records of a part of the table are a part of the treated records.
    confidential_parameters : tuple of str
        Parameters from which a reader would learn what the method hides; they are not published.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    title: ClassVar[str]
    description: ClassVar[str]
    prepares: ClassVar[bool] = False
    rebuilds_households: ClassVar[bool] = False
    treats_records_alone: ClassVar[bool] = False
    confidential_parameters: ClassVar[tuple[str, ...]] = ()

    @property
    def method(self) -> str:
        """The name that plans use."""

    @property
    def void_by_design(self) -> tuple[str, ...]:
        """Risk measures that say nothing about the release, whatever the risk."""
        return ()

    @property
    def publishes_source_values(self) -> str:
        """Why values that a single record holds may be published as they are, in one sentence; empty if none is."""
        return ""

    @property
    def invariants(self) -> tuple[str, ...]:
        """Which figures of the source every release keeps: `LEVEL_COUNTS`, `MEANS`, `VALUES`."""
        return ()

    def treated(self, schema: Schema) -> tuple[str, ...]:
        """Return the variables of a table of which it keeps no figures but its `invariants`; by default all.

        Of the others it keeps all figures: they stay as they are, or each value becomes another by a fixed rule.
        """
        return schema.masked

    def redraws(self, data: Microdata, edits: EditSet) -> tuple[str, ...]:
        """Return the variables of which it draws level counts and means of ``data`` anew in every release.

        They vary as much as where `ENOUGH` units, or all of fewer, were left out at random, see `draws_enough`; by
        default none. The figures of other variables follow from the source, whether or not they are its own.
        """
        return ()

    @property
    def fewest_units(self) -> int:
        """Levels that fewer statistical units of the source hold are not released, nor looked up; 0 for no limit."""
        return 0

    @property
    def makes_new_records(self) -> bool:
        """Whether a row of the release stems from no record of the source."""
        return False

    @property
    def releases_ranges(self) -> bool:
        """Whether ranges are released in place of values."""
        return False

    @property
    def group_number(self) -> str:
        """The released variable that numbers groups of records from 0, in a random order; empty for none.

        Groups of several blocks are numbered anew over all of them.
        """
        return ""

    @property
    def group_variables(self) -> tuple[str, ...]:
        """Variables whose joint counts a step hides, which later steps must leave as they are."""
        return ()

    @property
    def unmixes_levels(self) -> bool:
        """Whether every group of records that the step makes identical has one level of each variable with levels."""
        return False

    @property
    def unmixed_variables(self) -> tuple[str, ...]:
        """Variables of which every group of records that the step makes identical has one level, that of the source."""
        return ()

    @property
    def hidden_variables(self) -> tuple[str, ...]:
        """Variables along which a group is hidden: no published figure may compare them before and after."""
        return ()

    def in_share(self, share: float) -> Method:
        """Return the step as it treats a share of the units: what is rare among all is so in a part of them."""
        return self

    def by_counts_of(self, run: Executor, table: PartitionedTable) -> Method:
        """Return the step as it treats a part of a table in partitions, deciding by the counts of all of its records.

        Of steps that treat records alone; by default they decide by the part.
        """
        return self

    def problems(self, schema: Schema, edits: EditSet) -> list[str]:
        """Return what is wrong with the parameters for a table and its edits, one sentence each."""
        return []

    def anonymize(self, data: Microdata, *, edits: EditSet, rng: np.random.Generator) -> Release:
        """Mask microdata, which are not modified; see `anoncore.registry.anonymize`."""

    @property
    def over_partitions(self) -> OverPartitions:
        """Whether and how a table in partitions is masked with these parameters."""
        return "none"

    def anonymize_partitioned(
        self, run: Executor, table: PartitionedTable, *, name: str, edits: EditSet, rng: np.random.Generator
    ) -> PartitionedRelease:
        """Mask a table in partitions, which is not modified; see `anoncore.registry.anonymize_partitioned`."""
        raise AnonymizationError(f"{self.method} with these parameters needs its records in memory")

    def report_blocks(self, run: Executor, table: PartitionedTable, blocks: Sequence[MethodReport]) -> MethodReport:
        """Return what is reported of a table that was masked in random blocks, each as a table of its own.

        Parameters
        ----------
        run : Executor
        table : what all steps have released, in partitions
        blocks : what the method reported of each block; two or more
        """
        return MethodReport.of_blocks(blocks)

    def restore(
        self, data: Microdata, claims: tuple[Claim, ...], *, edits: EditSet, rng: np.random.Generator
    ) -> tuple[Microdata, tuple[str, ...]]:
        """Make this method's claims hold again after later steps; return the data, and notes on what was done."""
        return data, ()

    def restore_partitioned(
        self,
        run: Executor,
        table: PartitionedTable,
        claims: tuple[Claim, ...],
        *,
        edits: EditSet,
        rng: np.random.Generator,
    ) -> tuple[PartitionedTable, tuple[str, ...]]:
        """Make claims about a whole table in partitions hold again after later steps.

        Return the table as it is, or a new one of the same columns, and notes on what was done.
        """
        return table, ()

    def check_partitioned(
        self, run: Executor, table: PartitionedTable, claims: tuple[Claim, ...]
    ) -> tuple[ClaimCheck, ...]:
        """Check this method's claims on a whole table in partitions."""
        raise AnonymizationError(f"claims of {self.method} are checked on records in memory")

    def custodian_report(self, confidential: Mapping[str, np.ndarray]) -> CustodianReport | None:
        """Return what the custodian alone may see of this step, given the confidential arrays of its release."""
        return None


def unchecked_claim(method: str, claim: Claim) -> AnonymizationError:
    """Return the error of a claim that a method cannot check on a table in partitions."""
    return AnonymizationError(
        f"{method} checks its own claims on a table in partitions, and {type(claim).__name__} is none of them; "
        "check it on records in memory"
    )


def public_parameters(step: Method, stated: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the method and its parameters, or those ``stated``, without the confidential ones."""
    parameters = asdict(step) if stated is None else {"method": step.method, **stated}
    return {name: value for name, value in parameters.items() if name not in step.confidential_parameters}


def probability_problems(released: str, schema: Schema, edits: EditSet) -> list[str]:
    """Return the edits that read variables which ``released: probabilities`` replaces by a column per level."""
    spread = {v.name for v in schema if v.kind in ("binary", "nominal")}
    broken = [e.name for e in edits.edits if released == "probabilities" and spread & set(e.variables)]
    if not broken:
        return []
    return [
        "released: probabilities replaces binary and nominal variables by one column per level, which these "
        f"edits read: {', '.join(broken)}; remove them or choose calibrated"
    ]
