"""How long something takes, and how that grows."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence

import numpy as np


def seconds(function: Callable[[], object], rounds: int = 2) -> float:
    """Wall time of the best round; on a machine that others keep busy, processor time if that is less."""
    best = math.inf
    for _ in range(rounds):
        start, busy = time.perf_counter(), time.process_time()
        function()
        wall, processor = time.perf_counter() - start, time.process_time() - busy
        shared = os.getloadavg()[0] > len(os.sched_getaffinity(0)) + 1.0
        best = min(best, wall, processor if shared else wall)
    return best


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Slope of log time over log size."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
