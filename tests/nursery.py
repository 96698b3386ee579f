"""A process that has imported what a run needs, and has children, each of which is one command.

Importing takes seconds of processor time, for every command of a test anew. A child is a process as any other:
it has an exit code, a terminal and an environment of its own, and can be killed at any point. Prefect is not in it.

    python -m tests.nursery [HOME]

imports MLflow too where there is a home, because MLflow reads at import where that is. It reads one JSON object per
line: ``arguments`` of the command, ``output`` and ``errors`` (files), ``environment``, ``umask``, ``after`` (seconds to
SIGKILL, or null) and ``faults`` (see `tests/reliability/hook/sitecustomize.py`); and answers with one: ``code``
(negative: the signal) and ``seconds``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HOOK = ROOT / "tests" / "reliability" / "hook" / "sitecustomize.py"


class Nursery:
    """The parent's side: start the process, and have commands carried out, one at a time."""

    def __init__(self, environment: dict[str, str], home: Path | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery", *([str(home)] if home else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment,
        )  # fmt: skip
        self._answer()

    def carry_out(self, **wanted: Any) -> Any:
        """Have one command carried out; return its code and seconds."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(wanted) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def anonflow(self, *arguments: str | Path, **environment: str) -> tuple[int, str, str]:
        """Return the exit code of a command, and what it printed and complained about."""
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder) / "out", Path(folder) / "err"
            files = {"output": str(out), "errors": str(err)}
            answer = self.carry_out(arguments=[str(a) for a in arguments], environment=environment, **files)
            return answer["code"], out.read_text(), err.read_text()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the nursery died"
        return json.loads(line)

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def main(home: str | None) -> None:
    from flows import embedded

    if home:
        embedded.apply(Path(home))
    with embedded.imports():
        import great_expectations  # noqa: F401
        import matplotlib.backends.backend_svg
        import matplotlib.figure  # noqa: F401
        import numba  # noqa: F401
        import sklearn.ensemble
        import sklearn.tree  # noqa: F401

        import flows.cli
        import flows.draft
        import flows.release  # noqa: F401

        if home:
            import mlflow.store.tracking.sqlalchemy_store
            import mlflow.tracking  # noqa: F401

    spec = importlib.util.spec_from_file_location("faults_from_outside", HOOK)
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    carried_out: Counter[str] = Counter()
    say({})
    for line in sys.stdin:
        wanted = json.loads(line)
        # Chance of its own for every command of a home, so that a run ends as it did the last time.
        place = wanted.get("environment", {}).get("ANONFLOW_HOME", "")
        carried_out[place] += 1
        begun = time.monotonic()
        child = os.fork()
        if child == 0:
            _be_the_command(wanted, hook, carried_out[place])
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


def _be_the_command(wanted: dict[str, Any], hook: Any, stream: int) -> None:
    code = 99
    try:
        for descriptor, path in ((1, wanted["output"]), (2, wanted.get("errors", wanted["output"]))):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.umask(wanted.get("umask", 0o022))
        os.environ |= wanted.get("environment", {})
        hook.install(wanted.get("faults") or {})
        sys.argv = ["anonflow", *wanted["arguments"]]
        from flows.cli import main
        from tests.steady import steady

        steady(setattr, stream)
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
    main(sys.argv[1] if len(sys.argv) > 1 else None)
