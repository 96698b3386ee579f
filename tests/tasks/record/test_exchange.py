"""Two homes learn whom both have released, by signed files of keyed digests."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tasks.common.errors import Refused
from tasks.common.home import Home, make_private, write_private
from tasks.record import ledger, signing
from tasks.record.entry import ExchangeFacts
from tasks.record.exchange import by_other_secrets, export_digests, import_digests, releases_elsewhere
from tasks.record.members import Members, recognised_by
from tests.tasks.facts import enter

SECRET, NAME = "s3cret" * 6, "population"
ABOUT = ["age"]


def office(folder: Path, people: np.ndarray, secret: str = SECRET) -> Home:
    """Return a home that has published one release of these people."""
    home = Home.locate(folder)
    make_private(home.path / "secrets")
    write_private(home.path / "secrets" / NAME, secret.encode())
    published(home, people, f"{folder.name}-1", secret)
    write_private(folder / "public.pem", signing.public_key(home).encode())
    return home


def published(home: Home, people: np.ndarray, release: str, secret: str = SECRET) -> None:
    identities = people.astype(np.uint64)
    members = Members.of(home, identities, identities, ABOUT, named=len(people))
    (members.shared_by(secret, [identities]) if secret else members).keep(home, release)
    enter(home, release=release)


@pytest.fixture
def north(tmp_path: Path) -> Home:
    return office(tmp_path / "north", np.arange(100))


@pytest.fixture
def south(tmp_path: Path) -> Home:
    return office(tmp_path / "south", np.arange(60, 200))


def given(north: Home, south: Home, folder: Path) -> Path:
    """Have the south take over what the north exports; return the file."""
    file = folder / "north.json"
    export_digests(north, NAME, file)
    import_digests(south, "north", file, north.path / "public.pem", NAME)
    return file


def test_people_of_both_are_recognised_by_those_who_have_the_secret(north: Home, south: Home, tmp_path: Path) -> None:
    published(north, np.arange(5), "north-without", secret="")
    file = tmp_path / "north.json"
    assert export_digests(north, NAME, file) == (1, 1)
    assert import_digests(south, "north", file, north.path / "public.pem", NAME) == 1
    (other,) = releases_elsewhere(south, recognised_by(SECRET))
    people = np.arange(60, 200).astype(np.uint64)
    now = Members.of(south, people, np.arange(140).astype(np.uint64), ABOUT, named=140).shared_by(SECRET, [people])
    assert (other.office, other.release, np.isin(now.shared, other.units[0]).sum()) == ("north", "north-1", 40)
    assert not np.isin([*now.identities()], other.units[0]).any(), "each home's own digests are of another key"
    assert releases_elsewhere(south, recognised_by("another" * 6)) == ()
    assert file.stat().st_mode & 0o077 == south.exchange_of("north").stat().st_mode & 0o077 == 0
    facts = [ledger.find(home, ExchangeFacts)[0].facts for home in (north, south)]
    assert facts[0].file == facts[1].file
    assert facts[0].public_key == facts[1].public_key
    assert ledger.problems(north) == ledger.problems(south) == []
    assert set(json.loads(file.read_text())) == {"format", "key", "home", "releases", "signature"}, (
        "no digests of values"
    )


def test_a_file_that_was_changed_or_is_anothers_is_refused(north: Home, south: Home, tmp_path: Path) -> None:
    file = tmp_path / "north.json"
    export_digests(north, NAME, file)
    key = north.path / "public.pem"
    with pytest.raises(Refused, match="is not signed by the key"):
        import_digests(south, "north", file, south.path / "public.pem", NAME)
    with pytest.raises(Refused, match="is of this home"):
        import_digests(north, "north", file, key, NAME)
    form = json.loads(file.read_text())
    (units,) = form["releases"][0]["units"]
    form["releases"][0]["units"] = [units[8:16] + units[:8] + units[16:]]
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(form))
    with pytest.raises(Refused, match="was changed since it was signed"):
        import_digests(south, "north", changed, key, NAME)
    changed.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(Refused, match="was cut short"):
        import_digests(south, "north", changed, key, NAME)
    assert ledger.find(south, ExchangeFacts) == []


def test_files_of_an_office_only_grow_and_keep_their_key(north: Home, south: Home, tmp_path: Path) -> None:
    first = given(north, south, tmp_path).read_bytes()
    published(north, np.arange(50), "north-2")
    given(north, south, tmp_path)
    assert [one.release for one in releases_elsewhere(south, recognised_by(SECRET))] == ["north-1", "north-2"]
    older = tmp_path / "older.json"
    older.write_bytes(first)
    with pytest.raises(Refused, match="lacks releases of the last one"):
        import_digests(south, "north", older, north.path / "public.pem", NAME)
    west = office(tmp_path / "west", np.arange(9))
    export_digests(west, NAME, older.with_name("west.json"))
    with pytest.raises(Refused, match="signed with another key before"):
        import_digests(south, "north", older.with_name("west.json"), west.path / "public.pem", NAME)
    south.exchange_of("north").write_bytes(first)
    with pytest.raises(Refused, match="gone or were changed"):
        releases_elsewhere(south, recognised_by(SECRET))


def test_units_that_an_office_has_shown_are_not_taken_back(north: Home, south: Home, tmp_path: Path) -> None:
    file = given(north, south, tmp_path)
    published(north, np.arange(40), "north-1")
    export_digests(north, NAME, file)
    for lost in (False, True):
        if lost:
            south.exchange_of("north").unlink()
        with pytest.raises(Refused, match="lacks units of releases"):
            import_digests(south, "north", file, north.path / "public.pem", NAME)
    published(north, np.arange(100), "north-1")
    given(north, south, tmp_path)


def test_digests_by_another_secret_are_refused_or_counted(north: Home, south: Home, tmp_path: Path) -> None:
    assert by_other_secrets(south, recognised_by(SECRET)) == 0
    file = given(north, south, tmp_path)
    assert [by_other_secrets(south, recognised_by(one)) for one in (SECRET, "another" * 6)] == [0, 1]
    write_private(south.path / "secrets" / NAME, b"another" * 6)
    with pytest.raises(Refused, match="made with another secret than population"):
        import_digests(south, "north", file, north.path / "public.pem", NAME)


def test_a_file_that_cannot_be_written_or_read_is_refused(north: Home, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be written"):
        export_digests(north, NAME, tmp_path / "none" / "north.json")
    assert len(ledger.find(north, ExchangeFacts)) == 1, "entered before it is written"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Refused, match="is not a regular file"):
        import_digests(north, "north", tmp_path / "pipe", north.path / "public.pem", NAME)


def test_a_secret_that_could_be_guessed_and_nothing_to_export_are_refused(north: Home, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="at least 32 characters"):
        recognised_by("short")
    write_private(north.path / "secrets" / "other", b"x" * 40)
    with pytest.raises(Refused, match="no published release holds digests"):
        export_digests(north, "other", tmp_path / "none.json")
