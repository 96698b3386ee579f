"""Time stamps of the ledger by an authority outside: what it has seen can be neither changed nor cut off."""

from __future__ import annotations

import datetime as d
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli import app
from tasks.audit.timestamps import problems, stamp
from tasks.common.errors import InputOutputFault, Refused
from tasks.record import ledger
from tests.tasks.audit.authority import Authority


def sentences(home: Any, roots: bytes | None = None) -> list[str]:
    return [f.sentence for f in problems(home, ledger.entries(home), roots)]


def test_a_stamp_is_kept_and_verifies_and_the_auditor_sees_what_does_not(office: Any) -> None:
    home, authority = office.home, Authority()
    with authority.served() as address:
        with pytest.raises(Refused, match="nothing was entered yet"):
            stamp(home, address, authority.roots)
        office.waiting("a")
        made = stamp(home, address, authority.roots)
        with pytest.raises(Refused, match="not signed by an authority of the roots"):
            stamp(home, address, Authority().roots)
    last = ledger.entries(home)[-1]
    assert (made.entry, made.digest, made.time) == (last.number, last.digest, authority.now.isoformat())
    assert len(list(home.timestamps.iterdir())) == 1
    office.waiting("b", data="3" * 64)
    assert sentences(home) == sentences(home, authority.roots) == []
    assert "not signed by an authority" in sentences(home, Authority().roots)[0]
    file = next(home.timestamps.iterdir())
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert sentences(home) == []
    assert "not signed by" in sentences(home, authority.roots)[0]
    file.write_bytes(content[:100])
    assert "is no time stamp" in sentences(home)[0]
    file.rename(file.with_name(f"{last.number - 1:08d}{file.name[8:]}"))
    next(home.timestamps.iterdir()).write_bytes(content)
    assert "cut off or written anew" in sentences(home)[0]


def test_an_entry_that_states_a_later_time_than_its_stamp_is_a_finding(office: Any) -> None:
    authority = Authority(d.datetime.now(d.UTC).replace(microsecond=0) - d.timedelta(days=1))
    office.waiting("a")
    with authority.served() as address:
        stamp(office.home, address, authority.roots)
    assert "states a time after that at which it was stamped" in sentences(office.home, authority.roots)[0]


def test_what_cannot_be_asked_is_refused_without_a_word_of_the_answer(office: Any) -> None:
    office.waiting("a")
    roots = Authority().roots
    for address, given, message in (
        ("ftp://x", roots, "must begin with https"),
        ("http://127.0.0.1:1", b"x", "no certificate in PEM form"),
    ):
        with pytest.raises(Refused, match=message):
            stamp(office.home, address, given)
    with pytest.raises(InputOutputFault, match="cannot be reached"):
        stamp(office.home, "http://127.0.0.1:1", roots)


def test_the_command_stamps_and_verifies(office: Any, tmp_path: Path) -> None:
    authority, roots = Authority(), tmp_path / "roots.pem"
    roots.write_bytes(authority.roots)
    office.waiting("a")
    home = ["--home", str(office.home.path), "--json"]
    with authority.served() as address:
        done = CliRunner().invoke(app, ["audit", "timestamp", address, "--roots", str(roots), *home])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["digest"] == ledger.entries(office.home)[-1].digest
    given = ["audit", "verify", "--no-mlflow", "--timestamp-roots", str(roots), *home]
    assert CliRunner().invoke(app, given).exit_code == 0
    roots.write_bytes(Authority().roots)
    assert json.loads(CliRunner().invoke(app, given).stdout)["findings"][0]["kind"] == "time stamp"
    without = ["audit", "verify", "--no-mlflow", *home[:-1]]
    assert "1 time stamp(s): signatures not checked" in CliRunner().invoke(app, without).stdout
