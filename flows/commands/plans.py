"""Plans before they run: ``anonflow plan | check``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import Engine, Json, Plan, Where, err, out
from flows.commands.shown import print_json, safe
from tasks.common.errors import Refused, sanitise_errors
from tasks.common.home import Home


def check(plan: Plan, home: Where = None, json_: Json = False, engine: Engine = None) -> None:
    """Check a plan, the columns of its source and what its engine needs; no records are read."""
    from flows.engine import foresee
    from flows.plan.model import load_plan

    file = load_plan(plan) if engine is None else load_plan(plan).with_engine(engine)
    problems, warnings = sanitise_errors(foresee)(file, Home.named(home))
    if problems:
        raise Refused("\n".join(problems))
    warnings = [*file.plan.warnings, *warnings]
    if json_:
        stated = {"plan": file.plan.name, "sha256": file.plan.digest, "problems": []}
        print_json({**stated, "confirm": file.unconfirmed, "warnings": warnings})
        return
    out.print(
        f"{safe(plan.name)} is in order: {len(file.plan.variables)} variables, "
        f"{len(file.plan.edits.rules)} edits, {len(file.plan.steps)} step(s)."
    )
    for warning in warnings:
        out.print(f"Warning: {safe(warning)}", soft_wrap=True)
    if file.unconfirmed:
        out.print("A person must still decide what is marked 'confirm'; decide, and delete these comments:")
    for comment in file.unconfirmed:
        out.print(f"  {safe(comment)}", soft_wrap=True)


def plan(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A file such as CSV or Parquet, or a folder of Parquet files.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; by default the terminal.")
    ] = None,
) -> None:
    """Draft a plan from a data file, with comments, for a person to confirm."""
    from flows.draft import draft_plan

    text = sanitise_errors(draft_plan)(data, output.parent if output else Path.cwd())
    if output is None:
        sys.stdout.write(text)
        return
    if output.exists():
        raise Refused(f"{output.name} exists already; nothing is overwritten")
    output.write_text(text, encoding="utf-8")
    written = safe(output)
    err.print(
        f"Wrote {written}. Review it, decide what is marked 'confirm', then: anonflow check {written}", soft_wrap=True
    )
