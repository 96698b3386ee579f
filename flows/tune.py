"""Search steps and settings for the least loss that passes all gates, and judge the choice on units not seen before."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version

from anoncore.utility import UtilityReport
from flows.plan.edit import with_changes
from flows.plan.model import Plan, PlanFile
from flows.plan.overrides import PLAN, Setting, acknowledged, candidate
from flows.release import Runner, wipe_dead
from tasks.assessment.judge import mask_and_judge
from tasks.assessment.tuning import moves
from tasks.assessment.tuning.parts import ENOUGH_UNITS, Parts, Table, cut, level_of_half
from tasks.assessment.tuning.search import Found, Stage, confirmed, search
from tasks.assessment.tuning.store import TrialStore
from tasks.assessment.tuning.trial import Trial, Tried, trial_of
from tasks.assessment.tuning.variation import Variation
from tasks.common.digests import digest_of
from tasks.common.errors import ExitCode, ReleaseError, sanitise_errors
from tasks.common.home import Home
from tasks.common.run import Run, exclusive_run
from tasks.intake.ingest import ingest
from tasks.intake.split import split
from tasks.intake.validate import validate_raw
from tasks.policy.limits import UtilityLimits
from tasks.reporting import comparison

# As anonflow compare ranks by default.
LOSS = "overall"
STAGES: dict[Stage, str] = {
    "screen": "First look",
    "search": "Try",
    "confirm": "Second look",
    "judge": "Judge on units not seen before",
}
EXIT_CODES = {"publish": ExitCode.PUBLISHED, "await": ExitCode.AWAITING}
# By how much longer than a trial the judgement may take, with twice as many records.
JUDGE_TAKES = 2.5
# Called with each trial, whether it was known from an earlier search, and its stage.
OnTrial = Callable[[Trial, bool, Stage], None]


@dataclass(frozen=True)
class Wish:
    """How long to search, and what a person acknowledges.

    Parameters
    ----------
    minutes : of the whole search, the judgement included
    by_design : measures that are acknowledged to say nothing, besides those of the policy
    """

    minutes: float = 10.0
    by_design: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tuned:
    """What a search has come to.

    Parameters
    ----------
    plan : its name
    sentence : the outcome in words
    best : what was chosen; None where a gate fails for everything that was tried
    judged : the choice on units that the search has not seen; None without a choice
    nearest : what came nearest to passing
    tried, screened : settings on whole tables, and with a first look only
    complete : whether the search ended by itself
    looks : how many choices were judged on the same unseen units so far
    text : the plan's file with the choice; as it is where nothing passed, or nothing need change
    diff : what differs, line by line
    """

    plan: str
    sentence: str
    best: Trial | None
    judged: Trial | None
    nearest: tuple[Trial, ...]
    tried: int
    screened: int
    complete: bool
    looks: int
    text: str
    diff: str

    @property
    def exit_code(self) -> ExitCode:
        """0 where the choice passes, 4 where a person would decide, else 3."""
        return EXIT_CODES.get(self.judged.decision, ExitCode.REJECTED) if self.judged else ExitCode.REJECTED


def tune(file: PlanFile, home: Home, runner: Runner, wish: Wish, on_trial: OnTrial) -> Tuned:
    """Search for settings of a plan that pass every gate at the least loss; nothing is published.

    The search has the reference sample alone, cut into members and non-members; the members of the release are looked
    at once, with the choice. Trials are kept in the home, so that a search that was ended is continued. Ctrl-C ends
    the search, and the best so far is judged.

    Raises
    ------
    ReleaseError
        With a safe message. A setting that is refused is reported as not possible, and the others continue.
    """
    clock = _Clock(time.monotonic() + 60.0 * wish.minutes)
    with exclusive_run(home, file.plan.name):
        wipe_dead(home, runner.step)
        with Run.opened(home, file.plan.seed) as run:
            return _tuned(_prepared(run, file, runner, wish), clock, on_trial)


@dataclass
class _Clock:
    """When a search must end, how long its trials have taken, and whether a person has ended it."""

    deadline: float
    longest: float = 0.0
    stopped: bool = False

    def allows(self, stage: Stage) -> bool:
        """Return whether there is time for one more trial and what must follow it."""
        following = {"screen": 2.0, "search": 2.0, "confirm": 1.0}.get(stage, 0.0) + JUDGE_TAKES
        return not self.stopped and time.monotonic() + following * self.longest <= self.deadline


@dataclass(frozen=True, eq=False, repr=False)
class _Job:
    """What every trial of a search has in common."""

    run: Run
    file: PlanFile
    runner: Runner
    wish: Wish
    parts: Parts
    store: TrialStore

    @property
    def own(self) -> Variation:
        """The plan as it is."""
        return Variation(self.file.plan.steps)

    def plan(self, variation: Variation) -> Plan:
        """Return the plan with a variation, as it is judged: whether a person must approve is no question to it."""
        changed = candidate(self.file.plan, Setting(PLAN, variation.steps), self.wish.by_design)
        return changed.model_copy(update=self._sections(variation))

    def written(self, variation: Variation) -> Plan:
        """Return the plan with a variation, as its file is to say."""
        plan = self.file.plan
        policy = plan.policy.model_copy(update={"by_design": self.plan(variation).policy.by_design})
        own = variation.steps == plan.steps
        update = {"steps": variation.steps, "policy": plan.policy if own else policy}
        return plan.model_copy(update=update | self._sections(variation))

    def _sections(self, variation: Variation) -> dict[str, object]:
        plan = self.file.plan
        edits = plan.edits.model_copy(update={"rules": variation.edits(plan.edits.rules)})
        return {"variables": variation.variables(plan.variables), "edits": edits}


def _prepared(run: Run, file: PlanFile, runner: Runner, wish: Wish) -> _Job:
    plan, step = file.plan, runner.step
    ingested = step("Read the source", ingest, run, plan.source, plan.variables, file.base, plan.unit, retry=True)
    source = ingested.summary
    run = run.bound_to(source.digest)
    checked = step("Check the edits on the raw data", validate_raw, run, ingested, plan.edits)
    given = (run, checked, plan.reference, plan.variables, file.base, plan.unit)
    sides = step("Set the reference apart", split, *given, retry=True)
    parts = step("Set apart units that the search does not see", cut, run, sides)
    about = digest_of([version("anonflow"), plan.digest, source.digest, wish.by_design])
    return _Job(run, file, runner, wish, parts, TrialStore(run.home, plan.name, about))


def _tuned(job: _Job, clock: _Clock, on_trial: OnTrial) -> Tuned:
    seen = job.parts.search.original
    enough = seen.n_units >= ENOUGH_UNITS
    attempt = partial(_within, job, clock, on_trial)
    found = search(
        moves.first(job.own, acknowledged(job.file.plan, job.wish.by_design)),
        partial(moves.neighbours, schema=seen.schema, telling=moves.telling(seen), enough=enough),
        attempt,
        screened=job.parts.screen is not None,
        enough=enough,
    )
    candidates = _open(found, job.store)
    second = attempt if job.parts.confirm else lambda variation, stage: None
    chosen, judged, text = confirmed(candidates, second), None, job.file.text
    if chosen is not None:
        judged = _attempt(job, clock, on_trial, chosen.variation, "judge")
    if chosen is not None and judged is not None and judged.decision != "reject":
        text = with_changes(text, job.file.plan, job.written(chosen.variation))
    name = job.file.path.name
    old, new = (one.splitlines(keepends=True) for one in (job.file.text, text))
    return Tuned(
        plan=job.file.plan.name,
        sentence=_sentence(found, judged),
        best=None if chosen is None else chosen.trial,
        judged=judged,
        nearest=tuple(one.trial for one in found.nearest),
        tried=len(found.tried),
        screened=found.screened,
        complete=found.complete,
        looks=job.store.judged,
        text=text,
        diff="".join(difflib.unified_diff(old, new, name, name, n=1)),
    )


def _open(found: Found, store: TrialStore) -> list[Tried]:
    """Return the candidates that unseen units have not refused, those of methods not refused yet first."""
    refused = [one for one in found.candidates if store.refused(one.variation)]
    methods = {one.variation.masking for one in refused}
    rest = [one for one in found.candidates if one not in refused]
    return sorted(rest, key=lambda one: one.variation.masking in methods)


def _within(job: _Job, clock: _Clock, on_trial: OnTrial, variation: Variation, stage: Stage) -> Trial | None:
    """Try a variation; None where there is no time for it and for what must follow, or on Ctrl-C."""
    if job.store.get(variation, stage) is None and not clock.allows(stage):
        return None
    try:
        return _attempt(job, clock, on_trial, variation, stage)
    except KeyboardInterrupt:
        clock.stopped = True
        return None


def _attempt(job: _Job, clock: _Clock, on_trial: OnTrial, variation: Variation, stage: Stage) -> Trial:
    """Return what came of a variation, now or in an earlier search."""
    known = job.store.get(variation, stage)
    if known is not None:
        clock.longest = max(clock.longest, known.seconds) if stage == "search" else clock.longest
        on_trial(known, True, stage)
        return known
    table = getattr(job.parts, stage)
    begun = time.perf_counter()
    trial = job.runner.step(f"{STAGES[stage]}: {variation.name}", _try, job, variation, stage, table)
    trial = replace(trial, seconds=round(time.perf_counter() - begun, 2))
    clock.longest = max(clock.longest, trial.seconds)
    job.store.add(variation, stage, trial)
    on_trial(trial, False, stage)
    return trial


def _try(job: _Job, variation: Variation, stage: Stage, table: Table) -> Trial:
    """Mask and measure one variation in a workspace of its own, which is wiped."""
    plan = job.plan(variation)
    if stage == "confirm":
        stricter = {"tail_p": level_of_half(plan.policy.tail_p)}
        plan = plan.model_copy(update={"policy": plan.policy.model_copy(update=stricter)})
    name, without = variation.name, len(variation.without)
    if problems := plan.problems(job.file.base):
        return Trial(name, "not possible", "; ".join(problems), without=without)
    stream = digest_of([stage, variation.key])
    own = job.run.branch(f"{stage}-{stream[:16]}", stream)
    try:
        judged = sanitise_errors(mask_and_judge)(own, table.stored(own, variation), plan)
    except ReleaseError as error:
        return Trial(name, "not possible", str(error), without=without)
    finally:
        own.workspace.wipe()
    return trial_of(name, judged.verdict, loss_of(judged.assessment.utility, plan.policy.utility), without)


def loss_of(utility: UtilityReport, limits: UtilityLimits) -> tuple[float | None, float | None]:
    """Return what a release loses and what the reference sample does: what a search makes smallest."""
    return comparison.loss_of(utility, LOSS, limits)


def _sentence(found: Found, judged: Trial | None) -> str:
    """Say what the search has come to."""
    if not found.tried:
        return "the search was ended before anything was tried; give it more --minutes"
    if judged is None:
        best = found.tried[0].trial
        if not best.rank()[0]:
            return "everything that passed in the search was refused by unseen units before; change the plan"
        return f"nothing that was tried passes; nearest: {best.name}, which {best.reason}"
    if judged.decision == "publish":
        return f"{judged.name} passes every gate on units that the search has not seen; loss {_figure(judged)}"
    if judged.decision == "await":
        return f"a person would decide on {judged.name}: {judged.reason}"
    another = "; the same command judges the next best one" if len(found.candidates) > 1 else ""
    return f"the search chose, and unseen units refuse, {judged.name}: {judged.reason}{another}"


def _figure(trial: Trial) -> str:
    beside = "" if trial.baseline is None else f", another sample {trial.baseline:g}"
    return "not measured" if trial.loss is None else f"{trial.loss:g}{beside}"


def facts(tuned: Tuned) -> dict[str, object]:
    """Return a search as JSON takes it, without the text of the plan."""
    return {key: value for key, value in asdict(tuned).items() if key != "text"}
