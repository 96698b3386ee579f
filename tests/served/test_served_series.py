"""A register that its schedule releases month after month: the short form of `make series`."""

from __future__ import annotations

from typing import Any

import pytest

from flows.served.approval import MARKS
from tasks.record import ledger
from tests.served.register import CHANGE, Monthly, Register

pytestmark = pytest.mark.platform


def test_a_month_with_three_newcomers_waits_and_the_next_goes_on(served: Any) -> None:
    done = Monthly(served, Register.of(3, few_in=1)).carry_out()
    assert [month for month, _ in done.published] == [0, 2]
    assert list(done.rejected) == [1]
    assert CHANGE in done.rejected[1]
    asked, table = done.forms[1].split("| Gate", 1)
    assert "run the plan again when more have joined" in asked
    decided = [line.split(" | ")[1] for line in table.splitlines()[2:] if line.startswith("| ")]
    assert decided.index("pass") == len([verdict for verdict in decided if verdict in MARKS.values()]) > 0
    names = [run["name"] for run in served.runs("register") if run["state_type"] != "SCHEDULED"]
    assert names == [f"register · {due} UTC" for due in ("2024-01-01 02:00", "2024-02-01 02:00", "2024-03-01 02:00")]
    assert ledger.problems(served.home) == []
