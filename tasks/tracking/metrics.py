"""A dossier's figures as flat names with numbers, to be drawn as curves over releases."""

from __future__ import annotations

from anoncore.utility import UtilityReport
from tasks.policy.assessment import Assessment
from tasks.record.dossier import Dossier

INTERVAL = ("lower", "upper")
AUC = ("auc", *INTERVAL)
SHARE = ("value", *INTERVAL)
SIDES = ("released", "reference")
# None where a figure was not measured.
Flat = dict[str, float | None]


def metrics(dossier: Dossier) -> dict[str, float]:
    """Return the figures in groups: risk/…, utility/…, claim/…, method/…, edits/…, size/…."""
    assessment, edits, gates = dossier.assessment, dossier.edits, dossier.verdict.gates
    flat: Flat = {
        "size/source": dossier.source.records,
        "size/released": assessment.records.released,
        "size/reference": assessment.records.reference,
        "risk/gates_failed": sum(gate.verdict == "fail" for gate in gates),
        "risk/gates_inconclusive": sum(gate.verdict == "inconclusive" for gate in gates),
    }
    for measure in assessment.risk.comparison.measures:
        for key in ("sup_excess", "upper", "lower", "ks_p"):
            flat[f"risk/{measure.name}/{key}"] = getattr(measure, key)
    for rule in ("tail", "isolated", "extreme"):
        values = vars(getattr(assessment.risk, rule))
        flat |= {f"risk/{rule}/{k}": v for k, v in values.items() if isinstance(v, int | float)}
    flat["risk/extreme/sampled"] = assessment.risk.queries.sampled
    flat |= _of_attacks(assessment) | _of_utility(assessment.utility) | _of_the_method(assessment)
    flat["edits/repaired_records"] = edits.repaired.records
    flat["edits/repaired_cells"] = edits.repaired.cells
    flat["edits/set_aside"] = edits.set_aside
    for side, report in (("raw", edits.raw), ("masked", edits.masked)):
        flat[f"edits/violated_{side}"] = len(report.violated)
        flat[f"edits/violations_{side}"] = sum(rule.violated for rule in report.rules)
    return {k: _readable(float(v)) for k, v in flat.items() if v is not None}


def _readable(value: float) -> float:
    """Return a count as it is, and any other figure with five digits that count: more would be noise."""
    return value if value.is_integer() else float(f"{value:.5g}")


def _of_attacks(assessment: Assessment) -> Flat:
    """Return what attackers get, each with the bounds of its interval; nothing of what was not tried."""
    risk, prior = assessment.risk, assessment.prior_releases
    scores, link, all_releases = risk.score_coincidence, risk.linkage, prior.attack if prior else None
    attacks = {
        "membership": risk.membership,
        "membership_moved_back": risk.membership_rescaled,
        "membership_by_scores": scores.attack if scores else None,
        "earlier_averaged": all_releases.averaged if all_releases else None,
        "earlier_gathered": all_releases.gathered if all_releases else None,
    }
    flat = {f"risk/{name}/{k}": getattr(one, k) for name, one in attacks.items() if one for k in AUC}
    if risk.value_pairs is not None:
        flat |= {f"risk/together/{k}": getattr(risk.value_pairs, k) for k in ("excess", *INTERVAL)}
    flat["risk/earlier_releases"] = prior.releases if prior else None
    if link is not None:
        flat |= {f"risk/linkage/{k}": getattr(link.rate, k) for k in SHARE} | {"risk/linkage/guess": link.guess}
        flat |= {f"risk/linkage/auc_{signal.name}": signal.auc for signal in link.signals}
    if risk.inference is not None and risk.inference.variables:
        worst = max((v.excess for v in risk.inference.variables), key=lambda e: e.lower)
        flat |= {f"risk/inference/excess_{k}": getattr(worst, k) for k in SHARE}
    if risk.disclosure is not None:
        groups = risk.disclosure.released.groups
        flat |= {f"risk/groups/{k}": getattr(groups, k) for k in ("smallest", "expected", "highest")}
        flat |= {f"risk/groups/{k}": getattr(groups, k).value for k in ("uniques", "below_k")}
    return flat


def _of_utility(utility: UtilityReport) -> Flat:
    """Return what is left of the statistics, beside the reference's; regressions by number."""
    flat: Flat = {}
    for part in utility.figures.figures if utility.figures else ():
        for side in SIDES:
            flat |= {f"utility/{part.name}/{side}_{k}": getattr(part, f"{side}_{k}") for k in ("median", "largest")}
    for side in SIDES:
        if (score := getattr(utility.propensity, side, None)) is not None:
            keys = ("pmse", "ratio", "share_of_maximum")
            flat |= {f"utility/propensity/{side}_{k}": getattr(score, k) for k in keys}
    for one in utility.marginals:
        keys = ("mean", "largest", "reference_mean")
        flat |= {f"utility/marginals_{one.size}/{k}": getattr(one, k) for k in keys}
    for number, regression in enumerate(utility.regressions, start=1):
        for side in SIDES:
            if (compared := getattr(regression, side)) is not None:
                flat[f"utility/regression_{number}/{side}_overlap"] = compared.mean_overlap
    return flat


def _of_the_method(assessment: Assessment) -> Flat:
    """Return what only some methods have: promises with their figures, steps' own figures, boxes."""
    flat: Flat = {f"method/{name}": value for name, value in assessment.method_figures.items()}
    for claim in assessment.claims:
        if claim.formal:
            flat |= {
                f"claim/{claim.kind}/{key}": value for key, value in {**claim.figures, "holds": claim.holds}.items()
            }
    boxes = assessment.risk.boxes
    if boxes is not None:
        flat |= {f"risk/boxes/{key}": value for key, value in vars(boxes.original).items()}
        flat |= {f"risk/boxes/membership_{key}": getattr(boxes.membership, key) for key in AUC if boxes.membership}
    return flat
