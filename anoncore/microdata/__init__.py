"""Microdata: a table of records, and what its columns mean."""

from anoncore.microdata.precision import MAX_DECIMALS, observed_precision, outer_limits, outward, round_to
from anoncore.microdata.schema import Schema
from anoncore.microdata.table import Microdata
from anoncore.microdata.temporal import Temporal
from anoncore.microdata.units import EACH_RECORD, ComparedUnits, Units, joined_units, unit_means
from anoncore.microdata.variable import SPIKE, Kind, Role, Variable

__all__ = [
    "EACH_RECORD",
    "MAX_DECIMALS",
    "SPIKE",
    "ComparedUnits",
    "Kind",
    "Microdata",
    "Role",
    "Schema",
    "Temporal",
    "Units",
    "Variable",
    "joined_units",
    "observed_precision",
    "outer_limits",
    "outward",
    "round_to",
    "unit_means",
]
