"""A plan's file as the pages change it: each change is checked, shown as a diff, and can be undone."""

from __future__ import annotations

import difflib
import hashlib
import stat
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from flows.plan.file import read_text
from flows.plan.model import Plan, PlanFile, judged
from tasks.common.errors import Refused, visible
from tasks.common.home import Home, make_private, write_private

MOST_KEPT = 200
STALE = (
    "The plan was changed since this page was loaded, by another page or in an editor. Nothing was changed now; look "
    "at the plan as it is and repeat what you still want."
)


class Stale(Refused):
    """A form was made from another version of the plan."""


@dataclass(frozen=True)
class Document:
    """A plan's file as it is read: its text, the plan where its sections can be read, and what is wrong with it."""

    path: Path
    text: str
    plan: Plan | None
    problems: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def version(self) -> str:
        """Identifies the text; a form carries it, so that no change is made to a text that was not shown."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:32]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the plan releases that says more than a custodian may know."""
        return self.plan.warnings if self.plan else ()

    @property
    def unconfirmed(self) -> list[str]:
        """What a draft asks a person to decide, each with its line."""
        return PlanFile(self.plan, self.path, self.text).unconfirmed if self.plan else []


def plans_in(folder: Path) -> list[str]:
    """Return the names of the plans' files in a folder."""
    return sorted(path.name for path in folder.iterdir() if path.suffix in (".yaml", ".yml") and path.is_file())


def opened(folder: Path, name: str) -> Document:
    """Read a plan's file of a folder; raises `Refused` when there is none of that name, or it is no readable text."""
    if name not in plans_in(folder):
        raise Refused(f"there is no plan {visible(name)[:100]} in this folder")
    return _document(folder / name, read_text(folder / name))


def changed(home: Home, document: Document, version: str, text: str) -> Document:
    """Write a changed text, and keep the one before for `undone`.

    Raises
    ------
    Stale
        When the file holds another text than the form was made from.
    Refused
        When the new text is no plan; what is wrong between its sections is reported by the pages, not refused.
    """
    with home.lock("studio"):
        _check_current(document, version)
        if text == document.text:
            return document
        after = _document(document.path, text)
        if after.plan is None:
            raise Refused("\n".join(("This is not possible, so nothing was changed:", *after.problems)))
        kept = _history(home, document.path)
        number = int(kept[-1].stem) + 1 if kept else 1
        write_private(_folder(home, document.path) / f"{number:06}.yaml", document.text.encode())
        for old in kept[: len(kept) + 1 - MOST_KEPT]:
            old.unlink()
        _write(document.path, text)
    return after


def undone(home: Home, document: Document, version: str) -> Document:
    """Write the text before the last change again."""
    with home.lock("studio"):
        _check_current(document, version)
        kept = _history(home, document.path)
        if not kept:
            raise Refused("There is no change to undo.")
        before = kept[-1].read_text(encoding="utf-8")
        _write(document.path, before)
        kept[-1].unlink()
    return _document(document.path, before)


def last_change(home: Home, document: Document) -> str:
    """Return what undoing would take back, line by line; empty without a change."""
    kept = _history(home, document.path)
    return difference(kept[-1].read_text(encoding="utf-8"), document.text, document.name) if kept else ""


def difference(old: str, new: str, name: str) -> str:
    """Return what differs between two texts of a plan, line by line."""
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    return "".join(difflib.unified_diff(before, after, name, name, n=1))


def created(folder: Path, name: str, text: str) -> None:
    """Write a new plan's file; raises `Refused` when there is one of that name."""
    path = folder / name
    if path.exists():
        raise Refused(f"{visible(name)} exists already; nothing is overwritten")
    write_private(path, text.encode())


def _check_current(document: Document, version: str) -> None:
    if version != document.version or read_text(document.path) != document.text:
        raise Stale(STALE)


@lru_cache(maxsize=8)
def _document(path: Path, text: str) -> Document:
    plan, problems = judged(text, path)
    return Document(path, text, plan, tuple(problems))


def _folder(home: Home, path: Path) -> Path:
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    return make_private(home.path / "studio" / f"{path.stem[:60]}-{name}")


def _history(home: Home, path: Path) -> list[Path]:
    return sorted(_folder(home, path).glob("*.yaml"))


def _write(path: Path, text: str) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    write_private(path, text.encode())
    path.chmod(mode)
