"""How long reading, logging and delivering are tried again when a server or a disk does not answer."""

from __future__ import annotations

import os

from tasks.common.errors import Refused

# For how many hours; the operator may set it.
HOURS, MOST_HOURS = "ANONFLOW_RETRY_HOURS", 24
# Seconds between attempts where nothing is stated, and the longest pause where hours are.
USUAL, LONGEST_PAUSE = (1.0, 5.0), 3600.0


def pauses() -> list[float]:
    """Return the seconds to wait before each further attempt, five times as long each time up to an hour.

    Raises
    ------
    Refused
        When the environment states no number of hours between 0 and 24.
    """
    stated = os.environ.get(HOURS)
    if not stated:
        return list(USUAL)
    try:
        left = float(stated) * 3600
    except ValueError:
        left = -1.0
    if not 0 <= left <= MOST_HOURS * 3600:
        raise Refused(f"{HOURS} must be a number of hours from 0 to {MOST_HOURS}, such as 6")
    found: list[float] = []
    while left > 0:
        found.append(min(5.0 ** len(found), LONGEST_PAUSE, left))
        left -= found[-1]
    return found
