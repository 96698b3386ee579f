"""Judge a release that somebody else has made: the same measures and gates, on any two or three files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from flows.draft import declared, source_of
from flows.plan import load_plan
from tasks.assess import AssessmentSection, assess
from tasks.attacks import about_files
from tasks.decide import PolicySection, Verdict, decide
from tasks.faults import ExitCode, Refused, guarded, visible
from tasks.home import Home
from tasks.ingest import SourceSection, read, to_microdata
from tasks.workspace import Run, SeedSection, wipe_abandoned

EXIT_CODES = {"publish": ExitCode.PUBLISHED, "reject": ExitCode.REJECTED, "await": ExitCode.AWAITING}


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What was measured and what the policy says of it."""

    verdict: Verdict
    figures: dict[str, Any]
    left_out: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def exit_code(self) -> ExitCode:
        """0 where every gate passes, 3 where one fails, 4 where a person must decide."""
        return EXIT_CODES[self.verdict.decision]


def judge(
    home: Home,
    released: Path,
    original: Path,
    reference: Path | None = None,
    *,
    plan: Path | None = None,
    aligned: bool = False,
    by_design: tuple[str, ...] = (),
) -> Judgement:
    """Measure a released file beside the records it stems from, and put the policy's gates to it.

    Parameters
    ----------
    home : Home, whose private workspace is used and wiped
    released, original, reference : CSV, Parquet or Stata files; the reference holds other people of the same
        population, without it each record is compared with the rest of the original
    plan : whose declarations, assessment and policy apply; guessed from the original where there is none
    aligned : row i of the release stems from row i of the original, so that linkage can be measured
    by_design : measures that are acknowledged to say nothing, where no plan states them

    Raises
    ------
    Refused
        When a file cannot be read or the files do not fit together; no message holds a value.

    Examples
    --------
    >>> judge(home, Path("masked.csv"), Path("people.csv")).exit_code  # doctest: +SKIP
    <ExitCode.REJECTED: 3>
    """
    section, policy = AssessmentSection(), PolicySection(by_design=by_design)  # type: ignore[arg-type]
    if plan is not None:
        known = load_plan(plan).plan
        variables, section, policy = known.variables, known.assessment, known.policy
        source = guarded(source_of)(original)
    else:
        variables, source = guarded(declared)(original)
    wipe_abandoned(home)
    # Nothing is masked here, so what is drawn, samples alone, needs no secret.
    with Run.opened(home, SeedSection(public=0, data_are_public=True)) as run:
        if plan is None and reference is not None:
            variables = guarded(_with_levels_of)(run, reference, original, source, tuple(variables))
        left_out, unknown = guarded(_prepare)(
            run, released, original, reference, tuple(variables), source, aligned=aligned
        )
        figures = guarded(assess)(run, section, policy)
    figures["files"] = about_files(figures, unknown)
    return Judgement(verdict=decide(figures, policy), figures=figures, left_out=left_out, unknown=unknown)


def _prepare(
    run: Run,
    released: Path,
    original: Path,
    reference: Path | None,
    variables: tuple[Variable, ...],
    source: SourceSection,
    *,
    aligned: bool,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write the tables where the assessment looks for them; return what the release lacks and has besides."""
    people = _table(run, original, source, variables)
    known = {v.name: v for v in people.schema}
    header = _columns(run, released)
    shared = [n for n in known if n in header]
    if not shared:
        raise Refused(
            f"none of the {len(known)} variables of the original is among the {len(header)} columns of "
            f"{visible(released.name)}; released variables must keep their names"
        )
    # Levels may have been merged or emptied, and numbers rounded: they are what the release holds.
    open_ = tuple(replace(known[n], levels=None, precision=None, missing=()) for n in shared)
    masked = _as_levels(_table(run, released, None, open_, extra=True), people.select(shared))
    if aligned and len(masked) != len(people):
        raise Refused(
            f"the release has {len(masked)} rows and the original {len(people)}; rows that correspond "
            "must be as many"
        )
    run.save("original", people.select(shared))
    run.save("released", masked)
    if reference is not None:
        others = _table(run, reference, None, tuple(known[n] for n in shared), extra=True)
        run.save("reference", others)
    run.write_json("claims", [])
    nothing = {"notes": [], "figures": {}, "hides": [], "unprotected": False}
    run.write_json("masked", nothing | {"keeps_records": aligned})
    return tuple(n for n in known if n not in shared), tuple(n for n in header if n not in known)


def _with_levels_of(
    run: Run, reference: Path, original: Path, source: SourceSection, variables: tuple[Variable, ...]
) -> tuple[Variable, ...]:
    """Return guessed variables with the levels that only people of the reference have."""
    people = _table(run, original, source, variables)
    header = _columns(run, reference)
    open_ = tuple(replace(v, levels=None) for v in people.schema if v.name in header and v.levels)
    if not open_:
        return variables
    others = _table(run, reference, None, open_, extra=True)
    found = []
    for variable in variables:
        levels = people.schema[variable.name].levels if variable.name in people.schema else None
        more = others.schema[variable.name].levels if levels and variable.name in others.schema else None
        whole = tuple(dict.fromkeys((*(levels or ()), *(more or ()))))
        if more and len(whole) > len(levels or ()):
            kind = "nominal" if variable.kind == "binary" and len(whole) > 2 else variable.kind
            variable = replace(variable, levels=whole, kind=kind)
        found.append(variable)
    return tuple(found)


def _columns(run: Run, path: Path) -> list[str]:
    frame, _ = read(run, _source(path), (), path.parent.resolve())
    return [str(c) for c in frame.columns]


def _source(path: Path) -> SourceSection:
    return source_of(path)


def _table(
    run: Run,
    path: Path,
    source: SourceSection | None,
    variables: tuple[Variable, ...],
    *,
    extra: bool = False,
) -> Microdata:
    """Read a file as microdata; with ``extra``, columns that are not declared are left out."""
    frame, _ = read(run, source or _source(path), variables, path.parent.resolve())
    names = [v.name for v in variables]
    if extra:
        frame = frame[[n for n in names if n in frame.columns]]
    try:
        return to_microdata(frame, variables)[0]
    except (AnonymizationError, Refused) as error:
        problem = str(error)
    raise Refused(f"{visible(path.name)}: {problem}")


def _as_levels(released: Microdata, original: Microdata) -> Microdata:
    """Return the release with the original's levels where they suffice, so that levels keep their order."""
    columns, variables = {}, []
    for variable in released.schema:
        own = original.schema[variable.name]
        column = released.frame[variable.name]
        known = own.levels
        if known is not None and variable.levels is not None and set(variable.levels) <= set(known):
            dtype = pd.CategoricalDtype(list(known), ordered=own.kind == "ordinal")
            column = column.astype(dtype)
            variable = replace(variable, levels=known)
        columns[variable.name] = column
        variables.append(variable)
    return Microdata(pd.DataFrame(columns), Schema(variables))
