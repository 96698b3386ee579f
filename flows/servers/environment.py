"""Settings that embedded and served processes share, as environment variables; directories; faster imports.

Standard library only: Prefect and MLflow read their settings when they are imported, so this comes first.
"""

from __future__ import annotations

import contextlib
import gc
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

# With this header a run shows Prefect's server that it is one of ours.
RUN_HEADER = "x-anonflow-run"
# What it is told to expect there.
RUN_HEADER_VARIABLE = "ANONFLOW_RUN_HEADER"
LOOPBACK = "127.0.0.1"
FONTS = Path(sys.prefix) / "share" / "anonflow" / "matplotlib"
PARTS = ("postgres", "prefect", "mlflow", "worker")
NAMES = {"postgres": "PostgreSQL", "prefect": "Prefect", "mlflow": "MLflow", "worker": "Worker"}
# Path of each server's health endpoint.
HEALTH = {"prefect": "/api/health", "mlflow": "/health", "worker": "/"}

# Neither results nor caches are stored, whatever a flow or a task leaves unsaid; logs and states are.
_NO_DATA = {
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": "false",
    "PREFECT_TASKS_DEFAULT_NO_CACHE": "true",
    "PREFECT_TASKS_DISABLE_CACHING": "true",
    "PREFECT_LOGGING_LOG_PRINTS": "false",
    "PREFECT_DEBUG_MODE": "false",
    "PREFECT_LOGGING_LEVEL": "INFO",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    # They would precede the JSON of a command, with addresses that hold between servers alone.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING": "false",
}
# No framework contacts its makers; MLflow reads the literal "true" only.
_NO_CALLS = {
    "DO_NOT_TRACK": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_V2_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GX_ANALYTICS_ENABLED": "false",
}
_SERVERS = {
    "PREFECT_PROFILE": "ephemeral",
    # Prefect must never fall back silently to a temporary server of its own.
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
    "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}


def common(home: Path) -> dict[str, str]:
    """Return the settings of every process that works for ``home``, which need not exist yet.

    Claim: with these settings no task result is stored, nothing is cached, no framework sends analytics, and
    all state lies below ``home``.

    Raises `ValueError` if the path holds a character that a database address cannot carry.
    """
    home = Path(home).expanduser().resolve()
    if bad := sorted({c for c in str(home) if c in "?#$" or not c.isprintable()}):
        raise ValueError(
            f"ANONFLOW_HOME must not contain {' '.join(map(repr, bad))}, got {str(home)!r}: "
            "a database address cannot carry it, choose another directory"
        )
    prefect = home / "prefect"
    return (_NO_DATA | _NO_CALLS | _SERVERS) | {
        "PREFECT_HOME": str(prefect),
        "PREFECT_PROFILES_PATH": str(prefect / "profiles.toml"),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{prefect / 'prefect.db'}",
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(prefect / "storage"),
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(prefect / "ui"),
        # Matplotlib lists the machine's fonts once, which takes seconds, and would keep the list in $HOME.
        "MPLCONFIGDIR": str(FONTS if FONTS.is_dir() and os.access(FONTS, os.W_OK) else home / "matplotlib"),
    }


def private_directories(home: Path) -> Path:
    """Create the state directories with access for the owner alone; return ``home`` resolved.

    A ``home`` that exists already keeps its mode, because it may hold other things, too.
    """
    home = Path(home).expanduser().resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for directory in (home / "prefect", home / "mlflow", home / "mlflow" / "artifacts"):
        directory.mkdir(mode=0o700, exist_ok=True)
        if stat.S_IMODE(directory.stat().st_mode) & 0o077:
            directory.chmod(0o700)
    return home


@contextlib.contextmanager
def imports() -> Iterator[None]:
    """Import heavy packages inside: about a quarter faster, because the garbage collector is off.

    What was imported is left out of every later collection. Do not compute inside.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
