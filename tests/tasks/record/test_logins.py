"""Logins of the pages: roles and a password that is kept nowhere."""

from __future__ import annotations

import pytest

from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.record.logins import add_login, logins, remove_login


def test_a_password_is_accepted_stored_nowhere_and_replaced_by_the_next(tmp_path):
    home = Home.locate(tmp_path / "home")
    first = add_login(home, "A.  Smith", ("author", "approver"))
    (login,) = logins(home)
    assert (login.name, login.roles) == ("A. Smith", ("author", "approver"))
    assert login.accepts(first)
    assert not login.accepts("")
    path = home.path / "studio" / "logins.json"
    assert first not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    second = add_login(home, "a. smith", ("auditor",))
    (login,) = logins(home)
    assert login.accepts(second)
    assert not login.accepts(first)
    remove_login(home, "a. smith")
    assert logins(home) == ()


@pytest.mark.parametrize(
    ("name", "roles"), [("", ("author",)), ("a:b", ("author",)), ("a\n\0", ("author",)), ("a", ())]
)
def test_what_cannot_be_a_login_is_refused(tmp_path, name, roles):
    with pytest.raises(Refused):
        add_login(Home.locate(tmp_path / "home"), name, roles)
