"""A time stamping authority of the tests' own: certificates by cryptography, answers by RFC 3161, over HTTP."""

from __future__ import annotations

import datetime as d
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from rfc3161_client import _rust

SEQUENCE, SET, OCTETS, OID, INTEGER, TIME, NULL = 0x30, 0x31, 0x04, 0x06, 0x02, 0x18, 0x05
SIGNED_DATA, TST_INFO = "1.2.840.113549.1.7.2", "1.2.840.113549.1.9.16.1.4"
CONTENT_TYPE, MESSAGE_DIGEST = "1.2.840.113549.1.9.3", "1.2.840.113549.1.9.4"
SHA256, ECDSA_SHA256 = "2.16.840.1.101.3.4.2.1", "1.2.840.10045.4.3.2"


def der(tag: int, *parts: bytes) -> bytes:
    """Return a value in DER."""
    content = b"".join(parts)
    size = len(content)
    head = bytes([size]) if size < 128 else bytes([0x80 + (n := (size.bit_length() + 7) // 8)]) + size.to_bytes(n)
    return bytes([tag]) + head + content


def oid(dotted: str) -> bytes:
    """Return an object identifier."""
    first, second, *rest = map(int, dotted.split("."))
    out = bytes([40 * first + second])
    for number in rest:
        groups = [number & 127]
        while number := number >> 7:
            groups.append(number & 127 | 128)
        out += bytes(reversed(groups))
    return der(OID, out)


def whole(number: int) -> bytes:
    """Return an integer."""
    return der(INTEGER, number.to_bytes(number.bit_length() // 8 + 1))


class Authority:
    """A root, a signer below it, and the answers that it gives."""

    def __init__(self, now: d.datetime | None = None) -> None:
        self.now = now or d.datetime.now(d.UTC).replace(microsecond=0)
        root, self._key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        self._root = self._certificate("Test root", root, "Test root", root, signs=True)
        self._own = self._certificate("Test stamps", self._key, "Test root", root, signs=False)
        self.roots = self._root.public_bytes(serialization.Encoding.PEM)

    def _certificate(
        self, name: str, key: ec.EllipticCurvePrivateKey, issuer: str, by: ec.EllipticCurvePrivateKey, *, signs: bool
    ) -> x509.Certificate:
        subject, above = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in (name, issuer))
        usage = x509.KeyUsage(not signs, False, False, False, False, signs, signs, False, False)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(above)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.now - d.timedelta(days=400))
            .not_valid_after(self.now + d.timedelta(days=400))
            .add_extension(x509.BasicConstraints(ca=signs, path_length=None), critical=True)
            .add_extension(usage, critical=True)
        )
        if not signs:
            builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
        return builder.sign(by, hashes.SHA256())

    def answer(self, query: bytes) -> bytes:
        """Return the time stamp that a request asks for, with its certificates out of order as OpenSSL sends them."""
        request = _rust.parse_timestamp_request(query)
        imprint = request.message_imprint
        algorithm = der(SEQUENCE, oid(imprint.hash_algorithm.dotted_string), der(NULL))
        info = der(
            SEQUENCE,
            whole(1),
            oid("1.3.6.1.4.1.55555.1"),
            der(SEQUENCE, algorithm, der(OCTETS, imprint.message)),
            whole(7),
            der(TIME, self.now.strftime("%Y%m%d%H%M%SZ").encode()),
            whole(request.nonce),
        )
        sha256 = der(SEQUENCE, oid(SHA256))
        attributes = b"".join(
            (
                der(SEQUENCE, oid(CONTENT_TYPE), der(SET, oid(TST_INFO))),
                der(SEQUENCE, oid(MESSAGE_DIGEST), der(SET, der(OCTETS, hashlib.sha256(info).digest()))),
            )
        )
        signature = self._key.sign(der(SET, attributes), ec.ECDSA(hashes.SHA256()))
        signer = der(
            SEQUENCE,
            whole(1),
            der(SEQUENCE, self._own.issuer.public_bytes(), whole(self._own.serial_number)),
            sha256,
            der(0xA0, attributes),
            der(SEQUENCE, oid(ECDSA_SHA256)),
            der(OCTETS, signature),
        )
        signed = der(
            SEQUENCE,
            whole(3),
            der(SET, sha256),
            der(SEQUENCE, oid(TST_INFO), der(0xA0, der(OCTETS, info))),
            der(
                0xA0,
                *sorted((c.public_bytes(serialization.Encoding.DER) for c in (self._own, self._root)), reverse=True),
            ),
            der(SET, signer),
        )
        token = der(SEQUENCE, oid(SIGNED_DATA), der(0xA0, signed))
        return der(SEQUENCE, der(SEQUENCE, whole(0)), token)

    @contextmanager
    def served(self) -> Iterator[str]:
        """Yield the address at which it answers on this machine."""
        authority = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = authority.answer(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        with HTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()
