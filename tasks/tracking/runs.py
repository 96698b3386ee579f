"""Releases and compared settings as runs to be tracked: names, parameters and figures, no data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.common.formatting import markdown_cell, sentence
from tasks.record.dossier import Dossier, MethodStep
from tasks.tracking.metrics import metrics
from tasks.tracking.mlflow import STATUS, RunIdentity, TrackedRun

COMPARISONS = " comparisons"
STATUSES = {"publish": "accepted", "reject": "rejected", "await": "awaiting"}
# Stays true when people have decided: `release.status` says what became of it.
DECISIONS = {
    "publish": "may be published",
    "reject": "is rejected",
    "await": "the policy asks a person, and `release.status` says what came of it",
}
COUNTED = ("passes", "awaiting", "rejected")


@dataclass(frozen=True)
class ComparedSetting:
    """One setting of a comparison.

    Parameters
    ----------
    figures : on the axes of the comparison; None where a figure was not measured
    dossier : None where the setting could not be carried out
    """

    name: str
    status: str
    reason: str
    steps: tuple[MethodStep, ...]
    figures: Mapping[str, float | None]
    dossier: Dossier | None


@dataclass(frozen=True)
class TrackedComparison:
    """Settings that were tried beside each other on one table; ``axes`` names the figures that are compared."""

    run: RunIdentity
    axes: Mapping[str, str]
    best: str | None
    sentence: str
    settings: tuple[ComparedSetting, ...]


def release_run(dossier: Dossier, experiment: str, files: Mapping[str, Path], *, rebuilt: bool = False) -> TrackedRun:
    """Return the run of one assessed candidate, or one that is made again since the first was lost."""
    run = dossier.run
    tags = {
        STATUS: STATUSES[dossier.verdict.decision],
        "release.id": dossier.release.id,
        "release.reason": dossier.verdict.reason,
        "release.risk": dossier.verdict.risk_in_words,
        "dossier.sha256": dossier.digest,
        "mlflow.user": run.requester,
        "mlflow.source.name": "anonflow",
    }
    if rebuilt:
        tags |= {"release.rebuilt": "from the dossier and the ledger: the first run was lost"}
    return TrackedRun(
        experiment=experiment,
        name=dossier.release.id,
        identity=RunIdentity(run.id, "release", dossier.plan, dossier.source, run.versions["anonflow"]),
        tags=tags,
        metrics=metrics(dossier),
        parameters=parameters(dossier),
        description=description(dossier),
        files=files,
    )


def comparison_runs(
    comparison: TrackedComparison, experiment: str, files: Mapping[str, Path]
) -> tuple[TrackedRun, list[TrackedRun]]:
    """Return the run of a comparison, and those of its settings, which are nested in it.

    ``experiment`` is that of the releases; comparisons have one of their own beside it.
    """
    beside, settings = experiment + COMPARISONS, comparison.settings
    counts = {f"comparison/{status}": sum(one.status == status for one in settings) for status in COUNTED}
    tags = {"comparison.best": comparison.best or "", "comparison.reason": comparison.sentence}
    outer = TrackedRun(
        experiment=beside,
        name=f"compare {comparison.run.plan.name}",
        identity=comparison.run,
        tags=tags,
        metrics=counts | {"comparison/settings": len(settings)},
        parameters=_stated(comparison),
        files=files,
    )
    return outer, [_setting_run(comparison, one, beside, number) for number, one in enumerate(settings, start=1)]


def _setting_run(comparison: TrackedComparison, one: ComparedSetting, experiment: str, number: int) -> TrackedRun:
    """Return the run of a setting: its figures under the names that releases have, or why there are none."""
    verdict = {"comparison.name": one.name, "comparison.status": one.status, "comparison.reason": one.reason}
    figures = {f"comparison/{name}": value for name, value in one.figures.items() if value is not None}
    return TrackedRun(
        experiment=experiment,
        name=one.name,
        identity=replace(comparison.run, id=f"{comparison.run.id}-{number}"),
        tags=verdict,
        metrics=figures | (metrics(one.dossier) if one.dossier else {}),
        parameters=_stated(comparison) | (parameters(one.dossier) if one.dossier else _of_steps(one.steps)),
        finished=one.dossier is not None,
    )


def _stated(comparison: TrackedComparison) -> dict[str, object]:
    return {"plan": comparison.run.plan.name, **{f"axis.{name}": axis for name, axis in comparison.axes.items()}}


def parameters(dossier: Dossier) -> dict[str, object]:
    """Return what the plan set, in flat names."""
    return {
        "plan": dossier.plan.name,
        "reference": dossier.split.kind,
        "edits.policy": dossier.edits.policy,
        "assessment.k": dossier.assessment.risk.k,
        **_of_steps(dossier.method.steps),
    }


def _of_steps(steps: Iterable[MethodStep]) -> dict[str, object]:
    return {
        f"step{number}.{name}": value
        for number, step in enumerate(steps, start=1)
        for name, value in {"method": step.method, **step.parameters}.items()
    }


def description(dossier: Dossier) -> str:
    """Return the description of a release in Markdown: what it is, what the policy says, by which method."""
    verdict, release = dossier.verdict, dossier.release
    methods = ", ".join(step.method for step in dossier.method.steps)
    return (
        f"**{markdown_cell(dossier.plan.title or dossier.plan.name)}**: {DECISIONS[verdict.decision]}. "
        f"{markdown_cell(sentence(verdict.reason))}\n\n"
        f"{release.records} records, {len(release.variables)} variables; {markdown_cell(methods)}. "
        "The whole of it: `report.html` among the artifacts."
    )
