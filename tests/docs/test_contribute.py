"""The guide for contributors, carried out in a copy: a method, a gate and a source are added as it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.conftest import ROOT

GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COPIED = ("anoncore", "deploy/launcher", "expectations", "flows", "tasks", "tests", "pyproject.toml")
# A module, or one line of a registry; the path that was named last says where it stands.
BLOCK = re.compile(r"    ```(?:python|text)\n(.*?)    ```", re.DOTALL)
PATH = re.compile(r"`(\w+/[\w/]+\.py)`")
# Where the line of a registry belongs, and what is added to the lists of the tests.
EDITS = {
    "anoncore/methods/__init__.py": ("from anoncore.methods.local_suppression", "before"),
    "tasks/policy/gates/__init__.py": ('        "utility",\n', "before"),
    "tasks/connectors/formats.py": ("FORMATS: Mapping[str, FileFormat] = {\n", "after"),
}
LISTS = {
    "tests/anoncore/test_method_contract.py": (("    HouseholdTrees,\n", "    IndividualRanking,\n"),
                                               ("CASES = [\n", "    IndividualRanking(k=4),\n")),
    "tests/anoncore/methods/test_invariants.py": (("    HouseholdTrees,\n", "    IndividualRanking,\n"),
                                                  ("] = (\n", "    IndividualRanking(),\n")),
    "tests/tasks/policy/gates/test_contract.py": (('"least_change",\n', '        "released_share",\n'),),
    "tasks/connectors/formats.py": (("import csv, excel, ", "feather, "),),
}  # fmt: skip
ADDED = (
    "ndividual or every_method or suppression or records_released or limits_of_the_policy or every_module or feather"
)


def blocks() -> Iterator[tuple[str, str]]:
    """Give the path and the text of everything that the guide says to write."""
    before = 0
    for block in BLOCK.finditer(GUIDE):
        yield PATH.findall(GUIDE, before, block.start())[-1], textwrap.dedent(block[1])
        before = block.end()


def write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the code in which the guide's three examples were added."""
    root = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        source, target = ROOT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        _ = shutil.copytree(source, target) if source.is_dir() else shutil.copy2(source, target)
    for path, text in blocks():
        file = root / path
        if path in EDITS:
            mark, side = EDITS[path]
            line = textwrap.indent(text, "        " if "gates" in path else "    " if "formats" in path else "")
            new = f"{line}{mark}" if side == "before" else f"{mark}{line}"
            write(file, _once(file, mark, new))
        else:
            assert not file.exists(), path
            write(file, text)
    for path, additions in LISTS.items():
        for mark, text in additions:
            write(root / path, _once(root / path, mark, f"{mark}{text}"))
    return root


def _once(file: Path, mark: str, new: str) -> str:
    text = file.read_text(encoding="utf-8")
    assert mark in text, f"{file.name} has no {mark!r}"
    return text.replace(mark, new, 1)


def test_the_guide_has_all_that_it_says_to_write() -> None:
    assert [path for path, _ in blocks()] == [
        "anoncore/methods/individual_ranking.py",
        "anoncore/methods/__init__.py",
        "tests/anoncore/methods/test_individual_ranking.py",
        "tasks/policy/gates/suppression.py",
        "tasks/policy/gates/__init__.py",
        "tests/tasks/policy/gates/test_suppression.py",
        "tasks/connectors/feather.py",
        "tasks/connectors/formats.py",
        "tests/tasks/connectors/test_feather.py",
    ]


def test_what_the_guide_adds_passes_its_tests(copy: Path) -> None:
    files = ["tests/anoncore/test_method_contract.py", "tests/anoncore/methods/test_invariants.py",
             "tests/anoncore/methods/test_individual_ranking.py", "tests/tasks/policy/gates",
             "tests/tasks/connectors/test_feather.py"]  # fmt: skip
    options = ["-o", "addopts=", "-q", "--import-mode=importlib", "-p", "no:cacheprovider", "-k", ADDED]
    command = [sys.executable, "-m", "pytest", *options, *files]
    # Kernels of another folder would be compiled anew.
    variables = {"PYTHONPATH": f"{copy / 'deploy/launcher'}{os.pathsep}{copy}", "NUMBA_DISABLE_JIT": "1"}
    variables = os.environ | variables
    done = subprocess.run(command, cwd=copy, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 20


def test_what_the_guide_adds_is_linted_and_formatted(copy: Path) -> None:
    ruff = [sys.executable, "-m", "ruff"]
    added = [path for path, _ in blocks()] + list(LISTS)
    # Where a name belongs in a sorted list depends on what else was added.
    subprocess.run([*ruff, "check", "--quiet", "--select", "I", "--fix", *LISTS], cwd=copy, check=True)
    for words in (["check"], ["format", "--check"]):
        done = subprocess.run([*ruff, *words, *added], cwd=copy, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
