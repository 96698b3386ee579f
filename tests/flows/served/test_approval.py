"""What a run's page says of a decision."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any
from uuid import UUID

import pytest

from tasks.common.home import Home
from tasks.record.entry import Terms
from tests.tasks.facts import enter

pytestmark = [pytest.mark.platform, pytest.mark.usefixtures("tracking")]


@pytest.mark.parametrize(("days", "why"), [(-1, "time to decide is over"), (1, "was published"), (0, "was published")])
def test_a_candidate_that_another_release_overtook_has_not_run_out_of_time(home: Home, days: int, why: str) -> None:
    from flows.served.approval import why_expired

    until = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds") if days else ""
    entry = enter(home, "expired", terms=Terms(expires=until))
    assert why in why_expired(entry)


def test_a_form_is_stored_once_and_completed_where_storing_was_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx
    from prefect.exceptions import PrefectHTTPStatusError
    from prefect.input import keyset_from_base_key

    from flows.served import approval

    keys = keyset_from_base_key("key")
    stored: dict[str, Any] = {keys["schema"]: "stored before the process ended"}
    status = HTTPStatus.CONFLICT

    def create(key: str, value: Any, _: UUID | None) -> None:
        if key in stored:
            said = httpx.Response(status, request=httpx.Request("POST", "http://127.0.0.1/input"))
            raise PrefectHTTPStatusError("no", request=said.request, response=said)
        stored[key] = value

    monkeypatch.setattr(approval, "create_flow_run_input", create)
    form = approval.Form.with_initial_data(description="what is asked")
    form.save(keys)
    assert stored == {keys["schema"]: "stored before the process ended", keys["description"]: "what is asked"}
    form.save(keys)
    status = HTTPStatus.UNAUTHORIZED
    with pytest.raises(PrefectHTTPStatusError):
        form.save(keys)
