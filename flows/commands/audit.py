"""``anonflow audit``: read the ledger, and verify that it and the releases are unchanged."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.commands.options import Json, Reason, Where, err, out, plain, require_name_and_reason
from flows.commands.ready import require_mlflow, tracking_ready
from flows.commands.shown import print_json, safe, table
from flows.servers.layout import is_stopped
from tasks.common.errors import ExitCode, Refused, sanitise_errors, visible
from tasks.common.formatting import to_minute
from tasks.common.home import Home

app = typer.Typer(no_args_is_help=True, help="The signed ledger: verify it, read it, export it for auditors.")

By = Annotated[str, typer.Option("--by", help="Who does this.")]


@app.command()
def verify(
    anchor: Annotated[str | None, typer.Option("--anchor", help="Digest of an entry, stored elsewhere.")] = None,
    public_key: Annotated[
        Path | None, typer.Option("--public-key", help="This home's public key, a file stored elsewhere.")
    ] = None,
    timestamp_roots: Annotated[
        Path | None, typer.Option("--timestamp-roots", help="Certificates of trusted time stamping authorities.")
    ] = None,
    mlflow: Annotated[bool, typer.Option(help="Check the runs in MLflow, too.")] = True,
    home: Where = None,
    json_: Json = False,
) -> None:
    """Find what was changed, removed, reordered or cut off: exit code 0 when nothing was, 3 otherwise."""
    where = Home.existing(home)
    # Without its server an empty store would be made, and every run would be missing.
    unreachable = mlflow and is_stopped(where)
    if mlflow and not unreachable:
        where = tracking_ready(home)
    from tasks.audit import verification as audit
    from tasks.common import keys
    from tasks.record import ledger
    from tasks.record.entry import MirrorFacts
    from tasks.record.ledger_verification import Finding

    public = keys.pem(sanitise_errors(keys.read_public)(public_key)) if public_key else None
    roots = sanitise_errors(timestamp_roots.read_bytes)() if timestamp_roots else None
    verify_all = sanitise_errors(audit.verify)
    findings = verify_all(where, public_key=public, anchor=anchor, roots=roots, mlflow=mlflow and not unreachable)
    if unreachable:
        sentence = "this home's MLflow belongs to anonflow serve, which is not running: the runs were not checked"
        findings.append(Finding("mlflow not reached", "mlflow", sentence))
    unsigned = 0 if roots else len([*where.timestamps.glob("*.tsr")])
    entries = None if any(f.kind == "unreadable" for f in findings) else len(ledger.entries(where))
    code = ExitCode.REJECTED if findings else ExitCode.PUBLISHED
    if json_:
        found = [asdict(f) for f in findings]
        print_json({"entries": entries, "findings": found, "unchecked_stamps": unsigned, "exit_code": int(code)})
    elif findings:
        for finding in findings:
            out.print(f"[bold red]{safe(finding.kind)}[/bold red] {safe(finding.sentence)}", soft_wrap=True)
        out.print(f"{len(findings)} finding(s).")
    else:
        checked = "ledger, approvers, releases, candidates, figures" + (", MLflow" if mlflow else "")
        out.print(f"No findings: {entries} entries; {checked} are unchanged.", soft_wrap=True)
    if unsigned and not json_:
        out.print(f"{unsigned} time stamp(s): signatures not checked; give --timestamp-roots.", soft_wrap=True)
    if (rebuilt := [] if entries is None else ledger.find(where, MirrorFacts)) and not json_:
        runs = sum(len(entry.facts.runs) for entry in rebuilt)
        out.print(f"{runs} run(s) in MLflow were rebuilt, the last on {rebuilt[-1].time[:10]}.", soft_wrap=True)
    raise typer.Exit(int(code))


@app.command(name="list")
def list_(home: Where = None, json_: Json = False) -> None:
    """List every entry, oldest first."""
    from tasks.record import ledger
    from tasks.record.entry import entry_json

    entries = sanitise_errors(ledger.entries)(Home.existing(home))
    if json_:
        print_json([entry_json(entry) for entry in entries])
        return
    rows = []
    for e in entries:
        decided = getattr(e.facts, "decided", None)
        actor = e.facts.actor + (" (unverified)" if decided and not decided.signature else "")
        rows.append((e.number, to_minute(e.time), e.event, e.facts.subject, actor, e.digest[:12]))
    shown = table(("No", "When", "Event", "About", "By", "Digest"), rows)
    shown.columns[0].no_wrap = shown.columns[3].no_wrap = True
    out.print(shown)


@app.command()
def show(
    what: Annotated[str, typer.Argument(metavar="ID", help="The id of a release, or the number of an entry.")],
    home: Where = None,
    json_: Json = False,
) -> None:
    """Show every fact that is recorded about a release, or in one entry."""
    from tasks.record import ledger
    from tasks.record.entry import entry_json

    entries = sanitise_errors(ledger.entries)(Home.existing(home))
    chosen = [e for e in entries if what in (str(e.number), e.facts.subject)]
    if not chosen:
        raise Refused(f"the ledger has no entry about {what!r}; see anonflow audit list")
    if json_:
        print_json([entry_json(e) for e in chosen])
        return
    for entry in chosen:
        out.print(f"[bold]{entry.number} {safe(entry.event)}[/bold] {safe(entry.time)}")
        for key, value in _flat(entry_json(entry)):
            if key not in ("number", "event", "time"):
                plain.print(f"  {visible(key)}: {visible(value)}")


@app.command()
def export(
    target: Annotated[Path | None, typer.Argument(metavar="FILE", help="A new file, one JSON object a line.")] = None,
    anchor: Annotated[
        bool, typer.Option("--anchor", help="Print the last entry's digest, to store elsewhere.")
    ] = False,
    public_key: Annotated[bool, typer.Option("--public-key", help="Print the public key, to store elsewhere.")] = False,
    home: Where = None,
    json_: Json = False,
) -> None:
    """Export the ledger and the public keys for auditors; or print what to store elsewhere."""
    from tasks.audit import verification as audit
    from tasks.record import signing

    if target is None and not anchor and not public_key:
        raise Refused("name a file to write, or what to print: --anchor, --public-key")
    where = Home.existing(home)
    exported = None if target is None else sanitise_errors(audit.export)(where, target)
    last = sanitise_errors(audit.last_entry)(where) if anchor else None
    key = sanitise_errors(signing.public_key)(where) if public_key else None
    if json_:
        facts = {"file": target, "entries": exported, "public_key": key}
        facts |= {"number": last.number, "time": last.time, "digest": last.digest} if last else {}
        print_json({name: value for name, value in facts.items() if value is not None})
        return
    if target is not None:
        err.print(f"Wrote {exported} entries to {safe(target)}", soft_wrap=True)
    sys.stdout.write((f"{last.digest}\n" if last else "") + (key or ""))


@app.command()
def timestamp(
    authority: Annotated[str, typer.Argument(metavar="URL", help="The address of the authority.")],
    roots: Annotated[Path, typer.Option("--roots", help="Root certificates of the authority, a PEM file.")],
    home: Where = None,
    json_: Json = False,
) -> None:
    """Have an authority outside stamp the ledger's last entry with the time (RFC 3161), and keep the stamp."""
    from tasks.audit import timestamps

    trusted = sanitise_errors(roots.read_bytes)()
    made = sanitise_errors(timestamps.stamp)(Home.existing(home), authority, trusted)
    if json_:
        print_json(asdict(made))
        return
    out.print(f"Entry {made.entry} existed at {made.time}. Digest: {made.digest}", soft_wrap=True)


