"""The command line: ``anonflow demo | plan | check | run | assess | approve | reject | list | show | ui``."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

# Frameworks and numerics are imported inside the commands: `anonflow --help` must answer at once, and
# the embedded Prefect server must be on its way before anything heavy is loaded.
from tasks.faults import ExitCode, Fault, Refused, ReleaseError
from tasks.home import Home

INTERRUPTED = 130

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Release microdata about people: checked, masked, measured, decided, published, recorded.",
)
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

HomeOption = Annotated[
    Path | None,
    typer.Option("--home", help="Where state is kept; by default ANONFLOW_HOME, else .anonflow here."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object for scripts, and nothing else.")
]
InlineOption = Annotated[
    bool, typer.Option("--inline", help="Without Prefect: no run history, for development and tests.")
]
PlanArgument = Annotated[Path, typer.Argument(metavar="PLAN", help="A release plan, a YAML file.")]
ReleaseArgument = Annotated[str, typer.Argument(metavar="ID", help="The release's id, see anonflow list.")]


@app.command()
def demo(home: HomeOption = None, inline: InlineOption = False, json_: JsonOption = False) -> None:
    """Release real microdata (NHEFS, public) from source to published file."""
    plan = Path(str(resources.files("deploy") / "plans" / "nhefs.yaml"))
    _run(plan, home, inline=inline, as_json=json_, rebuild=True)


@app.command()
def run(
    plan: PlanArgument, home: HomeOption = None, inline: InlineOption = False, json_: JsonOption = False
) -> None:
    """Run a release plan: ends published, rejected, or awaiting a person."""
    _run(plan, home, inline=inline, as_json=json_, rebuild=False)


@app.command()
def check(plan: PlanArgument, json_: JsonOption = False) -> None:
    """Say everything that is wrong with a plan, before any data are read."""
    from flows.plan import load_plan

    file = load_plan(plan)
    if json_:
        _print_json({"plan": file.plan.name, "sha256": file.plan.digest, "problems": []})
    else:
        out.print(
            f"{plan.name} is in order: {len(file.plan.variables)} variables, "
            f"{len(file.plan.edits.rules)} edits, {len(file.plan.steps)} step(s)."
        )


@app.command()
def plan(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A CSV or Parquet file.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the plan; by default the terminal.")
    ] = None,
) -> None:
    """Draft a commented plan from a data file, for a person to confirm."""
    from flows.draft import draft_plan
    from tasks.faults import guarded

    text = guarded(draft_plan)(data, output.parent if output else Path.cwd())
    if output is None:
        sys.stdout.write(text)
        return
    if output.exists():
        raise Refused(f"{output.name} exists already; nothing is overwritten")
    output.write_text(text, encoding="utf-8")
    err.print(f"Wrote {output}. Read it, confirm what is marked, then: anonflow check {output}")


@app.command()
def assess(
    released: Annotated[Path, typer.Argument(metavar="RELEASE", help="The file to judge.")],
    original: Annotated[Path, typer.Option("--original", help="The records it stems from.")],
    reference: Annotated[
        Path | None, typer.Option("--reference", help="Other people of the same population, not masked.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="A plan whose declarations and policy apply.")
    ] = None,
    aligned: Annotated[
        bool, typer.Option("--aligned", help="Row i of the release stems from row i of the original.")
    ] = False,
    by_design: Annotated[
        list[str] | None,
        typer.Option("--by-design", help="A measure that says nothing: ambiguity or uncertainty."),
    ] = None,
    home: HomeOption = None,
    json_: JsonOption = False,
) -> None:
    """Judge any released file, also one made by another tool: 0 passes, 3 fails, 4 a person must decide."""
    from flows.judge import judge

    unknown = sorted(set(by_design or ()) - {"ambiguity", "uncertainty"})
    if unknown:
        raise Refused("--by-design takes ambiguity or uncertainty")
    found = judge(
        Home.locate(home),
        released,
        original,
        reference,
        plan=plan,
        aligned=aligned,
        by_design=tuple(by_design or ()),
    )
    if json_:
        facts = {"verdict": asdict(found.verdict), "figures": found.figures}
        _print_json(facts | {"left_out": found.left_out, "unknown": found.unknown})
    else:
        out.print(_gates([asdict(g) for g in found.verdict.gates]))
        out.print()
        words = {
            "publish": "[green]passes[/green]",
            "reject": "[red]fails[/red]",
            "await": "[yellow]open[/yellow]",
        }
        name = escape(released.name)
        out.print(f"{name} {words[found.verdict.decision]}: {found.verdict.reason}", soft_wrap=True)
        for what, names in (("Not in the release", found.left_out), ("Not in the original", found.unknown)):
            if names:
                _place(what, ", ".join(names))
    raise typer.Exit(int(found.exit_code))


@app.command()
def approve(
    release: ReleaseArgument,
    by: Annotated[str, typer.Option("--by", help="Who approves.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; it is kept in the ledger.")],
    home: HomeOption = None,
    json_: JsonOption = False,
) -> None:
    """Publish a release that awaits a person."""
    _settle("approve", release, by, reason, home, json_)


@app.command()
def reject(
    release: ReleaseArgument,
    by: Annotated[str, typer.Option("--by", help="Who rejects.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; it is kept in the ledger.")],
    home: HomeOption = None,
    json_: JsonOption = False,
) -> None:
    """Reject a release that awaits a person."""
    _settle("reject", release, by, reason, home, json_)


@app.command(name="list")
def list_(home: HomeOption = None, json_: JsonOption = False) -> None:
    """List what was decided, oldest first."""
    from tasks import ledger

    where = Home.locate(home)
    entries = ledger.entries(where)
    if json_:
        _print_json(entries)
        return
    if not entries:
        out.print(f"Nothing was decided yet in {where.path}. Start with: anonflow demo", soft_wrap=True)
        return
    table = Table("When", "Plan", "Release", "Event", "By", box=None, pad_edge=False)
    for entry in entries:
        table.add_row(
            entry["time"],
            entry["name"],
            entry["release"],
            entry["event"],
            entry.get("approver") or entry["by"],
        )
    out.print(table)


@app.command()
def show(release: ReleaseArgument, home: HomeOption = None, json_: JsonOption = False) -> None:
    """Show one release: verdict, gates, and where its files are."""
    from tasks import ledger

    where = Home.locate(home)
    entries = ledger.find(where, release=release)
    if not entries:
        raise Refused(f"no release is called {release!r}; see anonflow list")
    dossier = json.loads((where.assessment(entries[-1]["release"]) / "dossier.json").read_text())
    if json_:
        _print_json({"events": entries, "dossier": dossier})
        return
    published = where.releases / entries[-1]["name"] / release
    out.print(f"[bold]{release}[/bold]: {entries[-1]['event']}; {dossier['verdict']['reason']}")
    out.print(_gates(dossier["verdict"]["gates"]))
    if published.exists():
        _place("Files", published)
    _place("Report", where.assessment(release) / "report.html")
    for entry in entries:
        why = f": {entry['approval_reason']}" if "approval_reason" in entry else ""
        _place("History", f"{entry['time']} {entry['event']} by {entry.get('approver') or entry['by']}{why}")


@app.command()
def ui(
    home: HomeOption = None,
    prefect_port: Annotated[int, typer.Option(help="Port of the Prefect UI.")] = 4200,
    mlflow_port: Annotated[int, typer.Option(help="Port of the MLflow UI.")] = 5000,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
) -> None:
    """Open the Prefect and MLflow UIs on what the runs here have left, until Ctrl-C."""
    where = _home(home)
    from flows.ui import serve_uis

    serve_uis(where.path, prefect_port=prefect_port, mlflow_port=mlflow_port, open_browser=browser)


def _run(plan: Path, home: Path | None, *, inline: bool, as_json: bool, rebuild: bool) -> None:
    begun = time.perf_counter()
    from flows import embedded

    where = _home(home)
    progress = _Progress(quiet=as_json)
    if inline:
        with embedded.imports():
            from flows.plan import load_plan
            from flows.release import Direct, carry_out

        file = load_plan(plan)
        embedded.tracking_ready(where.path)
        outcome = carry_out(file, where, Direct(progress), rebuild=rebuild)
    else:
        with embedded.server(where.path) as server:
            # The server needs seconds to start; what the run will need is imported meanwhile.
            with embedded.imports():
                import great_expectations  # noqa: F401
                import matplotlib.figure  # noqa: F401
                import mlflow.store.tracking.sqlalchemy_store  # noqa: F401

                from flows.orchestrated import carry_out_in_prefect
            outcome = carry_out_in_prefect(plan, where, server, told=progress, rebuild=rebuild)
    _finish(outcome, where.path, as_json, time.perf_counter() - begun)


def _settle(action: str, release: str, by: str, reason: str, home: Path | None, as_json: bool) -> None:
    begun = time.perf_counter()
    from flows import embedded
    from tasks.faults import guarded

    if not by.strip() or not reason.strip():
        raise Refused("state who decides and why: --by NAME --reason TEXT")
    where = _home(home)
    embedded.tracking_ready(where.path)
    from tasks import conclude

    outcome = guarded(getattr(conclude, action))(where, release, by=by.strip(), reason=reason.strip())
    guarded(conclude.mirror)(outcome, approver=by.strip(), approval_reason=reason.strip())
    _finish(outcome, where.path, as_json, time.perf_counter() - begun, settled=action)


def _home(given: Path | None) -> Home:
    """Return the home with the frameworks' settings applied, before any of them is imported."""
    from flows import embedded

    home = Home.locate(given)
    try:
        embedded.apply(home.path)
    except ValueError as error:
        unusable = str(error)
    else:
        return home
    raise Refused(unusable) from None


