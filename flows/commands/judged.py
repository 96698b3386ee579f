"""Figures without a release: ``anonflow assess`` of others' files, ``compare`` of settings."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flows.commands import shown
from flows.commands.options import Inline, Json, Plan, Where
from flows.commands.ready import home_ready, platform
from tasks.common.errors import Refused
from tasks.common.home import Home


def assess(
    released: Annotated[Path, typer.Argument(metavar="RELEASE", help="The file to judge.")],
    original: Annotated[Path, typer.Option("--original", help="The records it stems from.")],
    reference: Annotated[
        Path | None, typer.Option("--reference", help="Other people of the same population, not masked.")
    ] = None,
    plan: Annotated[Path | None, typer.Option("--plan", help="A plan whose declarations and policy apply.")] = None,
    aligned: Annotated[
        bool, typer.Option("--aligned", help="Row i of the release stems from row i of the original.")
    ] = False,
    by_design: Annotated[
        list[str] | None, typer.Option("--by-design", help="A measure that says nothing: ambiguity or uncertainty.")
    ] = None,
    home: Where = None,
    json_: Json = False,
) -> None:
    """Judge any released file, also one made by another tool: 0 passes, 3 fails, 4 a person must decide."""
    from flows.external import judge

    unknown = sorted(set(by_design or ()) - {"ambiguity", "uncertainty"})
    if unknown:
        raise Refused("--by-design takes ambiguity or uncertainty")
    found = judge(
        Home.locate(home), released, original, reference, plan=plan, aligned=aligned, by_design=tuple(by_design or ())
    )
    if json_:
        # How many levels few records hold, and not which: such a level may be one person's value.
        rare = [{"variable": row.variable, "levels": len(row.levels)} for row in found.assessment.rare_levels]
        facts = {"verdict": asdict(found.verdict), "assessment": found.assessment.to_json() | {"rare_levels": rare}}
        shown.print_json(facts | {"left_out": found.left_out, "unknown": found.unknown})
    else:
        shown.judged(found, released.name)
    raise typer.Exit(int(found.exit_code))


def compare(
    plan: Plan,
    more: Annotated[list[str] | None, typer.Argument(metavar="[SETTING]...", help="Further settings.")] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            metavar="SETTING...",
            help="What to try in place of the plan's masking steps, such as: spectral-swap mdav:k=5 "
            "additive-noise:b=0.1:axes=spectral. By default every method that suits the table.",
        ),
    ] = None,
    by_design: Annotated[
        list[str] | None,
        typer.Option("--by-design", help="Acknowledge a measure that says nothing: ambiguity or uncertainty."),
    ] = None,
    risk: Annotated[str, typer.Option("--risk", help="distance, ambiguity, uncertainty or membership.")] = "distance",
    utility: Annotated[
        str, typer.Option("--utility", help="overall, mean, variance, correlation, rank_correlation or propensity.")
    ] = "overall",
    home: Where = None,
    inline: Inline = False,
    json_: Json = False,
) -> None:
    """Compare settings by risk and utility, publish nothing: 0 one passes, 3 none, 4 a person must decide."""
    begun = time.perf_counter()
    where = home_ready(home)
    with platform(where, inline=inline) as run_plan:
        from flows.compare import Comparison, Wanted, checked_settings, facts
        from flows.compare import compare as compare_settings
        from flows.plan.model import load_plan
        from flows.release import Direct

        file = load_plan(plan)
        wanted = Wanted((*(methods or ()), *(more or ())), tuple(by_design or ()), risk, utility)
        checked_settings(file, wanted)

        def body(runner: Direct) -> tuple[Comparison, str, str]:
            found = compare_settings(file, where, runner, wanted)
            return found, "Nothing passes" if found.best is None else "Compared", found.sentence

        description = "Settings of one plan side by side; nothing is published."
        found = run_plan("Compare", description, file, shown.Progress(quiet=json_), body)
    seconds = time.perf_counter() - begun
    if json_:
        places = {"folder": found.folder, "picture": found.picture}
        ended = {"exit_code": int(found.exit_code), "total_seconds": round(seconds, 2)}
        shown.print_json(facts(found) | places | ended)
    else:
        shown.compared(found, where.path, seconds)
    raise typer.Exit(int(found.exit_code))
