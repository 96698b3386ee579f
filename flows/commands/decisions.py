"""What people decide: ``anonflow approve | reject | withdraw``, and ``sign`` on a machine of their own."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.commands import deliver
from flows.commands.options import Json, Reason, Release, Where, stated
from flows.commands.ready import tracking_ready
from flows.commands.shown import finish
from tasks.common.errors import Fault, Refused, sanitise_errors
from tasks.common.home import Home

By = Annotated[str, typer.Option("--by", help="Who decides; where there is a list of people, a name on it.")]
Key = Annotated[Path | None, typer.Option("--key", help="Your private key, which signs the decision here.")]
Signature = Annotated[
    str | None, typer.Option("--signature", help="What anonflow sign has printed, in place of --key.")
]
Dossier = Annotated[str | None, typer.Option("--dossier", help="SHA-256 of the dossier that you have read.")]


def _decision(act: str, told: str) -> Callable[..., None]:
    """Return a command; the three take the same words."""

    def command(
        release: Release,
        by: By,
        reason: Reason,
        key: Key = None,
        signature: Signature = None,
        dossier: Dossier = None,
        home: Where = None,
        json_: Json = False,
    ) -> None:
        _settle(act, release, by, reason, (key, signature, dossier), home, json_)

    command.__doc__ = told
    return command


approve = _decision("approve", "Approve a release that awaits people; it is published when enough have approved.")
reject = _decision("reject", "Reject a release that awaits people.")
withdraw = _decision(
    "withdraw", "Withdraw a published release: its files are kept apart, and a signed notice takes their place."
)


def sign(
    release: Release,
    decision: Annotated[str, typer.Option("--decision", help="approve, reject or withdraw.")],
    by: Annotated[str, typer.Option("--by", help="Your name, as it is on the list of people.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; word for word as in the form.")],
    key: Annotated[Path, typer.Option("--key", help="Your private key; it stays on this machine.")],
    dossier: Annotated[
        str | None,
        typer.Option("--dossier", help="SHA-256 of the dossier that you have read; from the ledger here if left out."),
    ] = None,
    home: Where = None,
) -> None:
    """Print your signature under a decision, to be pasted into the form or given with --signature."""
    from tasks.record.decision import ACTS, Decision
    from tasks.record.decision import sign as signature_of

    if decision not in ACTS:
        raise Refused("--decision takes approve, reject or withdraw")
    stated(by, reason)
    digest = _digest(dossier) if dossier else _of_the_ledger(Home.locate(home), release)
    said = Decision(act=ACTS[decision], release=release, dossier=digest, by=by, reason=reason)
    sys.stdout.write(sanitise_errors(signature_of)(key, said, _password(key)) + "\n")


def _settle(
    action: Any,
    release: str,
    by: str,
    reason: str,
    proof: tuple[Path | None, str | None, str | None],
    home: Path | None,
    as_json: bool,
) -> None:
    begun = time.perf_counter()
    stated(by, reason)
    key, signature, dossier = proof
    if key is not None and signature is not None:
        raise Refused("give --key or --signature, not both")
    where = tracking_ready(home)
    from tasks.decision.approval import decide
    from tasks.decision.outcomes import mirror_entry
    from tasks.record.decision import Decision
    from tasks.record.decision import sign as signature_of

    digest = _digest(dossier) if dossier else _of_the_ledger(where, release) if key is not None else ""
    decision = Decision(act=action, release=release, by=by, reason=reason, dossier=digest, signature=signature or "")
    if key is not None:
        decision = replace(decision, signature=sanitise_errors(signature_of)(key, decision, _password(key)))
    outcome = sanitise_errors(decide)(where, decision)
    mirror_entry(where, outcome.entry)
    if action == "approve":
        sanitise_errors(deliver.after_approval)(where, outcome)
    elif action == "withdraw":
        _take_back(where, release)
    finish(outcome, where.path, as_json, time.perf_counter() - begun, settled=action)


def _take_back(home: Home, release: str) -> None:
    """Take a withdrawn release back from where it was delivered to.

    Raises `Fault` when a target did not give it back; ``anonflow deliver`` does the rest.
    """
    from tasks.publication import deliver as delivery

    if problems := sanitise_errors(delivery.recall)(home, release):
        told = f"{release} is withdrawn, and not yet everywhere; do the rest: anonflow deliver {release}"
        raise Fault("\n".join([told, *problems]))


def _digest(given: str) -> str:
    """Return a dossier's digest as it is compared.

    Raises `Refused` when it is none.
    """
    digest = given.strip().lower()
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise Refused("--dossier takes the whole SHA-256 of the dossier, 64 hexadecimal digits")
    return digest


def _of_the_ledger(home: Home, release: str) -> str:
    from tasks.record import ledger

    known = ledger.of_release(home, release)
    if not known:
        raise Refused(f"no release is called {json.dumps(release)} here; see anonflow list, or give --dossier")
    awaited = [e for e in known if e.event in ("awaiting", "published")]
    return (awaited or known)[-1].facts.dossier


def _password(key: Path) -> bytes | None:
    """Ask for the password of a key that has one."""
    try:
        encrypted = b"ENCRYPTED" in key.read_bytes()
    except OSError:
        return None
    if not encrypted:
        return None
    return str(typer.prompt("Password of the key", hide_input=True, err=True)).encode()
