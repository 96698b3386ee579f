"""Files for the owner alone, whatever the umask; and code that runs nothing of what it reads."""

from __future__ import annotations

import ast
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reliability.running import ROOT, Nursery, Place, open_modes

OURS = ("anoncore", "expectations", "tasks", "flows", "deploy")
# A call by its dotted name: why nobody may use it.
FORBIDDEN = {
    "eval": "runs what it reads",
    "exec": "runs what it reads",
    "compile": "prepares to run what it reads",
    "__import__": "runs what it reads",
    "os.system": "a shell",
    "os.popen": "a shell",
    "subprocess.getoutput": "a shell",
    "subprocess.getstatusoutput": "a shell",
    "asyncio.create_subprocess_shell": "a shell",
    "joblib.load": "pickle",
    "pd.read_pickle": "pickle",
    "pandas.read_pickle": "pickle",
    "torch.load": "pickle",
    "yaml.unsafe_load": "runs what it reads",
    "yaml.full_load": "runs what it reads",
    "yaml.load_all": "runs what it reads",
    "tempfile.mktemp": "a name that another may take first",
}
# Calls and answers of the engine's processes, encrypted by a key that each of them was given; no file is read so.
EXCEPTED = ["tasks/engine/calls.py: import pickle"]
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "jsonpickle"}


def violations(text: str) -> Iterator[str]:
    """Give what a module may not do."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (f"import {a.name}" for a in node.names if a.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield f"from {node.module} import"
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            given = {k.arg: ast.unparse(k.value) for k in node.keywords}
            if name in FORBIDDEN or name.endswith(".to_pickle"):
                yield f"{name}: {FORBIDDEN.get(name, 'pickle')}"
            if given.get("shell", "False") != "False":
                yield f"{name}: a shell"
            if name in ("np.load", "numpy.load") and given.get("allow_pickle") != "False":
                yield f"{name} without allow_pickle=False"
            if name == "yaml.load" and not given.get("Loader", "").endswith(("SafeLoader", "_Loader")):
                yield "yaml.load without a safe loader"


@pytest.mark.parametrize(
    "text",
    ["eval(x)", "import pickle", "from joblib import load", "os.system('ls')", "run(x, shell=True)",
     "np.load(f)", "np.load(f, allow_pickle=True)", "yaml.load(f)", "yaml.load(f, Loader=yaml.Loader)",
     "pd.read_pickle(f)", "frame.to_pickle(f)"],
)  # fmt: skip
def test_what_runs_what_it_reads_is_noticed(text: str) -> None:
    assert list(violations(text))


def test_nothing_of_ours_runs_what_it_reads() -> None:
    files = [path for room in OURS for path in sorted((ROOT / room).rglob("*.py"))]
    assert len(files) > 80
    found = [f"{path.relative_to(ROOT)}: {what}" for path in files for what in violations(path.read_text())]
    assert found == EXCEPTED


def test_the_plans_loader_is_a_safe_one() -> None:
    import yaml

    from flows.plan import file as planfile

    assert issubclass(planfile._Loader, yaml.SafeLoader)


@pytest.mark.platform
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_files_are_private_whatever_the_umask(place: Place, nursery: Nursery, umask: int) -> None:
    place.clear()
    done = nursery.command("run", place.plan, "--inline", umask=umask)
    assert done.code == 0, done.said
    assert open_modes(place.home.path) == []
    assert_modes(place.home.path)


@pytest.mark.platform
def test_a_workspace_and_what_prefect_keeps_are_private_with_no_umask(place: Place) -> None:
    """Killed in the middle, so that the workspace is there to be looked at."""
    place.clear()
    place.command("run", place.plan, faults={"steps": {"document": "kill"}}, umask=0)
    assert any(place.home.workspaces.glob("*/source.parquet"))
    assert (place.home.path / "prefect" / "prefect.db").exists()
    assert_modes(place.home.path)


def assert_modes(home: Path) -> None:
    for path in [home, *home.rglob("*")]:
        if path.is_symlink() or path.is_socket():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), (path, oct(mode))
