"""What people are informed of: each event once, by mail and by a notification block of Prefect, until it is delivered.

A notice is a small file of the home, so that none is lost with a process. Delivery is tried again, with growing pauses.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from flows.served.mail import MailServer
from flows.served.state import Records
from flows.servers.layout import PREFECT_PAGE
from tasks.common.errors import Refused, cut, visible
from tasks.common.home import Home, make_private

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

BLOCK = "anonflow"
# Seconds between two looks for notices, and the longest pause after a failure.
PACE, LONGEST_PAUSE = 2.0, 300.0
# Seconds after which it is forgotten that a notice was delivered.
REMEMBERED = 400 * 86_400.0
# Characters of a fact in a notice; people type reasons.
LONGEST_FACT = 1000
CORRECT = "correct the plan or the data as the run's page says, and run the plan again"
RUN_AGAIN = "see the run's page; when the cause is mended, run the plan again"
WHY = "the run's page says why"

log = logging.getLogger("anonflow.served")


@dataclass(frozen=True)
class Notice:
    """What people are informed of, one event: names, reasons and counts, no data.

    Attributes
    ----------
    key : of the event; the same event is reported once, and a message that comes twice names the same event
    subject : what has happened, in a few words
    plan, release : what it is about
    text : why
    until : until when people can act, as they read it
    link : where to look
    action : what to do
    delivered : by which ways it was delivered so far
    """

    key: str
    subject: str
    plan: str = ""
    release: str = ""
    text: str = ""
    until: str = ""
    link: str = ""
    action: str = ""
    when: str = ""
    delivered: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The subject line."""
        about = cut(visible(self.release or self.plan))
        return f"anonflow: {self.subject}" + (f": {about}" if about else "")

    @property
    def body(self) -> str:
        """The message, a fact a line."""
        lines = {
            "": self.text,
            "Plan": self.plan,
            "Release": self.release,
            "Decide until": self.until,
            "See": self.link,
            "What to do": self.action,
            "When": self.when,
            "Event": self.key,
        }
        # Each on one line: what people typed must not look like a fact of ours.
        facts = {name: cut(visible(value.replace("\n", " | ")), LONGEST_FACT) for name, value in lines.items() if value}
        return "\n".join(f"{name}: {value}" if name else value for name, value in facts.items())


Send = Callable[[Notice], Awaitable[None]]


def _waiting(home: Home) -> Records[Notice]:
    return Records(home.path / "notices", Notice)


def enqueue(home: Home, notice: Notice) -> None:
    """Keep a notice for delivery, unless one of the same event waits already or was delivered."""
    key = re.sub(r"[^A-Za-z0-9._-]", "_", notice.key)[:150]
    waiting = _waiting(home)
    if waiting.get(key) is None and not (make_private(waiting.folder / "delivered") / key).exists():
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        waiting.put(key, replace(notice, key=key, when=now))
        about = {"plan": notice.plan, "release": notice.release}
        log.info("notice: %s", " | ".join([notice.title, *notice.body.split("\n")]), extra=about)


def page_of(run: str) -> str:
    """Return the address of a run's page in Prefect."""
    page = os.environ.get(PREFECT_PAGE) or os.environ.get("PREFECT_API_URL", "").removesuffix("/api")
    return f"{page.rstrip('/')}/runs/flow-run/{run}" if run else ""


def stopped(plan: str, run: str, *, is_refused: bool) -> Notice:
    """Return what people are informed of a run that could not go on; the reason stands in its page alone."""
    subject, action = ("a run was refused", CORRECT) if is_refused else ("a run failed", RUN_AGAIN)
    return Notice(f"stopped-{run}", subject, plan, text=WHY, link=page_of(run), action=action)


async def run_sender(client: PrefectClient, home: Home) -> None:
    """Deliver notices until cancelled."""
    pause, sent = PACE, set[tuple[str, str]]()
    while True:
        await asyncio.sleep(pause)
        try:
            failed = await deliver(home, await ways(client, home), sent)
        except Exception as error:
            failed = [type(error).__name__]
        if failed:
            log.warning("notices are not delivered (%s); tried again in %.0f s", ", ".join(failed), pause)
        pause = min(pause * 2, LONGEST_PAUSE) if failed else PACE


async def ways(client: PrefectClient, home: Home) -> dict[str, Send]:
    """Return the ways by which people are notified: mail, a notification block, both or none.

    One that cannot be used now fails with each notice, so that notices wait for it and the other is used.
    """
    found: dict[str, Send] = {}
    try:
        server = MailServer.of_environment()
    except Refused as error:
        found.update(mail=_failing(error))
        server = None
    if server is not None:

        async def by_mail(notice: Notice) -> None:
            await asyncio.to_thread(server.send, home, notice.key, notice.title, notice.body)

        found.update(mail=by_mail)
    try:
        documents = await client.read_block_documents()
    except Exception as error:
        return found | {"block": _failing(error)}
    document = next((one for one in documents if one.name == BLOCK and one.block_type is not None), None)
    if document is not None and document.block_type is not None:
        slug = document.block_type.slug

        async def by_block(notice: Notice) -> None:
            from prefect.blocks.core import Block

            block: object = await Block.aload(f"{slug}/{BLOCK}")
            await block.notify(body=notice.body, subject=notice.title)  # type: ignore[attr-defined]

        found.update(block=by_block)
    return found


def _failing(problem: Exception) -> Send:
    async def fail(notice: Notice) -> None:
        raise problem

    return fail


async def deliver(home: Home, found: dict[str, Send], sent: set[tuple[str, str]]) -> list[str]:
    """Deliver what waits by every way, once by each; return by which ways something could not be delivered.

    Keys and ways of what was handed over are kept in ``sent``, too: a full disk takes no record of it.
    """
    waiting, failed = _waiting(home), []
    for notice in waiting.all():
        delivered = list(dict.fromkeys((*notice.delivered, *(way for key, way in sent if key == notice.key))))
        for way, send in found.items():
            if way in delivered:
                continue
            try:
                await send(notice)
            except Exception as error:
                failed.append(f"{way}: {error if isinstance(error, Refused) else type(error).__name__}")
            else:
                delivered.append(way)
                sent.add((notice.key, way))
                waiting.put(notice.key, replace(notice, delivered=tuple(delivered)))
        if set(found) <= set(delivered):
            (make_private(waiting.folder / "delivered") / notice.key).touch(mode=0o600)
            waiting.remove(notice.key)
            sent -= {(notice.key, way) for way in delivered}
    _forget(home)
    return failed


def _forget(home: Home) -> None:
    now = time.time()
    for path in (home.path / "notices" / "delivered").glob("*"):
        with suppress(FileNotFoundError):
            if now - path.stat().st_mtime > REMEMBERED:
                path.unlink()
