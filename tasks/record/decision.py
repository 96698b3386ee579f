"""What an approver decides, in the form that is signed."""

from __future__ import annotations

import base64
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tasks.common import keys
from tasks.common.errors import Refused, visible
from tasks.record.entry import canonical

Act = Literal["approve", "reject", "withdraw"]
ACTS: dict[str, Act] = {act: act for act in get_args(Act)}


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A decision of an approver on a candidate or release.

    Attributes
    ----------
    dossier : the digest of the dossier that was read; empty where it is not stated
    signature : as `sign` returns it; empty where there is none
    """

    act: Act
    release: str
    by: str
    reason: str
    dossier: str = ""
    signature: str = ""

    @property
    def statement(self) -> bytes:
        """The one form that is signed; white space counts once, since a form or a mail may break lines anew."""
        form = {"anonflow": "decision", "decision": self.act, "release": self.release, "dossier": self.dossier}
        return canonical(form | {"by": plain(self.by), "reason": plain(self.reason)})


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
