"""Named secrets: a plan says which one, and never what it is.

Standard library only.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from tasks.common.errors import Refused, visible
from tasks.common.home import Home

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")
MAX_BYTES = 65_536
OTHERS = 0o077
# systemd hands credentials to a service through an access list, which shows as rights of the group.
OTHERS_OF_A_CREDENTIAL = 0o027


def check_name(name: str | None, key: str) -> None:
    """Raise `ValueError` when ``name``, the value of a plan's ``key``, cannot name a secret."""
    if name is not None and not NAME.fullmatch(name):
        raise ValueError(
            f"{key} must name a secret: letters, digits, _ . and -, beginning with a letter or _; "
            "what is secret itself belongs into the environment or the home's folder secrets"
        )


def secret(name: str, home: Home) -> str:
    """Return a named secret, without blanks around it.

    It is read from the environment variable of that name, then from ``$CREDENTIALS_DIRECTORY``, where
    systemd puts a service's credentials, then from the home's folder ``secrets``.

    Raises
    ------
    Refused
        When it is not set, is empty, or is in a file that others may read.
    """
    value = os.environ.get(name)
    given = os.environ.get("CREDENTIALS_DIRECTORY")
    places = [(Path(given) / name, OTHERS_OF_A_CREDENTIAL)] if given else []
    for path, others in (*places, (home.path / "secrets" / name, OTHERS)):
        if value is None and NAME.fullmatch(name) and os.path.lexists(path):
            value = _content(path, others)
    if value is None:
        raise Refused(
            f"the secret {visible(name)} is not there: set the environment variable of that name, or write "
            f"it to the file secrets/{visible(name)} in the home, for the owner alone (mode 0600)"
        )
    if not value.strip():
        raise Refused(f"the secret {visible(name)} is empty")
    return value.strip()


def _content(path: Path, others: int) -> str:
    """Return the content of a secret's file, opened once, so that the checked file is the one that is read."""
    shown, problem, content = visible(path.name), "", b""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                problem = "is not an ordinary file"
            elif facts.st_mode & others or facts.st_uid not in (os.geteuid(), 0):
                problem = "may be read or written by others; make it the owner's alone: chmod 600"
            elif facts.st_size > MAX_BYTES:
                problem = f"is larger than {MAX_BYTES} bytes"
            else:
                content = file.read()
    except OSError:
        problem = "cannot be opened as a file; links are not followed"
    if not problem:
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            problem = "is not UTF-8 text"
    raise Refused(f"the file of the secret {shown} {problem}")
