"""The frontier, the choice of the best, and the map: right, without overlaps, and safe for any name."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.utility import PairUtility, Propensity, PropensityComparison, VariableTable
from tasks.policy.limits import UtilityLimits
from tasks.reporting import comparison, comparison_chart
from tasks.reporting.comparison import Tried
from tasks.reporting.figures import DARK
from tests.tasks.policy.sample import changed, risk, utility

HOSTILE = '<script>alert(1)</script>&"\x00\x0b$\\frac{|'
STATUSES = ("passes", "awaiting", "rejected", "refused")


def one(name="a", status="passes", risk=0.01, loss=1.0, **more) -> Tried:
    told = {"label": name, "reason": "why", "limit": 0.05, "baseline": 1.0} | more
    return Tried(name=name, status=status, risk=risk, loss=loss, **told)


def texts(svg: bytes) -> list[str]:
    return [e.text or "" for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("}text")]


coordinates = st.integers(0, 6).map(lambda v: v / 10) | st.none()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(coordinates, coordinates), max_size=12))
def test_the_frontier_is_what_no_other_beats(places):
    tried = [one(str(i), risk=r, loss=u) for i, (r, u) in enumerate(places)]
    drawn = [t for t in tried if t.risk is not None and t.loss is not None]
    kept = comparison.frontier(tried)
    for t in drawn:
        better = any(o.risk <= t.risk and o.loss <= t.loss and (o.risk < t.risk or o.loss < t.loss) for o in drawn)
        assert (t in kept) != better
    assert all(t in drawn for t in kept)
    assert [t.risk for t in kept] == sorted(t.risk for t in kept)
    assert [t.loss for t in kept] == sorted((t.loss for t in kept), reverse=True)


def test_the_best_passes_and_loses_least():
    tried = [
        one("fails", "rejected", loss=0.1),
        one("waits", "awaiting", loss=0.2),
        one("second", loss=0.9),
        one("best", loss=0.7, risk=0.02),
        one("unsure", loss=0.7, risk=None),
        one("riskier", loss=0.7, risk=0.03),
        one("unmeasured", loss=None),
    ]
    assert comparison.best(tried).name == "best"
    assert "best utility among those that pass: best;" in comparison.sentence(tried, "overall")
    assert "in multiples of its limit: 0.700, another sample's 1.000" in comparison.sentence(tried, "overall")
    assert comparison.best(tried[:2]) is None
    assert comparison.sentence(tried[:2], "overall") == "nothing passes; 1 must be decided by a person"
    assert comparison.sentence(tried[:1], "overall") == "nothing passes"


def propensity(ratio: float) -> Propensity:
    return Propensity("logistic", 0.1, 0.5, 3, 0.1, 0.1, 0.2, 0.1, ratio, 0.0, 0.4, 0, "")


def test_the_loss_is_the_worst_figure_in_multiples_of_its_limit():
    """Of the variables 0.03 of 0.12, of the pairs 0.03 of 0.10, and 2 of 5 for the propensity score."""
    found = utility()
    assert comparison.loss_of(found, "variable", UtilityLimits()) == (0.03, 0.03)
    assert comparison.loss_of(found, "pair", UtilityLimits()) == (0.03, 0.02)
    assert comparison.loss_of(found, "overall", UtilityLimits()) == (pytest.approx(0.3), pytest.approx(0.25))
    apart = replace(found, propensity=PropensityComparison(propensity(2.0), propensity(1.0)))
    assert comparison.loss_of(apart, "propensity", UtilityLimits()) == (2.0, 1.0)
    assert comparison.loss_of(apart, "overall", UtilityLimits()) == (pytest.approx(0.4), pytest.approx(0.25))
    wide = UtilityLimits(marginal=0.03, pair=0.3, two_samples=0)
    assert comparison.loss_of(found, "overall", wide) == (pytest.approx(1.0), pytest.approx(1.0))
    one_side = replace(found, tree=PropensityComparison(propensity(10.0), None))
    assert comparison.loss_of(one_side, "propensity", UtilityLimits()) == (10.0, None)
    assert comparison.loss_of(one_side, "overall", UtilityLimits())[0] == pytest.approx(2.0)


def test_where_nothing_was_compared_the_loss_says_so():
    nothing = replace(utility(), variables=VariableTable((), (), ()), pairs=PairUtility(0, None, None, ()))
    assert all(comparison.loss_of(nothing, axis, UtilityLimits()) == (None, None) for axis in comparison.LOSSES)


def test_the_risk_is_the_bound_that_the_gate_is_put_to():
    found = changed(risk(), comparison__distance__upper=0.04, comparison__uncertainty__verdict="by design")
    assert comparison.risk_of(found, "distance") == 0.04
    assert comparison.risk_of(found, "uncertainty") is None
    assert comparison.risk_of(found, "membership") == 0.54
    assert comparison.risk_of(replace(found, membership=None), "membership") is None


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 14))
def test_labels_cover_neither_each_other_nor_a_point(seed, n):
    rng = np.random.default_rng(seed)
    # Half of the points in one heap.
    points = np.vstack([rng.uniform((60, 60), (600, 300), (n, 2)), rng.normal((300, 200), 12, (n // 2, 2))])
    sizes = np.column_stack([rng.uniform(40, 130, len(points)), np.full(len(points), 11.0)])
    room = (50.0, 50.0, 650.0, 350.0)
    middles = comparison_chart.place_labels(points, sizes, room)
    starts, ends = middles - sizes / 2, middles + sizes / 2
    assert (starts >= room[:2]).all()
    assert (ends <= room[2:]).all()
    for i, j in combinations(range(len(points)), 2):
        apart = np.maximum(starts[i], starts[j]) >= np.minimum(ends[i], ends[j])
        assert apart.any()
    for i, point in enumerate(points):
        nearest = np.clip(point, starts, ends)
        assert np.hypot(*(nearest - point).T).min() > 3, i


def test_labels_leave_what_else_stands_there_uncovered():
    points, sizes = np.array([[100.0, 100.0]]), np.array([[40.0, 10.0]])
    free = comparison_chart.place_labels(points, sizes, (0, 0, 300, 200))
    line = np.array([[100.0, 100.0, 300.0, 100.0]])
    moved = comparison_chart.place_labels(points, sizes, (0, 0, 300, 200), line)
    assert abs(free[0, 1] - 100) < 1
    assert abs(moved[0, 1] - 100) > 5 or moved[0, 0] < 100


def many() -> list[Tried]:
    rng = np.random.default_rng(4)
    found = [
        one(f"m{i}", STATUSES[i % 4], float(rng.normal(0.03, 0.02)), float(rng.uniform(0.5, 2))) for i in range(12)
    ]
    return [*found, one("absent", "not possible", None, None)]


def test_the_map_names_every_setting_and_says_what_its_axes_are():
    svg = comparison_chart.draw(many(), risk="distance", loss="overall")
    shown = texts(svg)
    assert {t.name for t in many() if t.drawn} <= set(shown)
    assert "not on the map: absent" in shown
    assert "passes up to 0.05" in shown
    assert any(comparison.RISKS["distance"] in text for text in shown)
    assert {comparison_chart.WORDS[s] for s in STATUSES} <= set(shown)
    (described,) = [e.text for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("}desc")]
    assert described.startswith("12 settings")
    assert comparison.sentence(many(), "overall") in described
    assert svg == comparison_chart.draw(many(), risk="distance", loss="overall")
    assert len(svg) < 100_000


def test_verdicts_differ_in_shape_and_in_colour():
    marks = comparison_chart.MARKS.values()
    assert len({shape for _, shape, _ in marks}) == len({colour for colour, _, _ in marks}) == len(marks)


@pytest.mark.parametrize(
    "tried",
    [
        [],
        [one(risk=None, loss=None, status="not possible")],
        [one()],
        [one(limit=None, baseline=None)],
        [one("a"), one("b")],
        [one("a", risk=-0.01, loss=0.0001), one("b", risk=0.99, loss=40.0)],
        [one("a", risk=0.5, loss=0.0651), one("b", risk=0.6, loss=0.997)],
        [one("a", risk=0.0, loss=0.0, baseline=0.0)],
        [one(HOSTILE, label=HOSTILE), one("b", "not possible", None, None, label=HOSTILE)],
    ],
)
def test_any_map_can_be_drawn(tried):
    svg = comparison_chart.draw(tried, risk="membership", loss="overall")
    tree = ElementTree.fromstring(svg)
    assert not [e for e in tree.iter() if e.tag.endswith("script")]
    assert not any("nan" in (e.get("d") or "") for e in tree.iter())
    assert not any("mathdefault" in text for text in texts(svg))
    used = set(re.findall(r'style="[^"]*?(?:fill|stroke): (#[0-9a-f]{6})', svg.decode()))
    assert used <= set(DARK)


def test_the_table_keeps_text_text():
    table = comparison.markdown([one(HOSTILE, reason="a | b\nc")], "nothing passes")
    lines = table.splitlines()
    assert lines[0] == "nothing passes"
    assert len(lines) == 5
    assert r"a \| b c" in lines[-1]
    assert "<" not in table.replace(r"\<", "")
    assert "0.010" in lines[-1]
