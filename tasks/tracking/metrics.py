"""A dossier's figures as flat names with numbers, to be drawn as curves over releases."""

from __future__ import annotations

from typing import Any

from tasks.record.dossier import Dossier

INTERVAL = ("lower", "upper")
AUC = ("auc", *INTERVAL)
SHARE = ("value", *INTERVAL)


def metrics(dossier: Dossier) -> dict[str, float]:
    """Return the figures in groups: risk/…, utility/…, claim/…, method/…, edits/…, size/…."""
    figures, edits, gates = dossier.assessment, dossier.edits, dossier.verdict.gates
    flat: dict[str, Any] = {
        "size/source": dossier.source.records,
        "size/released": figures["records"]["released"],
        "size/reference": figures["records"]["reference"],
        "risk/gates_failed": sum(gate.verdict == "fail" for gate in gates),
        "risk/gates_inconclusive": sum(gate.verdict == "inconclusive" for gate in gates),
    }
    for measure in figures["comparison"]["measures"]:
        for key in ("sup_excess", "upper", "lower", "ks_p"):
            flat[f"risk/{measure['name']}/{key}"] = measure[key]
    for rule in ("tail", "isolated", "extreme"):
        flat |= {f"risk/{rule}/{k}": v for k, v in figures[rule].items() if isinstance(v, int | float)}
    flat |= _of_attacks(figures) | _of_utility(figures) | _of_the_method(figures)
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


def _of_attacks(figures: dict[str, Any]) -> dict[str, Any]:
    """Return what attackers get, each with the bounds of its interval; nothing of what was not tried."""
    scores, earlier, link = figures["score_coincidence"], figures["earlier"], figures["linkage"]
    all_releases = (earlier and earlier["attack"]) or {}
    attacks = {
        "membership": figures["membership"],
        "membership_moved_back": figures["membership_moved_back"],
        "membership_by_scores": scores and scores["attack"],
        "earlier_averaged": all_releases.get("averaged"),
        "earlier_gathered": all_releases.get("gathered"),
    }
    flat = {f"risk/{name}/{k}": one[k] for name, one in attacks.items() if one for k in AUC}
    if figures["together"] is not None:
        flat |= {f"risk/together/{k}": figures["together"][k] for k in ("excess", *INTERVAL)}
    flat["risk/earlier_releases"] = earlier and earlier["releases"]
    if link is not None:
        flat |= {f"risk/linkage/{k}": link["rate"][k] for k in SHARE} | {"risk/linkage/guess": link["guess"]}
        flat |= {f"risk/linkage/auc_{m}": link[m]["auc"] for m in ("distance", "ambiguity", "uncertainty")}
    if figures["inference"] is not None and figures["inference"]["variables"]:
        worst = max((v["excess"] for v in figures["inference"]["variables"]), key=lambda e: e["lower"])
        flat |= {f"risk/inference/excess_{k}": worst[k] for k in SHARE}
    if figures["disclosure"] is not None:
        groups = figures["disclosure"]["released"]["groups"]
        flat |= {f"risk/groups/{k}": groups[k] for k in ("smallest", "expected", "highest")}
        flat |= {f"risk/groups/{k}": groups[k]["value"] for k in ("uniques", "below_k")}
    return flat


def _of_utility(figures: dict[str, Any]) -> dict[str, Any]:
    """Return what is left of the statistics, beside the reference's; regressions by number."""
    sides = ("released", "reference")
    flat = {
        f"utility/{name}/{side}_{k}": v
        for name, figure in figures["utility"].items()
        for side in sides
        if figure[side] is not None
        for k, v in figure[side].items()
    }
    for side in sides:
        if (score := (figures["utility_propensity"] or {}).get(side)) is not None:
            flat |= {f"utility/propensity/{side}_{k}": score[k] for k in ("pmse", "ratio", "share_of_maximum")}
    for one in figures["utility_marginals"]:
        flat |= {f"utility/marginals_{one['size']}/{k}": one[k] for k in ("mean", "largest", "reference_mean")}
    for number, one in enumerate(figures["utility_regressions"], start=1):
        for side in sides:
            if one[side] is not None:
                flat[f"utility/regression_{number}/{side}_overlap"] = one[side]["mean_overlap"]
    return flat


def _of_the_method(figures: dict[str, Any]) -> dict[str, Any]:
    """Return what only some methods have: promises with their figures, steps' own figures, boxes."""
    flat = {f"method/{name}": value for name, value in figures["method"].items()}
    for claim in figures["claims"]:
        if claim["kind"] != "NoFormalGuarantee":
            values = claim["figures"] | {"holds": claim["holds"]}
            flat |= {f"claim/{claim['kind']}/{key}": value for key, value in values.items()}
    if figures["boxes"] is not None:
        flat |= {f"risk/boxes/{key}": value for key, value in figures["boxes"]["original"].items()}
        attack = figures["boxes"]["membership"]
        flat |= {f"risk/boxes/membership_{key}": attack[key] for key in AUC if attack}
    return flat
