"""How outcomes, verdicts, settings and progress are shown to a person, or to a script as JSON.

Whatever was not written here (names of files and people, reasons, a plan's words) is shown through `safe` or
`safe_lines` where rich reads markup, and through `visible` or `visible_lines` where it does not.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.table import Table

from flows.commands.options import err, out, plain
from flows.servers.layout import read_layout
from tasks.common.errors import ExitCode, visible, visible_lines
from tasks.common.home import Home

if TYPE_CHECKING:
    from anoncore.utility import UtilityReport
    from tasks.policy.gate import GateResult

OUTCOMES = {
    "published": "[bold green]Published[/bold green]",
    "unchanged": "[bold green]Published already[/bold green]",
    "rejected": "[bold red]Rejected[/bold red]",
    "awaiting": "[bold yellow]Awaiting a person[/bold yellow]",
    "withdrawn": "[bold red]Withdrawn[/bold red]",
}
DECISIONS = {"publish": "[green]passes[/green]", "reject": "[red]fails[/red]", "await": "[yellow]open[/yellow]"}
GATES = {
    "pass": "[green]pass[/green]",
    "fail": "[red]FAIL[/red]",
    "inconclusive": "[yellow]open[/yellow]",
    "by design": "[dim]by design[/dim]",
    "not tested": "[dim]not tested[/dim]",
    "waived": "[dim]waived[/dim]",
}
SETTINGS = {
    "passes": "[green]passes[/green]",
    "awaiting": "[yellow]awaiting[/yellow]",
    "rejected": "[red]REJECTED[/red]",
    "refused": "[red]REFUSED[/red]",
    "not possible": "[dim]not possible[/dim]",
}


def safe(text: object) -> str:
    """Return a foreign text for rich: nothing in it is markup, control characters are written out."""
    return escape(visible(text))


def safe_lines(text: object) -> str:
    """Return a message of several lines for rich, each as `safe` returns it."""
    return escape(visible_lines(text))


def print_json(value: object) -> None:
    """Print one JSON object, for scripts."""
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")


def place(what: str, where: object) -> None:
    """Print one line that a terminal does not break, so that a path can be copied whole."""
    plain.print(f"  {what:8}{visible(where)}")


def table(*columns: str) -> Table:
    """Return an empty table as all commands show them."""
    return Table(*columns, box=None, pad_edge=False)


def gates(found: Iterable[GateResult]) -> Table:
    """Return a verdict's gates, a row each."""
    shown = table("GateResult", "", "Found", "Limit", "Baseline", "n")
    for gate in found:
        shown.add_row(
            safe(gate.name),
            GATES[gate.verdict],
            safe(gate.figure),
            safe(gate.limit),
            safe(gate.baseline),
            safe(gate.records),
        )
    return shown


