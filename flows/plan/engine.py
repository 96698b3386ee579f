"""Which plans can be carried out on tables in partitions, and when a table is put there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol

from anoncore.edits.lookup import LookupEdit
from anoncore.method import Method
from anoncore.microdata import Variable
from anoncore.registry import METHODS
from tasks.assessment.assess import AssessmentSection
from tasks.common.errors import named
from tasks.connectors.formats import SUFFIXES
from tasks.connectors.parquet import cells_of
from tasks.intake.partitions import PARTITIONED_FORMATS, UNSUPPORTED_ROLES
from tasks.intake.series import SeriesSection
from tasks.intake.source import SourceSection
from tasks.intake.split import ReferenceSection
from tasks.intake.validate import EditsSection
from tasks.masking.partitions import block_obstacles
from tasks.publication.candidate import PublicationSection

Engine = Literal["memory", "local", "dask", "auto"]
# Cells of a table, records times columns, above which `auto` puts it into partitions: about 5 GB in memory.
MOST_IN_MEMORY = 50_000_000
FORMATS = ("parquet", "csv")
BEYOND = ("local", "dask")


class Plan(Protocol):
    """What is asked of a plan."""

    engine: Engine
    source: SourceSection
    variables: tuple[Variable, ...]
    edits: EditsSection
    reference: ReferenceSection
    series: SeriesSection
    steps: tuple[Method, ...]
    publication: PublicationSection
    assessment: AssessmentSection


def beyond_memory(plan: Plan, base: Path) -> bool:
    """Return whether a plan's tables are put into partitions.

    ``auto`` does so where the plan can be carried out there and its files hold more than `MOST_IN_MEMORY` cells.
    """
    if plan.engine != "auto":
        return plan.engine in BEYOND
    if any(True for _ in obstacles(plan)):
        return False
    return _cells(plan.source, base) > MOST_IN_MEMORY


def _cells(source: SourceSection, base: Path) -> int:
    """Return how many cells Parquet files state, or a CSV file holds where a field takes five bytes; 0 of a query."""
    if source.sql is not None:
        return 0
    path = source.file(base)
    if path.is_file() and source.kind(path) == "csv":
        return path.stat().st_size // 5
    return cells_of(path)


def engine_problems(plan: Plan) -> Iterator[str]:
    """Yield what keeps a plan with ``engine: local`` or ``dask`` from being carried out."""
    if plan.engine in BEYOND:
        end = "change that, or choose engine: memory"
        yield from (f"engine: {plan.engine} {problem}; {end}" for problem in obstacles(plan))


def judged_by_sub_table(plan: Plan) -> bool:
    """Return whether a large table in memory is judged as one in partitions: by a sub-table, and all records."""
    return not plan.assessment.exhaustive and not any(True for _ in _table_obstacles(plan))


def obstacles(plan: Plan) -> Iterator[str]:
    """Yield what a plan asks for that tables in partitions do not support, the end of a sentence."""
    yield from _source_obstacles(plan)
    yield from _table_obstacles(plan)
    if plan.assessment.exhaustive:
        yield "compares no record with every other (assessment: exhaustive)"
    if formats := [one for one in plan.publication.formats if one not in FORMATS]:
        yield f"publishes {' or '.join(FORMATS)} files, and not {', '.join(formats)}"


def _table_obstacles(plan: Plan) -> Iterator[str]:
    for role in UNSUPPORTED_ROLES:
        if variables := [v.name for v in plan.variables if v.role == role]:
            yield f"has no variables with the role {role}: {named(variables)}"
    if plan.reference.kind == "file":
        yield "has no reference of kind file"
    if plan.reference.sampling_units:
        yield "has no sampling_units of a reference"
    if lookups := [rule.name for rule in plan.edits.rules if isinstance(rule, LookupEdit)]:
        yield f"has no lookups among its edits: {named(lookups)}"
    if plan.series != SeriesSection():
        yield "has no series"
    for step in plan.steps:
        if step.over_partitions == "none":
            needs = f"{step.method}{_unless(step.method)}, since that needs the whole table"
            yield f"has no {needs}; these do not: {_able(step.method)}"
    yield from block_obstacles(plan.steps, plan.edits.edit_set(), plan.variables)


def _unless(method: str) -> str:
    """Return with which parameters a method needs the whole table; nothing where it always does."""
    when = {
        "rare-levels": " unless its action is redistribute",
        "mdav": " with within",
        "group-anonymity": " with weight",
        "spectral-synthesis": " with records",
    }
    return when.get(method, "")


def _able(other: str) -> str:
    """Return the methods that some parameters allow over partitions, but for one."""
    able = (name for name, method in METHODS.items() if method.over_partitions is not Method.over_partitions)
    return ", ".join(sorted(name for name in able if name != other))


def _source_obstacles(plan: Plan) -> Iterator[str]:
    source = plan.source
    suffix = Path(str(source.path)).suffix.lower()
    kind = source.format or SUFFIXES.get(suffix, "" if suffix else "parquet")
    if source.remote or source.package is not None:
        yield "reads PostgreSQL, and Parquet and CSV files on this machine, and no address or package"
    elif source.sql is None and kind not in PARTITIONED_FORMATS:
        yield "reads Parquet and CSV files"
