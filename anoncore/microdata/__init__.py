"""Microdata: a table of records, and what its columns mean."""

from anoncore.microdata.precision import MAX_DECIMALS, observed_precision, round_to
from anoncore.microdata.schema import Schema
from anoncore.microdata.table import Microdata
from anoncore.microdata.units import Units, joined_units
from anoncore.microdata.variable import Kind, Role, Variable

__all__ = [
    "MAX_DECIMALS",
    "Kind",
    "Microdata",
    "Role",
    "Schema",
    "Units",
    "Variable",
    "joined_units",
    "observed_precision",
    "round_to",
]
