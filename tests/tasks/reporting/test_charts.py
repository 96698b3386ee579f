"""The pictures: well-formed, small, and without anything that belongs to a single person."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore import Microdata, Schema, Variable
from anoncore.edits.model import EditSet
from anoncore.encoding import Encoder
from anoncore.methods import RareLevels
from tasks.policy.rounding import step_of
from tasks.reporting import charts
from tasks.reporting.figures import AFTER, BEFORE, DARK, EXCESS
from tasks.reporting.marginals import _marginal, marginals

MEASURES = ("distance", "ambiguity", "uncertainty")
HOSTILE = '<script>alert(1)</script>&"\x00\x0b$\\frac{'


def numbers(name: str, values: np.ndarray) -> Microdata:
    return Microdata(pd.DataFrame({name: values}), Schema([Variable(name, "continuous")]))


def curves(n: int, shift: float = 0.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        f"{side}_{name}": np.sort(rng.random(n) + (shift if side == "released" else 0))
        for side in ("released", "reference")
        for name in MEASURES
    }


def texts(svg: bytes) -> list[str]:
    return [e.text or "" for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("}text")]


def test_matplotlib_is_imported_late_and_pyplot_never():
    code = (
        "import sys; import numpy as np; from tasks.reporting import charts as p;"
        "assert 'matplotlib' not in sys.modules;"
        "p.correlations(np.eye(9), np.eye(9), 9 * ['a']); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def drawn_paths(svg: bytes) -> list[tuple[np.ndarray, str]]:
    """Return the corners (m, 2) and the style of every path within a panel."""
    panels = [e for e in ElementTree.fromstring(svg).iter() if e.get("id", "").startswith("axes_")]
    paths = [p for panel in panels for p in panel.iter() if p.tag.endswith("}path") and p.get("clip-path")]
    corners = [np.array(re.findall(r"(-?[\d.]+) (-?[\d.]+)", p.get("d", "")), dtype=float) for p in paths]
    return [(xy, p.get("style", "")) for xy, p in zip(corners, paths, strict=True) if len(xy)]


def test_curves_are_read_at_round_numbers_and_their_heights_are_rounded():
    for n, step in ((60, 0.1), (800, 0.02), (5000, 0.01)):
        values = np.sort(np.random.default_rng(n).random(n)) * 7.3
        at = charts._round_numbers(float(np.quantile(values, 0.99)))
        shares = charts._shares(values, at)
        np.testing.assert_allclose(at * 10, np.round(at * 10), atol=1e-9)
        assert 41 <= len(at) <= 111
        np.testing.assert_allclose(shares / step, np.round(shares / step), atol=1e-6)
        np.testing.assert_allclose(shares, (values[:, None] <= at).mean(axis=0), atol=step / 2 + 1e-9)


def test_the_picture_of_curves_holds_no_more_points_than_that():
    svg = charts.cumulative_curves(curves(3000))
    assert max(len(xy) for xy, _ in drawn_paths(svg)) <= 2 * 111 + 3
    assert {"Prediction distance", "Ambiguity", "Uncertainty"} <= set(texts(svg))


def test_heights_of_the_source_are_multiples_of_the_step_in_the_picture_itself():
    rng = np.random.default_rng(12)
    levels = rng.choice(["a", "b", "c", "d"], 1370, p=[0.513, 0.307, 0.1777, 0.0023])
    frame = pd.DataFrame({"age": rng.integers(17, 91, 1370).astype(float), "state": levels})
    data = Microdata(frame, Schema([Variable("age", "continuous"), Variable("state", "nominal")]))
    other = data.take(rng.permutation(1370)[:1000])
    for name, kind in (("age", "continuous"), ("state", "nominal")):
        svg = marginals(data.select([name]), other.select([name]), k=10)
        areas = [area(xy) for xy, style in drawn_paths(svg) if f"fill: {BEFORE}" in style]
        ours = [area(xy) for xy, style in drawn_paths(svg) if f"stroke: {AFTER}" in style]
        shares = np.concatenate(areas)
        # The released records, whose shares are known exactly, give the scale of the picture.
        true = _marginal(data.schema[name], data, other, 10).after
        shares *= true.sum() / np.concatenate(ours).sum()
        assert np.count_nonzero(shares) >= 3, kind
        np.testing.assert_allclose(shares / 0.01, np.round(shares / 0.01), atol=0.02)
        np.testing.assert_allclose(shares.sum(), 1, atol=0.05)


def area(corners: np.ndarray) -> list[float]:
    """Return the area of each bar of a path of bars: of a rectangle, or of the steps over a common base."""
    base = corners[:, 1].max()
    return [
        abs(x2 - x1) * (base - y1)
        for (x1, y1), (x2, y2) in itertools.pairwise(corners.tolist())
        if abs(y1 - y2) < 1e-6 and base - y1 > 1e-6
    ]


@pytest.mark.parametrize("kind", ["nominal", "ordinal"])
def test_a_picture_does_not_say_whether_levels_are_rare(kind):
    levels = np.array([0] * 700 + [1] * 500 + [2] * 300 + [3])
    release = Microdata(pd.DataFrame({"v": levels[:1500]}), Schema([Variable("v", kind, levels=(0, 1, 2))]))
    with_rare, without = (
        Microdata(pd.DataFrame({"v": v}), Schema([Variable("v", kind)])) for v in (levels, levels.clip(max=2))
    )
    assert marginals(with_rare, release, k=5) == marginals(without, release, k=5)


def test_area_is_tinted_only_where_the_release_is_riskier():
    # Safe pictures hold the colour as well, in legend and style.
    safe, risky = (charts.cumulative_curves(curves(500, shift)).count(EXCESS.encode()) for shift in (0.5, -0.5))
    assert risky >= safe + len(MEASURES)


def test_measures_with_one_value_and_absent_measures_are_drawn():
    found = curves(60)
    found["released_ambiguity"] = np.ones(60)
    found["released_uncertainty"] = np.zeros(60)
    found["reference_uncertainty"] = np.zeros(60)
    ElementTree.fromstring(charts.cumulative_curves(found))
    del found["released_ambiguity"]
    assert "Ambiguity" not in texts(charts.cumulative_curves(found))


def test_an_extreme_value_leaves_no_trace_in_marginals():
    rng = np.random.default_rng(5)
    values = rng.normal(50, 10, 400).round(2)
    plain = marginals(numbers("x", values), numbers("x", values), k=5)
    values[17] = 987654.32
    values[18] = -4321.98
    planted = marginals(numbers("x", values), numbers("x", np.sort(values)), k=5)
    for text in texts(planted):
        assert "987" not in text
        assert "4321" not in text
    assert [t for t in texts(planted) if t != "x"] == [t for t in texts(plain) if t != "x"]


def test_released_values_beyond_the_original_s_range_are_shown():
    before = np.random.default_rng(1).uniform(20, 80, 500)
    within, beyond = (marginals(numbers("age", before), numbers("age", v), k=5) for v in (before, before * 2 - 40))
    assert "beyond the range before" not in texts(within)
    assert "beyond the range before" in texts(beyond)
    share = ((before * 2 - 40 < 20) | (before * 2 - 40 > 100)).mean()
    assert f"beyond {share:.1%}" in texts(beyond)


def test_a_rare_level_is_not_named():
    levels = ["common"] * 200 + ["usual"] * 100 + ["planted"] * 3 + ["secret"]
    for kind in ("nominal", "ordinal"):
        data = Microdata(pd.DataFrame({"v": levels}), Schema([Variable("v", kind)]))
        seen = " ".join(texts(marginals(data, data, k=5)))
        assert "common" in seen or "comm" in seen
        assert "planted" not in seen
        assert "secret" not in seen


def test_rare_levels_that_are_pooled_are_not_named_by_the_bar_s_ends():
    levels = [*([0] * 100), *([1] * 90), *([7] * 9), *([8] * 8), *([9] * 5), *([10] * 4)]
    data = Microdata(pd.DataFrame({"pain": levels}), Schema([Variable("pain", "ordinal")]))
    masked = Microdata(pd.DataFrame({"pain": levels[:190]}), Schema([Variable("pain", "ordinal", levels=(0, 1))]))
    for released in (data, masked):
        seen = " ".join(texts(marginals(data, released, k=5)))
        assert "others" in seen
        assert not {"7", "8", "9", "10"} & set(seen.replace("–", " ").replace(",", " ").split())


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 300),
    k=st.integers(2, 12),
    kind=st.sampled_from(["continuous", "ordinal", "binary", "nominal"]),
)
def test_no_bar_before_masking_stands_for_fewer_than_k(seed, n, k, kind):
    rng = np.random.default_rng(seed)
    gaps = rng.random(n) < rng.choice([0.0, 0.02, 0.3])
    if kind == "continuous":
        values = np.exp(rng.normal(0, rng.choice([0.1, 1, 4]), n)).round(rng.integers(0, 4))
        values = np.where(gaps, np.nan, values)
    else:
        q = 2 if kind == "binary" else rng.integers(2, 20)
        codes = rng.choice(q, n, p=rng.dirichlet(np.full(q, 0.4)))
        values = np.where(gaps, np.nan, codes)
    levels = None if kind == "continuous" else tuple(range(20))[: 2 if kind == "binary" else 20]
    schema = Schema([Variable("v", kind, levels=levels)])
    data = Microdata(pd.DataFrame({"v": values}), schema)
    other = data.take(rng.permutation(n)[: max(1, n // 2)])
    found = _marginal(data.schema["v"], data, other, k)
    if found is None:
        return
    told = int((~gaps).sum())
    step = step_of(n)
    least = max(k, int(np.ceil(step * n - 1e-9)))
    np.testing.assert_allclose(found.before / step, np.round(found.before / step))
    assert found.before.min() >= step - 1e-9
    counts = found.before
    assert abs(found.before.sum() - told / n) <= step / 2 * len(counts) + (least - 1) / n + 1e-9
    assert found.after.sum() <= 1 + 1e-9
    assert (found.missing is None) == (n - told < least)
    if found.edges is not None:
        assert len(found.edges) == len(counts) + 1
        known = np.sort(values[~gaps])
        outer = max(least, int(np.ceil(0.02 * told)))
        assert found.edges[0] <= known[outer - 1] + 1e-9
        assert found.edges[-1] >= known[-outer] - 1e-9


def test_every_kind_of_variable_and_release_is_drawn(mixed):
    svg = marginals(mixed, mixed.take(np.arange(len(mixed))[::-1]), k=5)
    assert b"<desc>6 of 8 variables" in svg
    assert {"income", "grade", "region", "sex", "smokes", "change"} <= set(texts(svg))
    encoder = Encoder.fit(mixed)
    probabilities = encoder.decode(encoder.encode(mixed), form="probabilities")
    ElementTree.fromstring(marginals(mixed, probabilities, k=5))
    params = RareLevels(k=40)
    merged = params.anonymize(mixed, edits=EditSet(), rng=np.random.default_rng(0)).data
    ElementTree.fromstring(marginals(mixed, merged, k=5))
    nothing = marginals(mixed.select(["empty"]), mixed.select(["empty"]), k=5)
    assert b"<desc>0 of 1 variables" in nothing


def test_the_least_preserved_come_first_and_at_most_24_are_shown():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({f"v{j:02}": rng.normal(size=200) for j in range(30)})
    schema = Schema([Variable(name, "continuous") for name in frame])
    moved = frame.assign(v17=frame.v17 + 3)
    svg = marginals(Microdata(frame, schema), Microdata(moved, schema), k=5)
    names = [t for t in texts(svg) if re.fullmatch(r"v\d\d", t)]
    assert names[0] == "v17"
    assert len(names) == 24
    assert b"<desc>24 of 30 variables" in svg


def test_hostile_names_are_text():
    data = numbers(HOSTILE, np.arange(100.0))
    for svg in (
        marginals(data, data, k=5),
        charts.correlations(np.eye(9), np.eye(9), [HOSTILE] * 9),
    ):
        tree = ElementTree.fromstring(svg)
        assert not [e for e in tree.iter() if e.tag.endswith("script")]
        assert any("<script>alert" in text for text in texts(svg))


def test_correlations_are_right_where_shown_and_zero_where_not(monkeypatch):
    monkeypatch.setattr(charts, "BLOCK", 97)
    rng = np.random.default_rng(4)
    x = rng.normal(size=(500, 5)) @ rng.normal(size=(5, 5))
    rare = np.where(np.arange(500) < 3, 1.0, -1.0)
    gappy = np.where(np.arange(500) % 7 == 4, -0.98, rare)
    spiky = np.where(np.arange(500) < 4, np.arange(500), 0.0)
    common = np.where(np.arange(500) % 7 == 4, 0.02, np.where(x[:, 0] > 0, 1.0, -1.0))
    x = np.column_stack([x, common, np.full(500, 3.3), rare, gappy, spiky])
    hidden = charts._rare_columns(x, 5)
    assert hidden.tolist() == [False] * 6 + [True] * 4
    found = charts._correlation(x, hidden)
    shown = range(6)
    np.testing.assert_allclose(found[np.ix_(shown, shown)], np.corrcoef(x[:, shown].T), atol=1e-12)
    assert not found[6:].any()
    assert not found[:, 6:].any()


def test_two_rare_columns_of_one_person_do_not_show_it():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(300, 4))
    x[:, 2:] = -1.0
    apart, together = x.copy(), x.copy()
    apart[[3, 8], [2, 3]] = 1.0
    together[3, 2:] = 1.0
    names = ["a", "b", "c", "d"]
    assert charts.correlations(apart, x, names) == charts.correlations(together, x, names)


@pytest.mark.parametrize("columns", [1, 12, 130])
def test_pictures_are_self_contained_and_small(columns):
    x, y = np.random.default_rng(8).normal(size=(2, 300, columns))
    svg = charts.correlations(x, y, [f"column {j}" for j in range(columns)])
    assert svg.startswith(b"<svg ")
    assert len(svg) < 300_000
    links = [v for e in ElementTree.fromstring(svg).iter() for k, v in e.attrib.items() if k.endswith("href")]
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert b"prefers-color-scheme:dark" in svg
    assert b"<script" not in svg


def test_the_same_input_gives_the_same_bytes_whatever_the_machine_prefers():
    import matplotlib

    found = curves(300)
    first = charts.cumulative_curves(found)
    with matplotlib.rc_context({"text.usetex": True, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert charts.cumulative_curves(found) == first
        assert matplotlib.rcParams["axes.facecolor"] == "red"


def test_every_colour_of_the_pictures_has_a_dark_twin():
    frame = pd.DataFrame({"a": np.arange(100.0), "b": ["x", "y"] * 50})
    data = Microdata(frame, Schema([Variable("a", "continuous"), Variable("b", "binary")]))
    for svg in (marginals(data, data, k=5), charts.cumulative_curves(curves(100))):
        used = set(re.findall(r'style="[^"]*?(?:fill|stroke): (#[0-9a-f]{6})', svg.decode()))
        assert used <= set(DARK)
