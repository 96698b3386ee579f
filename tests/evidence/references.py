"""How often `cross` and an independent `file` give the same verdict on risk, on real tables.

Run with ``python -m tests.evidence.references nhefs nhanes --seeds 0:20 --results FILE``. Of each table, n records
and n others are drawn. Both plans are the table's draft; one masks the n and judges them by `cross`, the other masks
the same n anew and judges them beside the n others, so that verdicts differ by chance of the masking, too. How often
they do is what a third run shows: it masks the n once more and judges them beside n people in none of these, where the
table has so many, and else beside the same n others. Judgements are appended to the file, one JSON object a line, and
those that it holds are not made again. Tables are those of `tests.evidence.verdicts`, and NHEFS of causaldata.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from flows import embedded
from flows.draft import draft_plan
from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from tasks.common.home import Home
from tasks.policy.gate import GateResult
from tasks.policy.gates import GATES
from tests.evidence.verdicts import LEFT_OUT, table

PEOPLE = {"nhefs": 814}
KINDS = ("cross", "file", "file again")
MOST = 34  # variables, the same in every draw of a table
OF_RECORDS = {gate.name for gate in GATES if gate.individual}


def population(name: str) -> pd.DataFrame:
    """Return a table whose records count as units; people of the household survey share households nevertheless."""
    if name == "nhefs":
        return pd.read_stata(str(resources.files("causaldata") / "nhefs" / "nhefs.dta")).drop(columns="seqn")
    whole = table(name)[0]
    whole = whole.drop_duplicates("ID") if "ID" in whole else whole
    whole = whole.drop(columns=[c for c in whole if c in LEFT_OUT])
    whole = whole.loc[:, whole.notna().mean() > 0.02]
    chosen = np.random.default_rng(0).permutation(len(whole.columns))[:MOST]
    return whole.iloc[:, np.sort(chosen)]


def judged(name: str, seed: int, people: int) -> dict[str, dict[str, Any]]:
    """Return how the references judge one draw: verdict, seconds, and the gates on single records by name."""
    whole = population(name)
    each = min(people, len(whole) // 2)
    order = np.random.default_rng(seed).permutation(len(whole))
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        a, b, c = (order[at * each : (at + 1) * each] for at in range(3))
        for file, rows in {"all": order[: 2 * each], "a": a, "b": b, "c": c if len(c) == each else b}.items():
            whole.iloc[rows].to_csv(base / f"{file}.csv", index=False)
        drafted = yaml.safe_load(draft_plan(base / "all.csv", base))
        drafted["source"]["path"] = "a.csv"
        references: list[dict[str, Any]] = [{"kind": "cross"}]
        for file in ("b.csv", "c.csv"):
            with_known_levels(base / "a.csv", base / file, drafted["variables"])
            other = {**drafted["source"], "path": file}
            references.append({"kind": "file", "source": other, "disjoint_by": "custodian"})
        return {
            kind: _run(base, kind, {**drafted, "reference": reference})
            for kind, reference in zip(KINDS, references, strict=True)
        }


def with_known_levels(masked: Path, others: Path, variables: Sequence[dict[str, Any]]) -> None:
    """Leave out the others with a level that nobody who is masked has: a file with one is refused."""
    known, given = (pd.read_csv(file, dtype=str) for file in (masked, others))
    levels = [v["name"] for v in variables if v["kind"] != "continuous" and v.get("role") != "identifier"]
    alike = np.ones(len(given), dtype=bool)
    for n in (name for name in levels if name in given):
        alike &= given[n].isin(known[n]) | given[n].isna()
    given[alike].to_csv(others, index=False)


def _run(base: Path, kind: str, plan: dict[str, Any]) -> dict[str, Any]:
    path = base / f"{kind}.yaml"
    path.write_text(yaml.safe_dump(plan, sort_keys=False))
    start = time.process_time()
    outcome = carry_out(load_plan(path), Home.locate(base / f"home-{kind}"), Direct())
    gates = {one.name: one.verdict for one in outcome.gates if one.name in OF_RECORDS and one.verdict != "pass"}
    figures = {one.name: one.figure for one in outcome.gates if one.name in gates}
    return {"verdict": _verdict(outcome.gates), "seconds": time.process_time() - start, "gates": gates, "why": figures}


def _verdict(gates: Sequence[GateResult]) -> str:
    verdicts = {one.verdict for one in gates if one.name in OF_RECORDS}
    return "reject" if "fail" in verdicts else "pass" if verdicts == {"pass"} else "ask"


def main() -> None:
    """Judge tables and seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--seeds", default="0:5")
    parser.add_argument("--people", type=int, default=1500)
    parser.add_argument("--results", type=Path, required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    made = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    with tempfile.TemporaryDirectory() as tracking:
        embedded.apply(Path(tracking))
        embedded.tracking_ready(Path(tracking))
        for seed in range(*map(int, given.seeds.split(":"))):
            for name in given.tables:
                if any((one["table"], one["seed"]) == (name, seed) for one in made):
                    continue
                one = {"table": name, "seed": seed, **judged(name, seed, PEOPLE.get(name, given.people))}
                made.append(one)
                with given.results.open("a") as file:
                    file.write(json.dumps(one) + "\n")
                print(name, seed, *(f"{kind}: {one[kind]['verdict']}" for kind in KINDS), flush=True)  # noqa: T201
    for other in ("cross", "file again"):
        pairs = Counter((one["table"], one["file"]["verdict"], one[other]["verdict"]) for one in made)
        for (name, file, again), count in sorted(pairs.items()):
            print(f"{name}: file {file}, {other} {again}: {count}")  # noqa: T201


if __name__ == "__main__":
    main()
