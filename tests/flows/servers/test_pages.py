"""What is changed of Prefect's and MLflow's pages."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from flows.servers.pages import Page


def _folder(package: str) -> Path:
    """Return where a framework is installed; imported here it would miss the settings of later tests."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@pytest.mark.parametrize(
    ("role", "path", "changed"),
    [
        ("mlflow", "/", True),
        ("mlflow", "/get-artifact", False),
        ("prefect", "/runs/flow-run/1", True),
        ("prefect", "/assets/index.js", False),
        ("prefect", "/api/flow_runs/1", False),
    ],
)
def test_lines_are_added_to_the_document_alone(ask, document, role: str, path: str, changed: bool) -> None:
    answer = ask(Page(document, role, login=role == "prefect"), path)
    assert answer.status == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    assert (b"localStorage" in answer.body) is changed
    if changed:
        assert "etag" not in answer.headers
        assert int(answer.headers["content-length"]) == len(answer.body)
        assert answer.body.startswith(b"<html><head><script>")
        assert answer.body.endswith(b"</head></html>")
        assert (b"/login?redirect=" in answer.body) is (role == "prefect")


def test_mlflow_offers_no_assistant_and_no_models(ask, document) -> None:
    page = Page(document, "mlflow")
    assert ask(page, "/ajax-api/3.0/mlflow/assistant/config").status == 404
    assert ask(page, "/gateway/x").status == 404
    models = ask(page, "/ajax-api/2.0/mlflow/gateway-proxy")
    assert (models.status, models.body) == (200, b'{"endpoints":[]}')
    assert ask(page, "/gateway/x", kind="websocket").kind == "websocket.close"


def test_mlflow_keeps_the_columns_of_a_list_under_the_names_that_are_set() -> None:
    """Names of MLflow's own: after an upgrade that changes them, lists would show no status and no approver."""
    folder = _folder("mlflow") / "server" / "js" / "build" / "static" / "js"
    sources = "".join(path.read_text() for path in folder.glob("*.js"))
    for name in ("MLflowLocalStorage", "ExperimentPage", "selectedColumns", "columnWidths", "columnOrder"):
        assert name in sources
    assert "runDateAndNestInfo" in sources
    assert "_mlflow_model_registry_promo_modal_dismissed" in sources


def test_prefect_keeps_the_names_of_what_is_corrected_in_its_pages() -> None:
    """Names of Prefect's own: after an upgrade that changes them, the decision's list would not open by a click."""
    folder = _folder("prefect") / "server" / "ui" / "assets"
    sources = "".join(path.read_text() for path in folder.glob("*.css"))
    for name in ("p-select-button__control", "markdown-renderer__table", "p-table-data", "p-table-header"):
        assert f".{name}" in sources
