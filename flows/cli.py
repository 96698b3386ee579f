"""The command line: ``anonflow demo | plan | check | run | compare | assess | approve | reject | ...``."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows import audit_cli, decisions_cli, deliver_cli, people_cli
from flows.served import cli as served

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
    plan: PlanArgument,
    home: HomeOption = None,
    inline: InlineOption = False,
    json_: JsonOption = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Draw anew though plan and data are unchanged.")
    ] = False,
) -> None:
    """Run a release plan: ends published, rejected, or awaiting a person."""
    _run(plan, home, inline=inline, as_json=json_, rebuild=rebuild)


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
def compare(
    plan: PlanArgument,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[SETTING]...", help="Further settings.")
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            metavar="SETTING...",
            help="What to try in place of the plan's masking steps, such as: spectral-swap mdav:k=5 "
            "additive-noise:b=0.1:axes=spectral. By default every method that suits the table.",
        ),
    ] = None,
    by_design: Annotated[
        list[str] | None,
        typer.Option(
            "--by-design", help="Acknowledge a measure that says nothing: ambiguity or uncertainty."
        ),
    ] = None,
    risk: Annotated[
        str, typer.Option("--risk", help="distance, ambiguity, uncertainty or membership.")
    ] = "distance",
    utility: Annotated[
        str,
        typer.Option(
            "--utility", help="overall, mean, variance, correlation, rank_correlation or propensity."
        ),
    ] = "overall",
    home: HomeOption = None,
    inline: InlineOption = False,
    json_: JsonOption = False,
) -> None:
    """Compare settings by risk and utility, publish nothing: 0 one passes, 3 none, 4 a person must decide."""
    begun = time.perf_counter()
    where = _home(home)
    progress = _Progress(quiet=json_)
    with _platform(where, inline=inline) as server:
        from flows.compare import Wanted, facts

        wanted = Wanted((*(methods or ()), *(more or ())), tuple(by_design or ()), risk, utility)
        if server is None:
            from flows import compare as comparing
            from flows.plan import load_plan
            from flows.release import Direct

            found = comparing.compare(load_plan(plan), where, Direct(progress), wanted)
        else:
            from flows.orchestrated import compare_in_prefect

            found = compare_in_prefect(plan, where, server, wanted, told=progress)
    seconds = time.perf_counter() - begun
    if json_:
        places = {"folder": found.folder, "picture": found.picture}
        ended = {"exit_code": int(found.exit_code), "total_seconds": round(seconds, 2)}
        _print_json(facts(found) | places | ended)
    else:
        _compared(found, where.path, seconds)
    raise typer.Exit(int(found.exit_code))


app.command()(decisions_cli.approve)
app.command()(decisions_cli.reject)
app.command()(decisions_cli.withdraw)
app.command()(decisions_cli.sign)


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
            entry.get("name", ""),
            entry.get("release") or entry.get("delivers") or entry.get("person", ""),
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


app.command()(served.serve)
app.command()(deliver_cli.deliver)
app.add_typer(people_cli.app, name="people")
app.add_typer(audit_cli.app, name="audit")


def _run(plan: Path, home: Path | None, *, inline: bool, as_json: bool, rebuild: bool) -> None:
    begun = time.perf_counter()
    where = _home(home)
    progress = _Progress(quiet=as_json)
    with _platform(where, inline=inline) as server:
        if server is None:
            from flows.plan import load_plan
            from flows.release import Direct, carry_out

            outcome = carry_out(load_plan(plan), where, Direct(progress), rebuild=rebuild)
        else:
            from flows.orchestrated import carry_out_in_prefect

            outcome = carry_out_in_prefect(plan, where, server, told=progress, rebuild=rebuild)
    _finish(outcome, where.path, as_json, time.perf_counter() - begun)


@contextmanager
def _platform(home: Home, *, inline: bool) -> Iterator[Any]:
    """Give the embedded Prefect server, or None without Prefect; what a run needs is imported meanwhile."""
    from flows import embedded

    if inline:
        with embedded.imports():
            import flows.release
        embedded.tracking_ready(home.path)
        yield None
        return
    with embedded.server(home.path) as server:
        # The server needs seconds to start; what the run will need is imported meanwhile.
        with embedded.imports():
            import great_expectations  # noqa: F401
            import matplotlib.figure  # noqa: F401
            import mlflow.store.tracking.sqlalchemy_store  # noqa: F401

            import flows.orchestrated  # noqa: F401
        yield server


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
                err.print(f"  [dim]…[/dim] {escape(label)}", end="\r")
            return
        err.print(f"  [green]✓[/green] {escape(label)} [dim]{seconds:.1f} s[/dim]")


def _finish(outcome: Any, home: Path, as_json: bool, seconds: float, settled: str | None = None) -> None:
    from flows.release import EXIT_CODES

    code = EXIT_CODES[outcome.status]
    if settled in ("reject", "withdraw"):
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
        "withdrawn": "[bold red]Withdrawn[/bold red]",
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


VERDICTS = {
    "passes": "[green]passes[/green]",
    "awaiting": "[yellow]awaiting[/yellow]",
    "rejected": "[red]REJECTED[/red]",
    "refused": "[red]REFUSED[/red]",
    "not possible": "[dim]not possible[/dim]",
}


def _compared(found: Any, home: Path, seconds: float) -> None:
    from tasks.frontier import row

    table = Table("Setting", "", "Risk", "Limit", "Lost", "Reference", "n", box=None, pad_edge=False)
    for one in found.settings:
        _, _, _, *figures = row(one)
        table.add_row(escape(one.label), VERDICTS[one.status], *figures)
    out.print()
    out.print(table)
    out.print()
    for one in found.settings:
        if one.status != "passes":
            out.print(f"  {escape(one.label)}: [dim]{escape(one.reason)}[/dim]", soft_wrap=True)
    out.print()
    out.print(escape(found.sentence), style="bold", soft_wrap=True)
    if found.earlier:
        _place("Note", f"{found.earlier} release(s) of these data stand: another asks a person")
    _place("Picture", found.picture)
    _place("Figures", found.folder / "comparison.json")
    _place(
        "UIs", f"anonflow ui{_home_hint(home)}  (the settings are in MLflow, under {found.plan} comparisons)"
    )
    _place("Took", f"{seconds:.1f} s, of which {sum(found.seconds.values()):.1f} s in the steps")


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
