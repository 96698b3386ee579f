"""A backup is whole, says nothing of what it must not hold, and becomes a home under another path."""

from __future__ import annotations

import io
import json
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows import embedded
from flows.cli import app
from flows.plan.model import load_plan
from flows.release import Direct, carry_out
from flows.served import backup
from tasks.audit.verification import verify
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.common.workspace import Workspace
from tasks.decision.approval import decide
from tasks.record.decision import Decision

pytestmark = pytest.mark.platform


def invoked(*arguments: object) -> tuple[int, str]:
    """Carry a command out; return its exit code and what it said."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.output


@pytest.fixture
def own_store(tracking: Path) -> Iterator[None]:
    """Give MLflow back the store of the other tests."""
    import mlflow

    before = mlflow.get_tracking_uri()
    yield
    mlflow.set_tracking_uri(before)


def served_by(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let MLflow keep its runs in the home, as without `anonflow serve`."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for name, value in embedded.environment(home.path).items():
        monkeypatch.setenv(name, value)
    import mlflow

    mlflow.set_tracking_uri(embedded.tracking_ready(home.path))


def test_a_candidate_is_approved_in_a_home_that_was_restored_elsewhere(
    home: Home,
    own_store: None,
    tmp_path: Path,
    office: Callable[..., Path],
    people: Callable[..., object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served_by(home, monkeypatch)
    plan = load_plan(office(people(300), more="policy: {approval: person, untested: [membership]}"))
    outcome = carry_out(plan, home, Direct())
    assert outcome.status == "awaiting", outcome.reason
    raw = Workspace.create(home, "under-way")
    (raw.folder / "raw.csv").write_text("Qx7-Canary-Zw")
    file, other = tmp_path / "backup.tar", Home(tmp_path / "elsewhere" / "home")
    assert invoked("backup", file, "--home", home.path)[0] == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with tarfile.open(file) as tar:
        names = tar.getnames()
    assert not any(name.startswith(("workspace", "logs")) or name.endswith(".lock") for name in names)
    with pytest.raises(Refused, match="exists already, or lies in the home"):
        raise_of("backup", file, "--home", home.path)
    raw.wipe()
    assert invoked("restore", file, "--home", other.path)[0] == 0
    served_by(other, monkeypatch)
    assert verify(other) == []
    from mlflow.tracking import MlflowClient

    approval = Decision(act="approve", release=outcome.release, by="A. Smith", reason="read")
    assert decide(other, approval).status == "published"
    assert MlflowClient().get_run(outcome.mlflow_run).info.artifact_uri.startswith(other.path.as_uri())
    assert stat.S_IMODE(other.key.stat().st_mode) == 0o600
    with pytest.raises(Refused, match="is not empty"):
        raise_of("restore", file, "--home", other.path)


def raise_of(*arguments: object) -> None:
    """Carry a command out, and raise what it raises."""
    app([str(argument) for argument in arguments], standalone_mode=False)


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    for name, content in (("text", b"no archive"), ("empty.tar", b"\0" * 10240)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(Refused, match="backup"):
            raise_of("restore", tmp_path / name, "--home", tmp_path / "home")


def crafted(file: Path, members: Iterable[tuple[str, bytes, str]], mode: str = "w", **more: object) -> Path:
    """Write an archive that states to be a backup: links, then the files that are reached through them."""
    about = {"format": 1, "made": "", "home": "/x", "entries": 0, "digest": ""} | more
    with tarfile.open(file, mode) as tar:
        for name, kind, text in (*members, ("backup.json", tarfile.REGTYPE, json.dumps(about))):
            member = tarfile.TarInfo(name)
            member.type, member.mode = kind, 0o700
            member.linkname, content = (text, b"") if kind == tarfile.SYMTYPE else ("", text.encode())
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return file


def chain_of_links() -> Iterator[tuple[str, bytes, str]]:
    """Yield links whose whole path is too long to be resolved, so that tarfile's own filter does not see its end."""
    folder, steps, path = "d" * 247, "abcdefghijklmnop", ""
    for step in steps:
        yield f"{path}{folder}", tarfile.DIRTYPE, ""
        yield f"{path}{step}", tarfile.SYMTYPE, folder
        path += f"{folder}/"
    link = f"{'/'.join(steps)}/{'l' * 254}"
    yield link, tarfile.SYMTYPE, "../" * len(steps)
    yield "escape", tarfile.SYMTYPE, f"{link}/../outside"
    yield "escape/written.txt", tarfile.REGTYPE, "outside"


def test_a_hostile_backup_writes_nothing_and_names_no_database(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    home = tmp_path / "home"
    for problem, file in {
        "links or devices": crafted(tmp_path / "links.tar", chain_of_links()),
        "no backup": crafted(tmp_path / "packed.tar", (), "w:gz"),
        "another database": crafted(tmp_path / "other.tar", (), databases=["host=attacker.example"]),
        "or no home": crafted(tmp_path / "relative.tar", (), home="x"),
    }.items():
        with pytest.raises(Refused, match=problem):
            backup.restore(file, home)
        assert not any(home.iterdir())
    assert not any((tmp_path / "outside").iterdir())


def test_secrets_that_are_mounted_in_a_new_home_stay_when_it_is_restored(tmp_path: Path) -> None:
    plain = tarfile.REGTYPE
    members = [("secrets/pool", plain, "of the backup"), ("secrets/prefect", plain, "of the backup")]
    home = tmp_path / "home"
    (home / "secrets").mkdir(parents=True)
    (home / "secrets" / "prefect").write_text("mounted")
    hostile = crafted(tmp_path / "hostile.tar", [*members, ("../outside", plain, "")])
    with pytest.raises(Refused, match="outside the home"):
        backup.restore(hostile, home)
    assert [path.relative_to(home).as_posix() for path in sorted(home.rglob("*"))] == ["secrets", "secrets/prefect"]
    file = crafted(tmp_path / "backup.tar", members)
    backup.restore(file, home)
    assert (home / "secrets" / "prefect").read_text() == "mounted"
    assert (home / "secrets" / "pool").read_text() == "of the backup"
    (home / "keys").mkdir()
    with pytest.raises(Refused, match="is not empty"):
        backup.restore(file, home)


def test_a_file_that_becomes_shorter_is_added_again_and_a_link_is_refused(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = home.path / "record"
    record.write_bytes(b"x" * 100_000)
    copy = tarfile.copyfileobj

    def shorter(*arguments: object, **more: object) -> None:
        record.write_bytes(b"y" * 10)
        copy(*arguments, **more)

    monkeypatch.setattr(tarfile, "copyfileobj", shorter)
    backup.back_up(home, tmp_path / "backup.tar")
    with tarfile.open(tmp_path / "backup.tar") as tar:
        found = tar.extractfile("record")
        assert found
        assert found.read() == b"y" * 10
        assert "backup.json" in tar.getnames()
    (home.path / "link").symlink_to(record)
    with pytest.raises(Refused, match="link in the home is a symbolic link"):
        backup.back_up(home, tmp_path / "second.tar")
    assert [path.name for path in tmp_path.glob("*second*")] == []
