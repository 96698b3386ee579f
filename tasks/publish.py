"""Prepare what would be published, and publish it: whole, versioned, signed, never overwritten."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import Field

from anoncore.microdata import Microdata, Variable
from tasks import ledger
from tasks.faults import Fault, Refused
from tasks.workspace import (
    Home,
    Run,
    Section,
    digest_of,
    make_private,
    private_umask,
    sha256_of,
    write_private,
)

MANIFEST = "manifest.json"
DOSSIER = "dossier.json"


class PublicationSection(Section):
    """What is published beside the data, and in which form."""

    formats: tuple[Literal["parquet", "csv"], ...] = Field(default=("parquet", "csv"), min_length=1)
    title: str = ""
    description: str = ""
    contact: str = ""
    licence: str = ""


def prepare_data(run: Run, name: str, section: PublicationSection, plan_digest: str) -> dict[str, Any]:
    """Write the shuffled data, the codebook and the suite into the candidate; return its identity.

    Rows are permuted, so that two releases, or a release and its source, cannot be aligned. The
    release's id is taken from its content: the same content has the same id.
    """
    folder = make_private(run.folder / "candidate")
    released = run.load("released")
    order = run.rng("publish").permutation(len(released))
    shuffled = released.take(order)
    frame = shuffled.plain().reset_index(drop=True)
    files = _write_data(folder, frame, section)
    write_private(folder / "codebook.json", _json(codebook(name, section, shuffled)))
    write_private(folder / "expectations.json", run.read_json("suite")["json"].encode())
    digests = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    release_id = f"{name}-{digest_of([plan_digest, digests])[:12]}"
    return {
        "id": release_id,
        "name": name,
        "records": len(frame),
        "variables": [_described(v) for v in shuffled.schema],
        "files": [{"name": f, "bytes": (folder / f).stat().st_size, "sha256": digests[f]} for f in files],
    }


def prepare_documents(run: Run, dossier: dict[str, Any], report: str) -> dict[str, Any]:
    """Add method statement, report and figures to the candidate; return the dossier with its digest."""
    folder = run.folder / "candidate"
    write_private(folder / "report.html", report.encode())
    write_private(folder / "method.md", method_statement(dossier).encode())
    write_private(folder / "assessment.json", _json(_public_figures(dossier)))
    dossier = dossier | {"candidate": {p.name: sha256_of(p) for p in sorted(folder.iterdir())}}
    dossier = dossier | {"sha256": digest_of(dossier)}
    run.write_json("dossier", dossier)
    return dossier


def keep_candidate(run: Run, dossier: dict[str, Any]) -> Path:
    """Move a candidate to where it waits for a person."""
    target = make_private(run.home.candidates) / dossier["release"]["id"]
    if target.exists():
        shutil.rmtree(target)
    folder = run.folder / "candidate"
    write_private(folder / DOSSIER, _json(dossier))
    os.rename(folder, target)
    return target


def load_candidate(home: Home, release_id: str) -> tuple[Path, dict[str, Any]]:
    """Return a waiting candidate, after checking that it is what was assessed.

    Raises
    ------
    Refused
        When there is none, or when a file of it was changed since.
    """
    folder = home.candidates / release_id
    if not (release_id and Path(release_id).name == release_id and folder.is_dir()):
        raise Refused(f"no candidate {Path(release_id).name!r} awaits a decision; see anonflow list")
    dossier = json.loads((folder / DOSSIER).read_text(encoding="utf-8"))
    body = {k: v for k, v in dossier.items() if k != "sha256"}
    awaited = ledger.find(home, "awaiting", release=release_id)
    known = awaited[-1]["dossier"] if awaited else None
    if digest_of(body) != dossier["sha256"] or known != dossier["sha256"]:
        raise Refused(
            f"the dossier of {release_id} was changed after it was assessed; reject it and run again"
        )
    _check_files(folder, dossier["candidate"], release_id)
    return folder, dossier


def publish(home: Home, folder: Path, dossier: dict[str, Any]) -> Path:
    """Publish a candidate folder; return where it stands.

    The files are written beside, synced, and renamed into place as one folder. A release with
    the same content that stands already is left as it is.

    Raises
    ------
    Fault
        When a file of the candidate is not the one that was assessed.
    """
    name, release_id = dossier["release"]["name"], dossier["release"]["id"]
    target = make_private(home.releases / name) / release_id
    if target.exists():
        return target
    _check_files(folder, dossier["candidate"], release_id)
    staged = target.with_name(f".{release_id}.{os.getpid()}")
    shutil.rmtree(staged, ignore_errors=True)
    make_private(staged)
    for file in sorted(dossier["candidate"]):
        with private_umask():
            shutil.copyfile(folder / file, staged / file)
        _sync(staged / file)
    version = 1 + sum(1 for p in target.parent.iterdir() if p.is_dir() and not p.name.startswith("."))
    _write_manifest(home, staged, dossier, version)
    _sync(staged)
    os.rename(staged, target)
    _sync(target.parent)
    return target


def verify_release(folder: Path) -> list[str]:
    """Return what differs between a published folder and its manifest, one sentence per finding."""
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    found = []
    for file, digest in manifest["files"].items():
        if not (folder / file).is_file():
            found.append(f"{file} is gone")
        elif sha256_of(folder / file) != digest:
            found.append(f"{file} was changed")
    return found


def codebook(name: str, section: PublicationSection, data: Microdata) -> dict[str, Any]:
    """Describe the released variables."""
    return {
        "name": name,
        "title": section.title,
        "description": section.description,
        "contact": section.contact,
        "licence": section.licence,
        "records": len(data),
        "variables": [_described(v) | {"missing": int(data.frame[v.name].isna().sum())} for v in data.schema],
    }


def method_statement(dossier: dict[str, Any]) -> str:
    """Return which methods with which parameters made the release: never seeds, scores or row links."""
    environment = Environment(
        loader=PackageLoader("tasks"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701  Markdown, not HTML
    )
    return environment.get_template("method.md.j2").render(dossier)


def _public_figures(dossier: dict[str, Any]) -> dict[str, Any]:
    return {
        "release": dossier["release"]["id"],
        "split": dossier["split"],
        "edits": {k: dossier["edits"][k] for k in ("policy", "raw", "masked", "repaired")},
        "figures": dossier["figures"],
        "verdict": dossier["verdict"],
    }


def _write_data(folder: Path, frame: pd.DataFrame, section: PublicationSection) -> list[str]:
    files = []
    with private_umask():
        if "parquet" in section.formats:
            frame.to_parquet(folder / "data.parquet", index=False)
            files.append("data.parquet")
        if "csv" in section.formats:
            frame.to_csv(folder / "data.csv", index=False, lineterminator="\n")
            files.append("data.csv")
    return files


def _described(variable: Variable) -> dict[str, Any]:
    facts = asdict(variable)
    del facts["missing"]
    return facts


def _write_manifest(home: Home, folder: Path, dossier: dict[str, Any], version: int) -> None:
    manifest = {
        "release": dossier["release"]["id"],
        "name": dossier["release"]["name"],
        "version": version,
        "created": dossier["run"]["created"],
        "plan": dossier["plan"]["digest"],
        "dossier": dossier["sha256"],
        "files": {p.name: sha256_of(p) for p in sorted(folder.iterdir())},
    }
    content = _json(manifest)
    write_private(folder / MANIFEST, content)
    write_private(folder / f"{MANIFEST}.sig", ledger.sign(home, content).encode())
    write_private(folder / "public-key.pem", ledger.public_key(home).encode())


def _check_files(folder: Path, digests: dict[str, str], release_id: str) -> None:
    changed = [
        file
        for file, digest in digests.items()
        if not (folder / file).is_file() or sha256_of(folder / file) != digest
    ]
    if changed:
        raise Fault(
            f"{', '.join(changed)} of {release_id} differ(s) from what was assessed; nothing is published"
        )


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n").encode()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
