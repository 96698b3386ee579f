"""What two consecutive releases of a register reveal of who joined, by every method, and what drawing units costs.

Run with ``python -m tests.evidence.differenced --pairs 100 --results FILE``, for some methods by their names. The table
is NHEFS of causaldata, with made weights where a method needs them, or made families where it needs households: 814
units are released, then 815, each time masked anew by the method at its defaults and, with ``--left-out``, made of a
part of the units that is drawn anew (`SeriesSection`); the control are units in neither. Of each pair the shares of
levels and numbers that `anoncore.risk.differencing` reads off are kept, and the mean distance of a variable's
distribution from the records of the table, beside that of as many other units. Pairs are appended to the file, one JSON
object a line, and those that it holds are not made again.
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
from anoncore.microdata import Variable
from anoncore.microdata.units import unit_codes
from anoncore.risk.differencing import differencing
from tasks.intake.series import SeriesSection
from tests.anoncore.methods.test_household_trees import families

PEOPLE = 814
KEYS = ("sex", "age", "race", "education", "income", "marital")
STEPS: dict[str, Method] = {
    "optimal-boxes, ranges": library.OptimalBoxes(),
    "optimal-boxes, means": library.OptimalBoxes(release="means"),
} | {
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
        library.ValueCoding(base={"age": 5, "wt71": 5, "wt82": 5, "ht": 5}),
        library.GroupAnonymity(
            vital=({"death": (1,)},), parameter="education", order=(1, 2, 3, 4), share=0.25, wavelet="haar", level=1
        ),
        library.WeightCalibration(weight="weight", variables=("sex", "race", "education", "age")),
        library.HouseholdTrees(),
    )
}


def population(step: Method) -> Microdata:
    """Return everybody, without what would not be released."""
    if step.rebuilds_households:
        return families(2 * PEOPLE)
    frame = pd.read_stata(str(resources.files("causaldata") / "nhefs" / "nhefs.dta")).drop(columns="seqn")
    schema = Schema.infer(frame)
    if isinstance(step, library.WeightCalibration):
        frame["weight"] = np.random.default_rng(0).lognormal(6, 0.5, len(frame)).round()
        schema = Schema([*schema, Variable("weight", "continuous", precision=1)])
    return Microdata.from_frame(frame, schema)


def distance(one: Microdata, other: Microdata) -> float:
    """Return the mean distance of a variable's distributions: Kolmogorov's, of categories total variation."""
    far = []
    for variable in one.schema:
        if not variable.is_masked or variable.name not in other.frame:
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
    of = unit_codes(everybody.units, len(everybody))
    order = rng.permutation(int(of.max()) + 1)

    def records(units: np.ndarray) -> Microdata:
        return everybody.take(np.flatnonzero(np.isin(of, units)))

    joined, others = records(order[PEOPLE : PEOPLE + 1]), records(order[PEOPLE + 1 :])
    releases = []
    for last in (PEOPLE, PEOPLE + 1):
        law = SeriesSection(kind="register", left_out=left_out or 1)
        kept = last - (law.omitted(last) if left_out else 0)
        release = anonymize(records(rng.choice(order[:last], kept, replace=False)), step, rng=rng)
        releases.append(release.points or release.data)
    found = differencing(*releases, joined, others)
    if found is None:
        raise AnonymizationError("there is nothing to subtract")
    source = records(order[:PEOPLE])
    return {
        "ways": {way.way: [way.joined, way.control] for way in found.ways},
        "distance": distance(source, releases[0]),
        "samples": distance(source, others),
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
    made = [json.loads(line) for line in given.results.read_text().splitlines()] if given.results.exists() else []
    for method in given.methods:
        everybody = population(STEPS[method])
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
