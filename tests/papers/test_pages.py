"""Short forms of the pages docs/explanation/reproduction-*.md: they say what the code measures."""

import pytest

from tests.papers import __main__ as command
from tests.papers import areas_page, bases_page, boxes_page, clusters_page
from tests.papers.pages import Row, rounded

PAGES = (areas_page.PAGE, bases_page.PAGE, boxes_page.PAGE, clusters_page.PAGE)


def agrees(fresh: list[Row], stored: list[Row], **where) -> None:
    """Compare rows measured now with those that are stored."""
    kept = [row for row in stored if all(row.get(key) == value for key, value in where.items())]
    assert len(fresh) == len(kept)
    for one, other in zip(fresh, kept, strict=True):
        numbers = [{k: v for k, v in row.items() if isinstance(v, float)} for row in (rounded(one), other)]
        assert numbers[0] == pytest.approx(numbers[1], rel=0.01, abs=1e-6)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_follow_from_their_figures(page):
    assert not page.behind(), "run make reproduction"


def test_boxes_cut_for_a_statistic_are_near_the_best_and_beat_mondrian():
    stored = boxes_page.PAGE.stored()
    agrees(boxes_page.measure("NHEFS", ["sd"]), stored, table="NHEFS", statistic="sd")
    thin = [row for row in stored if "rare" in row]
    none = {row["table"]: row for row in thin if row["rare"] == "none"}
    for row in (row for row in thin if row["rare"] != "none"):
        together = [one["guaranteed"] + one["off"] for one in (row, none[row["table"]])]
        assert row["A"] is None or (row["guaranteed"] < none[row["table"]]["guaranteed"] and together[0] > together[1])
    subgroup = {(row["levels"], row["cut"]): row["guaranteed"] for row in stored if "subgroup" in row}
    assert subgroup["constant", "the subgroup"] < subgroup["constant", "all"]
    for row in (row for row in stored if "statistic" in row):
        assert row["ours_guaranteed"] <= row["plain_guaranteed"] / 3
        assert row.get("best", 0) * 0.999 <= row["hulls"] <= 1.25 * row.get("best", row["ideal"]) + 2e-4


def test_centres_that_satisfy_the_edit_are_nearer_and_only_balanced_clusters_are_certified_at_a_small_loss():
    stored = clusters_page.PAGE.stored()
    agrees([clusters_page.on_the_papers_data(1.0)], stored, table="paper", noise=1.0)
    for row in stored:
        if row["table"] == "paper":
            assert row["one step"] < row["no edit"]
            assert row["printed_one_step"] < row["printed_no_edit"]
        if row["table"] == "products" and row["noise"] > 0.01:
            assert row["one step"] < row["no edit"]
        if row["table"] == "blocks":
            assert (row["linked"] > 0.9) == (row["blocks"] != "all together")
            assert row["off_corrected"] <= row["off"]
        if row["table"] == "choice" and row["form"] != "balanced":
            assert row["above"] > 0 or row["loss"] > 1
        if row["table"] == "choice" and row["form"] == "balanced":
            assert row["above"] == 0
            assert row["loss"] < 0.07


def test_independent_components_keep_more_and_give_no_member_away():
    stored = {(row["table"], row["setting"]): row for row in bases_page.PAGE.stored() if "told_apart" in row}
    agrees([bases_page.measure("mixed exponentials", "independent", [1])], [stored["check", "independent"]])
    for table in bases_page.TABLES:
        assert stored[table, "independent"]["told_apart"] <= stored[table, "principal"]["told_apart"] + 0.02
        assert stored[table, "independent"]["coincidence"] < 0.56
        for width in ("1", "0.5"):
            kernel = stored[table, f"kernel, width {width}"]
            assert kernel["told_apart"] > stored[table, "principal, 10 clusters"]["told_apart"] + 0.05
            assert kernel["moved"] > 0.3


def test_synthesis_and_left_out_axes_give_no_member_away_and_short_axes_together_do():
    stored = bases_page.PAGE.stored()
    for row in stored:
        if row.get("part") == "attacks":
            assert max(row[attack] for attack in bases_page.ATTACKS) < 0.56
        if row.get("part") == "left out":
            assert max(row["nearest"], row["coincidence"]) < 0.54
            assert row.get("together", 1) > 0.75
    rhs = {row["setting"]: row for row in stored if row.get("part") == "emphasis"}
    for k in (5, 10):
        assert rhs[f"{k}, 0"]["nearest"] < rhs[f"{k}, 1"]["nearest"]
        assert rhs[f"{k}, 0"]["variance"] < rhs[f"{k}, 1"]["variance"]


def test_suppressed_scores_are_not_imputed_linearly():
    stored = [row for row in bases_page.PAGE.stored() if row.get("part") == "suppression"]
    agrees([bases_page.suppressed("NHEFS", 5, 0.25)], stored[:1])
    for row in stored:
        assert row["scores_line"] < 0.01
        assert row["cells_line"] > 0.2


def test_the_command_writes_every_page_or_the_parts_named(monkeypatch, capsys):
    done = []
    parts = {name: lambda name=name: done.append(name) or [f"{name} is wrong"] for name in command.PARTS}
    monkeypatch.setattr(command, "PARTS", parts)
    assert command.main(["bases", "lasko"]) == 1
    assert done == ["bases", "lasko"]
    assert command.main([]) == 1
    assert done[2:] == ["lasko", "areas", "bases", "boxes", "clusters"]
    assert "areas is wrong" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["pages"])


def test_two_groups_of_a_census_sample_are_hidden_at_once():
    stored = areas_page.PAGE.stored()
    paper = [row for row in stored if row["table"] == "paper"]
    fresh = areas_page.on_the_papers_signal()
    assert [row["row"] for row in fresh] == [row["row"] for row in paper]
    assert fresh[0]["row"] == areas_page.CORRECTED.tolist()
    agrees(fresh, paper)
    alone, kept = (row for row in stored if "kept" in row)
    assert alone["first_off"] > 0
    assert kept["first_off"] == 0
    assert kept["counts"]
    assert kept["inversion"]
    assert kept["reinference"]
    assert [row["inversion"] for row in stored if row["table"] == "census"][:3] == [False, True, True]


def test_a_map_keeps_more_than_an_alphabet_and_a_spread_is_attained_or_refused():
    stored = areas_page.PAGE.stored()
    on_map = {(row["details"], row["layout"]): row for row in stored if row["table"] == "map"}
    line, graph = on_map["plain", "line, haar"], on_map["plain", "map, haar"]
    assert graph["share"] > line["share"]
    assert graph["moved"] < line["moved"]
    assert all(row["counts"] and row["reinference"] for row in on_map.values())
    agrees(areas_page.on_spreads([0.1]), stored, table="spread", spread=0.1)
