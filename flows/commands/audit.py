"""The command ``anonflow audit``: what was decided, and whether it is still as it was."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.commands.options import Json, Reason, Where, err, out, plain, stated
from flows.commands.ready import tracking_ready
from flows.commands.shown import print_json, safe, table
from flows.servers.layout import is_stopped
from tasks.common.errors import ExitCode, Refused, sanitise_errors, visible
from tasks.common.home import Home

app = typer.Typer(no_args_is_help=True, help="The signed record: verify it, read it, hand it to auditors.")

By = Annotated[str, typer.Option("--by", help="Who does this.")]


@app.command()
def verify(
    anchor: Annotated[str | None, typer.Option("--anchor", help="Digest of an entry that was kept elsewhere.")] = None,
    public_key: Annotated[
        Path | None, typer.Option("--public-key", help="This home's public key, as it was kept elsewhere.")
    ] = None,
    mlflow: Annotated[bool, typer.Option(help="Check the runs in MLflow too.")] = True,
    home: Where = None,
    json_: Json = False,
) -> None:
    """Find whatever was changed, removed, reordered or cut off since: 0 nothing, 3 something was found."""
    where = Home.locate(home)
    # Without its server a store would be made, in which every run is missing.
    away = mlflow and is_stopped(where)
    if mlflow and not away:
        where = tracking_ready(home)
    from tasks.audit import verification as audit
    from tasks.common import keys
    from tasks.record import ledger
    from tasks.record.ledger_verification import Finding

    public = keys.pem(sanitise_errors(keys.read_public)(public_key)) if public_key else None
    found = sanitise_errors(audit.verify)(where, public_key=public, anchor=anchor, mlflow=mlflow and not away)
    if away:
        told = "anonflow serve keeps this home's MLflow and does not run: its runs are not checked"
        found.append(Finding("mlflow not reached", "mlflow", told))
    entries = len(ledger.entries(where)) if not any(f.kind == "unreadable" for f in found) else None
    code = ExitCode.REJECTED if found else ExitCode.PUBLISHED
    if json_:
        print_json({"entries": entries, "findings": [asdict(f) for f in found], "exit_code": int(code)})
    elif found:
        for finding in found:
            out.print(f"[bold red]{safe(finding.kind)}[/bold red] {safe(finding.sentence)}", soft_wrap=True)
        out.print(f"{len(found)} finding(s).")
    else:
        checked = "ledger, people, releases, candidates, figures" + (", MLflow" if mlflow else "")
        out.print(f"Nothing was found: {entries} entries; {checked} are as they were left.", soft_wrap=True)
    raise typer.Exit(int(code))


@app.command(name="list")
def list_(home: Where = None, json_: Json = False) -> None:
    """List every entry, oldest first."""
    from tasks.record import ledger
    from tasks.record.entry import entry_json

    known = sanitise_errors(ledger.entries)(Home.locate(home))
    if json_:
        print_json([entry_json(entry) for entry in known])
        return
    shown = table("No", "When", "Event", "About", "By", "Digest")
    for column in shown.columns[:4:3]:
        column.no_wrap = True
    for entry in known:
        decided = getattr(entry.facts, "decided", None)
        unverified = " (unverified)" if decided and not decided.signature else ""
        shown.add_row(
            safe(entry.number),
            safe(entry.time[:16].replace("T", " ")),
            safe(entry.event),
            safe(entry.facts.subject),
            safe(entry.facts.actor) + unverified,
            safe(entry.digest[:12]),
        )
    out.print(shown)


@app.command()
def show(
    what: Annotated[str, typer.Argument(metavar="ID", help="A release's id, or the number of an entry.")],
    home: Where = None,
    json_: Json = False,
) -> None:
    """Show every fact that is recorded about a release, or in one entry."""
    from tasks.record import ledger
    from tasks.record.entry import entry_json

    known = sanitise_errors(ledger.entries)(Home.locate(home))
    chosen = [entry_json(e) for e in known if what in (str(e.number), e.facts.subject)]
    if not chosen:
        raise Refused(f"the ledger holds nothing about {what!r}; see anonflow audit list")
    if json_:
        print_json(chosen)
        return
    for entry in chosen:
        out.print(f"[bold]{safe(entry['number'])} {safe(entry['event'])}[/bold] {safe(entry['time'])}")
        for key, value in _flat(entry):
            if key not in ("number", "event", "time"):
                plain.print(f"  {visible(key)}: {visible(value)}")


@app.command()
def export(
    target: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A new file, one JSON object a line.")] = None,
    anchor: Annotated[
        bool, typer.Option("--anchor", help="Print the last entry's digest, to be kept elsewhere.")
    ] = False,
    public_key: Annotated[
        bool, typer.Option("--public-key", help="Print the public key, to be kept elsewhere.")
    ] = False,
    home: Where = None,
    json_: Json = False,
) -> None:
    """Hand the ledger to auditors, with the public keys; or print what is to be kept elsewhere."""
    from tasks.audit import verification as audit
    from tasks.record import signing

    if target is None and not anchor and not public_key:
        raise Refused("name a file to write, or what to print: --anchor, --public-key")
    where = Home.locate(home)
    told: dict[str, Any] = {}
    if target is not None:
        told |= {"file": target, "entries": sanitise_errors(audit.export)(where, target)}
    if anchor:
        last = sanitise_errors(audit.last_entry)(where)
        told |= {"number": last.number, "time": last.time, "digest": last.digest}
    if public_key:
        told |= {"public_key": sanitise_errors(signing.public_key)(where)}
    if json_:
        print_json(told)
        return
    if target is not None:
        err.print(f"Wrote {told['entries']} entries to {safe(target)}", soft_wrap=True)
    if anchor:
        sys.stdout.write(f"{told['digest']}\n")
    if public_key:
        sys.stdout.write(told["public_key"])


@app.command(name="rotate-key")
def rotate_key(by: By, reason: Reason, home: Where = None) -> None:
    """Sign with a new key from now on; the entry that says so is the last that the old one signs."""
    from tasks.record import ledger, signing

    stated(by, reason, does="does this")
    where = Home.locate(home)
    entry = sanitise_errors(ledger.rotate_key)(where, by=by.strip(), reason=reason.strip())
    out.print(f"Entry {entry.number} names the new key. Keep its public half elsewhere:", soft_wrap=True)
    sys.stdout.write(signing.public_key(where))


@app.command()
def resume(by: By, reason: Reason, home: Where = None) -> None:
    """Go on after the ledger's end, or keys/holdout, was lost and is in no backup; it stays on record."""
    from tasks.record import ledger, secret_keys

    stated(by, reason, does="does this")
    where = Home.locate(home)
    lost = any(f.kind in ("truncated", "head") for f in sanitise_errors(ledger.problems)(where))
    if not lost and not sanitise_errors(secret_keys.problems)(where, ledger.entries(where)):
        raise Refused("the ledger's end is not lost; there is nothing to resume")
    entry = sanitise_errors(ledger.resume)(where, by=by.strip(), reason=reason.strip())
    out.print(f"Entry {entry.number} says what was lost. anonflow audit verify keeps telling of it.")


@app.command()
def mirror(home: Where = None) -> None:
    """Set the status tags in MLflow to what the ledger says, as after MLflow could not be reached."""
    where = tracking_ready(home)
    from tasks.audit import verification as audit

    out.print(f"{sanitise_errors(audit.mirror)(where)} run(s) in MLflow say what the ledger says.")


def _flat(form: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Give each fact of an entry, one inside another under both their names."""
    for key, value in form.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value)
