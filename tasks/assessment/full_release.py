"""What is measured of a release in partitions over all of its records, beside the measures of its sub-table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anoncore.encoding import EncodedTables, Encoder
from anoncore.kernels.neighbors import Floats
from anoncore.microdata import ComparedUnits, Microdata, Variable
from anoncore.parameters import FEWEST_HOLDERS
from anoncore.partitions.close_records import AskedPeople, ComparedTables, close_records
from anoncore.partitions.identical import identical_counts
from anoncore.partitions.missing import missing_patterns
from anoncore.partitions.neighbours import Sought, nearest_distances
from anoncore.partitions.order import Column, kolmogorov_distance
from anoncore.partitions.outermost import outermost
from anoncore.partitions.store import Threads, work_name
from anoncore.recoding import recoded
from anoncore.risk import MEMBERSHIP_ATTACKS, TailTest
from anoncore.risk.closeness import compared_with
from anoncore.risk.dominance import Dominance, dominance
from anoncore.risk.scores import Certainty, ScoreAttack, score_attack
from anoncore.risk.shrinkage import Shrinkage
from tasks.assessment.assess import AssessmentSection, MaskedSides
from tasks.assessment.coarser_parts import coarser_variables
from tasks.assessment.rare_levels import missing_together, names_rare
from tasks.common.partitions import StoredPartitions, in_partitions, recoded_partitions
from tasks.common.run import Run
from tasks.common.workspace import StoredRecords
from tasks.policy.assessment import Assessment, FullRelease, RareLevels, Records, VariableShift
from tasks.policy.section import PolicySection

# Records of a partition where the table is in memory: so many are encoded at a time, in each thread.
IN_MEMORY = 100_000
# People of either side whose nearest record is looked for among all released ones.
PEOPLE = 5_000
# Of the members, those whose close records are looked for among all records, of the original and the reference too.
CLOSE = 2_000


def with_full_release(
    run: Run,
    full: MaskedSides,
    tested: MaskedSides,
    assessment: Assessment,
    section: AssessmentSection,
    policy: PolicySection,
) -> Assessment:
    """Return the assessment of the sub-table, ``tested``, with what was measured of the full release.

    Claims, levels and dominated numbers are those of the full release. Records that stand in it unchanged are counted
    among all records; the nearest released record of some people of either side is looked for among all of them.
    Released ranges are measured by their middles. Where a group alone is hidden, single records are measured as if none
    had moved.
    """
    sides, masked = full
    executor = run.executor or Threads()

    def stored(side: StoredRecords, name: str) -> StoredPartitions:
        return in_partitions(side, name, executor, IN_MEMORY)

    original, released = stored(sides.original, "original"), stored(masked.measured, "released")
    published = released if masked.points is None else stored(masked.released, "published")
    reference = None if sides.reference is None else stored(sides.reference, "reference")
    names = [name for name in released.schema.masked if name in original.schema]
    people = _People.of(run, tested, names)
    # Records are compared in the levels and units of the release, distributions with those of the source.
    source, beside = (
        None if side is None else recoded_partitions(side, masked.recodings, work_name("recoded"))
        for side in (original, reference)
    )
    assert source is not None
    others = None if beside is None else beside.table
    # Where a group alone is hidden, single records are measured as if none had moved.
    single = source if assessment.as_source else released
    tables = ComparedTables(source.table, single.table, others, people.encoder, people.shrinkage)
    together = people.kept_together & _rarely_missing(names, source, released) if people.kept_together else set()
    least = _nearest_distances(single, people)
    measured = FullRelease(
        records=Records(len(original), len(released), None if reference is None else len(reference)),
        identical=_identical(run, source, single, compared_with(source, single, beside), names, policy.tail_p),
        nearest=_nearest(least, people),
        # A test that cannot reach the level at which its gate asks shows nothing.
        close=close_records(
            executor,
            tables,
            people.asked(least),
            rng=run.rng("close-records"),
            tau=section.tau,
            level=policy.full_release_p,
        ),
        shifts=tuple(_shifts(original, released, [name for name in names if name not in masked.hidden_variables])),
        coarser=coarser_variables(tested.masked, masked),
    )
    return replace(
        assessment,
        risk=replace(assessment.risk, dominance=_dominance(source, single, beside)),
        claims=masked.claims,
        source_values=masked.source_values,
        method_figures=masked.figures,
        source_levels=tuple(
            name for name in source.schema.masked if name in together or _holds_rare(name, source, released, published)
        ),
        rare_levels=tuple(_rare(released, section.k)),
        full_release=measured,
    )


def _identical(
    run: Run,
    original: StoredPartitions,
    released: StoredPartitions,
    reference: StoredPartitions | None,
    names: list[str],
    p: float,
) -> TailTest:
    """Test whether more of all records are released unchanged than stand in the reference, or again in the source."""
    tables = original.table, released.table, None if reference is None else reference.table
    return identical_counts(original.executor, *tables, names, rng=run.rng("digests")).test(p)


def _dominance(original: StoredPartitions, released: StoredPartitions, reference: StoredPartitions | None) -> Dominance:
    """Look for numbers that one unit dominates, among the outermost of all records: these decide."""
    numbers = {v.name for v in released.schema if v.kind == "continuous"}
    names = [v.name for v in original.schema if v.kind == "continuous" and v.name in numbers]
    if not names:
        return Dominance(0, 0, (), False)
    sides = [
        None if side is None else side.at(outermost(side.executor, side.table, names), names)
        for side in (original, released, reference)
    ]
    assert sides[0] is not None
    assert sides[1] is not None
    return dominance(sides[0], sides[1], sides[2])


def _nearest_distances(released: StoredPartitions, people: _People) -> Floats | None:
    """Return the distances of members, then of non-members, to the nearest of all released records."""
    if people.nonmembers is None:
        return None
    asked = np.concatenate([people.encoder.encode(side) for side in (people.members, people.nonmembers)])
    return nearest_distances(released.executor, asked, Sought(released.table, people.encoder))[:, 0]


def _nearest(least: Floats | None, people: _People) -> ScoreAttack | None:
    """Distinguish members from non-members by the nearest of all released records; None without non-members."""
    if least is None or people.nonmembers is None:
        return None
    members, nonmembers = np.split(-least, [len(people.members)])
    certainty = Certainty(tests=MEMBERSHIP_ATTACKS, units=ComparedUnits(people.members.units, people.nonmembers.units))
    return score_attack(members, nonmembers, certainty=certainty)


@dataclass(frozen=True, eq=False, repr=False)
class _People:
    """Random members and non-members of the sub-table, how they are measured, and what the sub-table tells of all.

    ``kept_together`` are the variables that one or two people of it lack together, as their own rows do.
    """

    encoder: Encoder
    shrinkage: Shrinkage | None
    kept_together: set[str]
    members: Microdata
    nonmembers: Microdata | None

    def asked(self, least: Floats | None) -> AskedPeople:
        """Return the members whose close records are looked for, with what is known of their distances."""
        rows = self.encoder.encode(self.members.take(np.arange(min(len(self.members), CLOSE))))
        return AskedPeople(rows, None if least is None else least[: len(rows)])

    @classmethod
    def of(cls, run: Run, tested: MaskedSides, names: list[str]) -> _People:
        """Draw them."""
        sides, masked = tested
        members, rng = recoded(sides.original.load(), masked.recodings).select(names), run.rng("full-release")
        tables = EncodedTables.of(members, masked.measured.load().select(names), None)
        shrinkage, together = None, set[str]()
        if masked.keeps_records:
            shrinkage = Shrinkage.of(tables, tables.released.frame.index.get_indexer(members.frame.index))
            together = missing_together(members, tables.released, names)
        people = [members]
        if sides.reference is not None:
            people.append(recoded(sides.reference.load(), masked.recodings).select(names))
        drawn = [side.take(rng.permutation(len(side))[:PEOPLE]) for side in people]
        return cls(tables.encoder, shrinkage, together, drawn[0], drawn[1] if len(drawn) > 1 else None)


def _holds_rare(name: str, original: StoredPartitions, measured: StoredPartitions, released: StoredPartitions) -> bool:
    """Return whether a level, or a missing value, is released that one or two units of the original hold.

    Measured are the released records as single values.
    """
    variable = original.schema[name]
    shown = released if variable.is_categorical and name in released.schema else measured
    held = released.level_counts(name) if variable.is_categorical and name in released.schema else {}
    return names_rare(
        variable,
        released.schema.names,
        [level for level, count in held.items() if count],
        lacks=name in shown.schema and shown.missing_values(name) > 0,
        holders=original.level_counts(name) if variable.is_categorical else {},
        missing=original.missing_values(name),
    )


def _rarely_missing(names: list[str], original: StoredPartitions, released: StoredPartitions) -> set[str]:
    """Return the variables that one or two people lack together, and that released records lack together as well."""
    (patterns, held), (there, _) = (missing_patterns(side.executor, side.table, names) for side in (original, released))
    rare = {tuple(one) for one in patterns[held < FEWEST_HOLDERS].tolist()} & {tuple(one) for one in there.tolist()}
    return {name for name, missing in zip(names, np.any([*rare], axis=0), strict=True) if missing} if rare else set()


def _rare(released: StoredPartitions, k: int) -> Iterator[RareLevels]:
    """Yield the released levels that fewer than k records hold."""
    for variable in released.schema:
        if variable.is_categorical and variable.is_masked:
            counts = released.level_counts(variable.name)
            if levels := tuple(str(level) for level, count in counts.items() if 0 < count < k):
                yield RareLevels(variable.name, levels)


def _shifts(original: StoredPartitions, released: StoredPartitions, names: list[str]) -> Iterator[VariableShift]:
    """Yield how far the distribution of each variable has moved."""
    for name in names:
        yield _shift(released.schema[name], original, released)


def _shift(variable: Variable, original: StoredPartitions, released: StoredPartitions) -> VariableShift:
    """Return how far a variable's distribution has moved: Kolmogorov's distance or total variation, or missing."""
    name = variable.name
    missing = abs(original.missing_values(name) / len(original) - released.missing_values(name) / len(released))
    if variable.kind == "continuous" and original.schema[name].kind == "continuous":
        columns = (Column(side.table.column(name), len(side.table.rows)) for side in (original, released))
        moved = kolmogorov_distance(released.executor, *columns)
    else:
        shares = [_shares(side.level_counts(name)) for side in (original, released)]
        moved = (
            sum(abs(shares[0].get(level, 0.0) - shares[1].get(level, 0.0)) for level in {**shares[0], **shares[1]}) / 2
        )
    return VariableShift(name, max(missing, moved))


def _shares(counts: dict[Any, int]) -> dict[str, float]:
    total = max(sum(counts.values()), 1)
    return {str(level): count / total for level, count in counts.items()}
