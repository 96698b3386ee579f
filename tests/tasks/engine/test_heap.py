import ctypes
import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc, whose heaps these are"
)

COUNTED = """
import ctypes, threading
{}
held = []
threads = [threading.Thread(target=lambda: held.append(bytearray(100_000))) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
"""
# The piece that is left stands above those that are freed, so that the heap does not shrink by itself.
FREED = """
import psutil
from tasks.engine.heap import give_back
pieces = [bytearray(60_000) for _ in range(2000)]
last = pieces.pop()
del pieces
held = psutil.Process().memory_info().rss
give_back()
print(held - psutil.Process().memory_info().rss)
"""


def told(code):
    own = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=own).stdout


def test_threads_share_one_heap():
    own, shared = (COUNTED.format(begun) for begun in ("", "from tasks.engine.heap import share_heap; share_heap()"))
    assert len(re.findall("<heap nr", told(own))) > 1
    assert len(re.findall("<heap nr", told(shared))) == 1


def test_freed_memory_is_given_back():
    assert int(told(FREED)) > 50_000_000
