"""Workers that die while a run goes on."""

from __future__ import annotations

import os
import random
import signal
import time

import psutil


def kill_one_worker(moment: float) -> bool:
    """Kill a process that works, after some seconds; return whether there was one.

    Those of Dask and of the pool are children of the one that they are copies of.
    """
    time.sleep(moment)
    workers = [child for child in psutil.Process().children(recursive=True) if child.ppid() != os.getpid()]
    if workers:
        os.kill(random.choice(workers).pid, signal.SIGKILL)
    return bool(workers)
