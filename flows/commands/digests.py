"""``anonflow digests``: exchange with another home who is in its releases, as keyed digests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import Json, Where, out
from flows.commands.shown import print_json, safe, table
from tasks.common.errors import sanitise_errors
from tasks.common.home import Home

app = typer.Typer(no_args_is_help=True, help="Let two offices that release the same people learn it: keyed digests.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="The file of digests, JSON.")]


@app.command()
def export(
    file: File,
    secret: Annotated[str, typer.Option("--secret", help="The shared secret's name, as plans name it.")],
    home: Where = None,
) -> None:
    """Write and sign who is in this home's releases, for another home that has the same secret."""
    from tasks.record.exchange import export_digests

    held, without = sanitise_errors(export_digests)(Home.existing(home), secret, file)
    rest = f"; {without} hold no digests by this secret" if without else ""
    out.print(f"Wrote {safe(file)}: {held} release(s){rest}. Who has the secret can test whom it names against it.")


@app.command(name="import")
def import_(
    file: File,
    office: Annotated[str, typer.Option("--office", help="What the other home is called here.")],
    key: Annotated[Path, typer.Option("--key", help="Its public key, received by another way than the file.")],
    secret: Annotated[str, typer.Option("--secret", help="The shared secret's name, as plans name it.")],
    home: Where = None,
) -> None:
    """Take over who is in another home's releases; later runs compare their candidates with these."""
    from tasks.record.exchange import import_digests

    releases = sanitise_errors(import_digests)(Home.locate(home), office, file, key, secret)
    out.print(f"{safe(office)}: {releases} release(s) are compared with from now on")


@app.command(name="list")
def list_(home: Where = None, json_: Json = False) -> None:
    """List the homes whose digests were imported."""
    from tasks.common.keys import fingerprint
    from tasks.record.exchange import imports

    entries = imports(Home.existing(home))
    rows = [(e.facts.office, len(e.facts.releases), e.time, fingerprint(e.facts.public_key)) for e in entries]
    names = ("office", "releases", "imported", "key")
    if json_:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        out.print(table((name.capitalize() for name in names), rows))
