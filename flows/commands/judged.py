"""``anonflow assess`` an external file, ``compare`` settings of a plan; nothing is published."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flows.commands import shown
from flows.commands.options import ByDesign, Inline, Json, Plan, Where
from flows.commands.ready import platform, recording_ready
from tasks.common.errors import Refused
from tasks.common.home import Home


def assess(
    released: Annotated[Path, typer.Argument(metavar="RELEASE", help="The released file.")],
    original: Annotated[Path, typer.Option("--original", help="The records from which it was made.")],
    reference: Annotated[
        Path | None, typer.Option("--reference", help="Original records of other people of the same population.")
    ] = None,
    plan: Annotated[Path | None, typer.Option("--plan", help="A plan whose variables and policy apply.")] = None,
    aligned: Annotated[
        bool, typer.Option("--aligned", help="Row i of the release was made from row i of the original.")
    ] = False,
    identifiers: Annotated[
        list[str] | None,
        typer.Option("--identifier", help="A column that names people: any of its original values fails the release."),
    ] = None,
    by_design: ByDesign = None,
    home: Where = None,
    json_: Json = False,
) -> None:
    """Assess a released file, also one of another tool: exit code 0 passes, 3 fails, 4 needs a person's decision."""
    from flows.external import Files, judge
    from flows.release import Direct

    if set(by_design or ()) - {"ambiguity", "uncertainty"}:
        raise Refused("--by-design takes ambiguity or uncertainty")
    files = Files(released, original, reference, aligned, tuple(identifiers or ()))
    runner = Direct(shown.Progress(quiet=json_))
    judgement = judge(Home.locate(home), files, plan=plan, by_design=tuple(by_design or ()), runner=runner)
    if json_:
        # How many levels few records hold, and not which: such a level may be one person's value.
        rare = [{"variable": row.variable, "levels": len(row.levels)} for row in judgement.assessment.rare_levels]
        facts = {
            "verdict": asdict(judgement.verdict),
            "assessment": judgement.assessment.to_json() | {"rare_levels": rare},
        }
        shown.print_json(facts | {"left_out": judgement.left_out, "unknown": judgement.unknown})
    else:
        shown.judged(judgement, released.name)
    raise typer.Exit(int(judgement.exit_code))


def compare(
    plan: Plan,
    more: Annotated[list[str] | None, typer.Argument(metavar="SETTING...", help="Further settings.")] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            metavar="SETTING...",
            help="Methods to try in place of the plan's masking steps, such as: spectral-swap mdav:k=5 "
            "additive-noise:b=0.1:axes=spectral. By default every method that suits the table.",
        ),
    ] = None,
    by_design: ByDesign = None,
    risk: Annotated[str, typer.Option("--risk", help="distance, ambiguity, uncertainty or membership.")] = "distance",
    utility: Annotated[str, typer.Option("--utility", help="overall, variable, pair or propensity.")] = "overall",
    home: Where = None,
    inline: Inline = False,
    json_: Json = False,
) -> None:
    """Compare settings by risk and utility: exit code 0 one passes, 3 none does, 4 one needs a person's decision."""
    begun = time.perf_counter()
    where = recording_ready(home)
    with platform(where, shown.Progress(quiet=json_), inline=inline) as run_plan:
        from flows.compare import Comparison, Wanted, checked_settings, facts
        from flows.compare import compare as compare_settings
        from flows.plan.model import load_plan
        from flows.release import Direct

        file = load_plan(plan)
        wanted = Wanted((*(methods or ()), *(more or ())), tuple(by_design or ()), risk, utility)
        checked_settings(file, wanted)

        def body(runner: Direct) -> tuple[Comparison, str, str]:
            comparison = compare_settings(file, where, runner, wanted)
            return comparison, "Nothing passes" if comparison.best is None else "Compared", comparison.sentence

        description = "Settings of one plan side by side; nothing is published."
        comparison = run_plan("Compare", description, file, body)
    seconds = time.perf_counter() - begun
    if json_:
        places = {"folder": comparison.folder, "picture": comparison.picture}
        ended = {"exit_code": int(comparison.exit_code), "total_seconds": round(seconds, 2)}
        shown.print_json(facts(comparison) | places | ended)
    else:
        shown.compared(comparison, where, seconds)
    raise typer.Exit(int(comparison.exit_code))
