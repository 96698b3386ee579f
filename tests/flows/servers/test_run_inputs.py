"""Only our own runs state what their forms ask."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from flows.servers.environment import RUN_HEADER
from flows.servers.run_inputs import RunInputs

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
KEYSET = {"description": "../../OTHER/input/K-description", "response": "K-response", "schema": "K-schema"}
STATE = {"type": "PAUSED", "state_details": {"run_input_keyset": KEYSET}}


async def echo(request: Request) -> JSONResponse:
    return JSONResponse(len(await request.body()))


@pytest.fixture
def client() -> TestClient:
    app = Starlette(routes=[Route("/{path:path}", echo, methods=METHODS)])
    return TestClient(RunInputs(app, "known to runs"))


def test_without_a_secret_nobody_is_taken_for_a_run() -> None:
    client = TestClient(RunInputs(Starlette(routes=[Route("/{path:path}", echo, methods=METHODS)]), ""))
    assert client.post("/api/flow_runs/R/input", headers={RUN_HEADER: ""}).status_code == 403
    assert client.post("/api/flow_runs/R/input").status_code == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["input", "input/", "input/K-schema", "input/filter/K"])
def test_inputs_are_written_by_runs_alone(client: TestClient, path: str, method: str) -> None:
    address = f"/api/flow_runs/R/{path}"
    assert client.request(method, address).status_code == 403
    assert client.request(method, address, headers={RUN_HEADER: "guessed"}).status_code == 403
    assert client.request(method, address, headers={RUN_HEADER: "known to runs"}).status_code == 200
    assert client.get(address).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"state": STATE, "force": True}),
        json.dumps({"flow_runs": [{"state": STATE}]}),
        json.dumps({"state": STATE}).replace("run_input_keyset", "run\\u005finput_keyset"),
        json.dumps({"state": STATE}).encode("utf-16"),
        '{"state": {"state_details": {"run_input_keyset": null, "run_input_keyset": {"schema": "K"}}}}',
    ],
)
def test_no_state_that_names_other_inputs_is_set_by_others(client: TestClient, body: Any) -> None:
    sent = {"content": body, "headers": {"content-type": "application/json"}}
    assert client.post("/api/flow_runs/R/set_state", **sent).status_code == 403
    sent["headers"] |= {RUN_HEADER: "known to runs"}
    assert client.post("/api/flow_runs/R/set_state", **sent).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("flow_runs/R/resume", b'{"run_input": {"decision": "approve", "reason": "run_input_keyset"}}'),
        ("flow_runs/R/set_state", b'{"state": {"type": "CANCELLING", "state_details": {"run_input_keyset": null}}}'),
        ("flow_runs/R/input/filter", b'{"prefix": "K"}'),
        ("flow_runs/filter", b"no JSON"),
        ("flow_runs/filter", b"[" * 100_000),
        ("logs", b"[" + b"1," * 300_000 + b"1]"),
    ],
)
def test_everything_else_is_passed_on_whole(client: TestClient, path: str, body: bytes) -> None:
    assert client.post(f"/api/{path}", content=body).json() == len(body)
