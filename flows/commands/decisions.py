"""``anonflow approve | reject | withdraw``: carry a decision out; ``sign`` prints its signature on another machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands import deliver
from flows.commands.options import EveryGate, Json, Reason, Release, Where, plain, require_name_and_reason
from flows.commands.ready import tracking_ready
from flows.commands.shown import finish
from tasks.common.errors import Refused, sanitise_errors
from tasks.common.home import Home

if TYPE_CHECKING:
    from tasks.record.decision import Act, Decision

By = Annotated[str, typer.Option("--by", help="Who decides; where the home has a list of people, a name on it.")]
Key = Annotated[Path | None, typer.Option("--key", help="Your private key, to sign the decision here.")]
Signature = Annotated[str, typer.Option("--signature", help="A signature printed by anonflow sign.")]
Dossier = Annotated[str, typer.Option("--dossier", help="SHA-256 of the dossier that you have read.")]


def _command(act: Act, text: str) -> Callable[..., None]:
    """Return the command of one decision; all take the same options."""

    def command(
        release: Release,
        by: By,
        reason: Reason,
        key: Key = None,
        signature: Signature = "",
        dossier: Dossier = "",
        home: Where = None,
        json_: Json = False,
        all_: EveryGate = False,
    ) -> None:
        begun = time.perf_counter()
        if key is not None and signature:
            raise Refused("give --key or --signature, not both")
        require_name_and_reason(by, reason)
        where = tracking_ready(home)
        from tasks.decision.approval import decide
        from tasks.decision.outcomes import mirror_entry
        from tasks.record.decision import Decision

        decision = Decision(
            act=act, release=release, by=by, reason=reason, dossier=_digest(dossier), signature=signature
        )
        if key is not None:
            decision = _signed(where, decision, key)
        outcome = sanitise_errors(decide)(where, decision)
        mirror_entry(where, outcome.entry)
        if act != "reject":
            sanitise_errors(deliver.after_decision)(where, outcome)
        finish(outcome, where, json_, time.perf_counter() - begun, decided=True, every_gate=all_)

    command.__doc__ = text
    return command


approve = _command("approve", "Approve a candidate; it is published when enough people have approved.")
reject = _command("reject", "Reject a candidate.")
withdraw = _command("withdraw", "Withdraw a published release: its files are moved away, and a signed notice stays.")


def sign(
    release: Release,
    decision: Annotated[str, typer.Option("--decision", help="approve, reject or withdraw.")],
    by: Annotated[str, typer.Option("--by", help="Your name, as on the list of people.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; the same words as in the form.")],
    key: Annotated[Path, typer.Option("--key", help="Your private key; it stays on this machine.")],
    dossier: Annotated[
        str, typer.Option("--dossier", help="SHA-256 of the dossier that you have read; by default as recorded.")
    ] = "",
    home: Where = None,
) -> None:
    """Print your signature of a decision, for the form or for --signature."""
    from tasks.record.decision import ACTS, Decision

    if decision not in ACTS:
        raise Refused("--decision takes approve, reject or withdraw")
    require_name_and_reason(by, reason)
    stated = Decision(act=ACTS[decision], release=release, by=by, reason=reason, dossier=_digest(dossier))
    plain.print(_signed(None if dossier else Home.existing(home), stated, key).signature)


def _signed(home: Home | None, decision: Decision, key: Path) -> Decision:
    """Return the decision with its signature; the home's ledger names the dossier where the decision does not."""
    from tasks.record.decision import sign as signature_of

    if not decision.dossier and home is not None:
        decision = replace(decision, dossier=_recorded_dossier(home, decision.release))
    return replace(decision, signature=sanitise_errors(signature_of)(key, decision, _password(key)))


def _digest(given: str) -> str:
    """Return a dossier's digest in lower case, or nothing where none is given; raises `Refused` when it is none."""
    digest = given.strip().lower()
    if digest and (len(digest) != 64 or set(digest) - set("0123456789abcdef")):
        raise Refused("--dossier takes the whole SHA-256 of the dossier, 64 hexadecimal digits")
    return digest


def _recorded_dossier(home: Home, release: str) -> str:
    from tasks.record import ledger

    entries = ledger.of_release(home, release)
    if not entries:
        raise Refused(f"no release is called {release!r} here; see anonflow list, or give --dossier")
    return ([e for e in entries if e.event in ("awaiting", "published")] or entries)[-1].facts.dossier


def _password(key: Path) -> bytes | None:
    """Ask for the password of a key that has one."""
    try:
        encrypted = b"ENCRYPTED" in key.read_bytes()
    except OSError:
        encrypted = False
    return str(typer.prompt("Password of the key", hide_input=True, err=True)).encode() if encrypted else None
