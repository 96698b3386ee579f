"""One release: the tasks in their order, composed once, run through Prefect or directly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

from anoncore.risk.halves import with_error_ratios
from expectations.suite import Suite
from flows.engine import with_engine
from flows.plan.model import Plan, PlanFile
from flows.prepare import Prepared, plan_digest, prepare, read_source
from tasks.assessment.assess import Assessed, MaskedSides, assess, with_published_risk
from tasks.assessment.full_release import with_full_release
from tasks.assessment.game import GamePlan, PlayedGame, play_game
from tasks.assessment.group_figures import with_group_figures
from tasks.assessment.halves import Earlier, judge_half
from tasks.assessment.hidden_units import with_hidden_units
from tasks.assessment.prior_releases import against_earlier
from tasks.assessment.series import Terms, follow
from tasks.common.errors import ExitCode, Fault, ReleaseError, sanitise_errors
from tasks.common.home import Home, write_private
from tasks.common.run import Run, exclusive_run
from tasks.common.workspace import StoredRecords, abandoned, wipe_abandoned
from tasks.decision.cleanup import leftovers, remove_leftovers
from tasks.decision.conclude import conclude, recover
from tasks.decision.outcomes import Outcome, Status, mirror_entry, published_before, standing
from tasks.engine.heap import give_back
from tasks.engine.progress import LONG, Progress, rate
from tasks.intake.ingest import Ingested
from tasks.intake.series import draw
from tasks.intake.split import Sides, Split
from tasks.intake.validate import Validated, validate_masked
from tasks.masking.anonymize import Masked, ShadowMask, Step, of_single_records
from tasks.masking.partitions import decides_by_counts, for_parts, mask_part, mask_records
from tasks.policy.assessment import Assessment, PriorReleases
from tasks.policy.verdict import decide
from tasks.publication.candidate import Candidate, prepare_data
from tasks.publication.deliver import cut_short, deliver, pending, ready
from tasks.publication.documents import Shown, document
from tasks.publication.dossier import Results, Stated, gather
from tasks.publication.pseudonyms import with_pseudonyms
from tasks.publication.targets import Target
from tasks.record import approvers, ledger, secret_keys
from tasks.record.dossier import PlanIdentity
from tasks.record.members import Members
from tasks.record.predecessors import Lineage
from tasks.tracking.mlflow import track
from tasks.tracking.runs import release_run

T = TypeVar("T")

EXIT_CODES: dict[Status, ExitCode] = {
    "published": ExitCode.PUBLISHED,
    "unchanged": ExitCode.PUBLISHED,
    "rejected": ExitCode.REJECTED,
    "awaiting": ExitCode.AWAITING,
    "withdrawn": ExitCode.PUBLISHED,
}


# Steps that treat every record of the source: how many there are is the measure of their speed.
OF_ALL_RECORDS = (
    "Read the source",
    "Check the edits on the raw data",
    "Set the reference apart",
    "Mask the records",
    "Check the edits on the masked data",
    "Count the levels of all records",
    "Measure the full release",
    "Write the candidate",
)


class Runner(Protocol):
    """Who carries out a step: directly, or as a Prefect task."""

    seconds: dict[str, float]

    def step(self, label: str, function: Callable[..., T], *args: Any, retry: bool = False) -> T:
        """Carry out one step under a name that a person understands."""

    def show(self, key: str, markdown: str, description: str) -> None:
        """Show a table of aggregates to the observers of the run."""

    def progress(self, label: str, done: int, of: int, more: str = "") -> None:
        """Show how far a step is, and what else is known of it."""

    def tasks_done(self, progress: Progress) -> None:
        """Show how far the tasks of the present step are."""


class OnStep(Protocol):
    """Called when a step begins, while it is under way, and, with its seconds, when it has ended."""

    def __call__(self, label: str, seconds: float | None, records: int, /, *, under_way: bool = False) -> None:
        """Show it; ``records`` are those that the step treats, 0 where they are not known or not all of the source.

        The label of a step that is ``under_way`` says how far it is.
        """


class Direct:
    """Steps as plain calls, for development and tests."""

    def __init__(self, on_progress: OnStep = lambda label, seconds, records, under_way=False: None) -> None:
        self.on_progress = on_progress
        self.seconds: dict[str, float] = {}
        self.label, self.records = "", 0

    def step(self, label: str, function: Callable[..., T], *args: Any, retry: bool = False) -> T:
        """Call ``function``; report its start and its duration."""
        self.label = label
        self.on_progress(label, None, self._treated)
        begun = time.perf_counter()
        result = self.call(label, sanitise_errors(function), *args, retry=retry)
        self.seconds[label] = time.perf_counter() - begun
        if isinstance(result, Ingested):
            self.records = result.summary.records
        give_back()
        self.on_progress(label, self.seconds[label], self._treated)
        return result

    @property
    def _treated(self) -> int:
        """How many records the present step treats, where these are all of the source."""
        return self.records if self.label in OF_ALL_RECORDS else 0

    def call(self, label: str, function: Callable[..., T], *args: Any, retry: bool) -> T:
        """Carry out the step itself."""
        return function(*args)

    def show(self, key: str, markdown: str, description: str) -> None:
        """Show nothing: direct runs publish no artifacts."""

    def progress(self, label: str, done: int, of: int, more: str = "") -> None:
        """Report how far a step is, as its start was reported."""
        self.on_progress(f"{label}: {done / of:.0%}{more}", None, self._treated, under_way=True)

    def tasks_done(self, progress: Progress) -> None:
        """Report how far the present tasks of a step are, where they take long and some are left."""
        if progress.seconds > LONG and progress.done < progress.tasks:
            speed = rate(self._treated * progress.done / progress.tasks, progress.seconds)
            left = f", about {progress.seconds_left:.0f} s left{speed}"
            self.progress(self.label, progress.done, progress.tasks, left)


def carry_out(file: PlanFile, home: Home, runner: Runner, *, rebuild: bool = False) -> Outcome:
    """Take a plan's table through every step; publish it, refuse it, or keep it for a person.

    Parameters
    ----------
    file : PlanFile
    home : Home
    runner : Runner
    rebuild : bool
        Run even when the ledger holds a release of the same plan and data; the ledger's entries record it.

    Raises
    ------
    ReleaseError
        With a safe message; nothing is published then, and the workspace is wiped.
    """
    with exclusive_run(home, file.plan.name):
        tidy(home, runner.step)
        with Run.opened(home, file.plan.seed) as run, with_engine(run, file, runner.tasks_done) as equipped:
            return replace(_carry_out(equipped, file, runner, rebuild), seconds=runner.seconds)


def wipe_dead(home: Home, step: Callable[..., Any]) -> None:
    """Wipe the workspaces of runs that were cut short, as a step whose name says so; without any, no step."""
    if dead := len(abandoned(home)):
        step(f"Wipe the workspace of {dead} run(s) that were cut short", wipe_abandoned, home)


def tidy(home: Home, step: Callable[..., Any]) -> None:
    """Settle what runs that were cut short have left, and say so by a step for each kind."""
    wipe_dead(home, step)
    if open_ := sum(e.event in ("publishing", "withdrawing") for e in ledger.last_of_releases(home)):
        step(f"Settle {open_} publication(s) or withdrawal(s) that were cut short", recover, home)
    else:
        recover(home)
    if left := len(leftovers(home)):
        step(f"Remove {left} file(s) or folder(s) that a run left half-written", remove_leftovers, home)


def _carry_out(run: Run, file: PlanFile, runner: Runner, rebuild: bool) -> Outcome:
    plan, step = file.plan, runner.step
    _finish_deliveries(run.home, plan.name, step)
    secret_keys.check(run.home)
    approvers.ready(run.home, plan.policy)
    ready(run.home, plan.publication.to)
    ingested, digest = read_source(run, file, step), plan_digest(run, file)
    source = ingested.summary
    known = None if rebuild else standing(run.home, digest, source.digest, source.records_digest)
    if known is not None:
        # A run that was cut short may not have come to it.
        step("Mirror the outcome in MLflow", mirror_entry, run.home, known.entry)
        if known.status == "unchanged":
            hand_over(run.home, known.release, pending(run.home, known.release, plan.publication.to), step)
        return known
    earlier = published_before(run.home, digest, source.digest, source.records_digest)
    given = prepare(run, file, step, ingested)
    run, sides = given.run, given.split
    if plan.series.draws:
        sides = step("Draw the units of this release", draw, run, sides, plan.series)
    masked = step("Mask the records", mask_records, run, sides.original, plan.steps, plan.edits.edit_set())
    masked = replace(masked, notes=(*masked.notes, *plan.series.notes(given.split.summary.original_units)))
    validated = step("Check the edits on the masked data", validate_masked, masked, plan.edits, sides.original)
    parts = _for_parts(file, run, sides, step)
    tested = _tested(parts, given, sides, masked, step)
    assessed = _measured(run, tested, plan, step)
    whole = MaskedSides(sides, masked)
    assessment, members = _with_earlier(parts, given, whole, tested.masked, assessed.assessment, runner)
    if sides.sub_table is not None:
        full = (run, whole, tested, assessment, plan.assessment, plan.policy)
        assessment = step("Measure the full release", with_full_release, *full)
    grouped = whole if run.executor is None else tested
    assessment = step("Look for figures of groups", with_group_figures, assessment, grouped, ingested.figures)
    records = (assessment, sides.original, plan.edits.edit_set())
    assessment = step("Look for records of one unit", with_hidden_units, *records)
    game = _played(parts, plan.steps, given, *tested, runner)
    assessment = replace(assessment, in_out_game=game.result if game else None)
    verdict = step("Decide by policy", decide, assessment, plan.policy)
    released, suite = _labelled(file, given, sides, masked, validated, runner)
    release = step("Write the candidate", prepare_data, run, released, suite.json, plan.name, plan.publication, digest)
    results = Results(
        ingested=ingested,
        checked=given.checked,
        split=sides,
        masked=masked,
        validated=validated,
        assessment=assessment,
        verdict=verdict,
        release=release,
        published=earlier,
    )
    stated = Stated(_identity(plan, digest, given.masking), plan.steps, plan.seed, plan.edits, plan.policy, rebuild)
    shown = Shown(*tested, assessed.curves, masked.confidential, game.custodian_report if game else None)
    candidate = step("Write the report", document, run, gather(run, stated, results), shown, plan.steps, runner.show)
    mlflow_run = step("Log to MLflow", _track, run, candidate, file, retry=True)
    outcome = step("Publish, keep or reject", conclude, run, candidate, mlflow_run, members)
    step("Mirror the outcome in MLflow", mirror_entry, run.home, outcome.entry)
    if outcome.status in ("published", "unchanged"):
        hand_over(run.home, outcome.release, pending(run.home, outcome.release, plan.publication.to), step)
    return outcome


def _finish_deliveries(home: Home, name: str, step: Callable[..., Any]) -> None:
    """Finish what was cut short; a failure is entered in the ledger and does not prevent a new release."""
    for release, target in cut_short(home, name):
        with suppress(ReleaseError):
            step(f"Finish the delivery to {target.shown}", deliver, home, release, target)


def _for_parts(file: PlanFile, run: Run, sides: Split, step: Callable[..., Any]) -> PlanFile:
    """Return the plan as it masks a sub-table and its halves: what is rare in the table is so in them."""
    if sides.sub_table is None or not decides_by_counts(file.plan.steps):
        return file
    steps = step("Count the levels of all records", for_parts, run, sides.original, file.plan.steps)
    return replace(file, plan=file.plan.model_copy(update={"steps": steps}))


def _tested(file: PlanFile, given: Prepared, sides: Split, masked: Masked, step: Callable[..., Any]) -> MaskedSides:
    """Return what is compared record by record; a sub-table is masked here."""
    sub, plan = sides.sub_table, file.plan
    if sub is None:
        return MaskedSides(sides, masked)
    own = given.run.branch("sub-table", "sub-table")
    return MaskedSides(sub, step("Mask the sub-table", mask_part, own, sub.original, plan.steps, plan.edits.edit_set()))


def _measured(run: Run, tested: MaskedSides, plan: Plan, step: Callable[..., Any]) -> Assessed:
    """Return what is measured of all that is tested, and risk as it is published where all members are known."""
    assessed: Assessed = step("Measure risk and utility", assess, run, *tested, plan.assessment, plan.policy)
    if plan.reference.kind != "holdout" and tested.sides.left_out is not None:
        both = (run, *tested, assessed, plan.assessment, plan.policy)
        assessed = step("Measure risk as it is published", with_published_risk, *both)
    return assessed


def _identity(plan: Plan, digest: str, masking: str) -> PlanIdentity:
    """Return what the dossier states of the plan."""
    about = plan.publication
    return PlanIdentity(
        name=plan.name,
        digest=digest,
        title=about.title,
        description=about.description,
        masking=masking,
        contact=about.contact,
        licence=about.licence,
        passport=about.passport,
        health=about.health.facts if about.health else None,
    )


def _labelled(
    file: PlanFile, given: Prepared, sides: Split, masked: Masked, validated: Validated, runner: Runner
) -> tuple[StoredRecords, Suite]:
    """Return what is published and its suite, with a column of pseudonyms where the plan asks for it."""
    series, name = file.plan.series, file.plan.name
    if series.pseudonym is None:
        return masked.released, validated.suite
    labelled = runner.step("Add pseudonyms", with_pseudonyms, given.run, given.checked, sides, masked, series, name)
    return labelled, validated.suite.with_column(series.pseudonym)


def _with_earlier(
    file: PlanFile, given: Prepared, whole: MaskedSides, halved: Masked, assessment: Assessment, runner: Runner
) -> tuple[Assessment, Members]:
    """Add what is measured together with earlier releases, and of both halves of a cross; return the units, too.

    Units are counted before some are drawn for the ``whole`` release: others are drawn every time. An attack asks about
    those drawn.
    The halves are parts of what was ``halved``: the release, or that of the sub-table.
    """
    plan, step, run, split, source = file.plan, runner.step, given.run, given.split, given.ingested.summary
    least = plan.policy.least_change or plan.assessment.k
    lineage = Lineage(plan.name, source.digest, source.records_digest)
    terms = Terms(
        lineage=lineage,
        least=least,
        limit=plan.policy.differencing,
        drawn=plan.series.draws and not plan.series.too_few,
        left_out=plan.series.too_few,
        masking=given.masking,
        shared=plan.series.shared,
    )
    followed = step("Compare with earlier releases", follow, run, given.checked, split, whole.masked, terms)
    assessment, earlier = replace(assessment, series=followed.series), followed.earlier
    tested = split.sub_table or split
    if not tested.halves:
        attack = (run, earlier, given.checked, *whole, plan.assessment)
        prior = step("Attack with earlier releases", against_earlier, *attack)
        return replace(assessment, prior_releases=prior), followed.members
    facts = tuple(one.facts for one in earlier)
    repeated = Earlier.of(facts, given.masking, pseudonyms=bool(plan.series.pseudonym))
    parent = MaskedSides(tested, halved)
    halves = tuple(
        step(f"Mask and attack half {number} of the units", judge_half, run, number, half, plan, repeated, parent)
        for number, half in enumerate(tested.halves, start=1)
    )
    without = None if earlier else PriorReleases(0)
    return replace(assessment, halves=with_error_ratios(*halves), prior_releases=without), followed.members


def _played(
    file: PlanFile, stated: tuple[Step, ...], given: Prepared, sides: Sides, masked: Masked, runner: Runner
) -> PlayedGame | None:
    """Play the in/out game where the plan asks for it, on the sub-table by the steps that mask it."""
    plan, label = file.plan, "Play the in/out game"
    if not plan.game.shadows:
        return None
    whole = ShadowMask(of_single_records(plan.steps), plan.edits.edit_set())
    units = given.split.summary.original_units
    counted = given.ingested.summary.digest if plan.steps != stated else ""
    omitted = plan.series.omitted(units) / units
    game = GamePlan(plan.name, whole, plan.game, masked.hidden_variables, omitted, of_single_records(stated), counted)
    progress = partial(runner.progress, label)
    return runner.step(label, play_game, given.run, game, sides.original, progress)


def hand_over(
    home: Home,
    release: str,
    targets: Iterable[Target],
    step: Callable[..., Any],
) -> None:
    """Deliver a published release to each target, a step each; one that fails does not keep others from it.

    Raises
    ------
    Fault
        When a target did not accept it. The release is published in the home, and is delivered by the
        next run of the plan or by ``anonflow deliver``.
    """
    problems = []
    for target in targets:
        try:
            step(f"Deliver to {target.shown}", deliver, home, release, target, retry=True)
        except ReleaseError as error:
            problems.append(f"{target.shown}: {error}")
    if problems:
        raise Fault(
            f"{release} is published here and was not delivered everywhere; run the plan again, or: "
            + "\n".join([f"anonflow deliver {release}", *problems])
        )


def _track(run: Run, candidate: Candidate, file: PlanFile) -> str:
    folder = run.workspace.folder
    write_private(folder / "plan.yaml", file.plan.public_text().encode())
    names = ("report.html", "method.md", "assessment.json", "authority.json", "expectations.json")
    files = {name: candidate.folder / name for name in names} | {"plan.yaml": folder / "plan.yaml"}
    files |= {f"pictures/{p.name}": p for p in sorted((folder / "pictures").iterdir())}
    return track(release_run(candidate.dossier, file.plan.tracking.experiment or file.plan.name, files))
