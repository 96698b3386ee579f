"""How outcomes, verdicts, settings and progress are shown to a person, or to a script as JSON.

Texts that others have written (names of files and people, reasons, a plan's words) are shown through `safe` or
`safe_lines` where rich reads markup, and through `visible` or `visible_lines` where it does not.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from flows.commands.options import clear_line, err, out, plain
from flows.servers.layout import pages, read_layout
from tasks.common.errors import ExitCode, visible, visible_lines
from tasks.common.home import Home
from tasks.engine.progress import rate

if TYPE_CHECKING:
    from flows.compare import Comparison
    from flows.external import Judgement
    from tasks.decision.outcomes import Outcome
    from tasks.policy.gate import GateResult

OUTCOMES = {
    "published": "[bold green]Published[/bold green]",
    "unchanged": "[bold green]Published already[/bold green]",
    "rejected": "[bold red]Rejected[/bold red]",
    "awaiting": "[bold yellow]Awaiting approval[/bold yellow]",
    "withdrawn": "[bold red]Withdrawn[/bold red]",
}
DECISIONS = {"publish": "[green]passes[/green]", "reject": "[red]fails[/red]", "await": "[yellow]open[/yellow]"}
GATES = {
    "pass": Text("pass", "green"),
    "fail": Text("FAIL", "red"),
    "inconclusive": Text("open", "yellow"),
    "by design": Text("by design", "dim"),
    "not tested": Text("not tested", "dim"),
    "waived": Text("waived", "dim"),
    "to decide": Text("to decide", "yellow"),
}
# Verdicts that a search for other settings may change.
OPEN = ("fail", "inconclusive", "to decide")
# Between two lines on how far a step is, where the output is no terminal.
SECONDS_BETWEEN = 60.0
CLAIMED = "a page marked Secret shows which parameters of its step would hide more; tune does not vary them"
SEARCH = "anonflow tune PLAN searches for settings that pass every gate; below 200 units, anonflow compare PLAN"
SETTINGS = {
    "passes": Text("passes", "green"),
    "awaiting": Text("awaiting", "yellow"),
    "rejected": Text("REJECTED", "red"),
    "refused": Text("REFUSED", "red"),
    "not possible": Text("not possible", "dim"),
}


def safe(text: object) -> str:
    """Return a text of others for rich: nothing in it is markup, control characters are written out."""
    return escape(visible(text))


def safe_lines(text: object) -> str:
    """Return a message of several lines for rich, each as `safe` returns it."""
    return escape(visible_lines(text))


def print_json(value: object) -> None:
    """Print one JSON value, for scripts."""
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")


def line(what: str, text: object) -> None:
    """Print one line that a terminal does not break, so that a path can be copied whole."""
    plain.print(f"  {what:8}{visible(text)}")


def table(columns: Iterable[str | Column], rows: Iterable[Iterable[object]]) -> Table:
    """Return a table; its cells are shown as `safe` returns them, or with their own style, and are never cut off."""
    whole = (Column(one, overflow="fold") if isinstance(one, str) else one for one in columns)
    shown = Table(*whole, box=None, pad_edge=False)
    for row in rows:
        shown.add_row(*(cell if isinstance(cell, Text) else safe(cell) for cell in row))
    return shown


def deciding_gates(verdict: Iterable[GateResult]) -> None:
    """Print the gates that keep a release from passing, with what is asked, and how many others there are."""
    results = tuple(verdict)
    shown = [g for g in results if g.verdict in OPEN]
    if shown:
        out.print(gates(shown))
        _explained(shown)
    if rest := len(results) - len(shown):
        out.print(f"[dim]{rest} {'other ' * bool(shown)}gate(s) pass or are not asked; --all shows them[/dim]")


def _explained(results: Iterable[GateResult]) -> None:
    """Print what is asked where a release does not pass, and what would decide it."""
    for one in results:
        if one.verdict in OPEN:
            line("", f"{one.cause}: {one.explanation}")


def gates(verdict: Iterable[GateResult]) -> Table:
    """Return a verdict's gates, a row each."""
    rows = ((g.name, GATES[g.verdict], g.figure, g.limit, g.baseline, g.records) for g in verdict)
    return table(("Gate", "", "Observed", "Limit", "Baseline", "n"), rows)


