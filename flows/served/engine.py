"""The process of one served run: ``python -m flows.served.engine``, as the worker starts it."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from flows import embedded

if __name__ == "__main__":
    os.umask(0o077)
    sys.argv = sys.argv[:1]
    embedded.private_directories(Path(os.environ["ANONFLOW_HOME"]))
    with embedded.imports():
        import flows.served.release  # noqa: F401
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
