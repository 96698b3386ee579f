"""Try several settings on one split of a plan's table: what each risks and keeps; nothing is published."""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from anoncore.method import Method, public_parameters
from anoncore.risk.bounds import PASSES_WITHIN
from flows.plan.model import Plan, PlanFile
from flows.plan.overrides import MEASURES, Setting, acknowledged, candidate, settings_of
from flows.prepare import Prepared, prepare, read_source
from flows.release import Runner, wipe_dead
from tasks.assessment.judge import mask_and_judge
from tasks.common.digests import digest_of, plain
from tasks.common.errors import ExitCode, Refused, sanitise_errors
from tasks.common.home import Home, make_private, write_private
from tasks.common.run import Run, exclusive_run
from tasks.decision.outcomes import published_before
from tasks.publication.dossier import Results, Stated, gather
from tasks.record.dossier import Dossier, MethodStep, PlanIdentity, ReleaseIdentity
from tasks.reporting import comparison, comparison_chart
from tasks.reporting.comparison import Tried
from tasks.tracking.mlflow import RunIdentity, track
from tasks.tracking.runs import ComparedSetting, TrackedComparison, comparison_runs

STATUS: dict[str, comparison.Status] = {"publish": "passes", "await": "awaiting", "reject": "rejected"}
UNACKNOWLEDGED = "refused without the acknowledgement --by-design uncertainty (by_design in the policy)"


@dataclass(frozen=True)
class Wanted:
    """What to compare, and by which figures.

    Parameters
    ----------
    methods : settings as the user has written them; empty for every method that suits the table
    by_design : measures that are acknowledged to say nothing, besides those of the policy
    risk, utility : keys of `RISKS` and `LOSSES` of `tasks.reporting.comparison`
    """

    methods: tuple[str, ...] = ()
    by_design: tuple[str, ...] = ()
    risk: str = "distance"
    utility: str = "overall"


@dataclass(frozen=True)
class Comparison:
    """The settings side by side, the best of them, and where the picture is."""

    id: str
    plan: str
    best: str | None
    sentence: str
    risk: str
    utility: str
    settings: tuple[Tried, ...]
    frontier: tuple[str, ...]
    earlier: int
    folder: Path
    mlflow_run: str | None = None
    seconds: dict[str, float] | None = None

    @property
    def picture(self) -> Path:
        """Where the map of risk and utility is."""
        return self.folder / "frontier.svg"

    @property
    def exit_code(self) -> ExitCode:
        """0 where a setting passes, 4 where none does and one awaits a person, else 3."""
        statuses = {t.status for t in self.settings}
        if "passes" in statuses:
            return ExitCode.PUBLISHED
        return ExitCode.AWAITING if "awaiting" in statuses else ExitCode.REJECTED


def compare(file: PlanFile, home: Home, runner: Runner, wanted: Wanted) -> Comparison:
    """Mask and measure a plan's table in several settings, and say which of those that pass keeps most.

    The source is read, checked and split once. Every setting draws from a stream of its own. No candidate is
    kept, nothing is published or entered in the ledger, and the workspace is wiped.

    Raises
    ------
    ReleaseError
        With a safe message. A refused setting is reported as not possible, and the others continue.
    """
    settings = checked_settings(file, wanted)
    with exclusive_run(home, file.plan.name):
        wipe_dead(home, runner.step)
        with Run.opened(home, file.plan.seed) as run:
            return _compare(run, file, runner, wanted, settings)


def checked_settings(file: PlanFile, wanted: Wanted) -> tuple[Setting, ...]:
    """Return the settings; refuse what can be refused before any data are read."""
    for option, given, allowed in (
        ("--risk", [wanted.risk], comparison.RISKS),
        ("--utility", [wanted.utility], comparison.LOSSES),
        ("--by-design", wanted.by_design, MEASURES),
    ):
        if not set(given) <= set(allowed):
            raise Refused(f"{option} takes {', '.join(allowed)}")
    if wanted.risk == "membership" and file.plan.reference.kind == "leave-one-out":
        raise Refused(
            "--risk membership needs people who took no part, and the plan's reference is leave-one-out; "
            "choose --risk distance"
        )
    return settings_of(wanted.methods, file)


@dataclass(frozen=True)
class _Job:
    """What every setting of one comparison has in common."""

    file: PlanFile
    wanted: Wanted
    given: Prepared

    @property
    def identity(self) -> PlanIdentity:
        """The plan that is varied."""
        return PlanIdentity(self.file.plan.name, self.given.plan_digest)

    def candidate(self, setting: Setting) -> Plan:
        """Return the plan with the setting in place of its steps."""
        return candidate(self.file.plan, setting, self.wanted.by_design)


