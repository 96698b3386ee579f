"""The formats of a source's files: one module and one line here for each."""

from collections.abc import Mapping

from tasks.connectors import csv, parquet, stata
from tasks.connectors.file_format import FileFormat

FORMATS: Mapping[str, FileFormat] = {
    "csv": csv.FORMAT,
    "parquet": parquet.FORMAT,
    "stata": stata.FORMAT,
}
SUFFIXES = {suffix: name for name, one in FORMATS.items() for suffix in one.suffixes}
