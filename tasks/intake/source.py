"""Where the source is: the plan's section, its checks, and the format of a file."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import unquote

from pydantic import Field, model_validator

from tasks.common.errors import Refused, cut, visible
from tasks.common.home import Home
from tasks.common.secrets import check_name
from tasks.common.sections import Section
from tasks.connectors.formats import FORMATS, SUFFIXES
from tasks.connectors.storage import (
    PASSWORD,
    Location,
    check_address,
    is_address,
    local_location,
    open_location,
)

if TYPE_CHECKING:
    Format: TypeAlias = str
else:
    # Any registered format, by its name.
    Format = Literal[*FORMATS]


class SourceSection(Section):
    """Where the table is: a file, a folder of Parquet files, a file inside an installed package, or a database query.

    Parameters
    ----------
    path : The file or folder, relative to the plan's folder, or absolute, or an address such as
        ``s3://bucket/people.parquet``. With ``package``: relative to the package.
    package : An installed Python package that contains the file.
    sql : A query instead of a file. It needs ``database``, ``url`` or ``url_from``.
    url : Address of the database, ``dialect://user@host/database``. An address with a password is refused.
    url_from : The environment variable that holds the address, password included.
    database : The secret that holds the database's address, password included.
    storage : For a ``path`` that is an address: the secret that holds the storage's options as JSON.
    format : Determined by the suffix of the file when not stated.
    delimiter : The field separator of a CSV file, one character; a tab in double quotes.
    decimal : The decimal sign of numbers in a CSV file.
    sheet : Of a spreadsheet with several sheets, the one that is read.
    values : Of a file that has labels of values: ``codes`` reads the values, ``labels`` what they are labelled.
    encoding : Of a CSV file. ``utf-8-sig`` reads UTF-8 with or without a byte order mark; others are ``latin-1``,
        ``cp1252``, ``utf-16``.
    """

    path: str | None = None
    package: str | None = None
    sql: str | None = None
    url: str | None = None
    url_from: str | None = None
    database: str | None = None
    storage: str | None = None
    format: Format | None = None
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    decimal: str = Field(default=".", pattern="^[.,]$")
    sheet: str = ""
    values: Literal["codes", "labels"] = "codes"
    encoding: str = "utf-8-sig"

    @model_validator(mode="after")
    def _one_source(self) -> SourceSection:
        if self.sql is None and self.path is None:
            raise ValueError("name a source: path, package with path, or sql with url or url_from")
        if self.sql is not None:
            if self.path is not None or self.package is not None:
                raise ValueError("a source is a file or a query, not both")
            if sum(given is not None for given in (self.url, self.url_from, self.database)) != 1:
                raise ValueError("a query needs one of database, url and url_from")
        elif self.url is not None or self.url_from is not None or self.database is not None:
            raise ValueError("database and url belong to a query; add sql or remove them")
        if self.remote and self.path is not None:
            check_address(self.path, "path")
        elif self.storage is not None:
            raise ValueError("storage belongs to an address such as s3://bucket/table.parquet; remove it")
        check_name(self.database, "database")
        check_name(self.storage, "storage")
        if self.url is not None and PASSWORD.search(unquote(self.url)):
            raise ValueError("url holds a password; name a secret that holds the address: database, or url_from")
        return self

    @model_validator(mode="after")
    def _distinct_signs(self) -> SourceSection:
        if self.delimiter in '"\r\n\0':
            raise ValueError("delimiter cannot be a quote, a line end or NUL; give what separates fields")
        if self.delimiter == self.decimal:
            raise ValueError("delimiter and decimal are the same sign; give what separates fields, such as ;")
        return self

    @property
    def remote(self) -> bool:
        """Whether it is a file or folder at an address, and not a path on this machine."""
        return self.path is not None and self.package is None and is_address(self.path)

    def place(self, base: Path, home: Home) -> Location:
        """Return where a file or folder is."""
        if self.remote:
            return open_location(str(self.path), self.storage, home)
        return local_location(self.file(base))

    def folder_at(self, place: Location) -> bool:
        """Return whether it is a folder of Parquet files; a folder called x.csv is none."""
        kind = self.format or SUFFIXES.get(Path(place.path).suffix.lower(), "parquet")
        if kind != "parquet":
            return False
        # A name that is too long for the file system is no folder; `Path.is_dir` would raise.
        return os.path.isdir(place.local) if place.local is not None else place.is_folder()

    def file(self, base: Path) -> Path:
        """Return the path of a file source."""
        assert self.path is not None
        if self.package is None:
            return base / self.path
        try:
            root = Path(str(resources.files(self.package)))
        except (ImportError, TypeError, ValueError):
            root = None
        if root is None:
            raise Refused(f"source: the package {cut(visible(self.package))} is not installed, or carries no files")
        file = root / self.path
        if not Path(os.path.normpath(file)).is_relative_to(root):
            raise Refused(f"source: {cut(visible(file.name))} is not inside the package; path must not leave it")
        return file

    def kind(self, path: Path | str) -> Format:
        """Return the format, by statement or by the file's suffix."""
        stated = self.format or SUFFIXES.get(Path(path).suffix.lower())
        if stated is None:
            shown = visible(Path(path).name)
            raise Refused(f"source: {shown} has no suffix that determines its format; add format: {', '.join(FORMATS)}")
        return stated
