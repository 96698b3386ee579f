"""What people are told arrives once, whatever fails in between."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from pathlib import Path

import pytest

from flows.served.mail import MAIL_TO, SMTP, MailServer
from flows.served.notices import Notice, deliver, enqueue, page_of, ways
from flows.served.state import Records
from tasks.common.errors import Refused
from tasks.common.home import Home
from tests.flows.served.mail import mail_server, self_signed

WAITS = Notice(
    "awaiting-office-1",
    "a release awaits a decision",
    "office",
    "office-1",
    "a person must decide: distance",
    until="2026-01-02 03:04 UTC",
    link="http://127.0.0.1:4200/runs/flow-run/a",
    action="read the report, then decide",
)


def test_a_notice_holds_one_line_for_each_fact_whatever_people_typed() -> None:
    typed = "x\r\nWhat to do: open http://evil.example\x1b]0;\u202e"
    notice = Notice("key", "a release is rejected", plan=typed, text=typed + "y" * 5000, action="nothing")
    assert notice.title.isprintable()
    lines = notice.body.split("\n")
    assert [line.partition(":")[0] for line in lines][1:] == ["Plan", "What to do", "Event"]
    assert all(line.isprintable() and len(line) <= 1020 for line in lines)


def test_a_link_leads_where_a_browser_finds_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect:4200/api")
    monkeypatch.delenv("ANONFLOW_PREFECT_PAGE", raising=False)
    assert page_of("a") == "http://prefect:4200/runs/flow-run/a"
    monkeypatch.setenv("ANONFLOW_PREFECT_PAGE", "https://prefect.example.org/")
    assert page_of("a") == "https://prefect.example.org/runs/flow-run/a"
    assert page_of("") == ""


def test_a_mail_says_what_has_happened_and_what_to_do_and_comes_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mail_server(refuses=1) as server:
        monkeypatch.setenv(SMTP, server.address)
        monkeypatch.setenv(MAIL_TO, "ann@example.org, bob@example.org")
        by_mail = MailServer.of_environment()
        assert by_mail is not None

        async def send(notice: Notice) -> None:
            by_mail.send(home, notice.key, notice.title, notice.body)

        chat: list[str] = []

        async def post(notice: Notice) -> None:
            chat.append(notice.title)

        enqueue(home, WAITS)
        enqueue(home, Notice("plan/../x", "a plan is refused", "x"))
        failed = [asyncio.run(deliver(home, {"mail": send, "chat": post}, set())) for _ in range(3)]
        enqueue(home, WAITS)
        failed.append(asyncio.run(deliver(home, {"mail": send, "chat": post}, set())))
    assert failed == [["mail: SMTPDataError"], [], [], []]
    assert chat == ["anonflow: a release awaits a decision: office-1", "anonflow: a plan is refused: x"]
    assert sorted(mail["Subject"] for mail in server.mails) == sorted(chat)
    (mail,) = [m for m in server.mails if "office-1" in m["Subject"]]
    assert mail["To"] == "ann@example.org, bob@example.org"
    text = mail.get_content()
    for line in (
        "a person must decide: distance",
        "Decide until: 2026-01-02 03:04 UTC",
        "See: http://127.0.0.1:4200/runs/flow-run/a",
        "What to do: read the report, then decide",
    ):
        assert line in text
    # By which a message that comes twice is recognised.
    assert text.strip().endswith("Event: awaiting-office-1")


def test_what_a_full_disk_takes_no_record_of_is_not_sent_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue(home, WAITS)
    posted: list[str] = []

    async def post(notice: Notice) -> None:
        posted.append(notice.key)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    sent = set[tuple[str, str]]()
    with monkeypatch.context() as patch:
        patch.setattr(Records, "put", full)
        for _ in range(2):
            with contextlib.suppress(OSError):
                asyncio.run(deliver(home, {"chat": post}, sent))
    assert asyncio.run(deliver(home, {"chat": post}, sent)) == []
    assert posted == [WAITS.key]
    assert not sent
    assert not list((home.path / "notices").glob("*.json"))


def test_without_any_way_nothing_piles_up(home: Home) -> None:
    enqueue(home, WAITS)
    assert asyncio.run(deliver(home, {}, set())) == []
    assert not list((home.path / "notices").glob("*.json"))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "http://127.0.0.1",
        "smtp://",
        "smtp://ann:password@mail",
        "smtp://mail:x",
        "smtp://mail",
        "smtp://ann@mail",
    ],
    ids=str,
)
def test_an_address_that_cannot_be_used_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SMTP, address)
    monkeypatch.setenv(MAIL_TO, "" if address == "smtp://mail" else "ann@example.org")
    with pytest.raises(Refused, match=f"{SMTP} must be smtp") as refusal:
        MailServer.of_environment()
    assert "password@" not in str(refusal.value)


def test_the_mail_server_is_tried_before_it_is_needed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MAIL_TO, "ann@example.org")
    with mail_server() as server:
        monkeypatch.setenv(SMTP, server.address)
        assert MailServer.of_environment().problem(home) == ""
        assert server.mails == []
    server.server_close()
    assert "cannot be used now (ConnectionRefusedError)" in MailServer.of_environment().problem(home)
    monkeypatch.setenv(SMTP, server.address.replace("//", "//ann@"))
    with pytest.raises(Refused, match="ANONFLOW_SMTP_PASSWORD is not there"):
        MailServer.of_environment().problem(home)


@pytest.mark.parametrize("scheme", ["smtps", "smtp+starttls"])
def test_a_mail_server_without_a_certificate_that_is_trusted_is_given_nothing(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv(MAIL_TO, "ann@example.org")
    with mail_server(certificate=self_signed(tmp_path), at_once=scheme == "smtps") as server:
        monkeypatch.setenv(SMTP, server.address.replace("smtp", scheme))
        assert "cannot be used now (SSLCertVerificationError)" in MailServer.of_environment().problem(home)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        assert MailServer.of_environment().problem(home) == ""


def test_a_way_that_cannot_be_used_keeps_the_notice_and_hinders_no_other(
    home: Home, tracking: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.client.orchestration import PrefectClient

    enqueue(home, WAITS)
    posted: list[str] = []

    async def post(notice: Notice) -> None:
        posted.append(notice.key)

    async def carried_out() -> list[str]:
        # Nothing listens there.
        async with PrefectClient("http://127.0.0.1:1/api") as client:
            return await deliver(home, {"chat": post} | await ways(client, home), set())

    monkeypatch.setenv(SMTP, "smtp://mail:x")
    failed = asyncio.run(carried_out())
    assert [way.split(":")[0] for way in failed] == ["mail", "block"]
    assert SMTP in failed[0]
    assert posted == [WAITS.key]
    assert len(list((home.path / "notices").glob("*.json"))) == 1
