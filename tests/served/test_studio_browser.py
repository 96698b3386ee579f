"""The workspace in a real Chromium: from a file to a published release without YAML, and axe finds nothing.

Screenshots go to the folder that ANONFLOW_SCREENSHOTS names, else to a temporary one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyreadstat
import pytest

from tasks.common.home import Home
from tasks.record.entry import ReleaseFacts
from tasks.record.ledger import find
from tasks.record.logins import add_login
from tests.served.test_served_browser import CHROMIUM

pytestmark = [
    pytest.mark.platform,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"there is no {CHROMIUM} (Debian: chromium)"),
]
PROGRAM = Path(sys.executable).parent / "anonflow"
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
LOOKS = ((1440, "light"), (390, "dark"))
LONG = 600_000
HOSTILE = "Quit <b>smoking</b> =cmd|calc!A0"


class Visitor:
    """A person's page: counts what they do, and notes what was refused, called elsewhere or hard to use."""

    def __init__(self, page: Any, origin: str, folder: Path) -> None:
        self.page, self.origin, self.folder = page, origin, folder
        self.interactions, self.troubles = 0, list[str]()
        page.on("request", lambda r: self._note(f"calls {r.url}", not r.url.startswith(origin)))
        page.on("console", lambda m: self._note(f"console: {m.text}", m.type == "error"))

    def _note(self, trouble: str, is_one: bool) -> None:
        if is_one:
            self.troubles.append(trouble)

    def click(self, role: str, name: str) -> None:
        self.interactions += 1
        self.page.get_by_role(role, name=name, exact=True).first.click()

    def fill(self, label: str, text: str) -> None:
        self.interactions += 1
        self.page.get_by_label(label, exact=True).fill(text)

    def choose(self, label: str, option: str) -> None:
        self.interactions += 1
        self.page.get_by_label(label, exact=True).select_option(option)

    def look(self, name: str) -> None:
        """Take pictures in both widths and colours; note what axe finds and what is wider than the screen."""
        from axe_playwright_python.sync_playwright import Axe

        for width, colours in LOOKS:
            self.page.set_viewport_size({"width": width, "height": 900})
            self.page.emulate_media(color_scheme=colours)
            self.page.screenshot(path=self.folder / f"studio-{name}-{width}.png")
            found = Axe().run(self.page, options={"runOnly": list(RULES)})
            self._note(f"{name} {colours}: {found.generate_report()}", found.violations_count > 0)
            beyond = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            self._note(f"{name}: wider than {width}", self.page.evaluate(beyond))
        self.page.set_viewport_size({"width": 1440, "height": 900})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chosen = os.environ.get("ANONFLOW_SCREENSHOTS")
    found = Path(chosen) if chosen else tmp_path_factory.mktemp("screenshots")
    found.mkdir(parents=True, exist_ok=True)
    return found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def served(plans: Path, home: Path) -> tuple[subprocess.Popen[str], str]:
    """Start the studio; return its process and address."""
    arguments = [PROGRAM, "studio", plans, "--home", home, "--port", "0", "--no-browser"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().split()[1]


def visitor(chromium: Any, address: str, folder: Path, **login: Any) -> Visitor:
    page = chromium.new_context(viewport={"width": 1440, "height": 900}, **login).new_page()
    page.set_default_timeout(60_000)
    page.goto(address)
    return Visitor(page, address.partition("?")[0], folder)


def test_from_a_file_to_a_release_by_two_people(tmp_path, nhefs_frame: pd.DataFrame, chromium: Any, folder: Path):
    (tmp_path / "plans").mkdir()
    nhefs_frame.to_csv(tmp_path / "nhefs.csv", index=False)
    home = Home.locate(tmp_path / "home")
    people = {"An Author": ("author",), "P. One": ("approver",), "P. Two": ("approver", "auditor")}
    passwords = {name: add_login(home, name, roles) for name, roles in people.items()}
    process, address = served(tmp_path / "plans", home.path)

    def person(name: str) -> Visitor:
        login = {"username": name, "password": passwords[name], "origin": address.rstrip("/")}
        return visitor(chromium, address, folder, http_credentials=login)

    try:
        author = person("An Author")
        release = from_file_to_request(author, tmp_path / "nhefs.csv", approvers=2)
        assert author.interactions <= 25
        author.page.goto(f"{address}releases/{release}")
        assert author.page.get_by_role("button", name="Carry out the decision").count() == 0
        one, two = person("P. One"), person("P. Two")
        decide(one, f"{address}releases/{release}")
        one.page.get_by_text("Waits for people").wait_for(timeout=LONG)
        decide(one, f"{address}releases/{release}")
        one.page.get_by_text("has approved this already").wait_for(timeout=LONG)
        two.page.goto(f"{address}decisions")
        two.click("link", release)
        two.page.wait_for_url("**/releases/*")
        decide(two, two.page.url)
        two.page.get_by_text("Done", exact=True).wait_for(timeout=LONG)
        two.look("approved")
        two.page.goto(f"{address}record")
        two.look("record")
        assert [*author.troubles, *one.troubles, *two.troubles] == []
        published = same_from_the_command_line(tmp_path, home, release)
        assert published.requester == "An Author"
        assert [given.approver for given in published.approvals] == ["P. One", "P. Two"]
    finally:
        process.terminate()
        process.wait(240)


def spss(frame: pd.DataFrame, path: Path) -> None:
    """Write a file with labels, one of which no page may carry out, and values that mean missing."""
    labels, missing = {"qsmk": {0: "did not quit", 1: HOSTILE}}, {"price71": [{"lo": 900, "hi": 999}]}
    about = {"qsmk": HOSTILE, "wt71": "Weight in 1971, kg"}
    pyreadstat.write_sav(frame, path, variable_value_labels=labels, column_labels=about, missing_ranges=missing)


WRITE = {"sav": spss, "xlsx": lambda frame, path: frame.to_excel(path, index=False)}


@pytest.mark.parametrize("suffix", WRITE)
def test_from_a_file_of_other_software_to_a_release(
    tmp_path: Path, nhefs_frame: pd.DataFrame, chromium: Any, folder: Path, suffix: str
) -> None:
    (tmp_path / "plans").mkdir()
    WRITE[suffix](nhefs_frame, tmp_path / f"nhefs.{suffix}")
    home = Home.locate(tmp_path / "home")
    process, address = served(tmp_path / "plans", home.path)
    try:
        one = visitor(chromium, address, folder / suffix)
        release = from_file_to_request(one, tmp_path / f"nhefs.{suffix}")
        one.fill("Your name", "N. Comer")
        decide(one, one.page.url)
        one.page.get_by_text("Done", exact=True).wait_for(timeout=LONG)
        one.look("approved")
        assert one.interactions <= 25
        assert one.troubles == []
        same_from_the_command_line(tmp_path, home, release)
        stated = (tmp_path / "plans" / "nhefs.yaml").read_text()
        assert suffix != "sav" or ("did not quit" in stated and stated.count(HOSTILE) == 2)
    finally:
        process.terminate()
        process.wait(60)


def from_file_to_request(author: Visitor, table: Path, approvers: int = 1) -> str:
    """Go from the file to a requested approval; return the release."""
    author.look("home")
    author.interactions += 1
    author.page.set_input_files("#file", table)
    author.click("button", "Upload and draft a plan")
    author.page.wait_for_url("**/variables", timeout=LONG)
    author.look("variables")
    author.choose("Role of qsmk", "sensitive")
    author.click("button", "Save the changes")
    author.page.get_by_text("The plan was changed.").wait_for()
    author.look("changed")
    author.click("link", "Next: edits")
    author.look("edits")
    author.click("link", "Next: steps and policy")
    author.look("steps")
    # Wide limits: what is tested is the workspace, and no release may fail its policy by chance.
    author.fill("policy: membership auc", "0.9")
    author.fill("policy: tail p", "0.000001")
    author.fill("policy: approvers", str(approvers))
    author.page.get_by_role("button", name="Save the changes").last.click()
    author.interactions += 1
    author.page.get_by_text("The plan was changed.").wait_for()
    author.click("link", "Next: run")
    author.look("run")
    author.click("button", "Run and request approval")
    author.page.get_by_role("link", name="Open the release").wait_for(timeout=LONG)
    author.look("ran")
    assert "Approval is requested" in author.page.inner_text("main")
    author.page.get_by_role("link", name="Open the release").click()
    author.page.wait_for_url("**/releases/*")
    return str(author.page.url.rpartition("/")[2])


def decide(who: Visitor, address: str) -> None:
    """Approve the release whose page is at an address."""
    if who.page.url != address:
        who.page.goto(address)
    who.look("release")
    who.page.get_by_label("Approve", exact=True).check()
    who.fill("Reason; recorded in the ledger", "=read <b>the report</b>")
    who.click("button", "Carry out the decision")


def same_from_the_command_line(folder: Path, home: Home, release: str) -> ReleaseFacts:
    """The plan that the pages have made is, for the command line, the one that was released."""
    plan = folder / "plans" / "nhefs.yaml"
    ran = subprocess.run(
        [PROGRAM, "run", plan, "--home", home.path, "--json", "--inline"], capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout)["release"] == release
    (published,) = find(home, ReleaseFacts, "published")
    checked = subprocess.run([PROGRAM, "check", plan, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(checked.stdout)["sha256"] == published.facts.plan
    return published.facts
