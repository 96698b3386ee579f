"""``anonflow people``: the list of approvers, each with a key of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import Json, Where, err, out
from flows.commands.shown import print_json, safe, table
from tasks.common.errors import Refused, sanitise_errors
from tasks.common.home import Home, write_private

app = typer.Typer(no_args_is_help=True, help="Who may approve, reject and withdraw: names and public keys.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The person's name.")]
EMPTY = "The list is empty, so names are not verified."


@app.command()
def add(
    name: Name,
    key: Annotated[Path | None, typer.Option("--key", help="Their public key, a file in PEM form.")] = None,
    new: Annotated[Path | None, typer.Option("--new", help="Make a key, and write the private half here.")] = None,
    account: Annotated[
        list[str] | None, typer.Option("--account", help="An account under which they run plans.")
    ] = None,
    home: Where = None,
    json_: Json = False,
) -> None:
    """Add a person to the list. As soon as the list has an entry, every decision needs a signature."""
    from tasks.common import keys
    from tasks.record import approvers

    if (key is None) == (new is None):
        raise Refused("give their public key, --key PUBLIC.pem, or make one, --new PRIVATE.pem")
    where = Home.locate(home)
    if key is not None:
        public = sanitise_errors(keys.read_public)(key)
    elif new is not None:
        if new.exists():
            raise Refused(f"{new.name} exists already; nothing is overwritten")
        sanitise_errors(write_private)(new, keys.new_private())
        public = keys.read_private(new, new.name).public_key()
    try:
        person = sanitise_errors(approvers.add)(where, name, public, tuple(account or ()))
    except BaseException:
        if new is not None:
            new.unlink(missing_ok=True)
        raise
    if json_:
        print_json(approvers.shown((person,))[0])
        return
    out.print(f"{safe(person.name)} may decide here; their key is {person.fingerprint}", soft_wrap=True)
    if new is not None:
        err.print(f"Wrote {safe(new)}. Give it to them alone and keep no copy: its holder decides in their name.")


@app.command(name="list")
def list_(home: Where = None, json_: Json = False) -> None:
    """List the people who may decide."""
    from tasks.record import approvers

    people = approvers.listed(Home.existing(home))
    if json_:
        print_json({"people": approvers.shown(people)})
    elif people:
        rows = ((p.name, p.fingerprint, ", ".join(p.accounts), p.added) for p in people)
        out.print(table(("Name", "Key", "Accounts", "Since"), rows))
    else:
        out.print(f"{EMPTY} Start with: anonflow people add")


@app.command()
def remove(name: Name, home: Where = None) -> None:
    """Remove a person from the list; their decisions stay in the ledger."""
    from tasks.record import approvers

    where = Home.existing(home)
    sanitise_errors(approvers.remove)(where, name)
    out.print(f"{safe(name)} may not decide here any more", soft_wrap=True)
    if not approvers.listed(where):
        err.print(EMPTY)


@app.command()
def account(
    name: Name,
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="The requester, as recorded in the ledger.")],
    home: Where = None,
) -> None:
    """Record under which account a person runs plans, so that the ledger knows them as the requester."""
    from tasks.common import keys
    from tasks.record import approvers

    where = Home.existing(home)
    person = sanitise_errors(approvers.find)(where, name)
    public = keys.public_of(person.public_key)
    if public is None:
        raise Refused(f"the key of {name} cannot be read; remove them and add them again")
    sanitise_errors(approvers.add)(where, person.name, public, (account,))
    out.print(f"{safe(person.name)} runs plans as {safe(account)}", soft_wrap=True)


@app.command()
def login(
    name: Name,
    role: Annotated[
        list[str] | None, typer.Option("--role", help="author, approver or auditor; may be given more than once.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the login.")] = False,
    home: Where = None,
) -> None:
    """Give a person a login of anonflow studio; the password is printed once, and kept nowhere."""
    from tasks.record import logins

    where = (Home.existing if remove else Home.locate)(home)
    if remove:
        logins.remove_login(where, name)
        out.print(f"{safe(name)} has no login any more", soft_wrap=True)
        return
    roles = tuple(one for one in logins.ROLES if one in (role or ()))
    if unknown := sorted(set(role or ()) - set(roles)):
        raise Refused(f"--role takes {', '.join(logins.ROLES)}, not {unknown[0]}")
    password = logins.add_login(where, name, roles)
    out.print(f"{safe(' '.join(name.split()))} may log in as {', '.join(roles)}; password: {password}", soft_wrap=True)
