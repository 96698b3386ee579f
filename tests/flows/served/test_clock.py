"""Whether the clock was set."""

from __future__ import annotations

import pytest

from flows.served import clock


@pytest.mark.parametrize(("seconds", "moved"), [(7200.0, 7200.0), (-7200.0, -7200.0), (30.0, 0.0), (0.0, 0.0)])
def test_a_clock_that_was_set_is_reported_once(seconds: float, moved: float, monkeypatch: pytest.MonkeyPatch) -> None:
    watched, ahead = clock.Clock(), clock._ahead()
    monkeypatch.setattr(clock, "_ahead", lambda: ahead + seconds)
    assert watched.moved() == pytest.approx(moved, abs=1.0)
    assert watched.moved() == 0.0
