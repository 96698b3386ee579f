"""The command ``anonflow people``: who may decide, each with a key of their own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tasks.faults import Refused, guarded
from tasks.home import Home, write_private

app = typer.Typer(no_args_is_help=True, help="Who may approve, reject and withdraw: names and public keys.")
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Where = Annotated[
    Path | None,
    typer.Option("--home", help="Where state is kept; by default ANONFLOW_HOME, else .anonflow here."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for scripts, and nothing else.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The person's name.")]


@app.command()
def add(
    name: Name,
    key: Annotated[Path | None, typer.Option("--key", help="Their public key, a file in PEM form.")] = None,
    new: Annotated[
        Path | None, typer.Option("--new", help="Make them a key, and write the private one here.")
    ] = None,
    account: Annotated[
        list[str] | None, typer.Option("--account", help="An account under which they run plans.")
    ] = None,
    home: Where = None,
    json_: Json = False,
) -> None:
    """Put a person on the list. From the first one on, every decision needs a signature."""
    from tasks import keys, people

    if (key is None) == (new is None):
        raise Refused("give their public key, --key PUBLIC.pem, or make one, --new PRIVATE.pem")
    where = Home.locate(home)
    if key is not None:
        public = guarded(keys.read_public)(key)
    elif new is not None:
        if new.exists():
            raise Refused(f"{new.name} exists already; nothing is overwritten")
        guarded(write_private)(new, keys.new_private())
        public = keys.read_private(new, new.name).public_key()
    try:
        person = guarded(people.add)(where, name, public, tuple(account or ()))
    except BaseException:
        if new is not None:
            new.unlink(missing_ok=True)
        raise
    if json_:
        _print(people.shown((person,))[0])
        return
    out.print(f"{escape(person.name)} may decide here; their key is {person.fingerprint}", soft_wrap=True)
    if new is not None:
        err.print(f"Wrote {new}. Hand it to them alone, and keep no copy: who has it decides in their name.")


@app.command(name="list")
def list_(home: Where = None, json_: Json = False) -> None:
    """List who may decide."""
    from tasks import people

    found = people.listed(Home.locate(home))
    if json_:
        _print({"people": people.shown(found)})
        return
    if not found:
        out.print(
            "Nobody is on the list, so names are taken as they are typed. Start with: anonflow people add"
        )
        return
    table = Table("Name", "Key", "Accounts", "Since", box=None, pad_edge=False)
    for person in found:
        accounts = ", ".join(person.accounts)
        table.add_row(escape(person.name), person.fingerprint, escape(accounts), person.added)
    out.print(table)


@app.command()
def remove(name: Name, home: Where = None) -> None:
    """Take a person off the list; what they have decided stays in the ledger."""
    from tasks import people

    where = Home.locate(home)
    guarded(people.remove)(where, name)
    out.print(f"{escape(name)} may not decide here any more", soft_wrap=True)
    if not people.listed(where):
        err.print("Nobody is on the list any more, so names are taken as they are typed.")


@app.command()
def account(
    name: Name,
    account: Annotated[
        str, typer.Argument(metavar="ACCOUNT", help="As it stands in the ledger, as requester.")
    ],
    home: Where = None,
) -> None:
    """Say under which account a person runs plans, so that they are known as the requester."""
    from tasks import keys, people

    where = Home.locate(home)
    person = guarded(people.find)(where, name)
    public = keys.public_of(person.public_key)
    if public is None:
        raise Refused(f"the key of {name} cannot be read; remove them and add them again")
    guarded(people.add)(where, person.name, public, (account,))
    out.print(f"{escape(person.name)} runs plans as {escape(account)}", soft_wrap=True)


def _print(value: object) -> None:
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
