"""anoncore: anonymization of microdata, and measurement of disclosure risk and utility."""

from anoncore.boxes.reader import Boxes, read_boxes
from anoncore.claims import KAnonymity, LDiversity, NoFormalGuarantee
from anoncore.edits.conditions import Condition
from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit, RatioEdit, SetEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.model import EditSet
from anoncore.edits.product import ProductEdit
from anoncore.encoding import Encoder
from anoncore.errors import AnonymizationError, InfeasibleError, NotConvergedError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.registry import anonymize
from anoncore.release import Release
from anoncore.risk import RiskReport, RiskSettings, measure_risk
from anoncore.utility import UtilityReport, UtilitySettings, measure_utility

__version__ = "0.1.0"

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
    "LookupEdit",
    "Microdata",
    "NoFormalGuarantee",
    "NotConvergedError",
    "ProductEdit",
    "RatioEdit",
    "Release",
    "RiskReport",
    "RiskSettings",
    "Schema",
    "SetEdit",
    "UtilityReport",
    "UtilitySettings",
    "Variable",
    "anonymize",
    "measure_risk",
    "measure_utility",
    "read_boxes",
]
