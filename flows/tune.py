"""Search steps and settings for the least loss that passes all gates, and judge the choice on units not seen before."""

from __future__ import annotations

import difflib
import time
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version

from flows.plan.edit import with_changes
from flows.plan.model import Plan, PlanFile
from flows.plan.overrides import PLAN, Setting, acknowledged, candidate
from flows.prepare import prepare, read_source
from flows.release import Runner, wipe_dead
from tasks.assessment.judge import mask_and_judge
from tasks.assessment.tuning.attempts import Attempts, OnTrial
from tasks.assessment.tuning.choice import Choice, choose
from tasks.assessment.tuning.outlook import kinds
from tasks.assessment.tuning.parts import Parts, cut, level_of_half
from tasks.assessment.tuning.search import Stage
from tasks.assessment.tuning.store import TrialStore
from tasks.assessment.tuning.trial import Trial, trial_of
from tasks.assessment.tuning.variation import Variation
from tasks.common.digests import digest_of
from tasks.common.errors import ExitCode, ReleaseError, sanitise_errors
from tasks.common.home import Home
from tasks.common.run import Run, exclusive_run
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


@dataclass(frozen=True)
class TuneOptions:
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
    advice : what would help where nothing passes
    best : what was chosen; None where a gate fails for everything that was tried
    judged : the choice on units that the search has not seen; None without a choice
    nearest : what came nearest to passing
    tried, screened : settings on whole tables, and with a first look only
    kinds : those on whole tables, in words
    complete : whether the search ended by itself
    looks : how many choices were judged on the same unseen units so far
    text : the plan's file with the choice; as it is where nothing passed, or nothing need change
    diff : what differs, line by line
    """

    plan: str
    sentence: str
    advice: tuple[str, ...]
    best: Trial | None
    judged: Trial | None
    nearest: tuple[Trial, ...]
    tried: int
    screened: int
    kinds: str
    complete: bool
    looks: int
    text: str
    diff: str

    @property
    def exit_code(self) -> ExitCode:
        """0 where the choice passes, 4 where a person would decide, else 3."""
        return EXIT_CODES.get(self.judged.decision, ExitCode.REJECTED) if self.judged else ExitCode.REJECTED


def tune(file: PlanFile, home: Home, runner: Runner, options: TuneOptions, on_trial: OnTrial) -> Tuned:
    """Search for settings of a plan that pass every gate at the least loss; nothing is published.

    The search has the reference sample alone, cut into members and non-members; the members of the release are looked
    at once, with the choice. Trials are kept in the home, so that a search that was ended is continued. Ctrl-C ends
    the search, and the best so far is judged.

    Raises
    ------
    ReleaseError
        With a safe message. A setting that is refused is reported as not possible, and the others continue.
    """
    deadline = time.monotonic() + 60.0 * options.minutes
    with exclusive_run(home, file.plan.name):
        wipe_dead(home, runner.step)
        with Run.opened(home, file.plan.seed) as run:
            job = _prepared(run, file, runner, options)
            attempts = Attempts(job.store, deadline, job.parts.records, partial(_carry_out, job), on_trial)
            own, acknowledged_ = Variation(file.plan.steps), acknowledged(file.plan, options.by_design)
            computed = {str(edit.dependent): edit.parts for edit in file.plan.edits.edit_set().dependents}
            choice = choose(job.parts, own, acknowledged_, computed, attempts)
            job.store.advise(choice.remembered)
            return _tuned(job, choice)


@dataclass(frozen=True, eq=False, repr=False)
class _Job:
    """What every trial of a search has in common."""

    run: Run
    file: PlanFile
    runner: Runner
    options: TuneOptions
    parts: Parts
    store: TrialStore

    def plan(self, variation: Variation) -> Plan:
        """Return the plan with a variation, as it is judged: whether a person must approve is no question to it."""
        changed = candidate(self.file.plan, Setting(PLAN, variation.steps), self.options.by_design)
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


def _prepared(run: Run, file: PlanFile, runner: Runner, options: TuneOptions) -> _Job:
    given = prepare(run, file, runner.step, read_source(run, file, runner.step), trial=True)
    kind = file.plan.reference.kind
    parts = runner.step("Set apart units that the search does not see", cut, given.run, given.split, kind)
    store = trials_of(run.home, file.plan.name, given.plan_digest, given.ingested.summary.digest, options.by_design)
    return _Job(given.run, file, runner, options, parts, store)


def trials_of(home: Home, name: str, plan: str, data: str, by_design: tuple[str, ...] = ()) -> TrialStore:
    """Return the trials of searches for a plan and data of these digests; none where either has changed.

    Trials count for what was acknowledged with them; advice counts for every run of the plan.
    """
    return TrialStore(home, name, digest_of([version("anonflow"), plan, data]), by_design)


def _tuned(job: _Job, choice: Choice) -> Tuned:
    file, accepted, result = job.file, choice.accepted, choice.result
    text = file.text if accepted is None else with_changes(file, job.written(accepted))
    old, new = (one.splitlines(keepends=True) for one in (file.text, text))
    return Tuned(
        plan=file.plan.name,
        sentence=choice.sentence,
        advice=choice.advice,
        best=None if choice.best is None else choice.best.trial,
        judged=choice.judged,
        nearest=tuple(one.trial for one in result.nearest),
        tried=len(result.tried),
        screened=result.screened,
        kinds=kinds(result.tried),
        complete=result.complete,
        looks=job.store.judged,
        text=text,
        diff="".join(difflib.unified_diff(old, new, file.path.name, file.path.name, n=1)),
    )


def _carry_out(job: _Job, variation: Variation, stage: Stage) -> Trial:
    return job.runner.step(f"{STAGES[stage]}: {variation.name}", _try, job, variation, stage)


def _try(job: _Job, variation: Variation, stage: Stage) -> Trial:
    """Mask and measure one variation in a workspace of its own, which is wiped."""
    table = getattr(job.parts, stage)
    plan = job.plan(variation.in_share(table.original.n_units / job.parts.released_units))
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
    loss = comparison.loss_of(judged.assessment.utility, LOSS, plan.policy.utility)
    tested = bool(judged.assessment.utility.structure.dependencies)
    return trial_of(name, judged.verdict, loss, without, dependencies_tested=tested)


def facts(tuned: Tuned) -> dict[str, object]:
    """Return a search as JSON takes it."""
    return asdict(tuned)