class Progress:
    """One line per step, with its seconds; silent for scripts.

    Where the output is no terminal, a line says that a step begins, and at most one in a minute how far it is.

    Where the environment names a file in ANONFLOW_PROGRESS, each step's begin and end are appended to it, too, as a
    line of JSON; the pages of ``anonflow studio`` read it.
    """

    def __init__(self, *, quiet: bool) -> None:
        self.quiet, self.file = quiet, os.environ.get("ANONFLOW_PROGRESS")
        self.shown_at = 0.0

    def __call__(self, label: str, seconds: float | None, records: int, /, *, under_way: bool = False) -> None:
        """Show that a step begins or how far it is; or, with its seconds, that it has ended."""
        if self.file:
            with open(self.file, "a", encoding="utf-8") as file:
                file.write(json.dumps([label, seconds]) + "\n")
        if self.quiet:
            return
        clear_line()
        if seconds is not None:
            took = f"[dim]{seconds:.1f} s{rate(records, seconds)}[/dim]"
            err.print(f"  [green]✓[/green] {safe(label)} {took}", soft_wrap=not err.is_terminal)
        elif err.is_terminal:
            err.print(f"  [dim]…[/dim] {safe(label)}", end="\r", no_wrap=True, overflow="ellipsis")
        elif not under_way or time.monotonic() - self.shown_at >= SECONDS_BETWEEN:
            self.shown_at = time.monotonic()
            err.print(f"  … {safe(label)}", soft_wrap=True)


def finish(
    outcome: Outcome, home: Home, as_json: bool, seconds: float, *, decided: bool = False, every_gate: bool = True
) -> None:
    """Show how a run or a decision ended, and end the command with the exit code of the outcome.

    A decision that was carried out is a success, also a rejection or a withdrawal. Without ``every_gate`` those that
    pass are counted.
    """
    from flows.release import EXIT_CODES
    from tasks.decision.outcomes import record_of

    code = EXIT_CODES[outcome.status]
    if decided and code == ExitCode.REJECTED:
        code = ExitCode.PUBLISHED
    if as_json:
        facts = asdict(outcome) | {"mlflow_run": outcome.mlflow_run, "record": record_of(home, outcome.entry)}
        del facts["entry"]
        print_json(facts | {"exit_code": int(code), "total_seconds": round(seconds, 2)})
    else:
        _summary(outcome, home, seconds, every_gate)
    raise typer.Exit(int(code))


def _summary(outcome: Outcome, home: Home, seconds: float, every_gate: bool) -> None:
    out.print()
    if outcome.gates:
        if every_gate:
            out.print(gates(outcome.gates))
            _explained(outcome.gates)
        else:
            deciding_gates(outcome.gates)
        out.print()
        _usefulness(outcome.gates)
        out.print()
    out.print(f"{OUTCOMES[outcome.status]} {safe(outcome.release)}: {safe_lines(outcome.reason)}")
    hint = _home_hint(home)
    if outcome.folder:
        line("Release", outcome.folder)
    if outcome.report:
        line("Report", outcome.report)
    for page in custodian_paths(home, outcome.release):
        line("Secret", page)
    if outcome.status == "awaiting":
        options = f"{outcome.release} --by NAME --reason TEXT{' --key PRIVATE.pem' * home.approvers.exists()}{hint}"
        line("Decide", f"anonflow approve {options}")
        line("", f"anonflow reject {options}")
        line("Dossier", outcome.entry.facts.dossier)
    if outcome.status in ("rejected", "awaiting"):
        _next_steps(outcome, home)
    layout = read_layout(home)
    line("Pages", " and ".join(pages(layout)) if layout else f"anonflow ui{hint}")
    _took(seconds, outcome.seconds)


