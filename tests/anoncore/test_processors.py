"""The same seed gives the same release on every processor: levels exactly, numbers to rounding.

OpenBLAS takes the kernels of another processor when it is told to, and numpy leaves out vector instructions. One of
them sums with two threads, this one with one.
"""

import os
import pickle
import signal
import subprocess
import sys
from functools import cache

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from tests.anoncore.processor_releases import architectures, releases

SIMD = " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))
PROCESSORS = {
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "2"},
    "Zen": {"OPENBLAS_CORETYPE": "Zen"},
    "SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "no vector instructions": {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": SIMD},
}


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """Return what gives the BLAS architecture and the releases of another processor."""
    folder = tmp_path_factory.mktemp("releases")

    @cache
    def on(processor):
        path = folder / processor
        code = [sys.executable, "-m", "tests.anoncore.processor_releases", str(path)]
        environment = os.environ | PROCESSORS[processor]
        done = subprocess.run(code, env=environment, stderr=subprocess.DEVNULL)
        if done.returncode == -signal.SIGILL:
            pytest.skip(f"this machine lacks the instructions of {processor}")
        done.check_returncode()
        return pickle.loads(path.read_bytes())

    return on


def test_the_library_follows_the_variable(released):
    assert released("Haswell")[0] == ["Haswell"]
    assert released("no vector instructions")[0] != ["Haswell"]


@pytest.fixture(scope="module")
def here():
    with threadpool_limits(1, user_api="blas"):
        return releases()


@pytest.mark.parametrize("processor", PROCESSORS)
def test_releases_are_the_same(released, here, processor):
    if [processor] == architectures():
        pytest.skip("this is the processor of the machine")
    there = released(processor)[1]
    assert there.keys() == here.keys()
    assert [case for case, release in here.items() if not same(release, there[case])] == []


def same(one, other):
    (frame, scores), (other_frame, other_scores) = one, other
    if not frame.index.equals(other_frame.index) or list(frame) != list(other_frame):
        return False
    if scores is not None and not np.allclose(scores, other_scores, rtol=0, atol=1e-9 * np.abs(scores).max()):
        return False
    return all(same_column(frame[name], other_frame[name]) for name in frame)


def same_column(one, other):
    if not pd.api.types.is_float_dtype(one):
        return one.equals(other)
    return np.allclose(one, other, rtol=0, atol=1e-9 * max(1.0, np.abs(one).max()), equal_nan=True)
