"""How kernels are compiled: kept for the next process where there is a folder to keep them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from numba import njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that frees the interpreter's lock; kept only where a folder can be written to."""
    try:
        return cast("Callable[..., Any]", njit(cache=True, nogil=True)(function))
    except RuntimeError:
        return cast("Callable[..., Any]", njit(nogil=True)(function))
