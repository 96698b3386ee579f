"""Copy everything a home needs into one file while it is in use, and make a home of it again, elsewhere too."""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import shutil
import sqlite3
import subprocess
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from flows.served.postgres import Postgres, connection_variables, create_databases, program
from flows.served.settings import DATABASES, with_database
from flows.servers.layout import runs
from tasks.common.errors import DISK_FULL, NO_SPACE, Fault, InputOutputFault, Refused, visible
from tasks.common.home import PRIVATE_FILE, PRIVATE_FOLDER, Home, make_private
from tasks.common.values import from_json, to_json
from tasks.common.workspace import Workspace
from tasks.record import ledger
from tasks.record.ledger_store import store_of

ABOUT, DUMPS = "backup.json", "databases"
FORMAT = 1
TAKEN = "exists already, or lies in the home; name a new file elsewhere"
# How often a file that becomes shorter while it is read is read.
ADDED_AGAIN = 5
# What a home makes anew, or must not be taken elsewhere: raw data of runs, logs, locks.
LEFT_OUT = {"workspace", "logs", "locks", "postgres", "matplotlib", "prefect/storage", "prefect/ui"}
LEFT_OUT_ENDS = (".lock", ".db", ".db-wal", ".db-shm", ".db-journal", ".partial")
SQLITE = ("prefect/prefect.db", "mlflow/mlflow.db")
# What a folder may hold before a home is restored into it.
SECRETS = "secrets"
# What a backup is made of; tarfile's own check of links can be deceived by chains of them.
PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE)
# Where MLflow's store of an embedded home names its files by their whole paths.
PATHS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


@dataclass(frozen=True)
class Backup:
    """What a backup says of itself.

    Attributes
    ----------
    format : of the file
    made : when
    home : the path of the home then
    entries, digest : how many entries the ledger had, and the digest of the last
    databases : the databases of PostgreSQL that it holds
    """

    format: int
    made: str
    home: str
    entries: int
    digest: str
    databases: tuple[str, ...] = ()


