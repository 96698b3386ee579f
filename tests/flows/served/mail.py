"""A mail server on this machine, which keeps what it is handed over."""

from __future__ import annotations

import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email import message_from_string, policy
from email.message import EmailMessage
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class MailServer(socketserver.ThreadingTCPServer):
    """Speaks as much of SMTP (RFC 5321) as a client needs; refuses the first mails if told to.

    With a certificate it speaks TLS, at once or when it is asked to (STARTTLS).
    """

    daemon_threads = True

    def __init__(self, refuses: int = 0, certificate: Path | None = None, *, at_once: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), Session)
        self.tls, self.at_once = None, at_once
        if certificate is not None:
            self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self.tls.load_cert_chain(certificate)
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
        """Answer each command until the client quits, or does not trust the certificate."""
        with suppress(OSError):
            if self.server.at_once:
                self._encrypt()
            self._say("220 ready")
            self._answer()

    def _encrypt(self) -> None:
        assert self.server.tls is not None
        self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        self.setup()

    def _answer(self) -> None:
        while line := self.rfile.readline():
            command = line[:4].upper()
            if command == b"QUIT":
                self._say("221 bye")
                return
            if command == b"DATA":
                self._say("354 go on")
                self._take()
            elif command == b"STAR":
                self._say("220 go on")
                self._encrypt()
            elif command == b"EHLO" and self.server.tls and not self.server.at_once:
                self._say("250-here\r\n250 STARTTLS")
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
def mail_server(refuses: int = 0, certificate: Path | None = None, *, at_once: bool = False) -> Iterator[MailServer]:
    """Run a mail server."""
    with MailServer(refuses, certificate, at_once=at_once) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def self_signed(folder: Path) -> Path:
    """Write a key and the certificate of 127.0.0.1 that it has signed for itself."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mail")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "certificate.pem"
    pem = serialization.Encoding.PEM
    path.write_bytes(key.private_bytes(pem, *plain) + certificate.public_bytes(pem))
    return path
