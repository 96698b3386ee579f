"""What people see, in a real browser: first visits, a run, its form filled in, the MLflow run and its report.

Screenshots go to the folder that ANONFLOW_SCREENSHOTS names, else to a temporary one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.servers.layout import Layout, mlflow_auth, prefect_auth, read_layout

CHROMIUM = "/usr/bin/chromium"
pytestmark = [
    pytest.mark.platform,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"there is no {CHROMIUM} (Debian: chromium)"),
]

# Prefect has no icon for runs that wait. MLflow asks for users, whom it does not have, and for its assistant,
# which is switched off.
MISSING = re.compile(r"/ico/\w+\.svg$|/users/current$|/mlflow/assistant/")
# A random or internal name where a person expects one of ours.
RAW = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}|\b[a-z]+-[a-z]+\b(?= submitted)")


class Browser:
    """A page, what it was refused, whom else it tried to call, and pictures of it."""

    def __init__(self, context: Any, layout: Layout, folder: Path) -> None:
        self.page, self.layout, self.folder = context.new_page(), layout, folder
        self.troubles: list[str] = []
        own = (layout.prefect, layout.mlflow, "data:", "blob:", "about:")
        socket = tuple(address.replace("http:", "ws:") for address in own[:2])
        self.page.on("request", lambda r: self._note(f"calls {r.url}", not r.url.startswith(own)))
        self.page.on("websocket", lambda w: self._note(f"calls {w.url}", not w.url.startswith(socket)))
        # Prefect's timeline draws on for a moment when its page has been left.
        self.page.on("pageerror", lambda e: self._note(f"script: {e}", not str(e).endswith("(reading 'position')")))
        self.page.on("console", self._said)
        self.page.on(
            "response",
            lambda r: self._note(f"{r.status} {r.url}", r.status >= 400 and not MISSING.search(r.url)),
        )

    def _note(self, trouble: str, is_one: bool = True) -> None:
        if is_one:
            self.troubles.append(trouble)

    def _said(self, message: Any) -> None:
        # What failed to load is judged by its address, above; drawing a chart again later is no failure.
        harmless = ("Failed to load resource", "null ResizeObserver loop")
        if message.type == "error" and not message.text.startswith(harmless):
            self._note(f"console: {message.text}")

    def look(self, address: str) -> None:
        self.page.goto(address)

    def sees(self, *texts: str) -> None:
        """Wait until every text is there to be read."""
        for text in texts:
            self.page.get_by_text(text).filter(visible=True).first.wait_for(timeout=120_000)

    def shoot(self, name: str) -> None:
        """Take a picture of a page that has come to rest and is not without its style."""
        self.page.wait_for_timeout(1500)
        self.page.screenshot(path=self.folder / f"{name}.png")
        assert self.page.evaluate("document.styleSheets.length") >= 2
        assert self.page.evaluate("getComputedStyle(document.body).fontFamily") != "serif"

    def text(self) -> str:
        return str(self.page.locator("body").inner_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chosen = os.environ.get("ANONFLOW_SCREENSHOTS")
    found = Path(chosen) if chosen else tmp_path_factory.mktemp("screenshots")
    found.mkdir(parents=True, exist_ok=True)
    return found


@pytest.fixture(scope="module")
def browser(served: Any, folder: Path) -> Iterator[Browser]:
    """A browser that was never here before; every test of this module goes on where the last one stopped."""
    from playwright.sync_api import sync_playwright

    layout = read_layout(served.home)
    assert layout is not None
    user, password = mlflow_auth(served.home).values()
    known = {"username": user, "password": password, "origin": layout.mlflow}
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = chromium.new_context(viewport={"width": 1366, "height": 768}, http_credentials=known)
        context.set_default_timeout(120_000)
        yield Browser(context, layout, folder)
        chromium.close()


@pytest.fixture(scope="module")
def run(served: Any) -> str:
    """A run that waits for a person."""
    served.plan("seen", seed=70)
    served.deployed("seen")
    started = served.run("seen")
    served.paused(started)
    return str(started)


def calm(browser: Browser) -> None:
    """Check that nobody else was called, and that nothing was refused by the policy or failed."""
    troubles, browser.troubles = browser.troubles, []
    assert troubles == []


def test_the_first_visit_of_prefect_leads_to_the_login_and_on(served: Any, browser: Browser, run: str) -> None:
    address = f"{browser.layout.prefect}/runs/flow-run/{run}"
    browser.look(address)
    browser.sees("Login")
    browser.shoot("01-prefect-login")
    hint = browser.page.locator("form").evaluate("e => getComputedStyle(e, '::before').content")
    assert "anonflow serve --secrets" in hint
    assert "went wrong" not in browser.text()
    assert "Cloud" not in browser.text()
    # The one refusal is how Prefect's page finds out that it must ask.
    browser.troubles = [t for t in browser.troubles if not t.startswith("401 ")]
    browser.page.get_by_placeholder("admin:pass").fill(prefect_auth(served.home))
    browser.page.get_by_role("button", name="Login").click()
    browser.sees("Suspended", "Task runs")
    assert browser.page.url == address
    calm(browser)


def test_a_run_shows_its_steps_by_name(browser: Browser, run: str) -> None:
    assert re.search(r"seen · 20\d\d-\d\d-\d\d \d\d:\d\d UTC", browser.text())
    browser.sees("Beginning flow run 'seen ·")
    browser.shoot("02-prefect-run")
    assert not RAW.search(browser.text())
    browser.page.get_by_text("Task Runs", exact=True).first.click()
    browser.sees("Read the source", "Measure risk and utility", "Publish, keep or reject")
    browser.shoot("03-prefect-steps")
    calm(browser)


def test_the_artifacts_say_what_they_are(served: Any, browser: Browser, run: str) -> None:
    # Prefect draws what the window shows.
    browser.page.set_viewport_size({"width": 1366, "height": 1500})
    browser.page.get_by_text("Artifacts", exact=True).first.click()
    described = {
        "decision": "What people decide on", "edits": "Edits before and after",
        "risk": "Disclosure risk with its baseline", "utility": "Utility of the release",
        "verdict": "Verdict of the policy, gate by gate", "progress": "Step 13 of 13",
    }  # fmt: skip
    browser.sees(*(f"seen-{key}" for key in described), *described.values())
    browser.shoot("04-prefect-artifacts")
    found = {a["key"]: a for a in served.api("/artifacts/filter", {"flow_runs": {"id": {"any_": [run]}}})}
    assert set(found) == {f"seen-{key}" for key in described}
    for key in described:
        browser.look(f"{browser.layout.prefect}/artifacts/artifact/{found[f'seen-{key}']['id']}")
        browser.sees(f"seen-{key}")
        browser.shoot(f"05-prefect-artifact-{key}")
        if key != "progress":
            browser.page.locator(".markdown-renderer table").first.wait_for()
    calm(browser)


def test_the_form_is_read_filled_in_and_taken(served: Any, browser: Browser, run: str) -> None:
    page, entry = browser.page, served.candidate(run)
    page.set_viewport_size({"width": 1366, "height": 768})
    browser.look(f"{browser.layout.prefect}/runs/flow-run/{run}")
    page.get_by_role("button", name="Resume").first.click()
    form = page.locator(".p-modal__body")
    browser.sees("Incomes of the office", entry.release, entry.dossier)
    browser.shoot("06-prefect-form")
    # What people decide on is there to be read in a low window, and whole.
    text = form.locator(".markdown-renderer").first.bounding_box()
    table = form.locator("table").first.evaluate("e => [e.scrollWidth, e.parentElement.clientWidth]")
    assert text is not None
    assert text["height"] > 400
    assert table[0] <= table[1] + 1
    titles = form.locator(".p-label__text, label").all_inner_texts()
    order = ["Decision", "Your name", "Reason", "Dossier SHA-256", "Signature"]
    places = [next(i for i, title in enumerate(titles) if wanted in title) for wanted in order]
    assert places == sorted(places)
    form.locator(".p-select-button").first.click()
    page.locator(".p-select-option").filter(has_text="approve").click()
    for box, value in zip(form.locator("textarea").all(), ("Ada Lovelace", "read it", entry.dossier), strict=False):
        box.fill(value)
    browser.shoot("07-prefect-form-filled-in")
    page.get_by_role("button", name="Submit").click()
    assert served.ended(run)["name"] == "Published"
    browser.look(f"{browser.layout.prefect}/runs/flow-run/{run}")
    browser.sees("Published")
    browser.shoot("08-prefect-published")
    calm(browser)


def test_the_lists_name_plans_and_alarms(browser: Browser, run: str) -> None:
    for number, (page, *texts) in enumerate(
        (
            ("dashboard", "Flow Runs"),
            ("runs", "seen ·"),
            ("deployments", "seen"),
            ("automations", "anonflow: a run is late"),
            ("events", "Event Feed"),
        ),
        start=9,
    ):
        browser.look(f"{browser.layout.prefect}/{page}")
        browser.sees(*texts)
        browser.shoot(f"{number:02}-prefect-{page}")
    calm(browser)


def test_the_first_visit_of_mlflow_shows_the_releases(served: Any, browser: Browser, run: str) -> None:
    browser.look(f"{browser.layout.mlflow}/")
    browser.sees("Experiments", "seen")
    assert "workflowType=machine_learning" in browser.page.url
    browser.shoot("20-mlflow-first-visit")
    calm(browser)


def test_the_mlflow_run_its_charts_and_its_report(served: Any, browser: Browser, run: str) -> None:
    version = served.mlflow("registered-models/alias?name=seen&alias=published")["model_version"]
    experiment = served.mlflow(f"runs/get?run_id={version['run_id']}")["run"]["info"]["experiment_id"]
    list_ = f"{browser.layout.mlflow}/#/experiments/{experiment}"
    shown = f"{list_}/runs/{version['run_id']}"
    release = version["description"]
    browser.look(list_)
    browser.sees(release, "release.status", "release.status_since", "Ada Lovelace", "release.risk")
    browser.sees("utility/variable/largest")
    browser.shoot("21-mlflow-runs")
    browser.look(shown)
    browser.sees(release, "risk/distance/upper", "published", "Ada Lovelace")
    browser.shoot("22-mlflow-run")
    assert "Switched off" not in browser.text()
    browser.look(f"{shown}/model-metrics")
    browser.page.locator(".js-plotly-plot").first.wait_for()
    browser.shoot("23-mlflow-charts")
    browser.look(f"{shown}/artifacts/report.html")
    report = browser.page.frame_locator("iframe").first
    report.get_by_role("heading", name="Incomes of the office").wait_for()
    browser.shoot("24-mlflow-report")
    browser.look(f"{browser.layout.mlflow}/#/models/seen")
    browser.sees("Releases of this plan", "Version 1")
    browser.shoot("25-mlflow-registry")
    calm(browser)
