"""Errors of a run: an exit code, and a message without data for frameworks, logs and terminals."""

from __future__ import annotations

import errno
import os
import re
import traceback
from collections.abc import Callable, Iterable
from enum import IntEnum
from pathlib import Path
from typing import ParamSpec, TypeVar

from tasks.common.sources import source_folders

# What writes to a terminal, or turns the direction of writing.
CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# How a system, SQLite and PostgreSQL say that there is no room.
NO_SPACE = re.compile("No space left on device|Disk quota exceeded|database or disk is full|DiskFull")
DISK_FULL = (
    "the disk is full, or the account's share of it: nothing more can be written. Make room where the home and the "
    "targets are (anonflow prune lists what can go) or, with a cluster, in its folder, then run the command again"
)
P = ParamSpec("P")
T = TypeVar("T")
# Of names in a message, how many are shown, and how much of each.
FEW, LONGEST_SHOWN = 10, 100


class ExitCode(IntEnum):
    """How a command ends."""

    PUBLISHED = 0
    FAULT = 1
    REFUSED = 2
    REJECTED = 3
    AWAITING = 4


class ReleaseError(Exception):
    """A run cannot go on. The message names variables, edits and files, never a data value."""

    code = ExitCode.FAULT


class Refused(ReleaseError):
    """The plan or the input cannot be accepted; the message says why and what to mend."""

    code = ExitCode.REFUSED


class Busy(Refused):
    """Another run is under way where only one may be; nothing is to be mended, only waited for."""


class Fault(ReleaseError):
    """Something went wrong on our side; the message holds the place, and no text of the cause.

    The text of another library's exception may quote data, so only its type and where it arose are reported.
    """


class InputOutputFault(Fault):
    """Reading or writing failed; trying again may help."""


def sanitise_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Return ``function`` so that it raises nothing but a `ReleaseError`, without cause, context or data.

    Our own errors carry safe messages by rule and are passed on as `Refused`. The new error is
    raised outside the except block, so that no framework finds the original through its context.
    Control characters, which a column's name may hold, are written out and do not reach a terminal.
    """

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            safe = translated(error)
        try:
            raise safe from None
        finally:
            # Through it, an exception that the caller is handling could be reached.
            safe.__context__ = None

    run.__name__ = function.__name__
    run.__doc__ = function.__doc__
    run.__module__ = function.__module__
    return run


def translated(error: Exception) -> ReleaseError:
    """Return an exception as one of ours, without its cause and without data; a full disk is named as such."""
    # Late, so that a command can fail well before the numerics are imported.
    from anoncore.errors import AnonymizationError

    if isinstance(error, ReleaseError):
        return type(error)(visible_lines(str(error)))
    if isinstance(error, AnonymizationError):
        return Refused(visible_lines(str(error)))
    if isinstance(error, MemoryError):
        return Fault("memory ran out; use a machine with more, or release fewer records at a time")
    if lacks_space(error):
        return InputOutputFault(DISK_FULL)
    if isinstance(error, OSError):
        return InputOutputFault(_input_output(error))
    return Fault(_place(error))


def lacks_space(error: BaseException | None) -> bool:
    """Return whether a write failed since the disk is full, as this exception or one behind it says.

    Databases and servers say so in a text of their own, of which nothing is passed on.
    """
    while error is not None:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or NO_SPACE.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def odd(text: str) -> bool:
    """Return whether a name or a level holds what belongs into no cell: `CONTROL`, a tab or a line end."""
    return CONTROL.search(text) is not None or "\t" in text or "\n" in text


def visible(text: object) -> str:
    """Return a name as it may be shown: control characters, line ends and the like are written out.

    No-break spaces, as figures hold them, become spaces.
    """
    plain = str(text).replace("\u00a0", " ")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in plain)


def visible_lines(text: object) -> str:
    """Return a message of several lines as it may be shown, each line as `visible` returns it."""
    return "\n".join(visible(line) for line in str(text).split("\n"))


def named(names: Iterable[object]) -> str:
    """Return names as a message may show them: the first ten, and of each what fits into a line."""
    every = list(names)
    few = [cut(visible(name)) or "(no name)" for name in every[:FEW]]
    return ", ".join(few) + (f" and {len(every) - FEW} more" if len(every) > FEW else "")


def cut(text: str, longest: int = LONGEST_SHOWN) -> str:
    """Return a text, or its beginning where it is too long for a message."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _input_output(error: OSError) -> str:
    """Name the file and the system's reason; a library's own text may quote data."""
    name = f" ({visible(Path(error.filename).name)})" if isinstance(error.filename, str) else ""
    reason = os.strerror(error.errno) if isinstance(error.errno, int) else type(error).__name__
    return f"input or output failed: {reason}{name}"


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if any(map(Path(f.filename).is_relative_to, source_folders()))]
    last = (inside or list(frames))[-1]
    return (
        f"an unexpected {type(error).__name__} in {Path(last.filename).name}, line {last.lineno}; "
        "this is a fault of anonflow, please report this line"
    )
