"""The settings of an embedded run, and how they become this process's own."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from pathlib import Path

from flows.orchestration.compat import MLFLOW_ARTIFACT_ROOT
from flows.servers.environment import LOOPBACK, common, private_directories
from flows.servers.layout import credentials
from tasks.common.home import Home

FRAMEWORKS = ("prefect", "mlflow")
# What the user may choose: servers of their own.
OVERRIDES = ("PREFECT_API_URL", "MLFLOW_TRACKING_URI")

# Values of OVERRIDES that this process has set, as opposed to the user; shared by modules, so never rebound.
ours: set[str] = set()

# Schedules, events and automations belong to a server that stays. The task run recorder is not among these.
_UNUSED_SERVICES = (
    "SCHEDULER",
    "LATE_RUNS",
    "PAUSE_EXPIRATIONS",
    "CANCELLATION_CLEANUP",
    "CLEANUP_RECONCILER",
    "FOREMAN",
    "REPOSSESSOR",
    "TRIGGERS",
    "EVENT_PERSISTER",
    "EVENT_LOGGER",
)
_EMBEDDED = {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _UNUSED_SERVICES} | {
    # The terminal belongs to our own output.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",
    "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P3650D",
    "PREFECT_SERVER_EVENTS_STREAM_OUT_ENABLED": "false",
    "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "false",
    # A tracking server that cannot be reached must fail the run in seconds and not in minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
}


def environment(home: Path) -> dict[str, str]:
    """Return every setting of an embedded run, as environment variables.

    What the user has set among ``OVERRIDES`` is kept.

    Parameters
    ----------
    home
        State directory (``ANONFLOW_HOME``); it need not exist yet.

    Raises `ValueError` if the path holds a character that a database address cannot carry.
    """
    home = Path(home).expanduser().resolve()
    mlflow = home / "mlflow"
    store = f"sqlite:///{mlflow / 'mlflow.db'}"
    chosen = {name: os.environ[name] for name in OVERRIDES if os.environ.get(name)}
    chosen = {name: value for name, value in chosen.items() if value not in ours}
    settings = common(home) | _EMBEDDED | {"MLFLOW_TRACKING_URI": store} | credentials(Home(home), chosen) | chosen
    if settings["MLFLOW_TRACKING_URI"] == store:
        settings[MLFLOW_ARTIFACT_ROOT] = (mlflow / "artifacts").as_uri()
    return settings


def apply(home: Path) -> None:
    """Make the settings this process's own, create the state directories, and set the umask to 077.

    Unless the user names a server of their own (``PREFECT_API_URL``), every other ``PREFECT_`` variable is
    removed, so that a run does not depend on what happens to be set. It may be repeated.

    Raises
    ------
    RuntimeError
        If Prefect or MLflow is already imported with other settings: they read them at import.
    ValueError
        If a database address cannot hold ``home``.
    """
    settings = environment(home)
    if any(os.environ.get(name) != value for name, value in settings.items()):
        if loaded := [name for name in FRAMEWORKS if name in sys.modules]:
            raise RuntimeError(f"embedded.apply must come before the import of {' and '.join(loaded)}")
        if "PREFECT_API_URL" not in settings:
            for name in [name for name in os.environ if name.startswith("PREFECT_")]:
                del os.environ[name]
        ours.update(settings[name] for name in OVERRIDES if name in settings and not os.environ.get(name))
        os.environ |= settings
    for name in ("NO_PROXY", "no_proxy"):  # our server must not be looked for behind the user's proxy
        listed = [host for host in os.environ.get(name, "").split(",") if host]
        os.environ[name] = ",".join([*listed, *(h for h in (LOOPBACK, "localhost") if h not in listed)])
    os.umask(0o077)
    private_directories(home)
    # Without this the interpreter spends over a second collecting the frameworks' modules before it ends.
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
