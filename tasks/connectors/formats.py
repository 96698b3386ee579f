"""The formats of files: one module and one line here for each."""

from collections.abc import Mapping

from tasks.connectors import csv, excel, parquet, statistical
from tasks.connectors.file_format import FileFormat

FORMATS: Mapping[str, FileFormat] = {
    "csv": csv.FORMAT,
    "parquet": parquet.FORMAT,
    "spss": statistical.SPSS,
    "spss-portable": statistical.SPSS_PORTABLE,
    "stata": statistical.STATA,
    "sas": statistical.SAS,
    "sas-transport": statistical.SAS_TRANSPORT,
    "excel": excel.FORMAT,
}
SUFFIXES = {suffix: name for name, one in FORMATS.items() for suffix in one.suffixes}
