"""The child's side of a server process: it serves until its parent asks it to stop or is lost."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import os
import select
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class Parent:
    """Monitors the parent process: an orderly shutdown, announced through the pipe, or its loss."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orderly: bool | None = None
        # Before anything is served there is nothing to finish.
        self._then: Callable[[bool], object] = lambda orderly: os._exit(0)
        threading.Thread(target=self._watch, daemon=True).start()

    def at_end(self, then: Callable[[bool], object]) -> None:
        """Call ``then`` when the parent ends, with True if it announced it; at once if it has ended."""
        with self._lock:
            self._then = then
            if self._orderly is not None:
                then(self._orderly)

    def finish_first(self) -> None:
        """Let what is under way finish when the parent ends, such as a migration, which must not be cut short."""
        self.at_end(lambda orderly: None)

    def _watch(self) -> None:
        parent = os.getppid()
        # A process forked by the parent may hold the pipe open after the parent's death: watch both.
        while not (readable := select.select([0], [], [], 1.0)[0]) and os.getppid() == parent:
            pass
        with self._lock:
            self._orderly = bool(readable) and os.read(0, 1) == b"q"
            self._then(self._orderly)


@contextlib.contextmanager
def inherited(descriptor: str) -> Iterator[tuple[socket.socket, Parent]]:
    """Take over the listening socket, monitor the parent, and prepare for a quick exit."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    atexit.register(gc.freeze)
    with socket.socket(fileno=int(descriptor)) as sock:
        yield sock, Parent()


def hide_values_of_statements() -> None:
    """Let errors of the database name the statement that failed, and not its values, such as a person's answer."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine, ExceptionContext

    def hide(context: ExceptionContext) -> None:
        error: BaseException | None = context.sqlalchemy_exception
        if context.sqlalchemy_exception is not None:
            context.sqlalchemy_exception.hide_parameters = True
        for start in (error, context.original_exception):
            without_details(start)

    event.listen(Engine, "handle_error", hide)


def without_details(error: BaseException | None) -> None:
    """Cut off what PostgreSQL adds to an error and to its causes: the key, or the row, that it refuses."""
    while error is not None:
        error.args = tuple(one.split("DETAIL:")[0].rstrip() if isinstance(one, str) else one for one in error.args)
        if hasattr(error, "detail"):
            error.detail = None if isinstance(error.detail, str) else error.detail
        error = error.__cause__ or error.__context__


def run_app(
    app: ASGIApp, sock: socket.socket, parent: Parent, on_loss: Callable[[], Awaitable[None]] | None = None
) -> int:
    """Serve ``app`` until the parent ends; if it was lost, ``on_loss`` is awaited first.

    Returns
    -------
    int
        Exit code: 0, or 3 if the application did not start.
    """
    # Late: a child that only migrates a database does without.
    import uvicorn

    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=10)
    server = uvicorn.Server(config)

    async def finish(orderly: bool) -> None:
        if not orderly and on_loss is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(on_loss(), 10)
        server.should_exit = True

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        parent.at_end(lambda orderly: asyncio.run_coroutine_threadsafe(finish(orderly), loop))
        await server.serve(sockets=[sock])

    try:
        asyncio.run(serve())
    except SystemExit as end:
        return int(end.code or 0)
    return 0
