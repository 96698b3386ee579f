"""Risk: is taking part riskier than staying out? Every figure beside its baseline and sample size."""

from anoncore.risk._individual import individual_risk
from anoncore.risk.averaging import AveragingAttack, averaging_attack
from anoncore.risk.bounds import MeasureComparison
from anoncore.risk.boxes import BoxMeasures, BoxRisk, LocatedRecords, box_density_attack, box_measures, box_risk
from anoncore.risk.closeness import Closeness, closeness
from anoncore.risk.coincidence import ScoreCoincidence, score_coincidence_attack
from anoncore.risk.comparison import Comparison, ComparisonSettings, compare, compare_matched
from anoncore.risk.disclosure import (
    Disclosure,
    DisclosureSettings,
    GroupRisk,
    SampleRisk,
    SensitiveRisk,
    TableDisclosure,
    disclosure_risk,
)
from anoncore.risk.inference import AttributeInference, InferenceRisk, InferenceSettings, attribute_inference
from anoncore.risk.linkage import Linkage, LinkageSettings, MatchSignal, linkage
from anoncore.risk.membership import MembershipAttack, membership_attack, moved_back, nearest_distance_attack
from anoncore.risk.pairs import ClosePairs, Neighbours, close_pairs
from anoncore.risk.prediction import PredictionMeasures, prediction_measures, sample_queries, sample_size
from anoncore.risk.report import (
    Queries,
    RiskCurves,
    RiskReport,
    RiskSettings,
    compare_encoded,
    measure_encoded_risk,
    measure_risk,
)
from anoncore.risk.tail import (
    ExtremeRecords,
    TailTest,
    extreme_records,
    identical_records,
    isolated_test,
    tail_test,
    twins_by_chance,
)
from anoncore.risk.together import ValuesTogether, values_together
from anoncore.risk.verdicts import Bound, Verdict, three_way

__all__ = [
    "AttributeInference",
    "AveragingAttack",
    "Bound",
    "BoxMeasures",
    "BoxRisk",
    "ClosePairs",
    "Closeness",
    "Comparison",
    "ComparisonSettings",
    "Disclosure",
    "DisclosureSettings",
    "ExtremeRecords",
    "GroupRisk",
    "InferenceRisk",
    "InferenceSettings",
    "Linkage",
    "LinkageSettings",
    "LocatedRecords",
    "MatchSignal",
    "MeasureComparison",
    "MembershipAttack",
    "Neighbours",
    "PredictionMeasures",
    "Queries",
    "RiskCurves",
    "RiskReport",
    "RiskSettings",
    "SampleRisk",
    "ScoreCoincidence",
    "SensitiveRisk",
    "TableDisclosure",
    "TailTest",
    "ValuesTogether",
    "Verdict",
    "attribute_inference",
    "averaging_attack",
    "box_density_attack",
    "box_measures",
    "box_risk",
    "close_pairs",
    "closeness",
    "compare",
    "compare_encoded",
    "compare_matched",
    "disclosure_risk",
    "extreme_records",
    "identical_records",
    "individual_risk",
    "isolated_test",
    "linkage",
    "measure_encoded_risk",
    "measure_risk",
    "membership_attack",
    "moved_back",
    "nearest_distance_attack",
    "prediction_measures",
    "sample_queries",
    "sample_size",
    "score_coincidence_attack",
    "tail_test",
    "three_way",
    "twins_by_chance",
    "values_together",
]
