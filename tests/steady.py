"""Chance from a stream of its own: a test ends today as it did yesterday.

A policy fails some releases by chance, which is its nature; a test of another matter must not hang on it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tasks.common import randomness
from tasks.common.home import Home, make_private, write_private


def steady(replace: Callable[[object, str, object], object], stream: int) -> None:
    """Draw what the system would draw from the stream of that number; ``replace`` is a `setattr`."""
    draws = np.random.default_rng(stream)
    drawn, secret = randomness._entropy, Home.holdout_secret

    def entropy(seed: randomness.SeedSection) -> int:
        return drawn(seed) if seed.stated else int.from_bytes(draws.bytes(32))

    def kept(home: Home) -> bytes:
        path = home.path / "keys" / "holdout"
        if not path.exists():
            make_private(path.parent)
            write_private(path, b"who is held out in tests")
        return secret(home)

    replace(randomness, "_entropy", entropy)
    replace(Home, "holdout_secret", kept)