class _Progress:
    """One line per step, with its seconds; silent for scripts."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet

    def __call__(self, label: str, seconds: float | None) -> None:
        if self.quiet:
            return
        if seconds is None:
            if err.is_terminal:
                err.print(f"  [dim]…[/dim] {label}", end="\r")
            return
        err.print(f"  [green]✓[/green] {label} [dim]{seconds:.1f} s[/dim]")


def _finish(outcome: Any, home: Path, as_json: bool, seconds: float, settled: str | None = None) -> None:
    from flows.release import EXIT_CODES

    code = EXIT_CODES[outcome.status]
    if settled == "reject":
        code = ExitCode.PUBLISHED
    if as_json:
        _print_json(asdict(outcome) | {"exit_code": int(code), "total_seconds": round(seconds, 2)})
    else:
        _summary(outcome, home, seconds)
    raise typer.Exit(int(code))


def _summary(outcome: Any, home: Path, seconds: float) -> None:
    words = {
        "published": "[bold green]Published[/bold green]",
        "unchanged": "[bold green]Published already[/bold green]",
        "rejected": "[bold red]Rejected[/bold red]",
        "awaiting": "[bold yellow]Awaiting a person[/bold yellow]",
    }
    out.print()
    if outcome.gates:
        out.print(_gates(outcome.gates))
        out.print()
    out.print(f"{words[outcome.status]} {outcome.release}: {outcome.reason}")
    hint = _home_hint(home)
    if outcome.folder:
        _place("Release", outcome.folder)
    if outcome.report:
        _place("Report", outcome.report)
        for page in sorted(outcome.report.parent.glob("custodian-*.html")):
            _place("Secret", page)
    if outcome.status == "awaiting":
        _place("Decide", f"anonflow approve {outcome.release} --by NAME --reason TEXT{hint}")
        _place("", f"anonflow reject {outcome.release} --by NAME --reason TEXT{hint}")
    _place("UIs", f"anonflow ui{hint}  (Prefect on http://127.0.0.1:4200, MLflow on http://127.0.0.1:5000)")
    _place("Took", f"{seconds:.1f} s, of which {sum(outcome.seconds.values()):.1f} s in the steps")


def _place(what: str, where: object) -> None:
    """Print one line that a terminal does not break, so that a path can be copied whole."""
    out.print(f"  {what:8}{where}", soft_wrap=True, markup=False)


def _home_hint(home: Path) -> str:
    return "" if home == Path(".anonflow").absolute() or "ANONFLOW_HOME" in os.environ else f" --home {home}"


MARKS = {
    "pass": "[green]pass[/green]",
    "fail": "[red]FAIL[/red]",
    "inconclusive": "[yellow]open[/yellow]",
    "by design": "[dim]by design[/dim]",
    "not tested": "[dim]not tested[/dim]",
    "waived": "[dim]waived[/dim]",
}


def _gates(gates: Any) -> Table:
    table = Table("Gate", "", "Found", "Limit", "Baseline", "n", box=None, pad_edge=False)
    for gate in gates:
        table.add_row(
            gate["name"],
            MARKS[gate["verdict"]],
            gate["figure"],
            gate["limit"],
            gate["baseline"],
            str(gate["records"]),
        )
    return table


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")


def main() -> None:
    """Run the command line; whatever goes wrong ends in one clear message and an exit code."""
    os.umask(0o077)
    # Ended from outside, a run must still wipe its workspace.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    logging.captureWarnings(True)
    as_json = "--json" in sys.argv
    sys.exit(_guarded_exit(lambda: app(standalone_mode=True), as_json))


def _guarded_exit(command: Callable[[], Any], as_json: bool) -> int:
    try:
        command()
    except ReleaseError as error:
        _report(error, as_json)
        return int(error.code)
    except KeyboardInterrupt:
        err.print("Stopped. See anonflow list for what was decided before.")
        return INTERRUPTED
    except SystemExit as exit_:
        code = int(exit_.code or 0)
        if code == INTERRUPTED:
            err.print("Stopped. See anonflow list for what was decided before.")
        return code
    except Exception as error:
        fault = Fault(f"an unexpected {type(error).__name__}; this is a fault of anonflow, please report it")
        _report(fault, as_json)
        return int(ExitCode.FAULT)
    return 0


def _report(error: ReleaseError, as_json: bool) -> None:
    if as_json:
        _print_json(
            {
                "status": "refused" if error.code == ExitCode.REFUSED else "fault",
                "message": str(error),
                "exit_code": int(error.code),
            }
        )
        return
    title = "Refused" if error.code == ExitCode.REFUSED else "Fault"
    err.print(f"[bold red]{title}[/bold red]")
    for line in str(error).splitlines():
        err.print(f"  {line}", markup=False)