def _compare(run: Run, file: PlanFile, runner: Runner, wanted: Wanted, settings: tuple[Setting, ...]) -> Comparison:
    plan, step = file.plan, runner.step
    given = prepare(run, file, step, read_source(run, file, step), trial=True)
    run, source, job = given.run, given.ingested.summary, _Job(file, wanted, given)
    tried, dossiers = [], {}
    for number, setting in enumerate(settings, start=1):
        label = f"Mask and measure: {setting.label}"
        one, dossier = step(label, _try, run, number, job, setting)
        tried.append(replace(one, seconds=round(runner.seconds[label], 3)))
        dossiers[setting.name] = dossier
    winner = comparison.best(tried)
    result = Comparison(
        id=run.id,
        plan=plan.name,
        best=None if winner is None else winner.name,
        sentence=comparison.sentence(tried, wanted.utility),
        risk=wanted.risk,
        utility=wanted.utility,
        settings=tuple(tried),
        frontier=tuple(t.name for t in comparison.frontier(tried)),
        # No plan has an empty digest: whichever setting is published, every earlier release counts.
        earlier=published_before(run.home, "", source.digest, source.records_digest),
        folder=run.home.comparison(run.id),
    )
    step("Draw the frontier", _write, result)
    runner.show("comparison", comparison.markdown(tried, result.sentence), "Comparison of settings")
    logged = step("Log to MLflow", _track, run, job, result, dossiers, retry=True)
    return replace(result, mlflow_run=logged, seconds=runner.seconds)


def _stated(step: Method) -> list[tuple[str, object]]:
    """Return the parameters of a step that are not at their default, in their order."""
    defaults = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(step)
    }
    return [(name, value) for name, value in asdict(step).items() if getattr(step, name) != defaults[name]]


def _try(run: Run, number: int, job: _Job, setting: Setting) -> tuple[Tried, Dossier | None]:
    """Mask and measure one setting in a workspace of its own, which is wiped."""
    plan = job.candidate(setting)
    without = Tried(
        name=setting.name,
        label=setting.label,
        status="not possible",
        reason="; ".join(plan.problems(job.file.base)),
        steps=tuple(MethodStep.of(public_parameters(step)) for step in setting.steps),
    )
    if without.reason:
        return without, None
    # Without defaults: a parameter that a later version adds changes no draw.
    stream = digest_of([[step.method, *_stated(step)] for step in setting.steps])
    own = run.branch(f"setting-{number}", stream)
    try:
        dossier = sanitise_errors(_measured)(own, plan, job)
    except Refused as refusal:
        return replace(without, reason=str(refusal)), None
    finally:
        own.workspace.wipe()
    assessment, verdict = dossier.assessment, dossier.verdict
    status, reason = STATUS[verdict.decision], verdict.reason
    if "uncertainty" in set(plan.policy.by_design) - acknowledged(job.file.plan, job.wanted.by_design):
        status, reason = "refused", f"{UNACKNOWLEDGED}; with it: {reason}"
    loss, baseline = comparison.loss_of(assessment.utility, job.wanted.utility, plan.policy.utility)
    tried = replace(
        without,
        status=status,
        reason=reason,
        risk=_rounded(comparison.risk_of(assessment.risk, job.wanted.risk)),
        limit=_limit(plan, job.wanted.risk),
        loss=_rounded(loss),
        baseline=_rounded(baseline),
        records=assessment.records.released,
        gates=verdict.gates,
    )
    return tried, dossier


def _limit(plan: Plan, axis: str) -> float:
    """Return what the upper bound of a figure must be within to pass; a setting fails by its lower bound, earlier."""
    if axis == "membership":
        return float(plan.policy.area_passes_within)
    return PASSES_WITHIN * plan.assessment.margins.get(axis, plan.assessment.margin)


def _rounded(figure: float | None) -> float | None:
    """Keep three digits: exact differences would disclose exact statistics of the source."""
    return None if figure is None else float(f"{figure:.3g}")


def _measured(run: Run, plan: Plan, job: _Job) -> Dossier:
    """Return what is known of a setting, in the form of a release's dossier."""
    judged = mask_and_judge(run, job.given.split, plan)
    results = Results(
        ingested=job.given.ingested,
        checked=job.given.checked,
        split=job.given.split,
        masked=judged.masked,
        validated=judged.validated,
        assessment=judged.assessment,
        verdict=judged.verdict,
        release=ReleaseIdentity("", plan.name, 0),
    )
    return gather(run, Stated(job.identity, plan.steps, plan.seed, plan.edits, plan.policy), results)


def _write(result: Comparison) -> None:
    """Put the picture and the figures into the home, for the owner alone."""
    folder = make_private(result.folder)
    write_private(result.picture, comparison_chart.draw(result.settings, risk=result.risk, loss=result.utility))
    write_private(folder / "comparison.json", json.dumps(facts(result), indent=1).encode())
    table = comparison.markdown(result.settings, result.sentence)
    write_private(folder / "comparison.md", table.encode("utf-8", "replace"))


def facts(result: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON takes it, without the folder that holds it."""
    form = {key: value for key, value in asdict(result).items() if key != "folder"}
    return dict(plain(form))


def _track(run: Run, job: _Job, result: Comparison, dossiers: dict[str, Dossier | None]) -> str:
    plan = job.file.plan
    names = ("frontier.svg", "comparison.md", "comparison.json")
    tracked = TrackedComparison(
        run=RunIdentity(run.id, "comparison", job.identity, job.given.ingested.summary, version("anonflow")),
        axes={"risk": result.risk, "utility": result.utility},
        best=result.best,
        sentence=result.sentence,
        settings=tuple(_compared(one, dossiers[one.name]) for one in result.settings),
    )
    files = {name: result.folder / name for name in names}
    return track(*comparison_runs(tracked, plan.tracking.experiment or plan.name, files))


def _compared(one: Tried, dossier: Dossier | None) -> ComparedSetting:
    figures = {name: getattr(one, name) for name in ("risk", "limit", "loss", "baseline", "seconds")}
    return ComparedSetting(one.name, one.status, one.reason, one.steps, figures, dossier)
