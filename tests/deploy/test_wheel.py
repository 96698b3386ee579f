"""The wheel, installed and run: two top-level names, a library without the platform, no clash of names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
FOREIGN = ("flows", "tasks", "expectations")


def _run(*words: object, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PREFECT_", "MLFLOW_", "ANONFLOW_"))}
    return subprocess.run(
        [str(word) for word in words], cwd=cwd, env=clean | variables, capture_output=True, text=True, check=False
    )


def _site(environment: Path) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)}))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    built = _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    (file,) = folder.glob("*.whl")
    return file


def _environment(folder: Path, wheel: Path) -> Path:
    """Return a fresh environment with the wheel and nothing else."""
    made = _run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    assert made.returncode == 0, made.stderr
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder / "bin" / "python")
    installed = _run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder.parent)
    assert installed.returncode == 0, installed.stderr
    return folder


@pytest.fixture(scope="module")
def full(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and every package of ours, but not our source tree."""
    environment = _environment(tmp_path_factory.mktemp("full") / "venv", wheel)
    (_site(environment) / "packages.pth").write_text(sysconfig.get_path("purelib"))
    # What numba has compiled of the same sources is taken from there, where something was: it goes by their times.
    for source in (ROOT / "anoncore").rglob("*_compiled.py"):
        installed = _site(environment) / source.relative_to(ROOT)
        os.utime(installed, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
        for compiled in (source.parent / "__pycache__").glob(f"{source.stem}.*.nb?"):
            shutil.copy(compiled, installed.parent / "__pycache__")
    return environment


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and the packages that it requires without an extra, as links."""
    environment = _environment(tmp_path_factory.mktemp("base") / "venv", wheel)
    (wheel_metadata,) = _site(environment).glob("anonflow-*.dist-info")
    waiting = list(metadata.Distribution.at(wheel_metadata).requires or ())
    seen: set[str] = set()
    while waiting:
        requirement = Requirement(waiting.pop())
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if requirement.name not in seen and wanted:
            seen.add(requirement.name)
            distribution = metadata.distribution(requirement.name)
            waiting += distribution.requires or ()
            for name in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
                (_site(environment) / name).symlink_to(Path(str(distribution.locate_file(name))))
    return environment


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder with packages of the names of ours, which end the process when they are imported."""
    for name in FOREIGN:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('foreign {name}')")
    return tmp_path


def test_an_environment_gets_two_top_level_names(full: Path) -> None:
    names = {path.name for path in _site(full).iterdir() if not path.name.endswith((".dist-info", ".pth"))}
    assert names - {"__pycache__"} == {"anoncore", "anonflow"}
    asked = "from importlib.util import find_spec; print([n for n in ('flows', 'tasks', 'deploy') if find_spec(n)])"
    assert _run(full / "bin" / "python", "-c", asked, cwd=full).stdout.strip() == "[]"


EVERYTHING = """
import pkgutil, importlib, sys
import anoncore
for module in pkgutil.walk_packages(anoncore.__path__, "anoncore."):
    importlib.import_module(module.name)
import numpy as np, pandas as pd
from anoncore import Microdata, anonymize, measure_utility
from anoncore.methods import AdditiveNoise
data = Microdata.from_frame(pd.DataFrame({"age": np.arange(40) % 7 + 20, "income": np.arange(40) * 100 + 1}))
release = anonymize(data, AdditiveNoise(b=0.2), rng=np.random.default_rng(0))
assert all(check.holds for check in release.check())
print(anoncore.__version__, measure_utility(data, release.data).variables.variables[0].name)
"""


def test_the_library_needs_its_own_requirements_and_no_others(base: Path) -> None:
    ran = _run(base / "bin" / "python", "-c", EVERYTHING, cwd=base, NUMBA_CACHE_DIR=str(base / "numba"))
    assert ran.stdout.split() == [metadata.version("anonflow"), "age"], ran.stderr


def test_the_command_without_the_platform_says_in_one_sentence_what_to_install(base: Path) -> None:
    ran = _run(base / "bin" / "anonflow", "demo", cwd=base)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.count("\n") == 1
    assert "pip install 'anonflow[platform]'" in ran.stderr
    assert "prefect, mlflow" in ran.stderr


@pytest.mark.platform
def test_a_release_is_made_beside_foreign_packages_of_the_same_names(full: Path, foreign: Path) -> None:
    """They stand in the working directory and first on the path, also of the servers that a run starts."""
    draw = np.random.default_rng(1)
    frame = pd.DataFrame({"age": draw.integers(20, 80, 300), "sex": draw.choice(["f", "m"], 300)})
    frame.to_csv(foreign / "survey.csv", index=False)
    templates = Path(os.environ.get("ANONFLOW_TEMPLATES") or Path(sys.prefix) / "share" / "anonflow")
    variables = {"PYTHONPATH": str(foreign), "ANONFLOW_TEMPLATES": str(templates)}
    command = full / "bin" / "anonflow"
    drafted = _run(command, "plan", "survey.csv", "--output", "survey.yaml", cwd=foreign, **variables)
    assert drafted.returncode == 0, drafted.stderr
    ran = _run(command, "run", "survey.yaml", "--json", "--home", foreign / "home", cwd=foreign, **variables)
    told = json.loads(ran.stdout or "{}")
    assert "release" in told, (told, ran.stderr)
    assert (foreign / "home" / "assessments" / told["release"] / "report.html").is_file()


@pytest.mark.platform
def test_a_clash_of_names_that_cannot_be_helped_is_said_at_the_start(full: Path, tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "__init__.py").touch()
    code = "import tasks, anonflow; anonflow.main()"
    ran = _run(full / "bin" / "python", "-c", code, cwd=tmp_path)
    assert ran.returncode == 1
    assert "a module called 'tasks' that is not anonflow's was imported" in ran.stderr
    assert "Traceback" not in ran.stderr
