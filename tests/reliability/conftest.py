"""A place for runs, and a process whose children they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reliability.canaries import Canaries
from tests.reliability.running import Nursery, Place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("reliability"), Canaries.plant())
    made.write()
    return made


@pytest.fixture(scope="module")
def nursery(place: Place) -> Iterator[Nursery]:
    with Nursery(place) as running:
        yield running