@app.command(name="rotate-key")
def rotate_key(by: By, reason: Reason, home: Where = None) -> None:
    """Sign with a new key from now on; the entry that names it is the last one signed with the old key."""
    from tasks.record import ledger, signing

    require_name_and_reason(by, reason)
    where = Home.existing(home)
    entry = sanitise_errors(ledger.rotate_key)(where, by=by.strip(), reason=reason.strip())
    out.print(f"Entry {entry.number} names the new key. Store its public half elsewhere:", soft_wrap=True)
    sys.stdout.write(signing.public_key(where))


@app.command()
def resume(by: By, reason: Reason, home: Where = None) -> None:
    """Continue after the loss of the ledger's end, or of keys/holdout, without a backup; the loss stays on record."""
    from tasks.record import ledger, secret_keys

    require_name_and_reason(by, reason)
    where = Home.existing(home)
    lost = any(f.kind in ("truncated", "head") for f in sanitise_errors(ledger.problems)(where))
    if not lost and not sanitise_errors(secret_keys.problems)(where, ledger.entries(where)):
        raise Refused("the ledger's end is not lost; there is nothing to resume")
    entry = sanitise_errors(ledger.resume)(where, by=by.strip(), reason=reason.strip())
    out.print(f"Entry {entry.number} records what was lost. anonflow audit verify goes on reporting it.")


@app.command()
def mirror(home: Where = None) -> None:
    """Set the status tags in MLflow to what the ledger says, for example after MLflow was unreachable."""
    require_mlflow(where := Home.existing(home))
    where = tracking_ready(where.path)
    from tasks.audit import verification as audit

    out.print(f"{sanitise_errors(audit.mirror)(where)} run(s) in MLflow agree with the ledger.")


@app.command(name="move-ledger")
def move_ledger(
    secret: Annotated[str, typer.Argument(metavar="SECRET", help="The secret that holds the address of PostgreSQL.")],
    home: Where = None,
) -> None:
    """Move the ledger into PostgreSQL, for workers on several machines; its files stay under other names."""
    # Also of a home that is new: the first machine of a cluster moves its ledger before anything runs.
    where = Home.locate(home)
    from tasks.record import ledger
    from tasks.record.ledger_store import move

    sanitise_errors(ledger.trusted)(where)
    sanitise_errors(move)(where, secret)
    out.print(f"{len(ledger.entries(where))} entries are in PostgreSQL, and all further ones will be.")


@app.command(name="rebuild-mirror")
def rebuild_mirror(by: By, reason: Reason, home: Where = None) -> None:
    """Make runs again that MLflow has lost, from dossiers and ledger; they are marked, and the ledger records it."""
    require_name_and_reason(by, reason)
    require_mlflow(where := Home.existing(home))
    where = tracking_ready(where.path)
    from tasks.audit.rebuild import rebuild

    entry = sanitise_errors(rebuild)(where, by=by.strip(), reason=reason.strip())
    made = sum(bool(run) for run in entry.facts.runs.values())
    lost = len(entry.facts.runs) - made
    out.print(f"Entry {entry.number}: {made} run(s) in MLflow were made again, {lost} are lost.", soft_wrap=True)


def _flat(form: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Give each fact of an entry, a nested one under the names of both levels."""
    for key, value in form.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value)
