"""Candidates: releases that are written but not published, with the dossier on which they are decided."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import Field, model_validator

from anoncore.microdata import Microdata, Schema, Variable
from tasks.common.digests import digest_of, jsonable, sha256_of
from tasks.common.errors import Refused, visible
from tasks.common.formatting import markdown_cell, plain
from tasks.common.home import DOSSIER, Home, make_private, private_umask, write_private
from tasks.common.partitions import StoredPartitions
from tasks.common.run import Run
from tasks.common.sections import Section
from tasks.common.values import to_json
from tasks.common.workspace import StoredRecords
from tasks.connectors.formats import FORMATS
from tasks.policy.disclosure_control import published
from tasks.policy.published import PublishedAssessment
from tasks.publication.health import HealthSection
from tasks.publication.passport import WRITERS, Passport
from tasks.publication.targets import Target
from tasks.record import ledger
from tasks.record.dossier import Dossier, ReleasedFile, ReleaseIdentity
from tasks.reporting.attack_table import authority_page

# The page for a data protection authority, which the report shows, as JSON.
AUTHORITY = "authority.json"
# The files of the data, by format.
PARQUET = "data.parquet"
DATA_FILES = {
    "parquet": PARQUET,
    "csv": "data.csv",
    "spss": "data.sav",
    "stata": "data.dta",
    "sas-transport": "data.xpt",
}
# Of a table in partitions, the files of its parts.
PART = re.compile(r"^data-\d{5,}\.")
RELEASE_ID = re.compile(r"[a-z0-9][a-z0-9_-]*-[0-9a-f]{12}")


class PublicationSection(Section):
    """What is published beside the data, and where it is delivered. Texts go into the codebook.

    Parameters
    ----------
    formats : Of the data; SPSS, Stata and SAS files hold labels of values and descriptions, too.
    title : As readers see it.
    description : A sentence or two on the table.
    contact : Who answers questions.
    licence : Under which the release may be used.
    passport : The release's passport: formats of catalogues and archives in which its metadata are published with it.
    health : What HealthDCAT-AP asks of a data set on health.
    to : Where a published release is delivered. A target that is added later receives the current release.
    """

    formats: tuple[Literal["parquet", "csv", "spss", "stata", "sas-transport"], ...] = Field(
        default=("parquet", "csv"), min_length=1
    )
    title: str = ""
    description: str = ""
    contact: str = ""
    licence: str = ""
    passport: tuple[Literal["data-package", "ddi-codebook", "croissant", "dcat-ap", "ro-crate"], ...] = (
        "data-package",
        "ddi-codebook",
        "croissant",
    )
    health: HealthSection | None = None
    to: tuple[Target, ...] = ()

    @model_validator(mode="after")
    def _parts_fit_together(self) -> PublicationSection:
        if any(target.table is not None for target in self.to) and "parquet" not in self.formats:
            raise ValueError("a table is filled from data.parquet; add parquet to formats")
        if len(set(self.to)) < len(self.to):
            raise ValueError("a target occurs twice in to; remove one")
        if self.health is not None and ("dcat-ap" not in self.passport or not self.contact):
            raise ValueError("health is written into dcat-ap.jsonld: add dcat-ap to passport, and state contact")
        if "ro-crate" in self.passport and not self.licence:
            raise ValueError("an RO-Crate names a licence; state licence, or leave ro-crate out of passport")
        return self


@dataclass(frozen=True)
class Candidate:
    """A folder with all files of a release, and the dossier that holds their digests."""

    folder: Path
    dossier: Dossier

    @property
    def changed_files(self) -> list[str]:
        """The files that are missing or differ from what was assessed."""
        return changed_files(self.folder, self.dossier.files)


def changed_files(folder: Path, digests: Mapping[str, str]) -> list[str]:
    """Return the files of a folder that are missing or whose SHA-256 is another."""
    return [
        name for name, digest in digests.items() if not (folder / name).is_file() or sha256_of(folder / name) != digest
    ]


def candidate_folder(run: Run) -> Path:
    """Return the folder in which a run writes its candidate."""
    return make_private(run.workspace.folder / "candidate")


@dataclass(frozen=True)
class Codebook:
    """The released variables, and how many values of each are missing, by its name."""

    name: str
    title: str
    description: str
    contact: str
    licence: str
    records: int
    variables: tuple[Variable, ...]
    missing: Mapping[str, int]

    def to_json(self) -> bytes:
        """Return the codebook as it is published: each variable with its missing values."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        missing = facts.pop("missing")
        return _json(facts | {"variables": [asdict(v) | {"missing": missing[v.name]} for v in self.variables]})


