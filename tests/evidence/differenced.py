"""What two consecutive releases of a register reveal of who joined, by every method, and what drawing units costs.

Run with ``python -m tests.evidence.differenced --pairs 100 --results FILE``, for some methods by their names. The table
is NHEFS of causaldata: 814 people are released, then 815, each time masked anew by the method at its defaults and, with
``--left-out``, made of a part of the units that is drawn anew (`SeriesSection`); the control are people in neither. Of
each pair the shares of levels and numbers that `anoncore.risk.differencing` reads off are kept, and the mean distance
of a variable's distribution from the people of the table, beside that of as many other people. Pairs are appended to
the file, one JSON object a line, and those that it holds are not made again.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from anoncore import AnonymizationError, Microdata, Schema, anonymize
from anoncore import methods as library
from anoncore.method import Method
from anoncore.risk.differencing import differencing
from tasks.intake.series import SeriesSection

PEOPLE = 814
KEYS = ("sex", "age", "race", "education", "income", "marital")
STEPS: dict[str, Method] = {
    str(step.method): step
    for step in (
        library.SpectralSwap(),
        library.DataShuffling(),
        library.AdditiveNoise(),
        library.RankSwapping(),
        library.MDAV(k=10),
        library.GowerMicroaggregation(k=10),
        library.FuzzyMicroaggregation(),
        library.RHS(k=10),
        library.SpectralRHS(k=10),
        library.SpectralSynthesis(),
        library.SequentialTrees(),
        library.RareLevels(action="redistribute"),
        library.PRAM(),
        library.RecordSwapping(area="education", keys=("sex", "race", "marital")),
        library.GlobalRecoding(keys=("sex", "race", "marital")),
        library.LocalSuppression(keys=KEYS),
        library.SpectralSuppression(),
        library.ExtremeRecords(),
    )
}


def population() -> Microdata:
    """Return everybody, without what would not be released."""
    frame = pd.read_stata(str(resources.files("causaldata") / "nhefs" / "nhefs.dta")).drop(columns="seqn")
    return Microdata.from_frame(frame, Schema.infer(frame))


def distance(one: Microdata, other: Microdata) -> float:
    """Return the mean distance of a variable's distributions: Kolmogorov's, of categories total variation."""
    far = []
    for variable in one.schema:
        if variable.name not in other.frame:
            continue
        a, b = one.frame[variable.name].dropna(), other.frame[variable.name].dropna()
        if variable.kind == "continuous":
            x, y = np.sort(a.to_numpy(float)), np.sort(b.to_numpy(float))
            at = np.concatenate([x, y])
            steps = [np.searchsorted(side, at, "right") / max(1, len(side)) for side in (x, y)]
            far.append(float(np.abs(steps[0] - steps[1]).max()))
        else:
            shares = [side.astype(str).value_counts(normalize=True) for side in (a, b)]
            far.append(float(shares[0].sub(shares[1], fill_value=0.0).abs().sum() / 2))
    return float(np.mean(far))


def pair(everybody: Microdata, step: Method, number: int, left_out: int) -> dict[str, Any]:
    """Mask two releases, the second with one person more, and return what their difference reveals."""
    rng = np.random.default_rng([17, number])
    order = rng.permutation(len(everybody))
    joined, others = order[PEOPLE : PEOPLE + 1], order[PEOPLE + 1 :]
    releases = []
    for last in (PEOPLE, PEOPLE + 1):
        law = SeriesSection(kind="register", left_out=left_out or 1)
        kept = last - (law.omitted(last) if left_out else 0)
        data = everybody.take(np.sort(rng.choice(order[:last], kept, replace=False)))
        releases.append(anonymize(data, step, rng=rng).data)
    found = differencing(*releases, everybody.take(joined), everybody.take(others))
    if found is None:
        raise AnonymizationError("there is nothing to subtract")
    source = everybody.take(order[:PEOPLE])
    return {
        "ways": {way.way: [way.joined, way.control] for way in found.ways},
        "distance": distance(source, releases[0]),
        "samples": distance(source, everybody.take(others)),
    }


def shown(rows: Sequence[dict[str, Any]]) -> str:
    """Return the mean excess of each way in percentage points with its standard error, and the distances."""
    said = [f"{len(rows)} pairs"]
    for way in rows[0]["ways"]:
        excess = np.array([100 * (row["ways"][way][0] - row["ways"][way][1]) for row in rows if way in row["ways"]])
        said.append(f"{way} {excess.mean():+.2f} ± {excess.std(ddof=1) / math.sqrt(len(excess)):.2f}")
    apart, samples = (np.mean([row[name] for row in rows]) for name in ("distance", "samples"))
    return "; ".join([*said, f"distance {apart:.4f}, of two samples {samples:.4f}"])


def main() -> None:
    """Subtract releases of each method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", default=list(STEPS))
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--left-out", type=int, default=200)
    parser.add_argument("--results", type=Path, required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    everybody = population()
    made = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    for method in given.methods:
        for number in range(given.pairs):
            key = {"method": method, "left out": given.left_out, "pair": number}
            if any(key.items() <= row.items() for row in made):
                continue
            try:
                made.append(key | pair(everybody, STEPS[method], number, given.left_out))
            except AnonymizationError as reason:
                print(method, f"not masked: {reason}", flush=True)  # noqa: T201
                break
            with given.results.open("a") as file:
                file.write(json.dumps(made[-1]) + "\n")
        rows = [row for row in made if (row["method"], row["left out"]) == (method, given.left_out)]
        if len(rows) > 1:
            print(method, shown(rows), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
