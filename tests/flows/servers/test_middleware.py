"""Who is admitted: by host name, origin, password or token."""

from __future__ import annotations

import base64

import pytest

from flows.servers.middleware import HostAndBasicAuth, TokenAuth, guard
from flows.servers.pages import Page


def test_only_allowed_hosts_and_the_same_origin_are_admitted(ask, document) -> None:
    app = guard(document, HostAndBasicAuth(["prefect"], "/health"))
    assert ask(app).status == 200
    assert ask(app, host="localhost:9").status == 200
    assert ask(app, host="prefect:4200").status == 200
    assert ask(app, host="evil.example").status == 403
    assert ask(app, host="").status == 403
    assert ask(app, host="evil.example", path="/health").status == 200
    assert ask(app, origin="http://127.0.0.1:4200").status == 200
    assert ask(app, origin="http://evil.example").status == 403
    assert ask(app, origin="null").status == 403


def test_the_password_is_asked_for_before_anything_is_answered(ask, document) -> None:
    app = guard(Page(document, "mlflow"), HostAndBasicAuth([], "/health", "anonflow:word"))
    assert ask(app).status == 401
    assert ask(app).headers["www-authenticate"] == 'Basic realm="anonflow"'
    good = "Basic " + base64.b64encode(b"anonflow:word").decode()
    assert ask(app, authorization=good).status == 200
    assert ask(app, authorization="Basic " + base64.b64encode(b"anonflow:wort").decode()).status == 401
    assert ask(app, authorization=good, path="/gateway/x").status == 404
    # A path that is answered early is guarded, too.
    assert ask(app, path="/ajax-api/2.0/mlflow/gateway-proxy").status == 401
    assert ask(app, kind="websocket").kind == "websocket.close"


def test_the_health_path_is_open_to_requests_alone(ask, document) -> None:
    app = guard(document, HostAndBasicAuth([], "/health", "anonflow:word"))
    assert ask(app, path="/health").status == 200
    assert ask(app, path="/health/").status == 401
    assert ask(app, path="/health", kind="websocket").kind == "websocket.close"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"cookie": "anonflow-4200=guessed"},
        {"cookie": "anonflow-5000=secret"},
        {"cookie": "anonflow-4200=secret", "host": "evil.example:4200"},
        {"cookie": "anonflow-4200=secret", "origin": "http://127.0.0.1:9999"},
        {"cookie": "anonflow-4200=secret", "origin": "null"},
        {"cookie": "="},
        {"cookie": "anonflow-4200=sécret"},
    ],
)
def test_requests_without_the_token_are_refused(ask, document, headers: dict[str, str]) -> None:
    app = guard(Page(document, "mlflow"), TokenAuth("secret", 4200, "/health"))
    assert ask(app, **headers).status == 403
    assert ask(app, kind="websocket", **headers).kind == "websocket.close"


def test_the_owner_of_the_token_is_admitted(ask, document) -> None:
    app = guard(Page(document, "mlflow"), TokenAuth("secret", 4200, "/health"))
    cookie = "other=1; anonflow-4200=secret"
    assert ask(app, cookie=cookie).status == 200
    assert ask(app, cookie=cookie, origin="http://127.0.0.1:4200").status == 200
    assert ask(app, cookie=cookie, host="localhost:8080", origin="http://localhost:8080").status == 200
    assert ask(app, "/health", host="anything").status == 200
    assert ask(app, "/gateway/x", cookie=cookie).status == 404


def test_the_token_is_taken_out_of_the_address_which_stays_on_this_server(ask, document) -> None:
    app = guard(document, TokenAuth("secret", 4200, "/health"))
    answer = ask(app, "//evil.example/x y", "token=secret&tab=1")
    assert (answer.status, answer.headers["location"]) == (303, "/evil.example/x%20y?tab=1")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("anonflow-4200=secret; HttpOnly; Path=/; SameSite=lax")
    assert answer.headers["cache-control"] == "no-store"
    assert ask(app, "/", "token=guessed").status == 403
