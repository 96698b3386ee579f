"""What an approver decides, in the form that is signed."""

from __future__ import annotations

import base64
import unicodedata
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from tasks.common import keys
from tasks.common.errors import Refused, visible
from tasks.record.entry import canonical

Act = Literal["approve", "reject", "withdraw"]
ACTS: dict[str, Act] = {act: act for act in get_args(Act)}


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What is decided, on which release and dossier, by whom and why."""

    decision: Act
    release: str
    dossier: str
    by: str
    reason: str

    @property
    def statement(self) -> bytes:
        """The one form that is signed; white space counts once, since a form or a mail may break lines anew."""
        plain_ = {"by": plain(self.by), "reason": plain(self.reason)}
        return canonical({"anonflow": "decision"} | asdict(self) | plain_)


def sign(private_pem: Path, decision: Decision, password: bytes | None = None) -> str:
    """Return the signature of a decision by a private key, in base64.

    Raises
    ------
    Refused
        When the key is not there, or others can read it.
    """
    if not private_pem.is_file():
        raise Refused(f"there is no key {visible(private_pem.name)}")
    key = keys.read_private(private_pem, f"the key {visible(private_pem.name)}", password)
    return base64.b64encode(key.sign(decision.statement)).decode()


def plain(text: str) -> str:
    """Return a text in normal form, with single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())
