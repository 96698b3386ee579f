"""Faults from outside: loaded by every Python process of a run that is tested, and by nothing else.

What to do stands in environment variables, so that the product needs no hook of its own:

- ``RELIABILITY_FAULTS``: JSON for this process alone; its children do not see it (see `install`);
- ``RELIABILITY_WATCH``: a file to which this process and its children write every attempt to reach
  another machine, and every file that they open for writing outside ``RELIABILITY_PLACE``.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import ipaddress
import json
import os
import signal
import sys
import time

_STEPS = {
    "flows.prepare": ("ingest", "validate_raw", "split"),
    "flows.release": (
        "mask",
        "validate_masked",
        "assess",
        "against_earlier",
        "follow",
        "decide",
        "prepare_data",
        "document",
        "_track",
        "conclude",
        "mirror_entry",
    ),
}
_CLOCKS = (
    "tasks.common.run",
    "tasks.record.ledger",
    "tasks.decision.outcomes",
    "tasks.publication.dossier",
)


# Faults


def install(faults: dict) -> None:
    """Let something go wrong in this process.

    ``steps`` maps a step's function to what happens when it has done its work: ``raise``, ``full``,
    ``memory``, ``kill``, ``term``, ``mlflow-gone`` or ``mlflow-locked``. ``at`` is the number of the write
    operation below ``root`` before which ``how`` happens: ``kill``, ``tear`` (the file that was to be synced
    is cut in half, as when the power fails, and the process is killed), or an error number to be raised, once
    or ``lasting``. Operations are counted in ``log``. ``back`` sets the clock back by as many seconds.
    """
    if faults.get("steps"):
        for module in _STEPS:
            _after_import(module, lambda loaded: _patch_steps(loaded, faults))
    if faults.get("root"):
        _Operations(faults).watch()
    if faults.get("back"):
        _set_back(float(faults["back"]))


def _patch_steps(module, faults) -> None:
    for name, how in faults["steps"].items():
        if name in _STEPS[module.__name__]:
            setattr(module, name, _broken(getattr(module, name), how, faults))


def _broken(function, how: str, faults):
    def step(*args):
        result = function(*args)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "term":
            os.kill(os.getpid(), signal.SIGTERM)
        elif how == "memory":
            raise MemoryError(_records(faults))
        elif how == "full":
            raise OSError(28, _records(faults), faults["source"])
        elif how == "mlflow-gone":
            os.rename(faults["mlflow"], faults["mlflow"] + ".elsewhere")
            os.mkdir(faults["mlflow"])
        elif how == "mlflow-locked":
            import sqlite3

            faults["held"] = sqlite3.connect(faults["mlflow"], check_same_thread=False)
            faults["held"].execute("BEGIN EXCLUSIVE")
        elif how == "raise":
            try:
                raise KeyError(_records(faults))
            except KeyError as cause:
                error = ValueError(_records(faults), args, result)
                error.records = _records(faults)
                raise error from cause
        return result

    step.__name__ = function.__name__
    step.__module__ = function.__module__
    return step


def _records(faults) -> str:
    """Return what a careless library would quote: the head of the source."""
    with open(faults["source"], encoding="utf-8") as file:
        return "".join(file.readlines()[:20])


class _Operations:
    """Counts what changes files below a folder, and lets one of them go wrong."""

    def __init__(self, faults) -> None:
        self.root = faults["root"].rstrip("/") + "/"
        self.at, self.how = faults.get("at"), faults.get("how", "kill")
        self.lasting = faults.get("lasting", False)
        self.only = faults.get("only", "")
        self.log = os.open(faults["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.count, self.busy, self.pid = 0, False, os.getpid()

    def watch(self) -> None:
        sys.addaudithook(self.heard)
        for name in ("fsync", "write"):
            setattr(os, name, self.wrapped(name, getattr(os, name)))

    def wrapped(self, name, function):
        def call(descriptor, *rest):
            if not self.busy and os.getpid() == self.pid and descriptor != self.log:
                try:
                    path = os.readlink(f"/proc/self/fd/{descriptor}")
                except OSError:
                    path = ""
                if path.startswith(self.root):
                    self.happens(name, path, descriptor)
            return function(descriptor, *rest)

        return call

    def heard(self, event: str, args) -> None:
        if self.busy or os.getpid() != self.pid:
            return
        if event == "open":
            path, _, flags = args
            if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        elif event in (
            "os.rename",
            "os.remove",
            "os.mkdir",
            "os.rmdir",
            "os.link",
            "os.symlink",
            "os.truncate",
        ):
            path = args[1] if event == "os.rename" else args[0]
        else:
            return
        if isinstance(path, bytes | str | os.PathLike):
            path = os.path.abspath(os.fsdecode(path))
            if path.startswith(self.root):
                self.happens(event.removeprefix("os."), path, None)

    def happens(self, event: str, path: str, descriptor: int | None) -> None:
        self.busy = True
        try:
            name = path[len(self.root) :]
            if self.only and self.only not in name:
                return
            self.count += 1
            os.write(self.log, f"{self.count} {event} {name}\n".encode())
            if self.at is None or not (self.count == self.at or (self.lasting and self.count > self.at)):
                return
            if isinstance(self.how, int):
                if self.how == 28 and event in ("remove", "rmdir"):
                    return  # a full disk lets files be removed
                raise OSError(self.how, os.strerror(self.how), path)
            if self.how == "tear" and event == "fsync" and os.path.isfile(path):
                os.truncate(path, os.path.getsize(path) // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            self.busy = False


def _set_back(seconds: float) -> None:
    """Set this process's clock back, as far as Python code reads it."""
    import datetime as original

    now = time.time
    time.time = lambda: now() - seconds

    class datetime(original.datetime):
        @classmethod
        def now(cls, tz=None):
            return original.datetime.now(tz) - original.timedelta(seconds=seconds)

    for name in _CLOCKS:
        _after_import(
            name,
            lambda module: setattr(module, "datetime", datetime) if hasattr(module, "datetime") else None,
        )


