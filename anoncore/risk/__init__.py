"""Risk: is taking part riskier than staying out? Every figure beside its baseline and sample size."""

from anoncore.risk._proportions import Difference, IdentifierMatches, Proportion, difference, proportion
from anoncore.risk._residual import ResidualRisk, residual_risk
from anoncore.risk._shadows import ShadowRelease
from anoncore.risk.agreement import Agreement, agreement
from anoncore.risk.averages import DominatedAverages, dominated_averages
from anoncore.risk.averaging import AveragingAttack, averaging_attack
from anoncore.risk.bounds import MeasureComparison
from anoncore.risk.boxes import BoxMeasures, BoxRisk, LocatedRecords, box_density_attack, box_measures, box_risk
from anoncore.risk.closeness import Closeness, closeness
from anoncore.risk.coincidence import ScoreCoincidence, score_coincidence_attack
from anoncore.risk.common_change import UP_TO_CONSTANT, UP_TO_FACTOR
from anoncore.risk.comparison import Comparison, ComparisonSettings, compare, compare_matched, compare_measures
from anoncore.risk.copied_parts import CopiedPart, CopiedParts, copied_parts
from anoncore.risk.density import Density, density
from anoncore.risk.differencing import Decoded, Differencing, differencing
from anoncore.risk.disclosure import (
    Disclosure,
    DisclosureSettings,
    GroupRisk,
    SensitiveRisk,
    TableDisclosure,
    disclosure_risk,
)
from anoncore.risk.dominance import Dominance, dominance
from anoncore.risk.game import Game, GameSettings, GroupArea, Played, TargetRisk, choose_targets, play
from anoncore.risk.group_figures import (
    GroupFigure,
    GroupFigures,
    ReleasedFigures,
    find_group_figures,
    group_figures,
)
from anoncore.risk.hidden_units import HiddenUnits, hidden_units, records_looked_at
from anoncore.risk.identical import identical_records, twins_by_chance
from anoncore.risk.inference import AttributeInference, InferenceRisk, InferenceSettings, attribute_inference
from anoncore.risk.intervals import IntervalDisclosure, interval_disclosure
from anoncore.risk.kept_figures import kept_figures
from anoncore.risk.linkability import Linkability, linkability
from anoncore.risk.linkage import Linkage, LinkageSettings, MatchSignal, linkage
from anoncore.risk.membership import MembershipAttack, matched_quantiles, membership_attack, nearest_distance_attack
from anoncore.risk.nearness import classified_otherwise, nearly_same
from anoncore.risk.pairs import ClosePairs, Neighbours, close_pairs
from anoncore.risk.partial_copies import PartialCopies, partial_copies
from anoncore.risk.population import individual_risk
from anoncore.risk.prediction import (
    PredictionMeasures,
    prediction_measures,
    sample_queries,
    sample_size,
    weighted_measures,
)
from anoncore.risk.presence import ValuePresence, value_presence
from anoncore.risk.relabelling import Relabelling, relabelling
from anoncore.risk.report import (
    MEMBERSHIP_ATTACKS,
    Queries,
    RiskCurves,
    RiskReport,
    RiskSettings,
    compare_encoded,
    measure_encoded_risk,
    measure_risk,
)
from anoncore.risk.row_order import RowOrder, row_order
from anoncore.risk.scores import AttackFamily, NamedAttack, ScoreAttack, TopScores, score_attack
from anoncore.risk.shrinkage import UNDONE
from anoncore.risk.singling_out import SinglingOut, SinglingOutBySize, singling_out
from anoncore.risk.subset_linkage import LinkedBySubset, SubsetLinkage, subset_linkage
from anoncore.risk.tail import (
    ExtremeRecords,
    TailTest,
    extreme_records,
    isolated_test,
    tail_test,
)
from anoncore.risk.together import ValuesTogether, values_together
from anoncore.risk.verdicts import Verdict, three_way, worst_of

__all__ = [
    "MEMBERSHIP_ATTACKS",
    "UNDONE",
    "UP_TO_CONSTANT",
    "UP_TO_FACTOR",
    "Agreement",
    "AttackFamily",
    "AttributeInference",
    "AveragingAttack",
    "BoxMeasures",
    "BoxRisk",
    "ClosePairs",
    "Closeness",
    "Comparison",
    "ComparisonSettings",
    "CopiedPart",
    "CopiedParts",
    "Decoded",
    "Density",
    "Difference",
    "Differencing",
    "Disclosure",
    "DisclosureSettings",
    "Dominance",
    "DominatedAverages",
    "ExtremeRecords",
    "Game",
    "GameSettings",
    "GroupArea",
    "GroupFigure",
    "GroupFigures",
    "GroupRisk",
    "HiddenUnits",
    "IdentifierMatches",
    "InferenceRisk",
    "InferenceSettings",
    "IntervalDisclosure",
    "Linkability",
    "Linkage",
    "LinkageSettings",
    "LinkedBySubset",
    "LocatedRecords",
    "MatchSignal",
    "MeasureComparison",
    "MembershipAttack",
    "NamedAttack",
    "Neighbours",
    "PartialCopies",
    "Played",
    "PredictionMeasures",
    "Proportion",
    "Queries",
    "Relabelling",
    "ReleasedFigures",
    "ResidualRisk",
    "RiskCurves",
    "RiskReport",
    "RiskSettings",
    "RowOrder",
    "ScoreAttack",
    "ScoreCoincidence",
    "SensitiveRisk",
    "ShadowRelease",
    "SinglingOut",
    "SinglingOutBySize",
    "SubsetLinkage",
    "TableDisclosure",
    "TailTest",
    "TargetRisk",
    "TopScores",
    "ValuePresence",
    "ValuesTogether",
    "Verdict",
    "agreement",
    "attribute_inference",
    "averaging_attack",
    "box_density_attack",
    "box_measures",
    "box_risk",
    "choose_targets",
    "classified_otherwise",
    "close_pairs",
    "closeness",
    "compare",
    "compare_encoded",
    "compare_matched",
    "compare_measures",
    "copied_parts",
    "density",
    "difference",
    "differencing",
    "disclosure_risk",
    "dominance",
    "dominated_averages",
    "extreme_records",
    "find_group_figures",
    "group_figures",
    "hidden_units",
    "identical_records",
    "individual_risk",
    "interval_disclosure",
    "isolated_test",
    "kept_figures",
    "linkability",
    "linkage",
    "matched_quantiles",
    "measure_encoded_risk",
    "measure_risk",
    "membership_attack",
    "nearest_distance_attack",
    "nearly_same",
    "partial_copies",
    "play",
    "prediction_measures",
    "proportion",
    "records_looked_at",
    "relabelling",
    "residual_risk",
    "row_order",
    "sample_queries",
    "sample_size",
    "score_attack",
    "score_coincidence_attack",
    "singling_out",
    "subset_linkage",
    "tail_test",
    "three_way",
    "twins_by_chance",
    "value_presence",
    "values_together",
    "weighted_measures",
    "worst_of",
]
