"""The same plan in memory and in partitions, by every method that tables in partitions allow: is the release the same.

Run with ``python -m tests.evidence.engines --folder FOLDER``. The table is that of `tests.evidence.large`. Compared
are all released values, those by which ranges are measured, and what the steps report, of 1, 3 and 8 partitions, the
work being done by this process and by one and two processes; a method with several forms of a release in each of them;
for spectral swapping, with `cross`, also every gate with its figure, and by a cluster of one and of two workers with
TLS. With ``--kills 20`` spectral swapping alone is compared, in so many runs of two processes and of two workers, in
each of which one of these is killed at a random moment.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import yaml

from anoncore.method import Method
from anoncore.partitions.store import Serial
from anoncore.registry import METHODS
from flows import embedded, engine
from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.intake import partitions
from tests.deaths import kill_one_worker
from tests.evidence.large import parts, plan

PARTITIONS = (1, 3, 8)
# Engine and processes; none of its own is this process.
WORKERS = (("local", 0), ("local", 1), ("local", 2), ("dask", 1), ("dask", 2))
SWAP = "spectral-swap"
# Parameters of each form of a method's release; without any where there is one form and nothing need be stated.
FORMS: dict[str, dict[str, dict[str, Any]]] = {
    "rare-levels": {"": {"action": "redistribute", "k": 10}},
    "group-anonymity": {
        "": {
            "vital": [{"level02": ["l6"]}],
            "parameter": "level04",
            "order": [f"l{area}" for area in range(8)],
            "caps": {"l4": 400},
            "details": "winsorised",
        }
    },
    # By default, a run had not ended after a quarter of an hour of a processor.
    "fuzzy-microaggregation": {"": {"k": 50, "sweeps": 3}},
    "optimal-boxes": {
        "intervals": {"rare": "fuzzy", "l": 2},
        "intervals on a grid": {"rare": "dropped", "bounds": "grid"},
        "means": {"release": "means"},
    },
}
ALONE = {"individual_protection": "none", "individual_protection_reason": "the people are drawn at random"}


class Enough(Exception):
    """The records are masked, and nothing else is asked."""


@dataclass
class Kept(Direct):
    """Keeps the digests of what was released, and of what the gates say, or ends before these."""

    judged: bool
    released: str = ""
    gates: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def call(self, label: str, function: Callable[..., Any], *args: Any, retry: bool) -> Any:
        """Carry out a step and look at its result."""
        result = super().call(label, function, *args, retry=retry)
        if label == "Mask the records":
            report = repr((result.notes, result.figures, result.claims)).encode()
            self.released = " ".join([digest(result.released), digest(result.measured), hashed(report)])
            if not self.judged:
                raise Enough
        if label == "Decide by policy":
            self.gates = hashed(repr([(one.name, one.verdict, one.figure) for one in result.gates]).encode())
        return result


def hashed(content: bytes) -> str:
    """Return a short digest."""
    return hashlib.sha256(content).hexdigest()[:16]


def digest(records: Any) -> str:
    """Return the digest of all values in their order, whatever the number of parts."""
    tables = records.parts() if hasattr(records, "parts") else [records.load()]
    whole = pd.concat([table.frame for table in tables], ignore_index=True)
    text = {name: "string" for name in whole if not pd.api.types.is_numeric_dtype(whole[name])}
    return hashed(pd.util.hash_pandas_object(whole.astype(text), index=False).to_numpy().tobytes())


@contextmanager
def workers(records: int, number: int, processes: int) -> Iterator[None]:
    """Cut the table into so many partitions, and let so many processes work on them."""
    with patch.object(partitions, "ROWS", -(-records // number)), patch.object(os, "cpu_count", lambda: processes or 1):
        here = patch.object(engine, "LocalPool", lambda store, *_: nullcontext(Serial(store)))
        with nullcontext() if processes else here:
            yield


def outcome(path: Path, home: Path, judged: bool) -> tuple[str, str]:
    """Return the digests of one run in a home of its own."""
    runner = Kept(judged)
    with suppress(Enough):
        carry_out(load_plan(path), Home.locate(home), runner)
    return runner.released, runner.gates


def method_plan(method: str, judged: bool, **parameters: Any) -> dict[str, Any]:
    """Return the plan of the large table with one method, in memory; with `cross` where gates are compared, too."""
    one = {"method": method, **parameters}
    asked = plan("source", "memory") | {
        "name": method,
        "reference": {"kind": "cross" if judged else "leave-one-out"},
        "steps": [one] if method == "rare-levels" else [{"method": "rare-levels", **FORMS["rare-levels"][""]}, one],
        "seed": {"public": 7, "data_are_public": True},
    }
    if METHODS[method].hidden_variables is not Method.hidden_variables:
        asked["policy"] = asked["policy"] | ALONE
    if void := METHODS[method](**{name: one[name] for name in one if name != "method"}).void_by_design:
        asked["policy"] = asked["policy"] | {"by_design": list(void)}
    return asked


def compared(folder: Path, name: str, asked: dict[str, Any], judged: bool, records: int) -> str:
    """Return whether the releases of a plan are the same, and of how many runs."""
    path, home = folder / f"{name}.yaml", folder / f"home-{name}"
    path.write_text(yaml.safe_dump(asked, sort_keys=False))
    try:
        load_plan(path).with_engine("local")
        seen = {"memory": outcome(path, home / "memory", judged)}
    except Refused as refused:
        return f"refused: {refused}"
    for number in PARTITIONS:
        for where, processes in WORKERS if judged else WORKERS[:3]:
            path.write_text(yaml.safe_dump(asked | {"engine": where}, sort_keys=False))
            with workers(records, number, processes):
                run = f"{where}, {processes} processes, {number} partitions"
                seen[run] = outcome(path, home / run.replace(", ", "-").replace(" ", "-"), judged)
    others = [run for run, found in seen.items() if found != seen["memory"]]
    return f"{len(seen) - len(others)} of {len(seen)} runs are the same{': not ' if others else ''}{'; '.join(others)}"


def survived(folder: Path, records: int, kills: int) -> Iterator[str]:
    """Say of each run whether release and gates are the same although a worker was killed at a random moment."""
    path = folder / f"{SWAP}.yaml"
    asked = method_plan(SWAP, True)
    path.write_text(yaml.safe_dump(asked, sort_keys=False))
    with workers(records, PARTITIONS[1], 2), ThreadPoolExecutor(1) as killer:
        expected, lasts = {}, {}
        for where in ("local", "dask"):
            path.write_text(yaml.safe_dump(asked | {"engine": where}, sort_keys=False))
            begun = time.perf_counter()
            expected[where] = outcome(path, folder / "home" / where, True)
            lasts[where] = time.perf_counter() - begun
            yield f"{where}: {expected[where]}, {lasts[where]:.0f} s"
        for number, share in enumerate(np.random.default_rng(kills).uniform(size=kills)):
            for where in expected:
                path.write_text(yaml.safe_dump(asked | {"engine": where}, sort_keys=False))
                death = killer.submit(kill_one_worker, float(share * lasts[where]))
                found = outcome(path, folder / "home" / f"{where}-{number}", True)
                said = "killed" if death.result() else "none there to kill"
                same = "the same" if found == expected[where] else "another"
                yield f"{where}: {same}, worker {said} at {share:.0%} of the time"


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", default=sorted(METHODS))
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=0)
    given = parser.parse_args()
    (given.folder / "source").mkdir(parents=True)
    next(iter(parts(0.5)))[: given.records].to_parquet(given.folder / "source" / "part-0.parquet")
    embedded.apply(given.folder / "tracking")
    embedded.tracking_ready(given.folder / "tracking")
    for said in survived(given.folder, given.records, given.kills) if given.kills else ():
        print(said, flush=True)  # noqa: T201
    for method in given.methods if not given.kills else ():
        judged = method == SWAP
        for form, parameters in FORMS.get(method, {"": {}}).items():
            name = f"{method} {form}".strip().replace(" ", "-")
            plan_of_form = method_plan(method, judged, **parameters)
            print(name, compared(given.folder, name, plan_of_form, judged, given.records), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
