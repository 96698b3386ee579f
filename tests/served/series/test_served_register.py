"""24 monthly releases of a register by its schedule: whom they show to be in it, measured by people never in it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.served.register import CHANGE, Monthly, Register, areas

pytestmark = pytest.mark.platform

MONTHS, FEW_IN = 24, 11
# What the upper bound of every area has to stay below.
MOST = 0.60


def test_24_months_of_a_register_show_neither_who_stays_nor_who_joins_or_leaves(served: Any) -> None:
    register = Register.of(MONTHS, few_in=FEW_IN)
    done = Monthly(served, register).carry_out()
    assert FEW_IN in done.rejected
    assert CHANGE in done.rejected[FEW_IN]
    assert len(done.published) >= MONTHS - 2
    found = areas(register, done.published)
    for one in found:
        line = f"{one.group:16} {one.score:28} {one.people:5} {one.area:.3f} ≤ {one.upper:.3f}"
        sys.stderr.write(line + "\n")
    assert max(one.upper for one in found) <= MOST
    verify = [served.program, "audit", "verify", "--home", served.home.path]
    assert subprocess.run(verify, env=served.environment(), check=False).returncode == 0
