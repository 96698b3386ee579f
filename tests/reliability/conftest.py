"""A place for runs, and a process whose children they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reliability.canaries import Canaries
from tests.reliability.running import Nursery, Place


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("reliability"), Canaries.plant())


@pytest.fixture(scope="module")
def place(planted: Place) -> Place:
    """The place, without what another module has left."""
    planted.clear()
    planted.write()
    return planted


@pytest.fixture(scope="session")
def nursery(planted: Place) -> Iterator[Nursery]:
    with Nursery(planted) as running:
        yield running