class Progress:
    """One line per step, with its seconds; silent for scripts."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet

    def __call__(self, label: str, seconds: float | None) -> None:
        """Say that a step begins; or, with its seconds, that it is done."""
        if self.quiet:
            return
        if seconds is None:
            if err.is_terminal:
                err.print(f"  [dim]…[/dim] {safe(label)}", end="\r")
            return
        err.print(f"  [green]✓[/green] {safe(label)} [dim]{seconds:.1f} s[/dim]")


def finish(outcome: Any, home: Path, as_json: bool, seconds: float, settled: str | None = None) -> None:
    """Show how a run or a decision ended, and end the command with the code that says so.

    Raises
    ------
    typer.Exit
        Always.
    """
    from flows.release import EXIT_CODES
    from tasks.decision.outcomes import record_of

    code = EXIT_CODES[outcome.status]
    if settled in ("reject", "withdraw"):
        code = ExitCode.PUBLISHED
    if as_json:
        facts = asdict(outcome) | {"mlflow_run": outcome.mlflow_run, "record": record_of(Home(home), outcome.entry)}
        del facts["entry"]
        print_json(facts | {"exit_code": int(code), "total_seconds": round(seconds, 2)})
    else:
        _summary(outcome, home, seconds)
    raise typer.Exit(int(code))


def _summary(outcome: Any, home: Path, seconds: float) -> None:
    out.print()
    if outcome.gates:
        out.print(gates(outcome.gates))
        out.print()
    reason = safe_lines(outcome.reason)
    out.print(f"{OUTCOMES[outcome.status]} {safe(outcome.release)}: {reason}")
    hint = _home_hint(home)
    if outcome.folder:
        place("Release", outcome.folder)
    if outcome.report:
        place("Report", outcome.report)
        for page in sorted(outcome.report.parent.glob("custodian-*.html")):
            place("Secret", page)
    if outcome.status == "awaiting":
        key = " --key PRIVATE.pem" if Home(home).approvers.exists() else ""
        place("Decide", f"anonflow approve {outcome.release} --by NAME --reason TEXT{key}{hint}")
        place("", f"anonflow reject {outcome.release} --by NAME --reason TEXT{key}{hint}")
        place("Dossier", outcome.entry.facts.dossier)
    layout = read_layout(Home(home))
    place("UIs", f"{layout.prefect} and {layout.mlflow}" if layout else f"anonflow ui{hint}")
    _took(seconds, outcome.seconds)


def judged(found: Any, name: str) -> None:
    """Show what was found of a file that others have made."""
    out.print(gates(found.verdict.gates))
    out.print()
    reason = safe_lines(found.verdict.reason)
    out.print(f"{safe(name)} {DECISIONS[found.verdict.decision]}: {reason}", soft_wrap=True)
    for what, names in (("Not in the release", found.left_out), ("Not measured", found.unknown)):
        if names:
            out.print(safe(f"{what}: {', '.join(names)}"), soft_wrap=True)
    for line in usefulness(found.assessment.utility):
        out.print(safe(line), soft_wrap=True)


def usefulness(utility: UtilityReport) -> list[str]:
    """Return in two lines what the release still tells; no gate asks for it unless a plan's policy does."""
    lines = []
    for name, what in (("mean", "Means, in standard deviations"), ("correlation", "Correlations")):
        one = utility.figure(name)
        if one is None or not one.worst:
            continue
        beside = (
            ""
            if one.reference_median is None
            else f"; another sample {one.reference_median:.3f} and {one.reference_largest:.3f}"
        )
        lines.append(f"{what}: moved by {one.released_median:.3f} (median), {one.released_largest:.3f} at most{beside}")
    return lines


def compared(found: Any, home: Path, seconds: float) -> None:
    """Show settings side by side, why some do not pass, and which is best."""
    from tasks.reporting.comparison_chart import row

    shown = table("Setting", "", "Risk", "Limit", "Lost", "Reference", "n")
    for one in found.settings:
        _, _, _, *figures = row(one)
        shown.add_row(safe(one.label), SETTINGS[one.status], *figures)
    out.print()
    out.print(shown)
    out.print()
    for one in found.settings:
        if one.status != "passes":
            out.print(f"  {safe(one.label)}: [dim]{safe_lines(one.reason)}[/dim]", soft_wrap=True)
    out.print()
    out.print(safe_lines(found.sentence), style="bold", soft_wrap=True)
    if any(one.status == "awaiting" and "prediction" in one.reason for one in found.settings):
        place("Hint", "more records, or a reference from a file beside all of them, settle what is open")
    if found.earlier:
        place("Note", f"{found.earlier} release(s) of these data stand: another is attacked with them")
    place("Picture", found.picture)
    place("Figures", found.folder / "comparison.json")
    hint = _home_hint(home)
    place("UIs", f"anonflow ui{hint}  (the settings are in MLflow, under {found.plan} comparisons)")
    _took(seconds, found.seconds)


def _took(seconds: float, steps: Mapping[str, float]) -> None:
    place("Took", f"{seconds:.1f} s, of which {sum(steps.values()):.1f} s in the steps")


def _home_hint(home: Path) -> str:
    return "" if home == Path(".anonflow").absolute() or "ANONFLOW_HOME" in os.environ else f" --home {home}"
