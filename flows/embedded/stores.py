"""The databases of Prefect and MLflow: migrated once per version, or copied from a migrated template."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zlib
from contextlib import AbstractContextManager
from pathlib import Path

from flows.embedded.settings import environment
from flows.orchestration import compat
from flows.servers.environment import FONTS, private_directories
from flows.servers.process import Child, ServerError, listen
from tasks.common.locks import locked

TEMPLATES = Path(os.environ.get("ANONFLOW_TEMPLATES") or Path(sys.prefix) / "share" / "anonflow")
PACKAGES = ("prefect", "mlflow")


def _database(home: Path, package: str) -> Path:
    return Path(home).expanduser().resolve() / package / f"{package}.db"


def _marks(database: Path, package: str) -> tuple[int, int]:
    """Return the mark in the file, and the mark it must bear to need no migration by this ``package``."""
    uri = database.resolve().as_uri() + "?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=60)) as connection:
        (mark,) = connection.execute("PRAGMA user_version").fetchone()
        (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return mark, zlib.crc32(f"{package} {importlib.metadata.version(package)} {revision}".encode()) & 0x7FFFFFFF


def migrated(database: Path, package: str) -> bool:
    """Whether this very version of ``package`` migrated the database, and no other has since."""
    if not database.is_file():
        return False
    try:
        mark, required = _marks(database, package)
    except (sqlite3.Error, TypeError):
        return False
    return mark == required


def mark_migrated(database: Path, package: str) -> None:
    """Write into the database that this version of ``package`` has migrated it."""
    _, required = _marks(database, package)
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection:
        connection.execute(f"PRAGMA user_version = {required}")


def migration_lock(database: Path) -> AbstractContextManager[None]:
    """Let one process at a time prepare or migrate the database; the others wait."""
    return locked(database.with_suffix(".lock"))


def prepared(database: Path, package: str) -> bool:
    """Copy the template if there is no database; back up one that needs a migration. Call it locked.

    Returns
    -------
    bool
        Whether the database fits now; otherwise it is for the caller to migrate and to mark.
    """
    if migrated(database, package):
        return True
    template = TEMPLATES / f"{package}.db"
    if not database.exists() and migrated(template, package):
        partial = database.with_suffix(".partial")
        shutil.copyfile(template, partial)
        partial.chmod(0o600)
        partial.replace(database)
        return True
    if database.exists():
        backup = database.with_suffix(f".before-{importlib.metadata.version(package)}")
        with contextlib.closing(sqlite3.connect(database)) as old, contextlib.closing(sqlite3.connect(backup)) as new:
            old.backup(new)
        backup.chmod(0o600)
    return False


def tracking_ready(home: Path) -> str:
    """Make sure that the MLflow store exists and fits this MLflow, without a server; return its address.

    With a marked database or a template this takes milliseconds and imports nothing. A store that the user
    named (``MLFLOW_TRACKING_URI``) is left alone.
    """
    uri, database = environment(home)["MLFLOW_TRACKING_URI"], _database(home, "mlflow")
    if uri != f"sqlite:///{database}" or migrated(database, "mlflow"):
        return uri
    private_directories(home)
    with migration_lock(database):
        if not prepared(database, "mlflow"):
            compat.create_mlflow_tables(uri)
            database.chmod(0o600)
            mark_migrated(database, "mlflow")
    return uri


def prepare_templates(directory: Path = TEMPLATES) -> list[Path]:
    """Make the empty, migrated databases that new homes are copied from; ten seconds, once. Return their files.

    They hold no data and lie in the virtual environment. A home made without them migrates for itself.

    Raises `ServerError` if a migration fails; the message ends with its log.
    """
    directory.mkdir(parents=True, exist_ok=True)
    _list_fonts(directory / FONTS.name)
    templates = {package: directory / f"{package}.db" for package in PACKAGES}
    with tempfile.TemporaryDirectory() as scratch:
        home = private_directories(Path(scratch))
        # A server that the user has named is not what a template is made in.
        store = {"MLFLOW_TRACKING_URI": f"sqlite:///{_database(home, 'mlflow')}"}
        variables = environment(home) | store | {"ANONFLOW_TEMPLATES": scratch}
        children = {
            package: Child("flows.embedded.child", f"migrate-{package}", listen(), variables, home / f"{package}.log")
            for package, template in templates.items()
            if not migrated(template, package)
        }
        for package, child in children.items():
            _make_template(templates[package], _database(home, package), child)
    return list(templates.values())


def _make_template(template: Path, database: Path, migration: Child) -> None:
    code = migration.process.wait()
    migration.stop()
    if code:
        raise ServerError(f"{migration.name} could not migrate: {migration.log.read_text()[-2000:]}")
    partial = template.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("VACUUM INTO ?", (str(partial),))
    mark_migrated(partial, template.stem)
    partial.replace(template)


def _list_fonts(directory: Path) -> None:
    """Let matplotlib list the machine's fonts, in a process of its own: it reads the place at import."""
    directory.mkdir(exist_ok=True)
    subprocess.run(
        [sys.executable, "-P", "-c", "import matplotlib.font_manager"],
        env=os.environ | {"MPLCONFIGDIR": str(directory)},
        check=True,
    )