def _next_steps(outcome: Outcome, home: Home) -> None:
    """Print what would decide open gates: other settings, or of those on earlier releases time and people.

    Where other settings were searched already, and none passes, it is what the search advised.
    """
    from flows.tune import trials_of
    from tasks.policy.gates import attempts, differencing, unit_changes

    results, facts = outcome.gates, outcome.entry.facts
    names = (unit_changes.NAME, differencing.NAME, attempts.NAME)
    waits = [g for g in results if g.name in names and g.verdict == "inconclusive"]
    for one in waits:
        line("Next", f"{one.name}: {one.needed.removeprefix('; ')}")
    others = [g for g in results if g.verdict in OPEN and g not in waits]
    of_steps = [page for page in custodian_paths(home, outcome.release) if page.name.startswith("custodian-step")]
    if of_steps and any(g.topic == "Claims" for g in others):
        line("Next", CLAIMED)
        others = [g for g in others if g.topic != "Claims"]
    if others:
        for words in trials_of(home, facts.name, facts.plan, facts.data).advice or (SEARCH,):
            line("Next", words)


def custodian_paths(home: Home, release: str) -> list[Path]:
    """Return the pages on a release that are for the custodian alone."""
    from tasks.decision.assessment_integrity import custodian_pages

    folder = home.assessment(release)
    return [folder / name for name in custodian_pages(home, release)]


def judged(judgement: Judgement, name: str) -> None:
    """Show the verdict on an external file."""
    verdict = judgement.verdict
    out.print(gates(verdict.gates))
    _explained(verdict.gates)
    out.print()
    out.print(f"{safe(name)} {DECISIONS[verdict.decision]}: {safe_lines(verdict.reason)}", soft_wrap=True)
    for what, names in (("Not in the release", judgement.left_out), ("Not measured", judgement.unknown)):
        if names:
            out.print(safe(f"{what}: {', '.join(names)}"), soft_wrap=True)
    out.print()
    _usefulness(verdict.gates)


def _usefulness(results: tuple[GateResult, ...]) -> None:
    """Answer whether the release shows what the source shows, and show the worst figures."""
    from tasks.policy.usefulness import QUESTION, headline, usefulness

    answer = usefulness(results)
    out.print(safe(f"{QUESTION} {answer.answer}"), style="bold")
    for one in answer.headlines:
        out.print(safe(f"  {headline(one)}"), soft_wrap=True)


def compared(comparison: Comparison, home: Home, seconds: float) -> None:
    """Show settings side by side, why some do not pass, and which is best."""
    from tasks.reporting.comparison import row

    settings = comparison.settings
    rows = ((one.label, SETTINGS[one.status], *row(one)[3:]) for one in settings)
    out.print()
    out.print(table(("Setting", "", "Risk", "Limit", "Loss", "Reference", "n"), rows))
    out.print()
    for one in settings:
        if one.status != "passes":
            out.print(f"  {safe(one.label)}: [dim]{safe_lines(one.reason)}[/dim]", soft_wrap=True)
    out.print()
    out.print(safe_lines(comparison.sentence), style="bold", soft_wrap=True)
    if any(one.status == "awaiting" and "prediction" in one.reason for one in settings):
        line("Hint", "open gates need more records, or a reference from a file beside all records")
    if comparison.earlier:
        line("Note", f"{comparison.earlier} release(s) of these data are published: a new one is attacked with them")
    line("Picture", comparison.picture)
    line("Figures", comparison.folder / "comparison.json")
    line("Pages", f"anonflow ui{_home_hint(home)}  (the settings are in MLflow, under {comparison.plan} comparisons)")
    _took(seconds, comparison.seconds or {})


def _took(seconds: float, steps: Mapping[str, float]) -> None:
    line("Took", f"{seconds:.1f} s, of which {sum(steps.values()):.1f} s in the steps")


def _home_hint(home: Home) -> str:
    default = home.path == Path(".anonflow").absolute() or "ANONFLOW_HOME" in os.environ
    return "" if default else f" --home {home.path}"
