"""What a run's page says of a decision."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

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


def test_a_form_replaces_what_is_stored_under_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx
    from prefect.exceptions import PrefectHTTPStatusError
    from prefect.input import run_input

    from flows.served import approval

    schema, description = "suspended-key-schema", "suspended-key-description"
    stored: dict[str, Any] = {schema: "somebody else's", "suspended-key-response": "an answer"}
    status = HTTPStatus.NOT_FOUND

    def delete(key: str) -> None:
        if key not in stored or status != HTTPStatus.NOT_FOUND:
            said = httpx.Response(status, request=httpx.Request("DELETE", "http://127.0.0.1/input"))
            raise PrefectHTTPStatusError("no", request=said.request, response=said)
        del stored[key]

    monkeypatch.setattr(approval, "delete_flow_run_input", delete)
    monkeypatch.setattr(run_input, "create_flow_run_input", lambda key, value, flow_run_id: stored.update({key: value}))
    form = approval.Form.with_initial_data(description="what is asked")
    form.offer("key")
    assert set(stored.pop(schema)["properties"]) == set(approval.Form.model_fields)
    assert stored == {description: "what is asked", "suspended-key-response": "an answer"}
    status = HTTPStatus.UNAUTHORIZED
    with pytest.raises(PrefectHTTPStatusError):
        form.offer("key")
