"""Files of other tools, and a ladder of leaks, judged by the default gates and attacked by code apart from the product.

Run with ``python -m tests.evidence.tools --results FILE`` and ``ANONFLOW_EVIDENCE_DATA``, which holds two halves of
Adult, members and strangers (adult_trn, adult_val), the members with 10 to 90 % of their cells replaced (adult_flipNN)
and five synthetic files that other tools made of them. One line of JSON for each file: verdicts by gate, the largest
area of each attack of the product, and the areas of `tests.evidence.strangers`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from anoncore import measure_risk
from tasks.assessment.assess import AssessmentSection
from tasks.policy.assessment import Records
from tasks.policy.gates import GATES
from tasks.policy.section import PolicySection
from tests.evidence.strangers import attacks
from tests.evidence.verdicts import FOLDER, decision, results, typed, verdicts_of

LADDER = tuple(f"flip{share}" for share in (10, 30, 50, 70, 90))
TOOLS = ("mostly", "synthpop", "ctgan", "gretel", "syndiffix")


def read(name: str) -> pd.DataFrame:
    """Return one of the files, of records that are units."""
    table = pd.read_csv(FOLDER / f"adult_{name}.csv.gz", low_memory=False)
    return table.assign(unit=np.arange(len(table)))


def measured(name: str, seed: int) -> dict[str, Any]:
    """Judge and attack one file."""
    frames = [read(one) for one in ("trn", "val", name)]
    members, others, released = typed(frames)
    settings = AssessmentSection().settings(PolicySection(), rows_linked=False, copied_parts=True)
    begun = time.process_time()
    risk = measure_risk(members, released, others, settings=settings, rng=np.random.default_rng([seed, 7]))
    took = round(time.process_time() - begun, 1)
    records = Records(len(members), len(released), len(others))
    verdicts = verdicts_of(risk, records, GATES)
    worst = {one.name: one.bounds.worst for one, _ in results(risk, records, GATES) if one.bounds}
    own, strangers, rows = (frame.drop(columns="unit") for frame in frames)
    return {
        "file": name,
        "decision": decision(verdicts),
        "seconds": took,
        "verdicts": verdicts,
        "bounds": {gate: (round(w.value, 4), round(w.lower, 4), round(w.upper, 4)) for gate, w in worst.items()},
        "independent": attacks(own, strangers, rows, frames[0]["unit"].to_numpy(), frames[1]["unit"].to_numpy()),
    }


def main() -> None:
    """Judge the files and append what came of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[*LADDER, *TOOLS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.names:
        one = measured(name, given.seed)
        with given.results.open("a") as file:
            file.write(json.dumps(one) + "\n")
        failed = one["verdicts"].get("fail", [])
        print(name, one["decision"], failed, one["independent"], f"{one['seconds']} s", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
