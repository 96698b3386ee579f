"""Prepare what would be published, and publish it: whole, versioned, signed, never overwritten."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import Field, model_validator

from anoncore.microdata import Microdata, Schema, Variable
from tasks.assessment.disclosure_control import public_figures
from tasks.common.digests import digest_of, jsonable, sha256_of
from tasks.common.errors import Fault, Refused, visible
from tasks.common.formatting import markdown_cell
from tasks.common.home import DOSSIER, Home, make_private, private_umask, sync, write_private
from tasks.common.run import Run
from tasks.common.sections import Section
from tasks.common.workspace import StoredMicrodata
from tasks.publication.targets import Target
from tasks.record import ledger

MANIFEST = "manifest.json"
SIGNATURE = "manifest.json.sig"
PUBLIC_KEY = "public-key.pem"
RELEASE_ID = re.compile(r"[a-z0-9][a-z0-9_-]*-[0-9a-f]{12}")


Kind = Literal["file changed", "file removed", "file added", "manifest"]


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it was published."""

    kind: Kind
    sentence: str


class PublicationSection(Section):
    """What is published beside the data, and where it is delivered. Texts go into the codebook.

    Parameters
    ----------
    formats : Of the data.
    title : As readers see it.
    description : A sentence or two on the table.
    contact : Who answers questions.
    licence : Under which the release may be used.
    to : Where a published release is delivered. A target that is added later receives the current release.
    """

    formats: tuple[Literal["parquet", "csv"], ...] = Field(default=("parquet", "csv"), min_length=1)
    title: str = ""
    description: str = ""
    contact: str = ""
    licence: str = ""
    to: tuple[Target, ...] = ()

    @model_validator(mode="after")
    def _tables_are_filled_from_parquet(self) -> PublicationSection:
        if any(target.table is not None for target in self.to) and "parquet" not in self.formats:
            raise ValueError("a table is filled from data.parquet; add parquet to formats")
        if len(set(self.to)) < len(self.to):
            raise ValueError("a target stands twice in to; remove one")
        return self


def prepare_data(
    run: Run, released: StoredMicrodata, suite_json: str, name: str, section: PublicationSection, plan_digest: str
) -> dict[str, Any]:
    """Write the shuffled data, the codebook and the suite into the candidate; return its identity.

    Rows are permuted, so that two releases, or a release and its source, cannot be aligned. The
    release's id is taken from its content: the same content has the same id.
    """
    folder = make_private(run.workspace.folder / "candidate")
    data = released.load()
    shuffled = data.take(run.rng("publish").permutation(len(data)))
    frame = shuffled.plain().reset_index(drop=True)
    schema = _released_schema(shuffled)
    files = _write_data(folder, frame, section)
    write_private(folder / "codebook.json", _json(codebook(name, section, frame, schema)))
    write_private(folder / "expectations.json", suite_json.encode())
    digests = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    release_id = f"{name}-{digest_of([plan_digest, digests])[:12]}"
    return {
        "id": release_id,
        "name": name,
        "records": len(frame),
        "variables": [_described(v) for v in schema],
        "files": [{"name": f, "bytes": (folder / f).stat().st_size, "sha256": digests[f]} for f in files],
        "to": [target.facts() for target in section.to],
    }


def prepare_documents(run: Run, dossier: dict[str, Any], report: str) -> dict[str, Any]:
    """Add method statement, report and figures to the candidate; return the dossier with its digest."""
    folder = run.workspace.folder / "candidate"
    write_private(folder / "report.html", report.encode())
    write_private(folder / "method.md", method_statement(dossier).encode())
    write_private(folder / "assessment.json", _json(_public_figures(dossier)))
    dossier = dossier | {"candidate": {p.name: sha256_of(p) for p in sorted(folder.iterdir())}}
    dossier = dossier | {"sha256": digest_of(dossier)}
    return dossier


def keep_candidate(run: Run, dossier: dict[str, Any]) -> Path:
    """Move a candidate to where it waits for a person."""
    target: Path = make_private(run.home.candidates) / dossier["release"]["id"]
    if target.exists():
        shutil.rmtree(target)
    folder = run.workspace.folder / "candidate"
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
    if not (RELEASE_ID.fullmatch(release_id) and folder.is_dir()):
        raise Refused(f"no candidate {visible(Path(release_id).name)!r} awaits a decision; see anonflow list")
    awaited = ledger.find(home, "awaiting", release=release_id)
    dossier = _read_dossier(folder)
    if not awaited or dossier is None or awaited[-1].get("dossier") != dossier["sha256"]:
        raise Refused(f"the dossier of {release_id} was changed after it was assessed; reject it and run again")
    if changed := _changed(folder, dossier["candidate"]):
        raise Refused(f"{', '.join(changed)} of {release_id} differ(s) from what was assessed; reject it and run again")
    return folder, dossier


def _read_dossier(folder: Path) -> dict[str, Any] | None:
    """Return a candidate's dossier; None when it is not what it was written as."""
    try:
        dossier = json.loads((folder / DOSSIER).read_text(encoding="utf-8"))
        whole = dossier.pop("sha256") == digest_of(dossier)
    except (FileNotFoundError, ValueError, AttributeError, KeyError, TypeError):
        return None
    return dossier | {"sha256": digest_of(dossier)} if whole else None


