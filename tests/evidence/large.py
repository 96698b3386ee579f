"""Time and memory of a whole run on a table of millions of records, by step.

Run with ``python -m tests.evidence.large 1 3 10 30 --engine dask --folder FOLDER --results FILE``. The table has 14
numbers and 14 categorical variables that follow five hidden numbers, in Parquet files of 500 000 records; the plan
holds out half of them, redistributes rare levels and swaps principal scores. Memory is the proportional set size of all
processes of the run, taken every half second; processor time is that of all of them, children that ended included.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import yaml

PART = 500_000
NUMBERS, CATEGORIES, HIDDEN = 14, 14, 5
STEP = re.compile(r"✓ (?P<step>.*\D) (?P<seconds>[\d.]+) s\b")


def parts(millions: float) -> Iterator[pd.DataFrame]:
    """Give the table in parts that depend on their number alone."""
    laws = np.random.default_rng(0)
    weights = laws.normal(size=(NUMBERS, HIDDEN))
    levels = [laws.normal(size=(HIDDEN, int(laws.integers(2, 12)))) for _ in range(CATEGORIES)]
    for part in range(round(millions * 1e6 / PART)):
        draw = np.random.default_rng([1, part])
        hidden = draw.normal(size=(PART, HIDDEN))
        numbers = hidden @ weights.T + draw.normal(size=(PART, NUMBERS))
        table = pd.DataFrame({f"number{j:02}": numbers[:, j].round(3) for j in range(NUMBERS)})
        for j, slopes in enumerate(levels):
            level = (hidden @ slopes + draw.gumbel(size=(PART, slopes.shape[1]))).argmax(axis=1)
            table[f"level{j:02}"] = pd.Categorical.from_codes(level, [f"l{c}" for c in range(slopes.shape[1])]).astype(
                str
            )
        yield table


def plan(path: str, engine: str) -> dict[str, Any]:
    """Return the plan of the run."""
    variables = [{"name": f"number{j:02}", "kind": "continuous", "precision": 0.001} for j in range(NUMBERS)]
    variables += [{"name": f"level{j:02}", "kind": "nominal"} for j in range(CATEGORIES)]
    return {
        "anonflow": 1,
        "name": "large",
        "source": {"path": path, "format": "parquet"},
        "variables": variables,
        "reference": {"kind": "holdout"},
        "steps": [
            {"method": "rare-levels", "k": 10, "action": "redistribute"},
            {"method": "spectral-swap", "released": "calibrated"},
        ],
        # So that it is published: swapping loses relations of numbers with levels.
        "policy": {"utility": {"pair": 0.5, "propensity": 20.0, "overlap": 0.0, "impossible": 0.01}},
        "publication": {"formats": ["parquet"]},
        "engine": engine,
    }


class Watch(threading.Thread):
    """Takes the memory and the processor time of a process and its children."""

    def __init__(self, process: psutil.Process) -> None:
        super().__init__(daemon=True)
        self.process, self.most, self.of_step = process, 0.0, 0.0
        self.seconds: dict[int, float] = {}

    def run(self) -> None:
        """Take figures until the process has ended."""
        while self.process.is_running() and self.process.status() != psutil.STATUS_ZOMBIE:
            held = 0.0
            try:
                for one in [self.process, *self.process.children(recursive=True)]:
                    try:
                        held += one.memory_full_info().pss / 2**30
                        self.seconds[one.pid] = sum(one.cpu_times()[:2])
                    except psutil.Error:
                        continue
            except psutil.Error:
                break
            self.most, self.of_step = max(self.most, held), max(self.of_step, held)
            time.sleep(0.5)


def measured(millions: float, engine: str, folder: Path) -> dict[str, Any]:
    """Carry out one run and return what each step took."""
    source = folder / f"source-{millions:g}"
    source.mkdir(parents=True)
    for number, part in enumerate(parts(millions)):
        part.to_parquet(source / f"part-{number:05}.parquet")
    path = folder / "large.yaml"
    path.write_text(yaml.safe_dump(plan(source.name, engine), sort_keys=False))
    command = [
        str(Path(sys.executable).parent / "anonflow"),
        "run",
        str(path),
        "--inline",
        "--home",
        str(folder / "home"),
    ]
    begun = time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True) as process:
        watch = Watch(psutil.Process(process.pid))
        watch.start()
        steps, said, at, spent = [], [], begun, 0.0
        for line in process.stdout or ():
            said.append(line)
            if found := STEP.search(line):
                total, now = sum(watch.seconds.values()), time.perf_counter()
                steps.append((found["step"], round(now - at, 1), round(total - spent, 1), round(watch.of_step, 2)))
                at, spent, watch.of_step = now, total, 0.0
        process.wait()
    return {
        "millions": millions,
        "engine": engine,
        "exit": process.returncode,
        "seconds": round(time.perf_counter() - begun, 1),
        "processor seconds": round(sum(watch.seconds.values()), 1),
        "GiB": round(watch.most, 2),
        "steps": steps,
        "said": said[-60:],
    }


def main() -> None:
    """Measure runs of several sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("millions", nargs="+", type=float)
    parser.add_argument("--engine", default="local", choices=("memory", "local", "dask"))
    parser.add_argument("--folder", type=Path, required=True, help="in which a source and a home are made for each run")
    parser.add_argument("--results", type=Path, required=True)
    given = parser.parse_args()
    for millions in given.millions:
        one = measured(millions, given.engine, given.folder / f"{given.engine}-{millions:g}")
        with given.results.open("a") as file:
            file.write(json.dumps(one) + "\n")
        print(json.dumps({name: one[name] for name in one if name != "said"}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
