"""The heap of this process, which the C library manages; elsewhere than with glibc nothing is done to it."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache

_ARENA_MAX = -8  # `M_ARENA_MAX` of glibc's `mallopt`


def share_heap() -> None:
    """Let threads that start from now on share one heap: what one thread frees another one can use then."""
    if mallopt := _of_library("mallopt"):
        mallopt(_ARENA_MAX, 1)


def give_back() -> None:
    """Give the memory that was freed back to the system, which the heap keeps otherwise."""
    if malloc_trim := _of_library("malloc_trim"):
        malloc_trim(0)


@cache
def _of_library(name: str) -> Callable[..., int] | None:
    """Return a function of the C library; None where it has none of this name."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
