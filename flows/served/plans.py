"""The folder of plans: what can be read, what is wrong with the rest, and whether it changed."""

from __future__ import annotations

from contextlib import suppress
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
    """Read every plan (``*.yaml``, ``*.yml``) of a folder; plans of the same name are all problems."""
    files: dict[str, list[PlanFile]] = {}
    problems: dict[str, str] = {}
    for path in _files(folder):
        try:
            file = load_plan(path)
        except ReleaseError as error:
            problems[visible(path.name)] = str(error)
        else:
            files.setdefault(file.plan.name, []).append(file)
    for plan, same in files.items():
        if len(same) > 1:
            names = [visible(file.path.name) for file in same]
            problems |= {name: f"{' and '.join(names)} have the same name, {plan}; change one" for name in names}
    return Folder({plan: same[0] for plan, same in files.items() if len(same) == 1}, problems)


def stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return a value that changes when a plan of the folder does."""
    facts = []
    for path in _files(folder):
        with suppress(OSError):
            status = path.stat()
            facts.append((path.name, status.st_mtime_ns, status.st_size))
    return tuple(facts)


def _files(folder: Path) -> list[Path]:
    return sorted((*folder.glob("*.yaml"), *folder.glob("*.yml")))
