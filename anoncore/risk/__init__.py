"""Risk: is taking part riskier than staying out? Every figure beside its baseline and sample size."""

from anoncore.risk.bounds import MeasureComparison
from anoncore.risk.boxes import BoxMeasures, box_density_attack, box_measures
from anoncore.risk.comparison import Comparison, compare, compare_matched
from anoncore.risk.membership import MembershipAttack, membership_attack, nearest_distance_attack
from anoncore.risk.prediction import PredictionMeasures, prediction_measures, sample_queries, sample_size
from anoncore.risk.tail import (
    ExtremeRecords,
    TailTest,
    extreme_records,
    identical_records,
    isolated_test,
    tail_test,
)

__all__ = [
    "BoxMeasures",
    "Comparison",
    "ExtremeRecords",
    "MeasureComparison",
    "MembershipAttack",
    "PredictionMeasures",
    "TailTest",
    "box_density_attack",
    "box_measures",
    "compare",
    "compare_matched",
    "extreme_records",
    "identical_records",
    "isolated_test",
    "membership_attack",
    "nearest_distance_attack",
    "prediction_measures",
    "sample_queries",
    "sample_size",
    "tail_test",
]
