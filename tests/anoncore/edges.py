"""Tables in which data degenerate: originals, releases and reference samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

SETS = ("original", "released", "reference")
Frames = dict[str, pd.DataFrame]


def frame(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 10, rows).round(1),
            "income": np.where(rng.random(rows) < 0.1, np.nan, np.exp(rng.normal(7, 1, rows)).round()),
            "sex": rng.choice(["f", "m"], rows),
            "school": rng.integers(1, 4, rows),
            "region": rng.choice(["a", "b", "c"], rows),
            "w": rng.gamma(3, size=rows).round(2) + 0.1,
        }
    )


def sides(rows: tuple[int, int, int] = (60, 60, 60)) -> Frames:
    return {name: frame(size, seed) for seed, (name, size) in enumerate(zip(SETS, rows, strict=True))}


def changed(*where: str, **values: Any) -> Frames:
    return {name: t.assign(**values) if name in (where or SETS) else t for name, t in sides().items()}


def all_rows_one(*where: str) -> Frames:
    return {
        name: table.iloc[[0] * len(table)].reset_index(drop=True) if name in where else table
        for name, table in sides().items()
    }


def lattice() -> Frames:
    return {
        name: t.assign(age=(t["age"] > 50) * 1.0, income=(t["w"] > 2) * 1.0, school=1, region="a", w=1.0)
        for name, t in sides().items()
    }


CASES: dict[str, Callable[[], Frames]] = {
    "ordinary": sides,
    "column missing everywhere": lambda: changed(age=np.nan),
    "column missing in the original": lambda: changed("original", age=np.nan),
    "column missing in the release": lambda: changed("released", age=np.nan),
    "column constant everywhere": lambda: changed(age=3.0),
    "column constant in the release": lambda: changed("released", age=3.0),
    "column constant in the original": lambda: changed("original", age=3.0),
    "one level everywhere": lambda: changed(region="a", sex="f"),
    "one level in the release": lambda: changed("released", region="b", sex="f", school=2),
    "release of identical rows": lambda: all_rows_one("released"),
    "ties everywhere": lattice,
    "two records": lambda: sides((2, 2, 2)),
    "one record released": lambda: sides((60, 1, 60)),
    "fewer rows released": lambda: sides((60, 23, 60)),
    "more rows released": lambda: sides((60, 145, 60)),
    "release is the original": lambda: sides() | {"released": frame(60, 0)},
    "all three are one": lambda: {name: frame(60, 0) for name in SETS},
    "equal weights": lambda: changed(w=2.0),
}
