"""The anonflow application: its command line, and its packages on the import path of its own processes.

A wheel carries the packages ``flows``, ``tasks`` and ``expectations`` inside this one, so that no
environment gets top-level modules with such common names: see docs/explanation/decisions/0018-names-of-a-wheel.md. The
library is ``anoncore``.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.audit.frames import Records

PACKAGES = ("flows", "tasks", "expectations")
# Of the extra ``platform`` those that nothing runs without.
PLATFORM = ("prefect", "mlflow", "great_expectations", "pydantic", "typer")
# The folder of these packages: in a wheel this one, in a source tree its root.
ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "tasks").is_dir())


def activate() -> None:
    """Put the application's packages first on the import path of this process.

    Raises
    ------
    ImportError
        When a module with one of their names has been imported from elsewhere.

    Examples
    --------
    >>> import anonflow
    >>> anonflow.activate()
    >>> from flows.plan.model import Plan
    """
    for name in PACKAGES:
        folders = getattr(sys.modules.get(name), "__path__", ())
        if name in sys.modules and ROOT / name not in [Path(folder).resolve() for folder in folders]:
            raise ImportError(
                f"a module called {name!r} that is not anonflow's was imported before anonflow started; "
                "remove what imports it at startup (a .pth file, sitecustomize), or run anonflow in an "
                "environment of its own"
            )
    if sys.path[:1] != [str(ROOT)]:
        sys.path.insert(0, str(ROOT))


def open(home: str | PathLike[str] = ".anonflow") -> Records:
    """Return what a home has on record, as data frames for a notebook; nothing is written.

    Parameters
    ----------
    home : the folder that holds the ledger

    Raises
    ------
    tasks.common.errors.Refused
        When it is no home.

    Examples
    --------
    >>> import anonflow
    >>> anonflow.open(".anonflow").releases()  # doctest: +SKIP
    """
    activate()
    from tasks.audit.frames import Records

    return Records.open(home)


def main() -> None:
    """Run the command ``anonflow``; one sentence and exit code 1 where it cannot start."""
    missing = [name for name in PLATFORM if find_spec(name) is None]
    if missing:
        sys.exit(
            f"anonflow needs packages that are not installed ({', '.join(missing)}): "
            "install them with  pip install 'anonflow[platform]'"
        )
    try:
        activate()
    except ImportError as error:
        sys.exit(f"anonflow cannot start: {error}")
    from flows.cli import main as run

    run()


def prepare() -> None:
    """Make the empty, migrated databases from which new homes are copied; once, after the installation."""
    activate()
    from flows.embedded import prepare_templates

    prepare_templates()
