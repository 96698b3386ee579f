"""Draw the pictures and write the report of a candidate, and show its tables to whoever watches the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from anoncore.encoding import Encoder
from anoncore.methods import GroupAnonymity
from anoncore.utility import kept_columns
from tasks.assessment.disclosure_control import public_figures
from tasks.common.home import DOSSIER, make_private, write_private
from tasks.common.run import Run
from tasks.common.workspace import StoredArrays
from tasks.intake.split import Sides
from tasks.masking.anonymize import Masked, Step
from tasks.publication.publish import prepare_documents
from tasks.reporting import charts as pictures
from tasks.reporting import prefect_artifacts as artifacts
from tasks.reporting import report

# No picture shows a group of fewer people than this, whatever k the measures use.
LEAST_SHOWN = 5
Show = Callable[[str, str, str], None]


@dataclass(frozen=True)
class Shown:
    """What the documents draw: the two sides, the masked data, and the curves of the measures."""

    sides: Sides
    masked: Masked
    curves: StoredArrays


def document(run: Run, dossier: dict[str, Any], shown: Shown, steps: tuple[Step, ...], show: Show) -> dict[str, Any]:
    """Complete the candidate with its documents; return the dossier with its digest.

    Report and dossier are kept in the home for every candidate, also for one that is rejected. What a step
    says to the custodian alone stands beside them there, and is neither published nor tracked.
    """
    drawn = _draw(shown, max(dossier["figures"]["k"], LEAST_SHOWN))
    folder = make_private(run.workspace.folder / "pictures")
    for name, content in drawn.items():
        write_private(folder / f"{name}.svg", content)
    page = report.render(dossier | {"figures": public_figures(dossier["figures"])}, drawn)
    finished = prepare_documents(run, dossier, page)
    kept = make_private(run.home.assessment(dossier["release"]["id"]))
    write_private(kept / "report.html", page.encode())
    write_private(kept / DOSSIER, json.dumps(finished, ensure_ascii=False, default=str).encode())
    for number, step in enumerate(steps, start=1):
        if isinstance(step, GroupAnonymity) and shown.masked.confidential is not None:
            from tasks.reporting.custodian import custodian_page

            told = _of_step(shown.masked.confidential.load(), number)
            write_private(kept / f"custodian-step{number}.html", custodian_page(told, step).encode())
    show("risk", artifacts.risk_markdown(finished), "Disclosure risk beside its baseline")
    show("utility", artifacts.utility_markdown(finished), "What the release keeps")
    show("verdict", artifacts.verdict_markdown(finished), "What the policy says, and why")
    return finished


def _of_step(arrays: dict[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
    start = f"step{number}."
    return {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}


def _draw(shown: Shown, least: int) -> dict[str, bytes]:
    """Draw without the columns of levels that are not released: their names are not for the public."""
    original, released = shown.sides.original.load(), shown.masked.measured.load()
    encoder = Encoder.fit(original)
    kept = kept_columns(encoder, released, shown.masked.hides)
    names = [name for name, keep in zip(encoder.column_names(), kept, strict=True) if keep]
    x, y = encoder.encode(original)[:, kept], encoder.encode(released)[:, kept]
    return {
        "curves": pictures.cumulative_curves(shown.curves.load()),
        "marginals": pictures.marginals(original, released, k=least),
        "correlations": pictures.correlations(x, y, names, k=least),
    }
