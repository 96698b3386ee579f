"""Time stamps of the ledger's head by an authority outside, so that an auditor need not trust the home's clock.

Source: RFC 3161, Time-Stamp Protocol. What is stamped is the digest of an entry, in hexadecimal, which covers all
entries before it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509

from tasks.common.errors import Fault, InputOutputFault, Refused
from tasks.common.home import Home, make_private, write_private
from tasks.record import ledger
from tasks.record.ledger_verification import Entries, Finding

if TYPE_CHECKING:
    from rfc3161_client import TimeStampResponse

NAME = re.compile(r"(\d{8})-[0-9a-f]{8}\.tsr")
QUERY, REPLY = "application/timestamp-query", "application/timestamp-reply"
SECONDS = 30
LONGEST_REPLY = 1 << 20
# Of DER: the tag of a token's certificates, and the byte from which on a length is stated by the bytes after it.
CERTIFICATES, LONG_FORM = 0xA0, 0x80
# By how much the clocks of home and authority may differ.
CLOCKS = timedelta(minutes=5)


@dataclass(frozen=True)
class Stamp:
    """The time at which an authority has seen an entry."""

    entry: int
    digest: str
    time: str


def stamp(home: Home, authority: str, roots: bytes) -> Stamp:
    """Have the ledger's last entry stamped, and keep the stamp in the home.

    Parameters
    ----------
    authority : address of the authority, http or https
    roots : certificates in PEM form, one of which the authority's own descends from

    Raises
    ------
    Refused
        When the ledger is empty or not in order, an argument is not acceptable, or the stamp does not verify.
    InputOutputFault
        When the authority cannot be reached.
    """
    from rfc3161_client import TimestampRequestBuilder, VerifierBuilder

    if not authority.startswith(("https://", "http://")):
        raise Refused("the authority's address must begin with https:// or http://")
    trusted = _certificates(roots)
    ledger.trusted(home)
    known = ledger.entries(home)
    if not known:
        raise Refused("nothing was entered yet; there is nothing to stamp")
    request = TimestampRequestBuilder().data(known[-1].digest.encode()).build()
    content = _asked(authority, request.as_bytes())
    response = _decoded(content)
    builder = VerifierBuilder.from_request(request)
    for certificate in trusted:
        builder = builder.add_root_certificate(certificate)
    if response is None:
        raise Refused("the authority's answer cannot be read as a time stamp, or grants none; check the address")
    if not _verifies(builder, response, known[-1].digest):
        raise Refused("the time stamp is not of this entry or not signed by an authority of the roots; check the roots")
    name = f"{known[-1].number:08d}-{hashlib.sha256(content).hexdigest()[:8]}.tsr"
    write_private(make_private(home.timestamps) / name, content)
    return Stamp(known[-1].number, known[-1].digest, response.tst_info.gen_time.isoformat())


def problems(home: Home, known: Entries, roots: bytes | None = None) -> Iterator[Finding]:
    """Yield what is wrong with the stamps that the home keeps.

    Parameters
    ----------
    roots : as for `stamp`; without them it is only checked what was stamped, and not by whom
    """
    files = sorted(home.timestamps.iterdir()) if home.timestamps.is_dir() else []
    trusted = None if roots is None else _certificates(roots)
    by_number = {entry.number: entry for entry in known}
    for file in files:
        where = f"{home.timestamps.name}/{file.name}"
        response, name = _decoded(_content(file)), NAME.fullmatch(file.name)
        if response is None or name is None:
            yield Finding("time stamp", where, f"{where} is no time stamp")
            continue
        entry = by_number.get(int(name[1]))
        imprint = response.tst_info.message_imprint.message
        if entry is None or imprint not in _digests(entry.digest.encode()):
            sentence = f"{where} is of an entry that the ledger does not hold: it was cut off or written anew"
            yield Finding("time stamp", where, sentence)
        elif trusted is not None and not _by_one_of(trusted, response, entry.digest):
            yield Finding("time stamp", where, f"{where} is not signed by an authority of the given roots")
        elif _is_after(entry.time, response.tst_info.gen_time + CLOCKS):
            yield Finding("time stamp", where, f"entry {entry.number} states a time after that at which it was stamped")


def _is_after(time: str, stamped: datetime) -> bool:
    """Return whether a stated time is after that of a stamp; one that cannot be read or compared is."""
    try:
        return datetime.fromisoformat(time) > stamped
    except (TypeError, ValueError):
        return True


def _certificates(roots: bytes) -> list[x509.Certificate]:
    try:
        found = list(dict.fromkeys(x509.load_pem_x509_certificates(roots)))
    except ValueError:
        found = []
    if not found:
        raise Refused("the roots hold no certificate in PEM form")
    return found


def _asked(authority: str, request: bytes) -> bytes:
    """Return the answer to a request, of which no text reaches a message."""
    import httpx

    problem, content = "cannot be reached", b""
    try:
        headers = {"Content-Type": QUERY, "Accept": REPLY}
        with httpx.stream("POST", authority, content=request, headers=headers, timeout=SECONDS) as answer:
            for block in answer.iter_bytes():
                content += block
                if len(content) > LONGEST_REPLY:
                    break
            problem = "" if answer.status_code == httpx.codes.OK else f"answers with status {answer.status_code}"
    except (httpx.HTTPError, httpx.InvalidURL):
        pass
    if problem:
        raise InputOutputFault(f"the time stamping authority {problem}; check the address, or try again later")
    return content[:LONGEST_REPLY]


def _decoded(content: bytes) -> TimeStampResponse | None:
    from rfc3161_client import decode_timestamp_response

    try:
        response = decode_timestamp_response(_ordered(content))
        return response if response.status == 0 and response.tst_info is not None else None
    except Exception:
        return None


def _ordered(content: bytes) -> bytes:
    """Return an answer with its certificates in the order of DER, which authorities by OpenSSL do not keep.

    The signature covers neither the certificates nor their order.
    """
    child = (0, 0, len(content))
    # The answer, its token, the content of that, and the signed data; see RFC 5652, section 5.1.
    for number in (0, 1, 1, 0):
        child = _values(content, *child[1:])[number]
    for at, start, end in _values(content, *child[1:]):
        if content[at] == CERTIFICATES:
            certificates = sorted(content[first:last] for first, _, last in _values(content, start, end))
            return content[:start] + b"".join(certificates) + content[end:]
    return content


def _values(content: bytes, at: int, end: int) -> list[tuple[int, int, int]]:
    """Return where each DER value between two places begins, where its content begins, and where it ends."""
    values = []
    while at < end:
        size, start = content[at + 1], at + 2
        if size >= LONG_FORM:
            start += size - LONG_FORM
            size = int.from_bytes(content[at + 2 : start])
        values.append((at, start, start + size))
        at = start + size
    return values


def _by_one_of(trusted: list[x509.Certificate], response: TimeStampResponse, digest: str) -> bool:
    from rfc3161_client import VerifierBuilder

    return _verifies(VerifierBuilder(roots=list(trusted)), response, digest)


def _verifies(builder: object, response: TimeStampResponse, digest: str) -> bool:
    from rfc3161_client import VerificationError, VerifierBuilder

    assert isinstance(builder, VerifierBuilder)
    try:
        return builder.build().verify_message(response, digest.encode())
    except (VerificationError, ValueError):
        return False


def _digests(message: bytes) -> set[bytes]:
    return {hashlib.new(name, message).digest() for name in ("sha256", "sha384", "sha512")}


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        raise Fault(f"{file.name} cannot be read; check the rights of the home's files") from None
