"""``anonflow prune``: remove what is old and what no release that was published needs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import typer

from flows import embedded
from flows.commands.options import Json, Where, err, out
from flows.commands.ready import home_ready
from flows.commands.shown import print_json, table
from flows.servers.layout import read_layout, runs
from tasks.common.errors import Refused, sanitise_errors
from tasks.common.home import Home
from tasks.common.values import to_json


def prune(
    keep: Annotated[int, typer.Option("--keep", help="Days; what is younger stays.")],
    remove: Annotated[bool, typer.Option("--remove", help="Remove it; without this it is only listed.")] = False,
    home: Where = None,
    json_: Json = False,
) -> None:
    """List or remove what is old: rejected assessments, files in MLflow, runs of Prefect, comparisons, notices.

    What was published, what waits for people, the ledger and the figures in MLflow stay.
    """
    if keep < 1:
        raise Refused("--keep takes a number of days, 1 or more")
    where, before = Home.existing(home), time.time() - keep * 86_400
    with _prefect(where) as reached:
        from tasks.audit import prune as old

        ended = sanitise_errors(_old_runs)(before) if reached else []
        if remove and (ended or sanitise_errors(old.prunable)(where, before)):
            entry, found = sanitise_errors(old.prune)(where, before, len(ended))
            if ended:
                from flows.orchestration.old_runs import remove_runs

                sanitise_errors(remove_runs)(ended)
        else:
            entry, found = None, sanitise_errors(old.prunable)(where, before)
    size = sum(one.size for one in found)
    if json_:
        listed = [to_json(one) | {"path": str(one.path)} for one in found]
        print_json({"removed": remove, "bytes": size, "prefect_runs": len(ended), "found": listed})
        return
    if found:
        out.print(table(("Kind", "What", "Bytes"), ((one.kind, one.name, one.size) for one in found)))
    runs_ = f"{len(ended)} run(s) of Prefect" if reached else "Prefect does not run, or has none"
    ending = f"were removed; entry {entry.number} of the ledger says so" if entry else "can go: add --remove"
    what = f"{len(found)} item(s) of {size / 1e6:.1f} MB; {runs_}. Older than {keep} day(s), they {ending}."
    err.print(what if found or ended else f"Nothing is older than {keep} day(s) and can go; {runs_}.", soft_wrap=True)


def _old_runs(before: float) -> list[UUID]:
    from flows.orchestration.old_runs import old_runs

    return old_runs(datetime.fromtimestamp(before, UTC))


@contextmanager
def _prefect(home: Home) -> Iterator[bool]:
    """Let Prefect's server of a home be reached inside; yield whether there is one that runs, or can be started."""
    layout = read_layout(home)
    if not runs(home, "prefect") if layout else not (home.path / "prefect" / "prefect.db").exists():
        yield False
        return
    if layout is not None:
        os.environ["PREFECT_API_URL"] = layout.api
    home_ready(home.path)
    with embedded.server(home.path) as server, server.session():
        yield True
