"""The settings of a private, quiet run, the directories of its state, and imports made quicker."""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from tasks.common.locks import is_held

LOOPBACK = "127.0.0.1"
FRAMEWORKS = ("prefect", "mlflow")
FONTS = Path(sys.prefix) / "share" / "anonflow" / "matplotlib"
NAMES = {"prefect": "Prefect", "mlflow": "MLflow"}
# Where a server says that it is well.
HEALTH = {"prefect": "/api/health", "mlflow": "/health"}
# How many ports are tried from the one that was wished for.
NEIGHBOURS = 20
# Who `anonflow serve` lets in.
USER = "anonflow"
OVERRIDES = ("PREFECT_API_URL", "MLFLOW_TRACKING_URI")

# Values of OVERRIDES that this process has set, as opposed to the user; shared by modules, so never rebound.
ours: set[str] = set()

# Schedules, events and automations belong to a server that stays. The task run recorder is not among these.
UNUSED_SERVICES = (
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


def environment(home: Path) -> dict[str, str]:
    """Return every setting of a private, quiet run that calls nobody, as environment variables.

    Claim: with these settings no task result is stored, nothing is cached, no framework sends analytics, and
    all state lies below ``home``. What the user has set among ``OVERRIDES`` is kept.

    Parameters
    ----------
    home
        State directory (``ANONFLOW_HOME``); it need not exist yet.

    Raises
    ------
    ValueError
        If the path holds a character that a database address cannot carry.
    """
    home = Path(home).expanduser().resolve()
    if bad := sorted({c for c in str(home) if c in "?#$" or not c.isprintable()}):
        raise ValueError(
            f"ANONFLOW_HOME must not contain {' '.join(map(repr, bad))}, got {str(home)!r}: "
            "a database address cannot carry it, choose another directory"
        )
    prefect, mlflow = home / "prefect", home / "mlflow"
    settings = {
        "PREFECT_HOME": str(prefect),
        "PREFECT_PROFILE": "ephemeral",
        "PREFECT_PROFILES_PATH": str(prefect / "profiles.toml"),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{prefect / 'prefect.db'}",
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(prefect / "storage"),
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(prefect / "ui"),
        # Nothing of the data is kept, whatever a flow or a task forgets to say.
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
        "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": "false",
        "PREFECT_TASKS_DEFAULT_NO_CACHE": "true",
        "PREFECT_TASKS_DISABLE_CACHING": "true",
        "PREFECT_LOGGING_LOG_PRINTS": "false",
        "PREFECT_DEBUG_MODE": "false",
        # The record keeps INFO; the terminal belongs to our own output.
        "PREFECT_LOGGING_LEVEL": "INFO",
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        # Never fall back silently to a temporary server of Prefect's own.
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
        "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
        "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
        "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P3650D",
        "PREFECT_SERVER_EVENTS_STREAM_OUT_ENABLED": "false",
        "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_V2_ENABLED": "false",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "MLFLOW_TRACKING_URI": f"sqlite:///{mlflow / 'mlflow.db'}",
        "_MLFLOW_SERVER_ARTIFACT_ROOT": (mlflow / "artifacts").as_uri(),
        # A tracking server that is away must fail the run in seconds and not in minutes.
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
        "MLFLOW_LOGGING_LEVEL": "WARNING",
        "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING": "false",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "GX_ANALYTICS_ENABLED": "false",
        # Matplotlib lists the machine's fonts once, which takes seconds, and would keep the list in $HOME.
        "MPLCONFIGDIR": str(FONTS if FONTS.is_dir() and os.access(FONTS, os.W_OK) else home / "matplotlib"),
        # MLflow reads the literal "true" only.
        "DO_NOT_TRACK": "true",
    }
    settings |= {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in UNUSED_SERVICES}
    chosen = {name: os.environ[name] for name in OVERRIDES if os.environ.get(name)}
    chosen = {name: value for name, value in chosen.items() if value not in ours}
    store = settings["MLFLOW_TRACKING_URI"]
    settings |= _served(home, chosen) | chosen
    if settings["MLFLOW_TRACKING_URI"] != store:
        del settings["_MLFLOW_SERVER_ARTIFACT_ROOT"]
    return settings


def _served(home: Path, chosen: dict[str, str]) -> dict[str, str]:
    """Return how to enter the servers of `anonflow serve` while it runs for this home.

    Its MLflow is the one to write to, unless another was chosen; its Prefect only if that was chosen.

    Claim: no password goes to another server. That one of ours runs, or a worker that uses it, is seen by a
    lock that nobody else can hold.
    """
    found: dict[str, str] = {}
    try:
        layout = json.loads((home / "served" / "layout.json").read_text())
        mlflow, prefect = layout["mlflow"], f"{layout['prefect']}/api"
        if mlflow and chosen.get("MLFLOW_TRACKING_URI", mlflow) == mlflow and _runs(home, "mlflow"):
            word = (home / "secrets" / "mlflow").read_text().strip()
            found |= {"MLFLOW_TRACKING_URI": mlflow, "MLFLOW_TRACKING_USERNAME": USER}
            found |= {"MLFLOW_TRACKING_PASSWORD": word}
        if chosen.get("PREFECT_API_URL") == prefect and _runs(home, "prefect"):
            word = (home / "secrets" / "prefect").read_text().strip()
            found |= {"PREFECT_API_AUTH_STRING": f"{USER}:{word}"}
    except (OSError, ValueError, KeyError, TypeError):
        return found
    return found


def _runs(home: Path, server: str) -> bool:
    return any(is_held(home / "served" / f"{part}.lock") for part in (server, "worker"))


def apply(home: Path) -> None:
    """Make the settings this process's own, create the state directories, and set the umask to 077.

    Unless the user names a server of his own (``PREFECT_API_URL``), every other ``PREFECT_`` variable is
    removed, so that a run does not depend on what happens to be set. It may be repeated.

    Raises
    ------
    RuntimeError
        If Prefect or MLflow is already imported with other settings: they read them at import.
    ValueError
        If ``home`` cannot stand in a database address.
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


def private_directories(home: Path) -> Path:
    """Create the state directories, which nobody else may enter; return ``home`` resolved.

    A ``home`` that exists already keeps its mode: it may be a directory of other things, too.
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
    """Import heavy packages inside: about a quarter faster, because the collector finds nothing to collect.

    What was imported is afterwards left out of every later collection. Do not compute inside.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
