"""Draw the charts and write the report of a candidate; show its tables to an observer of the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anoncore.custodian import CustodianReport, Section, Table
from anoncore.encoding import Encoder
from anoncore.utility import kept_columns
from anoncore.utility.structure import Structure
from tasks.common.home import DOSSIER, make_private, write_private
from tasks.common.run import Run
from tasks.common.workspace import StoredArrays
from tasks.intake.split import Sides
from tasks.masking.anonymize import Masked, Step
from tasks.policy.disclosure_control import published
from tasks.policy.usefulness import usefulness
from tasks.publication.candidate import AUTHORITY, Candidate, prepare_documents
from tasks.record.dossier import Dossier
from tasks.reporting import charts, prefect_artifacts, report
from tasks.reporting.custodian import custodian_page
from tasks.reporting.marginals import marginals

# No chart shows a group of fewer people than this, whatever k the measures use.
LEAST_SHOWN = 5
Show = Callable[[str, str, str], None]


@dataclass(frozen=True)
class Shown:
    """What the documents draw.

    Parameters
    ----------
    sides, masked : what is compared, of a large table its sub-table, and what was released of it
    curves : of the measures
    confidential : what steps report of the release itself to the custodian alone
    at_risk : who is at risk
    """

    sides: Sides
    masked: Masked
    curves: StoredArrays
    confidential: StoredArrays | None = None
    at_risk: CustodianReport | None = None


def document(run: Run, dossier: Dossier, shown: Shown, steps: tuple[Step, ...], show: Show) -> Candidate:
    """Complete the candidate with its documents.

    Report and dossier are kept in the home for every candidate, also for one that is rejected. What a step
    reports to the custodian alone is stored there, too, and is neither published nor tracked.
    """
    assessment = published(dossier.assessment)
    drawn = _draw(shown, max(assessment.risk.k, LEAST_SHOWN))
    folder = make_private(run.workspace.folder / "pictures")
    for name, content in drawn.items():
        write_private(folder / f"{name}.svg", content)
    page = report.render(dossier, assessment, drawn)
    candidate = prepare_documents(run, dossier, page)
    dossier = candidate.dossier
    home = make_private(run.home.assessment(dossier.release.id))
    write_private(home / "report.html", page.encode())
    write_private(home / DOSSIER, dossier.to_json())
    write_private(home / AUTHORITY, (candidate.folder / AUTHORITY).read_bytes())
    confidential = {} if shown.confidential is None else shown.confidential.load()
    for number, step in enumerate(steps, start=1):
        arrays = _of_step(confidential, number)
        if arrays and (own := step.custodian_report(arrays)) is not None:
            write_private(home / f"custodian-step{number}.html", custodian_page(own).encode())
    if (broken := broken_dependencies(dossier.assessment.utility.structure)) is not None:
        write_private(home / "custodian-structure.html", custodian_page(broken).encode())
    if shown.at_risk is not None:
        write_private(home / "custodian-game.html", custodian_page(shown.at_risk).encode())
    show("risk", prefect_artifacts.risk_markdown(assessment), "Disclosure risk with its baseline")
    show(
        "utility",
        prefect_artifacts.utility_markdown(assessment, usefulness(dossier.verdict.gates)),
        "Utility of the release",
    )
    show("verdict", prefect_artifacts.verdict_markdown(dossier), "Verdict of the policy, gate by gate")
    return candidate


def broken_dependencies(structure: Structure) -> CustodianReport | None:
    """Return the page that names the dependencies of the source that the release breaks; None where it breaks none."""
    if not structure.broken:
        return None
    columns = ("variable", "determines", "released records that break it")
    rows = tuple((*one.variables, one.records) for one in structure.broken)
    caption = (
        "In every record of the source the first variable determines the second. An edit of kind lookup keeps that: "
        "{edit: lookup, name: …, dependent: SECOND, of: [FIRST]}. Leave a variable out where the dependency is chance."
    )
    return CustodianReport(
        warning="This page names dependencies that may hold because single people are, or are not, in the source.",
        title="Dependencies that the release breaks",
        introduction=f"The release breaks {len(rows)} of the {structure.dependencies} dependencies that were tested.",
        sections=(Section("Broken dependencies", tables=(Table(caption, columns, rows, columns[2:]),)),),
    )


def _of_step(arrays: dict[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
    start = f"step{number}."
    return {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}


def _draw(shown: Shown, units: int) -> dict[str, bytes]:
    """Draw without the columns of levels that are not released, and nothing of fewer than so many units."""
    original, released = shown.sides.original.load(), shown.masked.measured.load()
    if (left_out := shown.sides.left_out_rows("utility")) is not None:
        original = original.take(np.flatnonzero(~left_out))
    least = original.records_of(units)
    encoder = Encoder.fit(original)
    shared = kept_columns(encoder, released, shown.masked.hidden_variables)
    names = [name for name, keep in zip(encoder.column_names(), shared, strict=True) if keep]
    x, y = encoder.encode(original)[:, shared], encoder.encode(released)[:, shared]
    return {
        "curves": charts.cumulative_curves(shown.curves.load()),
        "marginals": marginals(original, released, k=least),
        "correlations": charts.correlations(x, y, names, k=least),
    }
