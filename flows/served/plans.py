"""The folder of plans: what can be read, what is wrong with the rest, and whether it changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flows.plan.model import PlanFile, load_plan
from tasks.common.errors import ReleaseError, visible


@dataclass(frozen=True)
class Folder:
    """The plans of a folder: those that can be read, and what is wrong with the others."""

    plans: dict[str, PlanFile]
    problems: dict[str, str]


def read_folder(folder: Path) -> Folder:
    """Read every plan (``*.yaml``, ``*.yml``) of a folder; two of one name are both left out, and said."""
    plans: dict[str, PlanFile] = {}
    problems: dict[str, str] = {}
    twice: dict[str, list[str]] = {}
    for path in sorted((*folder.glob("*.yaml"), *folder.glob("*.yml"))):
        try:
            file = load_plan(path)
        except ReleaseError as error:
            problems[visible(path.name)] = str(error)
            continue
        same = twice.setdefault(file.plan.name, [])
        same.append(visible(path.name))
        plans[file.plan.name] = file
    for name, files in twice.items():
        if len(files) > 1:
            del plans[name]
            problems |= {file: f"{' and '.join(files)} have one name, {name}; change one" for file in files}
    return Folder(plans, problems)


def stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return what changes when a plan of the folder does."""
    found = []
    for path in sorted((*folder.glob("*.yaml"), *folder.glob("*.yml"))):
        try:
            facts = path.stat()
        except OSError:
            continue
        found.append((path.name, facts.st_mtime_ns, facts.st_size))
    return tuple(found)
