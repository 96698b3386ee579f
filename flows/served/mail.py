"""The mail server by which people are told, as the environment names it."""

from __future__ import annotations

import os
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from urllib.parse import urlsplit

from tasks.common import secrets
from tasks.common.errors import Refused, visible
from tasks.common.home import Home

SMTP, MAIL_TO, MAIL_FROM = "ANONFLOW_SMTP", "ANONFLOW_MAIL_TO", "ANONFLOW_MAIL_FROM"
# The named secret with the password of the user in ANONFLOW_SMTP.
PASSWORD = "ANONFLOW_SMTP_PASSWORD"  # noqa: S105
SCHEMES = ("smtp", "smtp+starttls", "smtps")
# Seconds that a mail server has to answer: when a mail is handed over, and when it is tried at the start.
TIMEOUT, TRIAL = 20.0, 5.0


@dataclass(frozen=True)
class MailServer:
    """Where mail is handed over, as ``ANONFLOW_SMTP`` names it, and from whom to whom."""

    host: str
    port: int
    scheme: str
    user: str
    sender: str
    receivers: tuple[str, ...]

    @classmethod
    def of_environment(cls) -> MailServer | None:
        """Return the mail server that the environment names, None where it names none.

        Raises
        ------
        Refused
            When what it says cannot be used.
        """
        address = os.environ.get(SMTP, "")
        if not address:
            return None
        try:
            parts = urlsplit(address)
            stated = parts.port
        except ValueError:
            parts, stated = urlsplit(""), None
        receivers = tuple(filter(None, map(str.strip, os.environ.get(MAIL_TO, "").split(","))))
        if parts.scheme not in SCHEMES or not parts.hostname or parts.password or not receivers:
            raise Refused(
                f"{SMTP} must be smtp://, smtp+starttls:// or smtps:// with USER@HOST:PORT, {MAIL_TO} the addresses of "
                f"the recipients, and the password the secret {PASSWORD}"
            )
        if parts.scheme == "smtp" and parts.username and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
            raise Refused(f"{SMTP} must be smtp+starttls:// or smtps:// with a user: the password would go in clear")
        sender = os.environ.get(MAIL_FROM) or f"anonflow@{parts.hostname}"
        port = stated or {"smtps": 465, "smtp+starttls": 587}.get(parts.scheme, 25)
        return cls(parts.hostname, port, parts.scheme, parts.username or "", sender, receivers)

    def send(self, home: Home, key: str, subject: str, body: str) -> None:
        """Hand over a mail about the event of a key.

        Raises `OSError` or `smtplib.SMTPException` where the server does not take it.
        """
        message = EmailMessage()
        headers = {
            "Subject": " ".join(subject.split()),
            "From": self.sender,
            "To": ", ".join(self.receivers),
            # A mail that is handed over twice, because the connection broke in between, is recognised by it.
            "Message-ID": f"<{key}@{self.host}>",
        }
        for name, text in headers.items():
            message.add_header(name, text)
        message.set_content(body)
        with self._session(home, TIMEOUT) as server:
            server.send_message(message)

    def problem(self, home: Home) -> str:
        """Return why the server cannot be used now, empty where it can: it is reached, and the password accepted.

        Raises
        ------
        Refused
            When the server asks for a password, and the secret is not there.
        """
        try:
            with self._session(home, TRIAL) as server:
                server.noop()
        except (OSError, smtplib.SMTPException) as error:
            return f"the mail server {visible(self.host)}:{self.port} cannot be used now ({type(error).__name__})"
        return ""

    @contextmanager
    def _session(self, home: Home, timeout: float) -> Iterator[smtplib.SMTP]:
        password = secrets.secret(PASSWORD, home) if self.user else ""
        # Without a context smtplib accepts any certificate.
        tls = ssl.create_default_context()
        with (
            smtplib.SMTP_SSL(self.host, self.port, timeout=timeout, context=tls)
            if self.scheme == "smtps"
            else smtplib.SMTP(self.host, self.port, timeout=timeout)
        ) as server:
            if self.scheme == "smtp+starttls":
                server.starttls(context=tls)
            if self.user:
                server.login(self.user, password)
            yield server