class _After(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self.then: dict = {}

    def find_spec(self, name, path=None, target=None):
        if name not in self.then:
            return None
        calls = self.then.pop(name)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            for call in calls:
                call(module)

        spec.loader.exec_module = exec_module
        return spec


_after = _After()


def _after_import(name: str, then) -> None:
    if name in sys.modules:
        then(sys.modules[name])
        return
    if _after not in sys.meta_path:
        sys.meta_path.insert(0, _after)
    _after.then.setdefault(name, []).append(then)


# Watching


def watch(file: str, place: str) -> None:
    """Write to ``file`` what this process tries to reach beyond this machine and beyond ``place``."""
    said = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    inside = (place.rstrip("/") + "/", "/dev/", "/proc/")

    def heard(event: str, args) -> None:
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            address = args[1]
            if isinstance(address, tuple) and address and not _here(address[0]):
                os.write(said, f"{event} {address[0]!r}\n".encode())
                raise ConnectionRefusedError(111, "the test lets nobody call another machine")
        elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
            if args[0] is not None and not _here(args[0]):
                os.write(said, f"{event} {args[0]!r}\n".encode())
                raise ConnectionRefusedError(111, "the test lets nobody ask for a name")
        elif event == "open" and isinstance(args[0], str | bytes) and _writes(args[2]):
            path = os.path.abspath(os.fsdecode(args[0]))
            if not path.startswith(inside) and "__pycache__" not in path:
                os.write(said, f"write {path}\n".encode())

    sys.addaudithook(heard)


def _writes(flags: object) -> bool:
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _here(host: object) -> bool:
    text = os.fsdecode(host) if isinstance(host, str | bytes) else str(host)
    try:
        return ipaddress.ip_address(text.split("%")[0]).is_loopback
    except ValueError:
        return text in ("", "localhost")


if os.environ.get("RELIABILITY_WATCH"):
    watch(os.environ["RELIABILITY_WATCH"], os.environ["RELIABILITY_PLACE"])
if os.environ.get("RELIABILITY_FAULTS"):
    install(json.loads(os.environ.pop("RELIABILITY_FAULTS")))
