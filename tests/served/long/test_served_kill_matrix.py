"""Parts are killed without a word, while people are awaited and while a release is published.

Whatever dies: a release is not published or whole, an approval is not lost, the ledger is in order.
"""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.platform

PARTS = ("worker", "prefect", "mlflow", "postgres")


def test_whatever_dies_while_people_are_awaited_the_approval_is_taken(served: Any) -> None:
    served.plan("waiting", seed=10)
    served.deployed("waiting")
    run = served.run("waiting")
    served.paused(run)
    for part in PARTS:
        served.kill(part)
    served.until(lambda: served.state(run)["type"] == "PAUSED", 60, served.logs)
    served.approve(run)
    assert served.ended(run, 180)["name"] == "Published"
    served.check_whole("waiting")


@pytest.mark.parametrize("part", [*PARTS, "run"])
def test_whatever_dies_while_a_release_is_published_it_ends_whole(served: Any, part: str) -> None:
    served.killed_while_publishing(part, seed=20 + len(part))
