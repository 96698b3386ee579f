"""``anonflow tune``: search settings of a plan that pass every gate; nothing is published."""

from __future__ import annotations

import stat
import time
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands import shown
from flows.commands.options import ByDesign, Json, Plan, Where, err, out, plain
from flows.commands.ready import home_ready
from tasks.common.errors import Refused, visible, visible_lines
from tasks.common.home import write_private

if TYPE_CHECKING:
    from flows.tune import Tuned
    from tasks.assessment.tuning.search import Stage
    from tasks.assessment.tuning.trial import Trial


def tune(
    plan: Plan,
    minutes: Annotated[float, typer.Option("--minutes", min=0.1, help="Time for the whole search.")] = 10.0,
    write: Annotated[bool, typer.Option("--write", help="Write the choice into the plan's file.")] = False,
    by_design: ByDesign = None,
    home: Where = None,
    json_: Json = False,
) -> None:
    """Search settings with the least loss that pass every gate: exit code 0 found, 3 none, 4 a person decides.

    Ctrl-C ends the search, and the best so far is judged; the next search continues where this one ended.
    """
    from flows import embedded

    begun = time.perf_counter()
    where = home_ready(home)
    with embedded.imports():
        from flows.plan.file import read_text
        from flows.plan.model import load_plan
        from flows.plan.overrides import MEASURES
        from flows.release import Direct
        from flows.tune import TuneOptions, facts
        from flows.tune import tune as search
    options = TuneOptions(minutes, tuple(by_design or ()))
    if not set(options.by_design) <= set(MEASURES):
        raise Refused(f"--by-design takes {', '.join(MEASURES)}")
    file = load_plan(plan)
    tuned = search(file, where, Direct(shown.Progress(quiet=json_)), options, _quiet if json_ else _show_trial)
    written = write and bool(tuned.diff)
    if written:
        if read_text(plan) != file.text:
            raise Refused(f"{visible(plan.name)} was changed while the search ran; run the command again")
        mode = stat.S_IMODE(plan.stat().st_mode)
        write_private(plan, tuned.text.encode())
        plan.chmod(mode)
    seconds = time.perf_counter() - begun
    if json_:
        ended = {"written": written, "exit_code": int(tuned.exit_code), "total_seconds": round(seconds, 2)}
        shown.print_json(facts(tuned) | ended)
    else:
        _show(tuned, shown.safe(plan), seconds, written=written)
    raise typer.Exit(int(tuned.exit_code))


def _quiet(trial: Trial, known: bool, stage: Stage) -> None:
    """Show nothing, for scripts."""


def _show_trial(trial: Trial, known: bool, stage: Stage) -> None:
    """Show what came of one trial, in a line."""
    said = {"publish": "passes", "await": "open", "reject": "REJECTED"}.get(trial.decision, trial.decision)
    why = "" if trial.decision == "publish" else f" ({trial.reason})"
    loss = "" if trial.loss is None else f", loss {trial.loss:g}"
    before = f"{trial.name}, known from before: " if known else ""
    err.print(f"      [dim]{shown.safe_lines(f'{before}{said}{loss}{why}')}[/dim]", soft_wrap=True)


def _show(tuned: Tuned, path: str, seconds: float, *, written: bool) -> None:
    out.print()
    if tuned.judged is not None and tuned.judged.unsettled:
        out.print(shown.gates(tuned.judged.unsettled))
        out.print()
    out.print(shown.safe_lines(tuned.sentence), style="bold", soft_wrap=True)
    if tuned.judged is None or tuned.judged.decision == "reject":
        _show_nearest(tuned.nearest)
        for one in tuned.advice:
            shown.line("Try", one)
    if tuned.diff:
        out.print()
        plain.print(visible_lines(tuned.diff))
    elif tuned.judged is not None and tuned.judged.decision != "reject":
        out.print("The plan as it is was chosen; nothing is to be changed.")
    _show_search(tuned)
    if written:
        shown.line("Written", path)
    elif tuned.diff:
        shown.line("Next", f"anonflow tune {path} --write, then anonflow run {path}")
    shown.line("Took", f"{seconds:.1f} s")


def _show_search(tuned: Tuned) -> None:
    """Show what was tried, what could not be tested, and what the search lacks."""
    shown.line("Tried", f"{tuned.kinds}; {tuned.screened} more at a first look on fewer records")
    for gate in tuned.judged.untested if tuned.judged else ():
        shown.line("Skipped", f"{gate.name}: too few records of these parts show any; anonflow run tests them")
    if tuned.looks > 1:
        shown.line("Note", f"{tuned.looks} choices were judged on the same units; each after the first proves less")
    if not tuned.complete:
        shown.line("Ended", "early, for time or by you; the same command continues")


def _show_nearest(nearest: tuple[Trial, ...]) -> None:
    """Show what came nearest to passing, and which gates it fails by which figures."""
    rows = []
    for one in nearest:
        loss = "" if one.loss is None else f"{one.loss:g}"
        gates = [(gate.cause, gate.figure, gate.limit) for gate in one.failed or one.unsettled]
        rows += [(one.name, *gate, loss) for gate in gates or [("none: it passes in the search", "", "")]]
    out.print()
    out.print(shown.table(("Nearest", "Gate", "Observed", "Limit", "Loss"), rows))
