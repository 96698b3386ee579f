"""The pages as a browser asks for them: from an upload to a plan, roles, stale forms, what is hostile."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from starlette.testclient import TestClient

from flows.plan.model import load_plan
from flows.studio.access import FREE, OnePerson, People
from flows.studio.app import application
from flows.studio.jobs import Jobs
from flows.studio.pages import Studio
from tasks.common.home import Home
from tasks.record import ledger
from tasks.record.logins import add_login
from tasks.record.signing import signing_key
from tests.tasks.facts import release_facts

ORIGIN = "http://127.0.0.1"
TOKEN = "of-this-start"


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    (tmp_path / "plans").mkdir()
    home = Home.locate(tmp_path / "home")
    jobs = Jobs(home)
    yield Studio(home, tmp_path / "plans", jobs, largest_upload=300_000)
    jobs.stop()
    assert not list((home.path / "studio").glob("jobs-*"))


@pytest.fixture
def browser(studio: Studio) -> TestClient:
    client = TestClient(application(studio, OnePerson(TOKEN, 80)), base_url=ORIGIN, headers={"origin": ORIGIN})
    assert client.get("/").status_code == 403
    assert client.get(f"/?token={TOKEN}").status_code == 200
    return client


def version(html: str) -> str:
    found = re.search(r'name="version" value="(\w+)"', html)
    assert found
    return found[1]


def ended(browser: TestClient, address: str) -> str:
    """Follow work until it has led elsewhere; return the address."""
    for _ in range(300):
        answer = browser.get(address)
        assert "Failed" not in answer.text, answer.text
        if answer.url.path != address:
            return str(answer.url.path)
        time.sleep(0.1)
    raise AssertionError(answer.text)


def test_a_table_with_hostile_labels_becomes_a_plan_and_every_page_shows_them_as_text(studio, browser, people):
    frame = people(200)[["person", "age", "region"]].rename(columns={"region": "<img src=x onerror=alert(1)>"})
    frame["formula"] = ["=1+1", "<b>a</b>"] * 100
    answer = browser.post("/upload?name=people.csv", content=frame.to_csv(index=False).encode())
    assert ended(browser, answer.json()["location"]) == "/plans/people.yaml/variables"
    assert (studio.folder / "people.csv").stat().st_mode & 0o077 == 0
    for part in ("variables", "edits", "steps", "text", "run"):
        begun = time.perf_counter()
        html = browser.get(f"/plans/people.yaml/{part}").text
        assert time.perf_counter() - begun < 2.0
        assert "<img src=x" not in html
        assert "<b>a</b>" not in html
        assert "Qx7-Canary-Zw" not in html
    about = {"version": version(html), "v1.description": "=1+1<i>"}
    changed = browser.post("/plans/people.yaml/variables", data=about)
    assert changed.status_code == 200
    assert "description: =1+1&lt;i&gt;" in changed.text
    stale = browser.post("/plans/people.yaml/variables", data={"version": version(html), "v1.role": "sensitive"})
    assert stale.status_code == 409
    assert "Nothing was changed" in stale.text
    left = b"".join(path.read_bytes() for path in studio.home.path.rglob("*") if path.is_file())
    assert b"Qx7-Canary-Zw" not in left
    assert load_plan(studio.folder / "people.yaml").plan.digest[:16] in browser.get("/plans/people.yaml/run").text


@pytest.mark.parametrize(
    "name", ["../a.csv", "/etc/passwd", ".hidden.csv", "a.yaml", "prefect.toml", "a\n.csv", "<b>.csv", ""]
)
def test_hostile_file_names_are_refused_as_text(studio, browser, name):
    answer = browser.post(f"/upload?name={quote(name)}", content=b"a,b\n1,2\n")
    assert answer.status_code == 422
    assert "Rename it" in answer.json()["message"]
    assert not any(studio.folder.iterdir())


def test_an_upload_ends_at_the_limit_whether_it_states_its_size_or_not(studio, browser):
    stated = browser.post("/upload?name=a.csv", content=b"x" * 300_001)
    streamed = browser.post("/upload?name=a.csv", content=(b"x" * 100_000 for _ in range(4)))
    for answer in (stated, streamed):
        assert answer.status_code == 413
        assert "larger than" in answer.json()["message"]
    declared = browser.post("/upload?name=a.csv", content=b"", headers={"content-length": "2000000000000"})
    assert declared.status_code == 413
    assert not any(studio.folder.iterdir())


def test_of_two_uploads_of_one_name_one_is_stored_whole_and_the_other_refused(studio, browser):
    transport = httpx.ASGITransport(application(studio, OnePerson(TOKEN, 80)))

    async def both() -> list[int]:
        headers = {"origin": ORIGIN}
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN, headers=headers, timeout=10) as client:
            client.cookies = browser.cookies
            answers = []

            async def slow():
                yield b"a,b\n1,"
                answers.append(await client.post("/upload?name=a.csv", content=b"a,b\n3,4\n"))
                yield b"2\n"

            answers.append(await client.post("/upload?name=a.csv", content=slow()))
            return [answer.status_code for answer in answers]

    assert asyncio.run(both()) == [200, 422]
    assert (studio.folder / "a.csv").read_bytes() == b"a,b\n3,4\n"
    assert not list(studio.folder.glob(".*"))


def test_requests_of_other_pages_and_hosts_are_refused(browser):
    assert browser.post("/import", data={"path": "a.csv"}, headers={"origin": "http://evil.example"}).status_code == 403
    assert browser.get("/", headers={"host": "evil.example"}).status_code == 403
    answer = browser.get("/")
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    # Nothing is fetched from elsewhere, and no script or style stands in a page.
    assert not re.findall(r'(?:src|href)="(?!/|#)|<script>|<style| style="| on\w+="', answer.text)
    assert "Not done" in browser.get("/plans/none.yaml/variables").text
    assert browser.get("/nothing").status_code == 404


def test_roles_come_from_the_login_and_nothing_in_a_request_adds_one(studio):
    passwords = {name: add_login(studio.home, name, (name,)) for name in ("author", "approver", "auditor")}
    studio.people = True
    app = application(studio, People(studio.home, ()))

    def person(name: str, password: str = "") -> TestClient:
        client = TestClient(app, base_url=ORIGIN, headers={"origin": ORIGIN})
        client.auth = (name, password or passwords[name])
        return client

    assert person("author", "wrong").get("/").status_code == 401
    assert person("author").post("/import", data={"path": "../../etc/passwd"}).status_code == 422
    forged = {"role": "approver", "roles": "approver", "by": "approver", "decision": "approve", "reason": "because"}
    answer = person("author").post("/releases/p-1/decide", data=forged, headers={"x-role": "approver"})
    assert answer.status_code == 403
    assert "role approver" in answer.text
    allowed: dict[str, Callable[[TestClient], int]] = {
        "author": lambda p: p.get("/plans/p.yaml/variables").status_code,
        "approver": lambda p: p.get("/decisions").status_code,
        "auditor": lambda p: p.get("/record").status_code,
    }
    for role, ask in allowed.items():
        assert [ask(person(name)) == 403 for name in passwords] == [name != role for name in passwords]
    assert person("auditor").post("/upload?name=a.csv", content=b"a").status_code == 403


def environment(pid: int) -> bytes:
    """Return what a process was given; the kernel shows nothing until the program has been loaded."""
    for _ in range(1000):
        if shown := Path(f"/proc/{pid}/environ").read_bytes():
            return shown
        time.sleep(0.01)
    raise AssertionError("the process shows no environment")


def test_an_author_publishes_nothing_alone_and_work_is_seen_by_its_role(studio, office, people):
    passwords = {"Ann": add_login(studio.home, "Ann", ("author",)), "Bob": add_login(studio.home, "Bob", ("approver",))}
    passwords["Cleo"] = add_login(studio.home, "Cleo", ("author", "approver"))
    studio.people = True
    plan = office(people(60))
    studio.folder, page = plan.parent, f"/plans/{plan.name}"
    app, given = application(studio, People(studio.home, ())), {}
    browsers = {}
    for name, password in passwords.items():
        browsers[name] = TestClient(app, base_url=ORIGIN, headers={"origin": ORIGIN})
        browsers[name].auth = (name, password)
    for name in ("Ann", "Cleo"):
        form = {"version": version(browsers[name].get(f"{page}/run").text), "kind": "run"}
        browsers[name].post(f"{page}/start", data=form, follow_redirects=False)
        (job,) = [job for job in studio.jobs.all() if job.by == name]
        given[name] = environment(job.process.pid)
        assert Path(f"/proc/{job.process.pid}/cwd").resolve() == studio.home.path
        assert browsers["Bob"].get(f"/work/{job.id}").status_code == 403
        assert browsers["Bob"].post(f"/work/{job.id}/cancel").status_code == 403
        assert job.id not in browsers["Bob"].get("/").text
        assert job.id in browsers["Ann"].get("/").text
        assert browsers["Ann"].post(f"/work/{job.id}/cancel").status_code == 200
        job.process.wait(30)
    assert b"ANONFLOW_APPROVAL=person" in given["Ann"]
    assert b"ANONFLOW_APPROVAL" not in given["Cleo"]


def test_wrong_passwords_wait_and_no_path_is_open_without_a_token(studio, browser):
    add_login(studio.home, "Ann", ("author",))
    app = application(studio, People(studio.home, ()))
    stranger = TestClient(app, base_url=ORIGIN)
    stranger.auth = ("Nobody", "wrong")
    answers = [stranger.get("/").status_code for _ in range(FREE + 1)]
    assert answers == [401] * FREE + [429]
    assert TestClient(application(studio, OnePerson(TOKEN, 80)), base_url=ORIGIN).get("/health").status_code == 403


def test_work_that_a_killed_server_left_is_removed_and_that_of_another_stays(studio):
    left = studio.home.path / "studio" / "jobs-0"
    left.mkdir()
    (left / "out").write_text("Qx7-Canary-Zw")
    left.with_suffix(".lock").touch()
    other = Jobs(studio.home)
    assert {path.stem for path in left.parent.glob("jobs-*")} == {studio.jobs.folder.name, other.folder.name}
    other.stop()


def test_pages_of_two_hundred_candidates_are_quick_and_one_that_was_pruned_is_shown(studio, browser):
    key, entries = signing_key(studio.home), []
    gates = {f"gate {number}": ("pass", "0.51 [0.400, 0.600]; halves") for number in range(25)}
    for number in range(200):
        about = release_facts(name=f"plan-{number % 12}", release=f"plan-{number}", plan=str(number), gates=gates)
        event = "published" if number % 10 == 0 else "rejected"
        entries.append(ledger._append(studio.home, event, about, entries, key))
    assert browser.get("/record").status_code == 200
    # Each entry is parsed once: a first reading of 1000 takes 0.3 s, and every page less than 0.02 s afterwards.
    ledger._append(studio.home, "awaiting", replace(about, release="plan-200"), entries, key)
    seconds = {}
    for page in ("/", "/decisions", "/record", "/releases/plan-190"):
        begun = time.process_time()
        assert browser.get(page).status_code == 200
        seconds[page] = time.process_time() - begun
    assert max(seconds.values()) < 0.2, seconds
    pruned = browser.get("/releases/plan-190").text
    assert "removed from this home" in pruned
    assert "every gate passed" in pruned
    assert "gate 24" in pruned