def prepare_data(
    run: Run, released: StoredRecords, suite_json: str, name: str, section: PublicationSection, plan_digest: str
) -> ReleaseIdentity:
    """Write the shuffled data, the codebook and the suite into the candidate; return its identity.

    Rows are permuted, so that two releases, or a release and its source, cannot be aligned; those of a table in
    partitions within each file, since its records come from masking in no order of the source's. The
    release's id is taken from its content: the same content has the same id.
    """
    folder, rng = candidate_folder(run), run.rng("publish")
    in_parts = isinstance(released, StoredPartitions)
    held: dict[str, int] = {}
    missing: Counter[str] = Counter()
    records = 0
    for number, part in enumerate(released.parts()):
        shuffled = part.take(rng.permutation(len(part)))
        frame = shuffled.plain().reset_index(drop=True)
        schema = released.schema if isinstance(released, StoredPartitions) else _released_schema(shuffled)
        names = _write_data(folder, frame, section, schema, f"-{number:05}" if in_parts else "")
        held |= dict.fromkeys(names, len(frame))
        missing.update({str(column): int(count) for column, count in frame.isna().sum().items()})
        records += len(frame)
    texts = (section.title, section.description, section.contact, section.licence)
    codebook = Codebook(name, *texts, records, tuple(schema), dict(missing))
    write_private(folder / "codebook.json", codebook.to_json())
    write_private(folder / "expectations.json", suite_json.encode())
    digests = {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
    return ReleaseIdentity(
        id=f"{name}-{digest_of([plan_digest, digests])[:12]}",
        name=name,
        records=records,
        variables=tuple(schema),
        files=tuple(ReleasedFile(f, (folder / f).stat().st_size, digests[f], count) for f, count in held.items()),
        targets=tuple(target.facts for target in section.to),
        missing=codebook.missing,
    )


def prepare_documents(run: Run, dossier: Dossier, report: str) -> Candidate:
    """Add method statement, report and figures to the candidate; return it with its files' digests."""
    folder = candidate_folder(run)
    write_private(folder / "report.html", report.encode())
    write_private(folder / "method.md", method_statement(dossier).encode())
    shown = published(dossier.assessment)
    write_private(folder / "assessment.json", _json(_published_assessment(dossier, shown)))
    authority = {"release": dossier.release.id} | authority_page(shown, dossier.verdict.gates).to_json()
    write_private(folder / AUTHORITY, _json(authority))
    passport = Passport.of(dossier)
    for kind in dossier.plan.passport:
        file, write = WRITERS[kind]
        write_private(folder / file, write(passport))
    return Candidate(folder, replace(dossier, files={p.name: sha256_of(p) for p in sorted(folder.iterdir())}))


def keep_candidate(home: Home, candidate: Candidate) -> Path:
    """Move a candidate to where it waits for a person."""
    target: Path = make_private(home.candidates) / candidate.dossier.release.id
    if target.exists():
        shutil.rmtree(target)
    write_private(candidate.folder / DOSSIER, candidate.dossier.to_json())
    os.rename(candidate.folder, target)
    return target


def load_candidate(home: Home, release_id: str) -> Candidate:
    """Return a waiting candidate, after checking that it is what was assessed.

    Raises
    ------
    Refused
        When there is none, or when a file of it was changed since.
    """
    folder = home.candidates / release_id
    if not (RELEASE_ID.fullmatch(release_id) and folder.is_dir()):
        raise Refused(f"no candidate {visible(Path(release_id).name)!r} awaits a decision; see anonflow list")
    awaiting = ledger.of_release(home, release_id, "awaiting")
    try:
        dossier = Dossier.from_json((folder / DOSSIER).read_bytes())
    except (FileNotFoundError, Refused):
        dossier = None
    if not awaiting or dossier is None or awaiting[-1].facts.dossier != dossier.digest:
        raise Refused(f"the dossier of {release_id} was changed after it was assessed; reject it and run again")
    candidate = Candidate(folder, dossier)
    if changed := candidate.changed_files:
        raise Refused(f"{', '.join(changed)} of {release_id} differ(s) from what was assessed; reject it and run again")
    return candidate


def method_statement(dossier: Dossier) -> str:
    """Return which methods with which parameters made the release: never seeds, scores or row links."""
    environment = Environment(
        loader=PackageLoader("tasks.publication"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701  Markdown, not HTML
        finalize=markdown_cell,
    )
    environment.filters.update(plain=plain)
    return environment.get_template("method.md.j2").render(**dossier.published_parts(published(dossier.assessment)))


def _published_assessment(dossier: Dossier, shown: PublishedAssessment) -> dict[str, object]:
    """Return what is published of the dossier beside report and method statement."""
    parts = dossier.to_dict()
    return {
        "release": dossier.release.id,
        "split": to_json(dossier.split.published, whole=True),
        "edits": to_json(dossier.edits.published, whole=True),
        "assessment": shown.to_json(),
        "verdict": parts["verdict"],
    }


def is_data_file(name: str) -> bool:
    """Return whether a file of a release holds its records, or a part of them: data.csv, data-00003.csv."""
    return PART.sub("data.", name) in DATA_FILES.values()


def _write_data(
    folder: Path, frame: pd.DataFrame, section: PublicationSection, variables: Iterable[Variable], part: str
) -> list[str]:
    """Write a table, or a part of one, in all formats; return the files' names."""
    files = []
    with private_umask():
        for kind in dict.fromkeys(section.formats):
            name = DATA_FILES[kind].replace(".", f"{part}.")
            if (write := FORMATS[kind].write) is not None:
                write(folder / name, frame, tuple(variables))
            elif kind == "parquet":
                frame.to_parquet(folder / name, index=False)
            else:
                frame.to_csv(folder / name, index=False, lineterminator="\n")
            files.append(name)
    return files


def _released_schema(data: Microdata) -> Schema:
    """Return the schema with the levels that occur: any other may be a value of a person who is not in it.

    Pseudonyms are not listed.
    """

    def occurring(variable: Variable) -> tuple[Any, ...] | None:
        if variable.role == "identifier":
            return None
        return tuple(data.frame[variable.name].cat.remove_unused_categories().cat.categories)

    def shown(variable: Variable) -> Variable:
        levels = occurring(variable)
        return replace(variable, levels=levels, labels=tuple(p for p in variable.labels if p[0] in (levels or ())))

    return Schema(shown(v) if v.levels else v for v in data.schema)


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, default=jsonable) + "\n").encode()
