"""Recognise a process again by its number and its start."""

from __future__ import annotations

import psutil


def process_start_time(pid: int) -> str:
    """Return when a process started, in seconds since the system's boot; empty when there is no such process.

    The system may give the number of a process that has ended to another. Seconds since the boot do not change when
    the clock is set, as the time of day does.
    """
    try:
        return f"{psutil.Process(pid).create_time() - psutil.boot_time():.2f}"
    except (psutil.NoSuchProcess, OverflowError, ValueError):
        return ""


def is_running(pid: int, started: str) -> bool:
    """Return whether the process of that number is there, and is the one that started then."""
    return bool(started) and process_start_time(pid) == started
