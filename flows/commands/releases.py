"""``anonflow demo | run`` make releases, ``list | show | ui`` show them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column

from flows.commands.options import Engine, EveryGate, Inline, Json, Plan, Release, Where, out
from flows.commands.ready import home_ready, platform, recording_ready
from flows.commands.shown import (
    Progress,
    custodian_paths,
    deciding_gates,
    finish,
    gates,
    line,
    print_json,
    safe,
    safe_lines,
    table,
)
from flows.servers.layout import pages, read_layout
from tasks.common.errors import Refused
from tasks.common.formatting import to_minute
from tasks.common.home import Home

if TYPE_CHECKING:
    from tasks.record.dossier import Dossier
    from tasks.record.entry import Facts, LedgerEntry, ReleaseFacts

# Beside our packages, in a source tree as in a wheel.
DEMONSTRATION = Path(__file__).resolve().parents[2] / "deploy" / "plans" / "nhefs.yaml"


def demo(home: Where = None, inline: Inline = False, json_: Json = False) -> None:
    """Release public microdata (NHEFS) as a demonstration."""
    _run(DEMONSTRATION, home, inline=inline, as_json=json_, rebuild=True)


def run(
    plan: Plan,
    home: Where = None,
    inline: Inline = False,
    json_: Json = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Mask again, although nothing has changed.")] = False,
    engine: Engine = None,
) -> None:
    """Run a release plan; the release ends published, rejected, or awaiting approval."""
    _run(plan, home, inline=inline, as_json=json_, rebuild=rebuild, engine=engine)


def _run(
    plan: Path, home: Path | None, *, inline: bool, as_json: bool, rebuild: bool, engine: str | None = None
) -> None:
    begun = time.perf_counter()
    where = recording_ready(home)
    with platform(where, Progress(quiet=as_json), inline=inline) as run_plan:
        from flows.plan.model import load_plan
        from flows.release import Direct, carry_out
        from tasks.decision.outcomes import Outcome

        file = load_plan(plan) if engine is None else load_plan(plan).with_engine(engine)

        def body(runner: Direct) -> tuple[Outcome, str, str]:
            outcome = carry_out(file, where, runner, rebuild=rebuild)
            return outcome, outcome.status.capitalize(), f"{outcome.release}: {outcome.reason}"

        description = "From plan to published release, or to a refusal that says why."
        outcome = run_plan("Release", description, file, body)
    finish(outcome, where, as_json, time.perf_counter() - begun)


def list_(
    home: Where = None,
    json_: Json = False,
    series: Annotated[
        bool, typer.Option("--series", help="One line for each plan, with the number of its releases.")
    ] = False,
    risk: Annotated[
        bool, typer.Option("--risk", help="Each published release: when, by whom approved, at what risk.")
    ] = False,
    plan: Annotated[str | None, typer.Option("--plan", help="Only of the plan of this name.")] = None,
    status: Annotated[
        str | None, typer.Option("--status", help="Only releases that are now awaiting, published, rejected, ...")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only from then on, in UTC: 2026-11, 2026-11-23 or 2026-11-23T04:05.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Only up to then: all of that month, day or minute.")
    ] = None,
) -> None:
    """List what was decided, oldest first."""
    from tasks.record import ledger
    from tasks.record.entry import entry_json
    from tasks.record.selection import Selection
    from tasks.record.series import series_of

    chosen = Selection(plan, status, since, until)
    if (series or risk) and (status or since or until):
        raise Refused("--series and --risk show plans with all their releases; of the filters they take --plan alone")
    where = Home.existing(home)
    every = ledger.entries(where)
    entries = chosen.of(every)
    if risk:
        _print_risk(where, every, plan, as_json=json_)
    elif series:
        lines = series_of(entries)
        if json_:
            print_json([asdict(one) for one in lines])
        else:
            counts = ((one.plan, len(one.published), one.last, len(one.withdrawn), len(one.waiting)) for one in lines)
            out.print(table(("Plan", "Published", "Last", "Withdrawn", "Waiting"), counts))
    elif json_:
        print_json([entry_json(entry) for entry in entries])
    elif entries:
        # The name of a release begins with that of its plan.
        rows = ((to_minute(e.time), e.facts.subject, e.event, _decider(e)) for e in entries)
        out.print(table(("When (UTC)", Column("About", no_wrap=True), "Event", "By"), rows))
        out.print("Published releases with approvers and risk: anonflow list --risk; one release: anonflow show NAME")
    elif every:
        out.print("No entry is of what was asked for.")
    else:
        out.print(f"Nothing was decided yet in {safe(where.path)}. Start with: anonflow demo", soft_wrap=True)


def _print_risk(home: Home, every: Sequence[LedgerEntry[Facts]], plan: str | None, *, as_json: bool) -> None:
    from tasks.tracking.curves import published_releases

    head = ("Published", "Plan", "Release", "Approved by", "Risk")
    rows = sorted(
        (
            one.entry.time,
            name,
            one.entry.facts.release + " (withdrawn)" * one.withdrawn,
            one.entry.facts.decided_by,
            one.risk(home),
        )
        for name, releases in published_releases(every).items()
        for one in releases
        if plan in (None, name)
    )
    if as_json:
        print_json([dict(zip(head, row, strict=True)) for row in rows])
    else:
        shown = ((to_minute(when), *row) for when, _, *row in rows)
        out.print(table(("Published (UTC)", Column("Release", no_wrap=True), *head[3:]), shown))
        out.print("One of them: anonflow show RELEASE; whether anything was changed since: anonflow audit verify")


def show(release: Release, home: Where = None, json_: Json = False, all_: EveryGate = False) -> None:
    """Show one release: verdict, the gates that decide, its place among releases, and where its files are."""
    from tasks.decision.outcomes import overtaken_by, waiting_after
    from tasks.publication.withdraw import NOTICE
    from tasks.record import ledger
    from tasks.record.dossier import find_dossier
    from tasks.record.entry import DeliveryFacts, entry_json

    where = Home.existing(home)
    entries = ledger.of_release(where, release)
    if not entries:
        raise Refused(f"no release is called {release!r}; see anonflow list")
    last = entries[-1]
    dossier = find_dossier(where, last.facts.release)
    deliveries = [entry for entry in ledger.find(where, DeliveryFacts) if entry.facts.release == release]
    if json_:
        events = [entry_json(entry) for entry in sorted([*entries, *deliveries], key=attrgetter("number"))]
        print_json({"events": events, "dossier": dossier and dossier.to_dict() | {"sha256": dossier.digest}})
        return
    reason = last.facts.reason if dossier is None else dossier.verdict.reason
    if last.facts.decided:
        reason = f"by {last.facts.actor}: {last.facts.decided.reason}. The policy's verdict: {reason}"
    out.print(f"[bold]{safe(release)}[/bold]: {safe(last.event)}; {safe_lines(reason)}")
    _assessment(dossier, last.facts, all_=all_)
    notice, files = where.releases / last.facts.name / release / NOTICE, where.files_of(last.facts.name, release)
    for what, path in (("Notice", notice), ("Files", files), ("Report", where.assessment(release) / "report.html")):
        if path.exists():
            line(what, path)
    for page in custodian_paths(where, release):
        line("Secret", page)
    if (waiting := waiting_after(where, last)) is not None:
        line("Dossier", last.facts.dossier)
        form = ", or decide by the form in Prefect" if read_layout(where) is not None else ""
        decide = f"read the report; then anonflow approve {release}, or anonflow reject it{form}"
        newer = overtaken_by(where, waiting)
        again = f"run the plan again: {newer} was published since, and this was not measured together with it"
        line("Next", again if newer else decide)
    # What came of the last attempt at each place.
    for one in {(entry.facts.target.system, entry.facts.place): entry for entry in deliveries}.values():
        why = f": {one.facts.reason}" if one.facts.reason else ""
        line("Target", f"{one.facts.place} in {one.facts.target.system}: {one.event} {one.time}{why}")
    for entry in entries:
        why = f": {entry.facts.decided.reason}" if entry.facts.decided else ""
        line("History", f"{entry.time} {entry.event} by {_decider(entry)}{why}")


def _decider(entry: LedgerEntry[Facts]) -> str:
    """Return who decided by an entry, or who made it."""
    from tasks.decision.outcomes import is_decision
    from tasks.record.entry import ReleaseFacts

    facts = entry.facts
    return facts.decided_by if isinstance(facts, ReleaseFacts) and is_decision(entry.event, facts) else facts.actor


def _assessment(dossier: Dossier | None, facts: ReleaseFacts, *, all_: bool) -> None:
    """Print the gates of a release; of one whose dossier was pruned what the ledger has of them."""
    if dossier is None:
        for gate, (verdict, figure) in facts.gates.items():
            line("Gate", f"{gate}: {verdict}, {figure}")
        return
    if all_:
        out.print(gates(dossier.verdict.gates))
    else:
        deciding_gates(dossier.verdict.gates)
    _series(dossier)


def _series(dossier: Dossier) -> None:
    """Print which releases this one follows, and how many units joined, left or changed since the newest."""
    from tasks.policy.gates.unit_changes import since

    if (series := dossier.assessment.series) is not None and series.releases:
        line("Series", f"{dossier.release.name}: follows {series.releases} published release(s)")
        for one in dict.fromkeys((*series.few, *filter(None, [series.newest]))):
            line("", since(one, series.least))


def ui(
    home: Where = None,
    prefect_port: Annotated[int, typer.Option(help="Port of Prefect.")] = 4200,
    mlflow_port: Annotated[int, typer.Option(help="Port of MLflow.")] = 5000,
    browser: Annotated[bool, typer.Option(help="Open the pages in a browser.")] = True,
) -> None:
    """Show the history of runs in the pages of Prefect and MLflow, until Ctrl-C."""
    where = Home.existing(home)
    if (layout := read_layout(where)) is not None:
        where_they_are = " and ".join(pages(layout))
        raise Refused(f"this home is served: while anonflow serve runs, its pages are on {where_they_are}")
    where = home_ready(where.path)
    from flows.embedded.ui import serve_uis

    serve_uis(where.path, prefect_port=prefect_port, mlflow_port=mlflow_port, open_browser=browser)
