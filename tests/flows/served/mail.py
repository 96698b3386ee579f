"""A mail server on this machine, which keeps what it is handed over."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_string, policy
from email.message import EmailMessage


class MailServer(socketserver.ThreadingTCPServer):
    """Speaks as much of SMTP (RFC 5321) as a client without encryption needs; refuses the first mails if told to."""

    daemon_threads = True

    def __init__(self, refuses: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), Session)
        self.mails: list[EmailMessage] = []
        self.refuses = refuses

    @property
    def address(self) -> str:
        """How ``ANONFLOW_SMTP`` names it."""
        return f"smtp://127.0.0.1:{self.server_address[1]}"


class Session(socketserver.StreamRequestHandler):
    """One connection."""

    server: MailServer

    def handle(self) -> None:
        """Answer each command until the client quits."""
        self._say("220 ready")
        while line := self.rfile.readline():
            command = line[:4].upper()
            if command == b"QUIT":
                self._say("221 bye")
                return
            if command == b"DATA":
                self._say("354 go on")
                self._take()
            else:
                self._say("250 ok")

    def _take(self) -> None:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b"."))
        if self.server.refuses:
            self.server.refuses -= 1
            self._say("451 try again")
            return
        text = b"".join(lines).decode("utf-8")
        mail = message_from_string(text, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.server.mails.append(mail)
        self._say("250 taken")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mail_server(refuses: int = 0) -> Iterator[MailServer]:
    """Run a mail server."""
    with MailServer(refuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
