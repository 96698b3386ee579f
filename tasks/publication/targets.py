"""Targets to which published releases are delivered: tables of a database and folders elsewhere."""

from __future__ import annotations

import re

from pydantic import model_validator

from tasks.common.secrets import check_name
from tasks.common.sections import Section
from tasks.common.values import to_json
from tasks.connectors.postgres.table import NAME_BYTES, IfExists, Table
from tasks.connectors.storage import check_address, is_address
from tasks.record.entry import TargetFacts

NAME = r"[A-Za-z_][A-Za-z0-9_]{0,62}"
TABLE = re.compile(rf"({NAME})\.({NAME})")
VERSION = "_v{}"


class Target(Section):
    """A table of a PostgreSQL database, or a folder on this machine or in a storage that fsspec supports.

    Parameters
    ----------
    table : ``schema.name`` of a PostgreSQL table; ``formats`` must include ``parquet``.
    database : For a table: the secret that holds the database's address.
    if_exists : When the table holds another release: refuse, replace it, or write a new table ``name_v1``,
        ``name_v2`` for each release.
    folder : An absolute path, or an address such as ``s3://bucket/releases``. Each release is a folder in it.
    storage : For an address: the secret that holds the storage's options as JSON.
    """

    table: str | None = None
    database: str | None = None
    if_exists: IfExists = "refuse"
    folder: str | None = None
    storage: str | None = None

    @model_validator(mode="after")
    def _one_target(self) -> Target:
        if (self.table is None) == (self.folder is None):
            raise ValueError("a target is either a table or a folder")
        if self.table is not None:
            self._check_table(self.table)
        else:
            self._check_folder(str(self.folder))
        check_name(self.database, "database")
        check_name(self.storage, "storage")
        return self

    def _check_table(self, name: str) -> None:
        if self.database is None or self.storage is not None:
            raise ValueError("a table needs database, the name of the secret that holds its address")
        parts = TABLE.fullmatch(name)
        if parts is None:
            raise ValueError(
                "table must be written schema.name: letters without accents, digits and _, not beginning "
                f"with a digit, at most {NAME_BYTES} each"
            )
        if parts[1].lower().startswith("pg_") or parts[1].lower() == "information_schema":
            raise ValueError("table must not be in a system schema of the database")
        if self.if_exists == "append-version" and len(parts[2]) > NAME_BYTES - 8:
            raise ValueError(f"table must have at most {NAME_BYTES - 8} letters, so that _v1 and so on fit in")

    def _check_folder(self, name: str) -> None:
        if self.database is not None or "if_exists" in self.model_fields_set:
            raise ValueError("database and if_exists belong to a table; remove them")
        if is_address(name):
            check_address(name, "folder")
            if name.startswith("https:"):
                raise ValueError("folder cannot be an https address, to which nothing can be written")
        elif not name.startswith("/") or ".." in name.split("/") or "\0" in name or self.storage is not None:
            raise ValueError("folder must be an absolute path, or an address such as s3://bucket/releases")

    def place(self, release: str, version: int) -> str:
        """Return where in the target a release is: the table's name, or the folder's address."""
        if self.table is not None:
            return self.table + (VERSION.format(version) if self.if_exists == "append-version" else "")
        return f"{str(self.folder).rstrip('/')}/{release}"

    @property
    def shown(self) -> str:
        """The target as messages name it."""
        return f"table {self.table}" if self.table is not None else f"folder {self.folder}"

    @property
    def facts(self) -> TargetFacts:
        """The target as the dossier and the ledger state it: names, and never a secret."""
        return TargetFacts(**self.model_dump(mode="json", exclude={"if_exists"} if self.folder else set()))

    @classmethod
    def of(cls, facts: TargetFacts) -> Target:
        """Return the target that was stated so."""
        return cls.model_validate(to_json(facts))


def table_of(place: str) -> Table:
    """Return the table of a name that `Target` has accepted."""
    schema, _, name = place.partition(".")
    return Table(schema, name)