def back_up(home: Home, target: Path, database: str | None = None) -> Backup:
    """Write a backup of a home to a new file, for the owner alone; decisions and publications wait meanwhile.

    Parameters
    ----------
    database : the address of the user's own PostgreSQL server, if Prefect and MLflow store their data there

    Raises
    ------
    Refused
        When the file exists, or lies in the home.
    Fault
        When PostgreSQL cannot be copied.
    """
    if target.exists() or target.resolve().is_relative_to(home.path.resolve()):
        raise Refused(f"{visible(target.name)} {TAKEN}")
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    scratch = Workspace.create(home, f"backup-{secrets.token_hex(4)}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        # A file with two names is stored twice: a backup holds neither symbolic nor hard links.
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w", dereference=True) as tar:
            with home.lock("decide"), home.lock("publish"):
                about = _write(home, tar, scratch.folder, database)
            tar.close()
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        _put_in_place(partial, target)
    finally:
        partial.unlink(missing_ok=True)
        scratch.wipe()
    return about


def _put_in_place(partial: Path, target: Path) -> None:
    """Rename the finished file; one of that name that was made meanwhile is not overwritten."""
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
    except FileExistsError:
        taken = True
    else:
        taken = False
        partial.rename(target)
    if taken:
        raise Refused(f"{visible(target.name)} {TAKEN}")


def _write(home: Home, tar: tarfile.TarFile, scratch: Path, database: str | None) -> Backup:
    names = []
    for name, url in _databases(home, database):
        _dump(url, scratch / name)
        names.append(name)
        tar.add(scratch / name, f"{DUMPS}/{name}")
    for name in SQLITE:
        if (home.path / name).is_file():
            copied = scratch / name.replace("/", "-")
            with (
                contextlib.closing(sqlite3.connect(home.path / name, timeout=60)) as old,
                contextlib.closing(sqlite3.connect(copied)) as new,
            ):
                old.backup(new)
            tar.add(copied, name)
    for path in _files(home):
        # A record of a run may be removed meanwhile; nothing that the ledger names is.
        with contextlib.suppress(FileNotFoundError):
            _add(tar, path, path.relative_to(home.path).as_posix())
    store = store_of(home)
    with store.lock():
        known = ledger.entries(home)
        for path, content in ((home.ledger, store.content()), (home.head, store.head())):
            if content:
                _add_content(tar, path.name, content)
    about = Backup(
        format=FORMAT,
        made=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        home=str(home.path),
        entries=len(known),
        digest=known[-1].digest if known else "",
        databases=tuple(names),
    )
    _add_content(tar, ABOUT, json.dumps(to_json(about), indent=1).encode())
    return about


def _add_content(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(content), PRIVATE_FILE, int(time.time())
    tar.addfile(entry, io.BytesIO(content))


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """Add a file or folder; a file that became shorter meanwhile is added again."""
    if path.is_symlink():
        raise Refused(f"{visible(name)} in the home is a symbolic link, which no backup holds; put the files there")
    for _ in range(ADDED_AGAIN):
        start = tar.offset
        try:
            tar.add(path, name, recursive=False)
        except OSError as error:
            # tarfile's own error has no number; what it has written so far is overwritten.
            if error.errno is not None or tar.fileobj is None:
                raise
            tar.fileobj.seek(start)
            tar.offset = start
        else:
            return
    raise Fault(f"{visible(name)} in the home changes all the time; make the backup when no run is under way")


def _files(home: Home) -> Iterator[Path]:
    """Give every file and folder of a home that belongs into a backup, apart from databases and ledger.

    Runs may go on. What the ledger names agrees with it only while the locks "decide" and "publish" are held.
    """
    for folder, inside, files in os.walk(home.path):
        place = Path(folder).relative_to(home.path)
        inside[:] = sorted(name for name in inside if not _is_left_out((place / name).as_posix()))
        yield from (Path(folder, name) for name in inside)
        for name in sorted(files):
            whole = not name.startswith(".") and not name.endswith(LEFT_OUT_ENDS)
            if whole and Path(folder, name) not in (home.ledger, home.head, home.ledger_place):
                yield Path(folder, name)


def _is_left_out(folder: str) -> bool:
    name = folder.rpartition("/")[2]
    return folder in LEFT_OUT or folder.startswith("studio/jobs-") or name.startswith(".")


@contextlib.contextmanager
def _running(postgres: Postgres, *, already: bool) -> Iterator[Postgres]:
    if already:
        yield postgres
        return
    postgres.start()
    try:
        postgres.wait()
        yield postgres
    finally:
        postgres.stop()


def _databases(home: Home, database: str | None) -> Iterator[tuple[str, str]]:
    """Give the databases of a home, with their addresses; its own server runs meanwhile."""
    if database is not None:
        yield from ((name, with_database(database, name)) for name in DATABASES)
    elif (home.path / "postgres" / "data" / "PG_VERSION").exists():
        with _running(Postgres(home), already=runs(home, "postgres")) as postgres:
            yield from ((name, postgres.url(name)) for name in DATABASES)


def _dump(url: str, target: Path) -> None:
    arguments = ["--format=custom", "--no-owner", f"--file={target}"]
    _postgres("pg_dump", url, *arguments)
    target.chmod(PRIVATE_FILE)


def _load(url: str, dump: Path) -> None:
    _postgres("pg_restore", url, "--no-owner", f"--dbname={dump.name}", str(dump))


def _postgres(name: str, url: str, *arguments: str) -> None:
    """Run a program of PostgreSQL on a database, with the password in its environment alone."""
    passed = {key: os.environ[key] for key in ("PATH", "PGPASSFILE", "HOME") if key in os.environ}
    command = [str(program(name)), *arguments]
    done = subprocess.run(  # noqa: S603
        command, env=passed | connection_variables(url), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode and NO_SPACE.search(done.stderr.decode("utf-8", "replace")):
        raise InputOutputFault(DISK_FULL)
    if done.returncode:
        raise Fault(f"{name} ended with code {done.returncode}; see that PostgreSQL runs and is not newer than {name}")


def restore(source: Path, home: Path, database: str | None = None) -> Backup:
    """Make a home of a backup, in a new folder; on another host and under another path, too.

    Secrets that the folder holds already stay, and the backup's of the same names are passed over: a container's home
    begins with the secrets that are mounted there.

    Parameters
    ----------
    database : the address of the user's own PostgreSQL server, where Prefect and MLflow are to store their data

    Raises
    ------
    Refused
        When the folder holds anything but secrets, or the file is no backup of this format; what was extracted is
        removed again.
    """
    home = home.absolute()
    given = _given(home)
    make_private(home)
    try:
        about = _unpacked(source, home, given)
        _open(Home(home), about, database)
    except BaseException:
        _clear(home, given)
        raise
    return about


def _given(home: Path) -> set[Path]:
    """Return the secrets that are in the folder of a home before it is restored; nothing else may be."""
    found = list(home.iterdir()) if home.exists() else []
    if any(path.name != SECRETS or path.is_symlink() or not path.is_dir() for path in found):
        raise Refused(f"{visible(home.name)} is not empty; name a new folder for the home")
    return {secret for folder in found for secret in folder.iterdir()}


def _clear(home: Path, given: set[Path]) -> None:
    for path in [*home.iterdir(), *(home / SECRETS).glob("*")]:
        if path not in given and not any(path in secret.parents for secret in given):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _unpacked(source: Path, home: Path, given: set[Path]) -> Backup:
    """Extract a backup into the folder of a home; nothing is extracted of a file that is not acceptable."""
    try:
        # As it is: what unpacks to more than its own size is refused.
        with tarfile.open(source, "r:") as tar:
            members = tar.getmembers()
            if not all(member.type in PLAIN for member in members):
                raise Refused(f"{visible(source.name)} holds links or devices, which no backup does")
            if sum(member.size for member in members) > shutil.disk_usage(home).free:
                raise InputOutputFault(DISK_FULL)
            about = _about(tar)
            for member in members:
                if not {home / member.name, *(home / member.name).parents} & given:
                    _extract(tar, member, home)
            return about
    except (tarfile.TarError, OSError) as error:
        problem = type(error).__name__
    raise Refused(f"{visible(source.name)} cannot be restored ({problem}): it is no backup, or there is no room")


def _about(tar: tarfile.TarFile) -> Backup:
    try:
        file = tar.extractfile(ABOUT)
        about = from_json(Backup, json.loads(file.read())) if file else None
    except (KeyError, ValueError):
        about = None
    if about is None or about.format != FORMAT:
        raise Refused(f"the file is no backup of format {FORMAT}; make it with anonflow backup")
    if not {*about.databases} <= {*DATABASES} or not Path(about.home).is_absolute():
        raise Refused("the file is no backup that anonflow has made: it names another database, or no home")
    return about


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, home: Path) -> None:
    """Write a file or folder for its owner alone; tarfile's own filters are not there before Python 3.11.4."""
    place = PurePosixPath(member.name)
    if place.is_absolute() or ".." in place.parts:
        raise Refused("the file names places outside the home, which no backup does")
    path = home / place
    if member.isdir():
        path.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        return
    path.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    content = tar.extractfile(member)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, member.mode & 0o700)
    with open(handle, "wb") as file:
        if content is not None:
            shutil.copyfileobj(content, file)


def _open(home: Home, about: Backup, database: str | None) -> None:
    """Put the databases of a restored home in place."""
    (home.path / ABOUT).unlink()
    _move_paths(home.path / "mlflow" / "mlflow.db", about.home, str(home.path))
    dumps = home.path / DUMPS
    for name in about.databases if database else ():
        create_databases(str(database))
        _load(with_database(str(database), name), dumps / name)
    if about.databases and not database:
        with _running(Postgres(home), already=False) as postgres:
            for name in about.databases:
                _load(postgres.url(name), dumps / name)
    shutil.rmtree(dumps, ignore_errors=True)


def _move_paths(database: Path, before: str, now: str) -> None:
    """Let the store of an embedded MLflow find its files under the new path of the home."""
    if not database.is_file() or before == now:
        return
    old, new = Path(before).as_uri(), Path(now).as_uri()
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        for table, column in PATHS:
            change = f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?"  # noqa: S608
            connection.execute(change, (new, len(old) + 1, len(old) + 1, f"{old}/"))
