"""Logins of the workspace: who may do what in its pages, each with a password of their own."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from typing import Literal, get_args

from tasks.common.errors import Refused, visible
from tasks.common.home import Home, write_private
from tasks.common.values import from_json, to_json
from tasks.record.approvers import same

LoginRole = Literal["author", "approver", "auditor"]
ROLES: tuple[LoginRole, ...] = get_args(LoginRole)
MAX_NAME = 100


@dataclass(frozen=True)
class Login:
    """A person's name, roles, and what their password is checked by: never the password."""

    name: str
    roles: tuple[LoginRole, ...]
    salt: str
    digest: str

    def accepts(self, password: str) -> bool:
        """Return whether this is the password."""
        return hmac.compare_digest(_digest(password, self.salt), self.digest)


def logins(home: Home) -> tuple[Login, ...]:
    """Return the logins of a home."""
    path = home.path / "studio" / "logins.json"
    if not path.exists():
        return ()
    return tuple(from_json(Login, one) for one in json.loads(path.read_text(encoding="utf-8")))


def add_login(home: Home, name: str, roles: tuple[LoginRole, ...]) -> str:
    """Add a login, or give one new roles and a new password; return the password, which is kept nowhere.

    Raises
    ------
    Refused
        When the name cannot be one, or there is no role.
    """
    name = " ".join(name.split())
    if not name or len(name) > MAX_NAME or not name.isprintable() or ":" in name:
        raise Refused(f"a login's name is 1 to {MAX_NAME} printable characters without a colon")
    if not roles:
        raise Refused(f"give a role: {', '.join(ROLES)}")
    password, salt = secrets.token_urlsafe(15), secrets.token_hex(16)
    with home.lock("logins"):
        others = [one for one in logins(home) if not same(one.name, name)]
        _write(home, [*others, Login(name, tuple(dict.fromkeys(roles)), salt, _digest(password, salt))])
    return password


def remove_login(home: Home, name: str) -> None:
    """Remove a login; raises `Refused` when there is none of that name."""
    with home.lock("logins"):
        known = logins(home)
        others = [one for one in known if not same(one.name, name)]
        if len(others) == len(known):
            raise Refused(f"there is no login {visible(name)}")
        _write(home, others)


def _write(home: Home, all_: list[Login]) -> None:
    folder = home.path / "studio"
    folder.mkdir(mode=0o700, exist_ok=True)
    write_private(folder / "logins.json", json.dumps([to_json(one) for one in all_], indent=1).encode())


def _digest(password: str, salt: str) -> str:
    return hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), n=2**14, r=8, p=1).hex()