def publish(
    home: Home,
    folder: Path,
    dossier: dict[str, Any],
    approval: dict[str, str] | None = None,
    entry: dict[str, Any] | None = None,
) -> Path:
    """Publish a candidate folder; return where it stands.

    The files are written beside, synced, and renamed into place as one folder. A release with
    the same content that stands already is left as it is. ``entry`` announces it in the ledger; the
    manifest names it, so that the ledger cannot lose it unseen.

    Raises
    ------
    Fault
        When a file of the candidate is not the one that was assessed, or the release that stands
        already is not as it was published.
    """
    name, release_id = dossier["release"]["name"], dossier["release"]["id"]
    target: Path = make_private(home.releases / name) / release_id
    with ledger.locked(home, ledger.PUBLISHING):
        if target.exists():
            _check_standing(target)
            return target
        # Nobody else publishes now, so what others have staged was left by a crash.
        for left in target.parent.glob(".*/"):
            shutil.rmtree(left)
        staged = _stage(folder, target.with_name(f".{release_id}"), dossier)
        version = 1 + sum(1 for p in target.parent.iterdir() if p.is_dir() and p != staged)
        _write_manifest(home, staged, dossier, version, approval, entry)
        sync(staged)
        os.rename(staged, target)
        sync(target.parent)
    return target


def _stage(folder: Path, staged: Path, dossier: dict[str, Any]) -> Path:
    """Copy what was assessed, and check the copies, since a file may change while it is copied."""
    make_private(staged)
    for file in sorted(dossier["candidate"]):
        if (folder / file).is_file():
            with private_umask():
                shutil.copyfile(folder / file, staged / file)
            sync(staged / file)
    if changed := _changed(staged, dossier["candidate"]):
        shutil.rmtree(staged)
        raise Fault(
            f"{', '.join(changed)} of {dossier['release']['id']} differ(s) from what was assessed; nothing is published"
        )
    return staged


def _check_standing(target: Path) -> None:
    if found := verify_release(target):
        raise Fault(
            f"{target.name} was published before and is no longer what it was: "
            f"{'; '.join(one.sentence for one in found)}; "
            "restore it from a backup"
        )


def verify_release(folder: Path) -> list[Difference]:
    """Return what differs between a published folder and its manifest.

    The signature is checked against the public key beside it; whose key that is, a reader must know.
    """
    try:
        content = (folder / MANIFEST).read_bytes()
        signature = (folder / SIGNATURE).read_text(encoding="ascii")
        key = (folder / PUBLIC_KEY).read_bytes()
        files: dict[str, str] = json.loads(content)["files"]
    except FileNotFoundError as error:
        return [Difference("file removed", f"{Path(error.filename).name} is gone")]
    except (ValueError, KeyError, TypeError):
        return [Difference("manifest", f"{MANIFEST} or its signature cannot be read")]
    found = []
    if not ledger.signed(key, content, signature):
        found.append(Difference("manifest", f"{MANIFEST} is not what was signed"))
    for file, digest in files.items():
        if not (folder / file).is_file():
            found.append(Difference("file removed", f"{file} is gone"))
        elif sha256_of(folder / file) != digest:
            found.append(Difference("file changed", f"{file} was changed"))
    known = {*files, MANIFEST, SIGNATURE, PUBLIC_KEY}
    added = [p.name for p in sorted(folder.iterdir()) if p.name not in known]
    return found + [Difference("file added", f"{visible(name)} was added") for name in added]


def codebook(name: str, section: PublicationSection, frame: pd.DataFrame, schema: Schema) -> dict[str, Any]:
    """Describe the released variables, the columns of ``frame``."""
    return {
        "name": name,
        "title": section.title,
        "description": section.description,
        "contact": section.contact,
        "licence": section.licence,
        "records": len(frame),
        "variables": [_described(v) | {"missing": int(frame[v.name].isna().sum())} for v in schema],
    }


def method_statement(dossier: dict[str, Any]) -> str:
    """Return which methods with which parameters made the release: never seeds, scores or row links."""
    environment = Environment(
        loader=PackageLoader("tasks.publication"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701  Markdown, not HTML
        finalize=markdown_cell,
    )
    return environment.get_template("method.md.j2").render(dossier)


def _public_figures(dossier: dict[str, Any]) -> dict[str, Any]:
    return {
        "release": dossier["release"]["id"],
        "split": dossier["split"],
        "edits": {k: dossier["edits"][k] for k in ("policy", "raw", "masked", "repaired")},
        "figures": public_figures(dossier["figures"]),
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


def _released_schema(data: Microdata) -> Schema:
    """Return the schema with the levels that occur: any other may be a value of somebody who is not in it."""
    return Schema(
        replace(v, levels=tuple(data.frame[v.name].cat.remove_unused_categories().cat.categories)) if v.levels else v
        for v in data.schema
    )


def _described(variable: Variable) -> dict[str, Any]:
    facts = asdict(variable)
    del facts["missing"]
    return facts


def _write_manifest(
    home: Home,
    folder: Path,
    dossier: dict[str, Any],
    version: int,
    approval: dict[str, str] | None,
    entry: dict[str, Any] | None,
) -> None:
    manifest = {
        "release": dossier["release"]["id"],
        "name": dossier["release"]["name"],
        "version": version,
        "created": dossier["run"]["created"],
        "plan": dossier["plan"]["digest"],
        "dossier": dossier["sha256"],
        "approved": approval,
        "ledger": {"entry": entry["number"], "digest": entry["digest"]} if entry else None,
        "files": {p.name: sha256_of(p) for p in sorted(folder.iterdir())},
    }
    content = _json(manifest)
    write_private(folder / MANIFEST, content)
    write_private(folder / SIGNATURE, ledger.sign(home, content).encode())
    write_private(folder / PUBLIC_KEY, ledger.public_key(home).encode())


def _changed(folder: Path, digests: dict[str, str]) -> list[str]:
    return [
        file for file, digest in digests.items() if not (folder / file).is_file() or sha256_of(folder / file) != digest
    ]


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, default=jsonable) + "\n").encode()
