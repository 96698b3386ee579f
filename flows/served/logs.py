"""Logs of the served stack: bounded files that keep the beginning of an outage, as text or as lines of JSON."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from flows.servers.process import LOG_LIMIT, open_log
from tasks.common.errors import Refused
from tasks.common.home import Home, make_private

# How logs are written; the operator may set it.
FORMAT, FORMATS = "ANONFLOW_LOGS", ("text", "json")
# The part of the stack that a process is.
PART = "ANONFLOW_PART"
# A log that fills again within so many seconds shows an outage, whose beginning is kept.
OUTAGE = 6 * 3600.0


@dataclass
class About:
    """What the lines of this process are about."""

    plan: str = ""
    release: str = ""


ABOUT = About()


def as_json() -> bool:
    """Return whether logs are written as JSON.

    Raises
    ------
    Refused
        When the environment names another format.
    """
    stated = os.environ.get(FORMAT) or FORMATS[0]
    if stated not in FORMATS:
        raise Refused(f"{FORMAT} must be text or json")
    return stated == "json"


def settings(part: str) -> dict[str, str]:
    """Return how a process with Prefect's logging writes its lines: with dates, or as JSON."""
    if not as_json():
        return {"PREFECT_LOGGING_FORMATTERS_STANDARD_DATEFMT": "%Y-%m-%d %H:%M:%S"}
    return {
        PART: part,
        "PREFECT_LOGGING_HANDLERS_CONSOLE_FORMATTER": "json",
        "PREFECT_LOGGING_FORMATTERS_JSON_CLASS": f"{__name__}.{JsonFormatter.__name__}",
    }


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, part, message, and what the line is about where that is known."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        about = {name: getattr(record, name, value) for name, value in asdict(ABOUT).items()}
        step = getattr(record, "task_run_name", "")
        return line(record.created, record.levelname, text, **about, step=step)


def line(when: float, level: str, message: str, **about: str) -> str:
    """Return one line of JSON; of what it is about, only what is known."""
    stated = {name: str(value) for name, value in about.items() if value and value != "unknown"}
    head = {"time": f"{datetime.fromtimestamp(when, UTC):%Y-%m-%dT%H:%M:%S.%fZ}", "level": level}
    return json.dumps(head | {"part": os.environ.get(PART, "serve"), "message": message} | stated)


def note(home: Home, text: str) -> None:
    """Append what `anonflow serve` reports of its parts to its own log; a full disk must not end it."""
    now = time.time()
    shown = line(now, "INFO", text) if as_json() else f"{datetime.fromtimestamp(now):%Y-%m-%d %H:%M:%S} {text}"
    with contextlib.suppress(OSError), open_log(logs(home) / "serve.log") as log:
        log.write(f"{shown}\n".encode())


def logs(home: Home) -> Path:
    """Return the folder of the stack's logs."""
    return make_private(home.path / "logs")


def trim_logs(home: Home) -> None:
    """Start each log that has grown too long afresh; keep one older part of it, and the beginning of an outage.

    A log that fills again soon shows an outage: ``.log.1`` keeps how it began, and ``.log.2`` the last part before
    the present one. Processes append to their logs, so that they need no notice.
    """
    for log in logs(home).glob("*.log"):
        with contextlib.suppress(OSError):
            if log.stat().st_size > LOG_LIMIT:
                first, latest = log.with_suffix(".log.1"), log.with_suffix(".log.2")
                ages = [time.time() - path.stat().st_mtime for path in (first, latest) if path.exists()]
                goes_on = bool(ages) and min(ages) < OUTAGE
                older = latest if goes_on else first
                if not goes_on:
                    latest.unlink(missing_ok=True)
                older.touch(mode=0o600)
                shutil.copyfile(log, older)
                os.truncate(log, 0)
