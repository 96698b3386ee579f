"""What a passport states: figures of the release and sentences of the plan, nothing of the source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any, Literal, TypeAlias

from anoncore.microdata import Variable
from tasks.common.digests import jsonable
from tasks.common.errors import CONTROL
from tasks.record.dossier import Dossier, HealthFacts, ReleasedFile

# A JSON document, or a part of one, as it is written.
Document: TypeAlias = dict[str, Any]
DataType = Literal["integer", "number", "string", "date", "time", "datetime"]
# Media types by the suffix of a file.
MEDIA_TYPES = {
    ".csv": "text/csv",
    ".parquet": "application/x-parquet",
    ".sav": "application/x-spss-sav",
    ".dta": "application/x-stata-dta",
    ".xpt": "application/x-sas-xport",
}
METHOD_FILE, ASSESSMENT_FILE = "method.md", "assessment.json"


@dataclass(frozen=True)
class Column:
    """A released variable, its type in files, and how many of its released values are missing."""

    variable: Variable
    type: DataType
    missing: int

    @classmethod
    def of(cls, variable: Variable, missing: int) -> Column:
        """Return the column of a variable."""
        if variable.temporal is not None:
            return cls(variable, variable.temporal, missing)
        levels = variable.levels or ()
        if variable.kind == "continuous":
            whole = variable.precision is not None and float(variable.precision).is_integer()
            return cls(variable, "integer" if whole else "number", missing)
        if levels and all(isinstance(level, int) for level in levels):
            return cls(variable, "integer", missing)
        return cls(variable, "string" if not levels or isinstance(levels[0], str) else "number", missing)

    @property
    def description(self) -> str:
        """What the plan says of the variable, without control characters."""
        return clean(self.variable.description)

    @property
    def levels(self) -> tuple[tuple[Any, str], ...]:
        """The released levels with their labels, empty where there is none."""
        labels = self.variable.label_of
        return tuple((level, clean(labels.get(level, ""))) for level in self.variable.levels or ())


@dataclass(frozen=True)
class Passport:
    """The metadata of a release, of which every format states as much as it can hold.

    Parameters
    ----------
    id, name, title, description, contact, licence : as in the codebook
    created : when the run was, by ISO 8601
    records : of the release
    columns, files : as released
    methods : of disclosure control, in the order of the steps
    health : what the plan states of a data set on health, if it is one
    """

    id: str
    name: str
    title: str
    description: str
    contact: str
    licence: str
    created: str
    records: int
    columns: tuple[Column, ...]
    files: tuple[ReleasedFile, ...]
    methods: tuple[str, ...]
    health: HealthFacts | None

    @classmethod
    def of(cls, dossier: Dossier) -> Passport:
        """Return the passport of a candidate."""
        plan, release = dossier.plan, dossier.release
        return cls(
            id=release.id,
            name=release.name,
            title=clean(plan.title) or release.name,
            description=clean(plan.description),
            contact=clean(plan.contact),
            licence=clean(plan.licence),
            created=dossier.run.created,
            records=release.records,
            columns=tuple(Column.of(v, release.missing.get(v.name, 0)) for v in release.variables),
            files=release.files,
            methods=tuple(step.method for step in dossier.method.steps),
            health=plan.health,
        )

    @cached_property
    def tables(self) -> dict[str, tuple[ReleasedFile, ...]]:
        """The files by their suffix: those of one format hold all records together."""
        suffixes = dict.fromkeys(PurePath(file.name).suffix for file in self.files)
        return {suffix: tuple(f for f in self.files if PurePath(f.name).suffix == suffix) for suffix in suffixes}

    def part(self, file: ReleasedFile) -> str:
        """Return which part of the records a file holds, in words; nothing where it holds them all."""
        parts = self.tables[PurePath(file.name).suffix]
        return f"part {parts.index(file) + 1} of {len(parts)}" if len(parts) > 1 else ""

    @property
    def disclosure_control(self) -> str:
        """One sentence on what was done to the records, and where it is described."""
        methods = ", ".join(self.methods)
        return f"Values are masked ({methods}) and rows are in random order: see {METHOD_FILE} and {ASSESSMENT_FILE}."


def clean(text: str) -> str:
    """Return a text without characters that XML cannot hold or that turn the direction of writing."""
    return CONTROL.sub("", text).replace("\ufffe", "").replace("\uffff", "")


def to_bytes(document: Mapping[str, Any]) -> bytes:
    """Return a JSON document as it is published."""
    return (json.dumps(document, indent=1, ensure_ascii=False, default=jsonable) + "\n").encode()
