"""anoncore: anonymization of microdata, and the measurement of what it costs and what it hides."""

from anoncore.boxes.reader import Boxes, read_boxes
from anoncore.claims import KAnonymity, LDiversity, NoFormalGuarantee
from anoncore.edits.model import (
    BoundEdit,
    Condition,
    ConditionalEdit,
    EditSet,
    LinearEdit,
    RatioEdit,
    SetEdit,
)
from anoncore.encoding import Encoder
from anoncore.errors import AnonymizationError, InfeasibleError, NotConvergedError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.registry import anonymize
from anoncore.release import Release

__all__ = [
    "AnonymizationError",
    "BoundEdit",
    "Boxes",
    "Condition",
    "ConditionalEdit",
    "EditSet",
    "Encoder",
    "InfeasibleError",
    "KAnonymity",
    "LDiversity",
    "LinearEdit",
    "Microdata",
    "NoFormalGuarantee",
    "NotConvergedError",
    "RatioEdit",
    "Release",
    "Schema",
    "SetEdit",
    "Variable",
    "anonymize",
    "read_boxes",
]
