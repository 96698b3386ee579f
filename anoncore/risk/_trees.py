"""Boosted trees, grown by one thread: more than there are free cores make them slower by an order of magnitude."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from threadpoolctl import ThreadpoolController

from anoncore.risk._checks import Floats

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier


def boosted(features: Floats, labels: Any, seed: int, **settings: Any) -> HistGradientBoostingClassifier:
    """Return trees that learned (N,) ``labels`` of (N, n) ``features``; settings as scikit-learn names them."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    with one_thread():
        return HistGradientBoostingClassifier(early_stopping=False, random_state=seed, **settings).fit(features, labels)


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep trees of this process to one thread."""
    with _controller().limit(limits=1, user_api="openmp"):
        yield


@cache
def _controller() -> Any:
    """Return what limits threads: it looks through the loaded libraries, when those of the trees are among them."""
    import sklearn.ensemble  # noqa: F401

    return ThreadpoolController()
