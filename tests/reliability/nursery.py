"""A process that has imported what a run needs, and has children, each of which is one command.

Importing takes seconds; a hundred runs that are killed would take a quarter of an hour for it alone. A child
is a process as any other: it can be killed at any point. Prefect is not in it.

    python -m tests.reliability.nursery HOME

reads one JSON object per line: ``arguments`` of the command, ``faults`` (see `hook.sitecustomize.install`),
``output`` (a file), ``after`` (seconds to SIGKILL, or null) and ``umask``; and answers with one: ``code``
(negative: the signal) and ``seconds``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

HOOK = Path(__file__).with_name("hook") / "sitecustomize.py"


def main(home: str) -> None:
    from flows import embedded

    embedded.apply(Path(home))
    with embedded.imports():
        import great_expectations  # noqa: F401
        import matplotlib.backends.backend_svg
        import matplotlib.figure  # noqa: F401
        import mlflow.store.tracking.sqlalchemy_store
        import mlflow.tracking  # noqa: F401

    spec = importlib.util.spec_from_file_location("faults_from_outside", HOOK)
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    say({})
    for line in sys.stdin:
        wanted = json.loads(line)
        begun = time.monotonic()
        child = os.fork()
        if child == 0:
            _be_the_command(wanted, hook)
        if wanted.get("after") is not None:
            timer = threading.Timer(wanted["after"], _kill, [child])
            timer.start()
        _, status = os.waitpid(child, 0)
        if wanted.get("after") is not None:
            timer.cancel()
        say({"code": os.waitstatus_to_exitcode(status), "seconds": time.monotonic() - begun})


def say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _kill(child: int) -> None:
    try:
        os.kill(child, signal.SIGKILL)
    except ProcessLookupError:
        return


def _be_the_command(wanted: dict[str, Any], hook: Any) -> None:
    code = 99
    try:
        output = os.open(wanted["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.umask(wanted.get("umask", 0o022))
        os.environ |= wanted.get("environment", {})
        hook.install(wanted.get("faults") or {})
        sys.argv = ["anonflow", *wanted["arguments"]]
        from flows.cli import main

        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
