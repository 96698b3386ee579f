"""Boxes on microdata: what is released encloses the source, keeps its claims, and gives nothing else away."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anoncore
from anoncore import AnonymizationError, Microdata, Schema, Variable, read_boxes
from anoncore.edits.kinds import BoundEdit, LinearEdit
from anoncore.edits.model import EditSet
from anoncore.kernels.boxes.subgroups import UNCERTAIN
from anoncore.kernels.boxes.weights import crisp_rule, optimal_weights
from anoncore.methods import OptimalBoxes, Statistic

PAIRS = ("covariance", "correlation")
ASKED = [("mean", "u"), ("variance", "u"), ("sd", "v"), ("covariance", "u", "v"), ("correlation", "u", "v")]


def table(n=300, seed=0, gaps=0.0, decimals=2):
    """Two skewed, dependent numbers, and one with five values."""
    rng = np.random.default_rng(seed)
    u = np.exp(rng.normal(3, 1, n)).round(decimals)
    v = (np.log1p(u) + rng.normal(0, 1, n)).round(decimals)
    frame = pd.DataFrame({"u": u, "v": v, "w": rng.integers(0, 5, n)})
    frame["u"] = frame["u"].mask(rng.random(n) < gaps)
    frame["s"] = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    kinds = {"u": "continuous", "v": "continuous", "w": "continuous", "s": "nominal"}
    return Microdata(frame, Schema(Variable(name, kind) for name, kind in kinds.items()))


def released(data, seed=0, edits=None, **params):
    return anoncore.anonymize(data, OptimalBoxes(**params), rng=np.random.default_rng(seed), edits=edits)


def true_value(frame, name, *of):
    values = frame[list(of)].dropna().to_numpy(dtype=float)
    if name == "mean":
        return values[:, 0].mean()
    if name in PAIRS:
        return (np.cov if name == "covariance" else np.corrcoef)(
            values.T, **({"ddof": 0} if name == "covariance" else {})
        )[0, 1]
    return values[:, 0].var() if name == "variance" else values[:, 0].std()


# ---------------------------------------------------------------- what is released is true of everybody


@pytest.mark.parametrize(
    "params",
    [
        {"k": 8},
        {"k": 8, "l": 3},
        {"k": 5, "categorical": "constant"},
        {"k": 5, "bounds": "grid"},
        {"k": 5, "rare": "fuzzy", "l": 2, "categorical": "constant"},
    ],
    ids=str,
)
def test_every_record_lies_in_its_box(params, mixed):
    for data in (mixed, table(gaps=0.2)):
        release = released(data, **params)
        out, own = release.data.frame, data.frame.loc[release.data.frame.index]
        for variable in data.schema:
            name = variable.name
            if variable.kind == "continuous":
                gap = own[name].isna()
                assert (gap == out[f"{name}_lo"].isna()).all()
                assert (gap == out[f"{name}_hi"].isna()).all()
                inside = (out[f"{name}_lo"] <= own[name]) & (own[name] <= out[f"{name}_hi"])
                assert (inside | gap).all()
            else:
                words = own[name].astype("object").map(lambda v: "missing" if pd.isna(v) else str(v))
                sets = out[name].astype("object").map(lambda v: "missing" if pd.isna(v) else str(v))
                assert all(w in s.split("|") for w, s in zip(words, sets, strict=True))
                if params.get("categorical") == "constant":
                    assert not sets.str.contains("|", regex=False).any()
        assert out.groupby("box").size().min() >= params["k"]
        assert len(out.drop_duplicates()) == len(out["box"].drop_duplicates())
        assert all(check.holds for check in release.check())


def test_boxes_of_records_with_the_same_gaps_are_disjoint():
    release = released(table(gaps=0.2), k=6)
    boxes = release.data.frame.drop_duplicates()
    faces = [(boxes[f"{n}_lo"].to_numpy(), boxes[f"{n}_hi"].to_numpy()) for n in ("u", "v", "w")]
    apart = np.zeros((len(boxes), len(boxes)), dtype=bool)
    for low, high in faces:
        apart |= (high[:, None] <= low) | (high <= low[:, None]) | (np.isnan(low)[:, None] != np.isnan(low))
    assert (apart | np.eye(len(boxes), dtype=bool)).all()


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(12, 150),
    k=st.integers(2, 8),
    gaps=st.sampled_from([0.0, 0.3]),
    decimals=st.integers(0, 2),
    bounds=st.sampled_from(["cells", "grid"]),
    categorical=st.sampled_from(["set", "constant"]),
)
@settings(max_examples=25, deadline=None)
def test_guaranteed_ranges_hold_the_true_value(seed, n, k, gaps, decimals, bounds, categorical):
    data = table(n, seed, gaps, decimals)
    asked = tuple(Statistic(statistic=name, of=tuple(of)) for name, *of in ASKED)
    try:
        release = released(data, k=k, bounds=bounds, categorical=categorical, statistics=asked)
    except AnonymizationError as refused:
        told = str(refused)
    else:
        told = ""
    if told:
        assert re.search("does not vary|share|fewer than 2", told)
        return
    own = data.frame.loc[release.data.frame.index]
    read = read_boxes(release.data.plain())
    for name, *of in ASKED:
        low, high = read.estimate(name, *of).guaranteed
        true = true_value(own, name, *of)
        assert low <= true <= high


def test_what_is_asked_for_comes_out_narrower():
    data = table(2000)
    half = {}
    for asked in ("u", "v"):
        read = read_boxes(released(data, k=10, statistics=(Statistic(statistic="mean", of=(asked,)),)).data.frame)
        half[asked] = {n: np.ptp(read.estimate("mean", n).guaranteed) for n in ("u", "v")}
    assert half["u"]["u"] < half["v"]["u"] / 2
    assert half["v"]["v"] < half["u"]["v"] / 2


def test_notes_and_figures_come_from_the_released_boxes(tmp_path):
    asked = Statistic(statistic="mean", of=("u",), accuracy=2.0)
    release = released(table(), k=8, statistics=(asked,))
    read = read_boxes(release.data.frame)
    found = read.estimate("mean", "u")
    assert any(str(found) in note and "wanted was ± 2" in note for note in release.notes)
    half = (found.guaranteed[1] - found.guaranteed[0]) / 2
    assert release.figures["mean_u.guaranteed"] == pytest.approx(half / 2.0)


def test_figures_do_not_give_the_spread_of_the_source_away():
    asked = (Statistic(statistic="mean", of=("u",)), Statistic(statistic="sd", of=("v",), accuracy=0.2))
    figures = released(table(), k=8, statistics=asked).figures
    assert {n for n in figures if "." in n} == {"sd_v.guaranteed", "sd_v.linearised"}
    assert not any("." in n for n in released(table(), k=8).figures)


def test_notes_say_where_a_range_tells_nothing():
    asked = (
        Statistic(statistic="correlation", of=("u", "v")),
        Statistic(statistic="mean", of=("w",), probability=1e4),
    )
    notes = released(table(40), k=10, statistics=asked).notes
    assert any(n.startswith("correlation(u, v)") and n.endswith("; says nothing") for n in notes)
    assert not any(n.startswith("mean(w)") and "says nothing" in n for n in notes)


def test_inner_faces_are_no_possible_values():
    values = np.array([1.0, 2, 3, 5, 6, 7])
    data = Microdata(pd.DataFrame({"x": values}), Schema([Variable("x", "continuous", precision=1)]))
    out = released(data, k=3, limits={"x": (0, 10)}).data.frame
    assert out["x_hi"].tolist() == [3.5] * 3 + [10] * 3
    assert out["x_lo"].tolist() == [0] * 3 + [3.5] * 3
    # On a multiple of the precision lie only the stated limits.
    many = table(500, decimals=1)
    out = released(many, k=5, limits={"u": (0, 10_000), "v": (-20, 20)}).data.frame
    for name, limits in (("u", (0, 10_000)), ("v", (-20, 20))):
        faces = np.setdiff1d(out[[f"{name}_lo", f"{name}_hi"]].to_numpy(), limits)
        assert (np.abs(faces * 10 - np.rint(faces * 10)) > 0.01).all()
        assert not np.isin(faces, many.frame[name]).any()


def test_decimals_with_rounding_errors_stay_in_their_boxes():
    values = np.arange(-40, 60) * 0.1
    assert -0.30000000000000004 in values
    data = Microdata(pd.DataFrame({"x": values}), Schema([Variable("x", "continuous", precision=0.1)]))
    for k in (2, 3, 7):
        out = released(data, k=k, limits={"x": (values[0], values[-1])}).data.frame
        assert ((out["x_lo"] <= values) & (values <= out["x_hi"])).all()
        inner = np.setdiff1d(out["x_lo"], values[0])
        np.testing.assert_allclose(np.abs(inner * 10 - np.rint(inner * 10)), 0.5)


def test_edits_narrow_the_ranges_only_where_every_record_keeps_them():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 100, 300), "b": rng.integers(0, 100, 300)}).astype(float)
    frame["c"] = frame["a"] + frame["b"]
    schema = Schema(Variable(n, "continuous", precision=1) for n in "abc")
    total = EditSet([LinearEdit(name="total", terms={"a": 1, "b": 1, "c": -1})])
    asked = (Statistic(statistic="mean", of=("c",)),)
    spans = {}
    for key, edits in (("without", None), ("with", total)):
        release = released(Microdata(frame, schema), k=5, edits=edits, statistics=asked)
        out = release.data.frame
        for n in "abc":
            assert ((out[f"{n}_lo"] <= frame[n]) & (frame[n] <= out[f"{n}_hi"])).all()
        spans[key] = {n: (out[f"{n}_hi"] - out[f"{n}_lo"]).mean() for n in "abc"}
        assert any("narrowed to what the edits total leave" in n for n in release.notes) == (key == "with")
    assert spans["with"]["a"] < 0.95 * spans["without"]["a"]
    broken = frame.assign(c=frame["c"].where(frame.index != 7, 0.0))
    release = released(Microdata(broken, schema), k=5, edits=total, statistics=asked)
    assert not any("narrowed" in n for n in release.notes)
    assert ((release.data.frame["c_lo"] <= broken["c"]) & (broken["c"] <= release.data.frame["c_hi"])).all()


@pytest.mark.parametrize("name", ["variance", "mean"])
def test_scales_that_cannot_be_computed_with_are_refused(name):
    data = Microdata(pd.DataFrame({"x": np.arange(30.0) * 1e-170}), Schema([Variable("x", "continuous")]))
    with pytest.raises(AnonymizationError, match="another unit"):
        released(data, k=5, statistics=(Statistic(statistic=name, of=("x",)),))


# ---------------------------------------------------------------- claims


@pytest.mark.parametrize("params", [{"k": 7}, {"k": 7, "l": 3, "rare": "fuzzy"}, {"k": 7, "bounds": "grid"}], ids=str)
def test_claims_hold_in_the_published_files(params, tmp_path):
    release = released(table(400, gaps=0.1), **params)
    release.data.plain().to_csv(tmp_path / "data.csv", index=False)
    release.data.plain().to_parquet(tmp_path / "data.parquet", index=False)
    for frame in (pd.read_csv(tmp_path / "data.csv"), pd.read_parquet(tmp_path / "data.parquet")):
        again = Microdata(frame, release.data.schema)
        assert [c.check(again).holds for c in release.claims] == [True] * len(release.claims)
        assert frame.groupby(list(frame.columns), dropna=False).size().min() >= 7
    both = [read_boxes(tmp_path / f"data.{kind}") for kind in ("csv", "parquet")]
    assert both[0].check(7, params.get("l")).passed
    for name, *of in ASKED:
        one, other = (read.estimate(name, *of) for read in both)
        assert one.value == pytest.approx(other.value, rel=1e-12)


def test_claims_fail_when_a_record_is_added_or_a_count_is_lowered():
    release = released(table(), k=7, l=3)
    frame = release.data.frame
    fewer = Microdata(frame.drop(frame.index[frame["box"] == 0][:5]), release.data.schema)
    assert not release.claims[0].check(fewer).holds
    lower = Microdata(frame.assign(u_distinct=frame["u_distinct"].mask(frame["box"] == 0, 2.0)), release.data.schema)
    assert not release.claims[1].check(lower).holds


def test_distinct_values_are_there_and_no_more_than_l_is_told():
    data = table(400, gaps=0.1)
    release = released(data, k=8, l=4, epsilon={"u": 3.0})
    out = release.data.frame
    own = data.frame.loc[out.index]
    for name, epsilon in (("u", 3.0), ("v", 0.01), ("w", 1.0)):
        assert set(out[f"{name}_distinct"].dropna()) == {4.0}
        for _, values in own[name].groupby(out["box"]):
            known = np.sort(values.dropna().to_numpy())
            count, last = 0, -np.inf
            for value in known:
                if value - last >= epsilon * (1 - 1e-9):
                    count, last = count + 1, value
            assert count >= 4 or not len(known)


def test_decimal_units_count_as_apart():
    values = np.tile([0.1, 0.2, 0.3], 10)
    data = Microdata(pd.DataFrame({"x": values}), Schema([Variable("x", "continuous", precision=0.1)]))
    assert 0.3 - 0.2 < 0.1
    assert (released(data, k=5, l=3).data.frame["x_distinct"] == 3).all()
    assert (released(data, k=5, l=3, epsilon={"x": 0.1}).data.frame["x_distinct"] == 3).all()


def test_a_variable_without_l_values_is_exempt_and_named():
    release = released(table(), k=8, l=6)
    assert "w_distinct" not in release.data.frame
    assert release.claims[1].columns == ("u_distinct", "v_distinct")
    assert any("no distinct values are promised of w" in note for note in release.notes)
    assert len(release.data.frame["box"].unique()) > 20


def test_a_group_without_l_values_is_left_out():
    data = table(300)
    frame = data.frame.assign(v=data.frame["v"].where(data.frame["s"] != "a", 1.0))
    release = released(Microdata(frame, data.schema), k=5, l=3, categorical="constant")
    assert set(release.data.frame["s"]) == {"b", "c"}
    assert release.figures["left_out"] == (frame["s"] == "a").sum()
    assert any("left out" in note for note in release.notes)


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize("rare", ["crisp", "fuzzy"])
def test_weights_are_the_optimal_ones_and_follow_from_the_released_boxes(rare):
    A = 20.0
    asked = tuple(Statistic(statistic="mean", of=(n,), accuracy=1.0) for n in ("u", "v"))
    release = released(table(250).select(["u", "v"]), k=6, rare=rare, A=A, statistics=asked)
    out = release.data.frame
    # For means every sensitivity is p/Δ₀ = 1/2.
    c = sum(0.5 * (out[f"{n}_hi"] - out[f"{n}_lo"]).to_numpy() / 2 for n in ("u", "v")) / 2
    best = optimal_weights(c, 2, A)[0] if rare == "fuzzy" else crisp_rule(c, 2, A)[0].astype(float)
    np.testing.assert_allclose(out["weight"], best / best.mean(), atol=0.00501)
    assert any("biased" in note for note in release.notes)
    assert any("weighted mean(u) =" in note and "; weighted" in note for note in release.notes)


@pytest.mark.parametrize("skewed", [True, False])
def test_by_default_weights_shift_an_estimate_by_less_than_they_narrow_its_range(skewed):
    rng = np.random.default_rng(1)
    # The tails of a symmetric number are thin on both sides, so that weights narrow its range and hardly shift it.
    x = np.exp(rng.normal(3, 1, 800)) if skewed else 100 * rng.standard_t(2, 800)
    data = Microdata(pd.DataFrame({"x": x.round(2)}), Schema([Variable("x", "continuous")]))
    asked = (Statistic(statistic="mean", of=("x",)),)
    sums = {}
    for A in (None, float(x.std()), 1e12):
        read = read_boxes(released(data, k=5, rare="fuzzy", A=A, statistics=asked).data.frame)
        plain, weighted = (read.estimate("mean(x)", weights=one) for one in (False, True))
        sums[A] = (weighted.guaranteed[1] - weighted.guaranteed[0]) / 2 + abs(weighted.value - plain.value)
    assert sums[None] <= min(sums.values()) * 1.02


def test_records_in_thin_regions_are_dropped_and_the_others_cut_anew():
    data, asked = table(600), (Statistic(statistic="mean", of=("u",), accuracy=1.0),)
    every = read_boxes(released(data, k=6, statistics=asked).data.frame).estimate("mean(u)")
    release = released(data, k=6, statistics=asked, rare="dropped", A=5.0)
    read = read_boxes(release.data.frame)
    assert read.k >= 6
    assert 0 < release.figures["left_out"] == 600 - read.records < 300
    low, high = read.estimate("mean(u)").guaranteed
    assert high - low < 0.5 * (every.guaranteed[1] - every.guaranteed[0])
    assert low <= data.frame.loc[release.data.frame.index, "u"].mean() <= high
    assert any("thin regions" in note for note in release.notes)


def test_boxes_are_narrower_for_a_subgroup_that_is_asked_for():
    data = table(900)
    half_range = {}
    for level in ("a", "b"):
        one = Statistic(statistic="mean", of=("u",), within={"s": level})
        for categorical in ("constant", "set"):
            read = read_boxes(released(data, k=6, statistics=(one,), categorical=categorical).data.frame)
            low, high = read.estimate("mean(u)", within={"s": "a"}).guaranteed
            assert low <= data.frame.loc[data.frame["s"] == "a", "u"].mean() <= high
            half_range[level, categorical] = high - low
    assert half_range["a", "constant"] < 0.5 * half_range["b", "constant"]
    assert half_range["a", "constant"] < half_range["a", "set"]
    with pytest.raises(AnonymizationError, match="only the mean of the subgroup"):
        read.estimate("sd(u)", within={"s": "a"})
    with pytest.raises(AnonymizationError, match="no level of 's'"):
        released(data, k=6, statistics=(Statistic(statistic="mean", of=("u",), within={"s": "z"}),))


def test_a_release_says_where_nothing_is_known_of_a_subgroup():
    data = table(900)
    one = Statistic(statistic="mean", of=("u",), within={"s": "a"})
    mixed = released(data, k=60, statistics=(one,), limits={"u": (-9e3, 9e3)})
    read = read_boxes(mixed.data.frame)
    assert (read.frame["s"] == "a").sum() == 0, "no box is known to hold a member"
    (note,) = (note for note in mixed.notes if note.startswith("mean(u; s = a)"))
    assert note.endswith(f"; {UNCERTAIN}; says nothing")
    found = read.estimate("mean(u)", within={"s": "a"})
    faces = read.bounds()[:2]
    assert found.guaranteed == pytest.approx((np.nanmin(faces[0][:, 0]), np.nanmax(faces[1][:, 0])))


def test_means_say_that_stated_statistics_are_not_measured():
    one = Statistic(statistic="mean", of=("u",), within={"s": "a"})
    for categorical, mixes in (("set", True), ("constant", False)):
        notes = released(table(900), k=6, statistics=(one,), categorical=categorical, release="means").notes
        (note,) = (note for note in notes if "is not measured" in note)
        assert "mean(u; s = a)" in note
        assert ("figures of subgroups are those of boxes" in note) == mixes
    assert not any("is not measured" in note for note in released(table(900), k=6, release="means").notes)


def test_a_larger_A_makes_weights_more_equal():
    spread = [released(table(), k=6, rare="fuzzy", A=A).data.frame["weight"].std() for A in (1.0, 50.0, 1e6)]
    assert spread[0] > spread[1] > spread[2]
    assert spread[2] < 0.02


def test_the_weighted_mean_of_skewed_data_is_biased_and_the_other_range_is_not():
    data = table(2000)
    asked = (Statistic(statistic="mean", of=("u",)),)
    read = read_boxes(released(data, k=5, rare="fuzzy", A=1.0, statistics=asked).data.frame)
    true = data.frame["u"].mean()
    assert read.estimate("mean", "u", weights=True).guaranteed[1] < true
    low, high = read.estimate("mean", "u").guaranteed
    assert low <= true <= high


# ---------------------------------------------------------------- what an attacker is not told


def test_no_bound_is_an_extreme_value():
    data = table(500, decimals=0)
    out = released(data, k=8).data.frame
    for name in ("u", "v"):
        assert out[f"{name}_hi"].max() > data.frame[name].max()
        low = out[f"{name}_lo"].min()
        assert low < data.frame[name].min() or low == 0.0


def test_known_limits_are_the_outer_faces():
    data = table(500)
    edits = EditSet([BoundEdit(name="v", variable="v", lower=-20, upper=30)])
    out = released(data, k=8, limits={"u": (0, 10_000)}, edits=edits)
    assert (out.data.frame["u_lo"].min(), out.data.frame["u_hi"].max()) == (0, 10_000)
    assert (out.data.frame["v_lo"].min(), out.data.frame["v_hi"].max()) == (-20, 30)
    followed = [note for note in out.notes if "outermost bounds" in note]
    assert len(followed) == 1
    assert "of w follow" in followed[0]


def test_grid_bounds_are_multiples_and_stay_within_the_limits():
    out = released(
        table(500), k=8, bounds="grid", grid={"u": 7.0, "v": 0.5}, limits={"u": (0, 9999), "v": (-20, 20)}
    ).data.frame
    for name, unit, limit in (("u", 7.0, 9999), ("v", 0.5, 20)):
        bounds = out[[f"{name}_lo", f"{name}_hi"]].to_numpy().ravel()
        bounds = bounds[bounds != limit]
        np.testing.assert_allclose(bounds / unit, np.rint(bounds / unit))
        assert out[f"{name}_hi"].max() == limit


def test_box_numbers_tell_nothing_about_where_boxes_are():
    data = table(2000)
    one, other = (released(data, seed=seed, k=5).data.frame for seed in (1, 2))
    assert not one["box"].equals(other["box"])
    pd.testing.assert_frame_equal(one.drop(columns="box"), other.drop(columns="box"))
    boxes = one.drop_duplicates().set_index("box").sort_index()
    for column in ("u_lo", "v_lo", "w_lo"):
        assert abs(np.corrcoef(boxes.index, boxes[column])[0, 1]) < 0.2
        near = np.abs(np.diff(boxes[column].rank().to_numpy())).mean()
        assert near > 0.25 * len(boxes)


def test_the_boxes_do_not_depend_on_the_order_of_the_records():
    data = table(500, gaps=0.1)
    mixed_up = data.take(np.random.default_rng(5).permutation(len(data)))
    one, other = (released(d, k=6, l=2).data.frame.drop(columns="box").sort_index() for d in (data, mixed_up))
    pd.testing.assert_frame_equal(one, other)


def test_weights_are_rounded():
    weight = released(table(), k=6, rare="fuzzy").data.frame["weight"].to_numpy()
    np.testing.assert_allclose(weight * 100, np.rint(weight * 100), atol=1e-9)
    assert weight.mean() == pytest.approx(1.0, abs=0.01)


# ---------------------------------------------------------------- means, points, refusals


def test_means_keep_the_schema_and_the_mean(mixed):
    release = released(mixed, k=8, release="means")
    assert release.data.frame.columns.tolist() == mixed.frame.columns.tolist()
    assert release.points is None
    assert all(check.holds for check in release.check())
    assert release.data.frame["change"].mean() == pytest.approx(mixed.frame["change"].mean(), abs=0.01)


def test_points_are_the_middles():
    data = table(gaps=0.1)
    release = released(data, k=8)
    out, points = release.data.frame, release.points.frame
    np.testing.assert_allclose(points["u"], (out["u_lo"] + out["u_hi"]) / 2, atol=0.00501)
    single = ~out["s"].astype("object").str.contains("|", regex=False)
    assert (points["s"].isna() == ~single).all()


def test_input_is_untouched_and_nothing_random_but_the_numbers(mixed):
    before = mixed.frame.copy(deep=True)
    one, other = (released(mixed, k=8, rare="fuzzy", l=2) for _ in range(2))
    pd.testing.assert_frame_equal(mixed.frame, before)
    pd.testing.assert_frame_equal(one.data.frame, other.data.frame)
    assert one.notes == other.notes


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"k": 1}, "k must be at least 2, got 1"),
        ({"k": 5, "l": 6}, "l must be at least 2 and at most k = 5, got 6"),
        ({"A": -1.0}, "A must be 0 or more"),
        ({"epsilon": {"u": 0.0}}, "epsilon must be above 0 and finite, it is not for u"),
        ({"grid": {"u": np.inf}}, "grid must be above 0 and finite, it is not for u"),
        ({"limits": {"u": (2.0, 1.0)}}, "limits must be a lower and a higher number, not so for u"),
        ({"release": "means", "rare": "fuzzy"}, "only released ranges say which"),
        ({"epsilon": {"u": 1.0}}, "epsilon has no effect without l"),
        ({"A": 1.0}, "A has no effect with rare: none"),
        ({"grid": {"u": 1.0}}, "grid has no effect with bounds: cells"),
        (
            {"release": "means", "bounds": "grid", "grid": {"u": 1.0}, "limits": {"u": (0, 1)}},
            "bounds, grid, limits: no effect with release: means",
        ),
        ({"release": "means", "grid": {"u": 1.0}}, "grid: no effect with release: means"),
    ],
)
def test_parameters_check_their_ranges(wrong, said):
    with pytest.raises(AnonymizationError, match=said):
        OptimalBoxes(**wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"statistic": "mean", "of": ("u", "v")}, "of must name one variable, got u, v"),
        ({"statistic": "covariance", "of": ("u", "u")}, "of must name two different variables"),
        ({"statistic": "mean", "of": ("u",), "accuracy": 0.0}, "accuracy must be above 0"),
        ({"statistic": "mean", "of": ("u",), "probability": np.nan}, "probability must be above 0"),
    ],
)
def test_statistics_check_their_ranges(wrong, said):
    with pytest.raises(AnonymizationError, match=said):
        Statistic(**wrong)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"k": 301}, "boxes need at least k = 301 records, the table has 300"),
        ({"limits": {"u": (0, 1)}}, "limits: values of u lie beyond"),
        (
            {"limits": {"zz": (0, 1)}},
            "limits: zz is no continuous variable that is released; those are u, v, w",
        ),
        ({"l": 2, "epsilon": {"s": 1.0}}, "epsilon: s is no continuous variable"),
        (
            {"statistics": (Statistic(statistic="mean", of=("s",)),)},
            "statistics: s is no continuous variable",
        ),
        ({"k": 10, "l": 10, "epsilon": {"u": 1e9, "v": 1e9, "w": 9}}, "l: no variable has 10 values"),
    ],
)
def test_what_does_not_suit_the_data_is_refused(params, said):
    data = table()
    with pytest.raises(AnonymizationError, match=said) as refused:
        released(data, **params)
    assert not any(f"{value:g}" in str(refused.value) for value in data.frame["u"] if value > 10)


def test_flat_variables_have_no_correlation(mixed):
    for name, of in (("correlation", ("change", "constant")), ("sd", ("constant",))):
        with pytest.raises(AnonymizationError, match="constant does not vary"):
            released(mixed, k=8, statistics=(Statistic(statistic=name, of=of),))
    with pytest.raises(AnonymizationError, match="fewer than 2 records have values for mean\\(empty\\)"):
        released(mixed, k=8, statistics=(Statistic(statistic="mean", of=("empty",)),))


def test_names_that_a_table_of_boxes_uses_are_refused():
    frame = pd.DataFrame({"x": [1.0, 2, 3, 4], "box": list("abab"), "x_lo": list("abab")})
    kinds = {"x": "continuous", "box": "nominal", "x_lo": "nominal"}
    data = Microdata(frame, Schema(Variable(n, k) for n, k in kinds.items()))
    with pytest.raises(AnonymizationError, match="box, x_lo mean something else"):
        released(data, k=2)
    assert len(released(data, k=2, release="means").data) == 4


def test_real_data_with_many_gaps(nhefs_halves):
    original, _ = nhefs_halves
    data = original.select(["sbp", "dbp", "wt71", "wt82", "age", "sex", "race"])
    asked = tuple(
        Statistic(statistic=name, of=of)
        for name, of in (("mean", ("wt82",)), ("sd", ("sbp",)), ("correlation", ("sbp", "dbp")))
    )
    for categorical in ("set", "constant"):
        release = released(data, k=5, l=2, statistics=asked, categorical=categorical)
        own = data.frame.loc[release.data.frame.index]
        read = read_boxes(release.data.frame)
        for one in asked:
            low, high = read.estimate(one.statistic, *one.of).guaranteed
            assert low <= true_value(own, one.statistic, *one.of) <= high
        assert all(check.holds for check in release.check())
        assert release.figures["left_out"] < 0.1 * len(data)


@pytest.mark.parametrize("params", [{"k": 8}, {"k": 8, "release": "means"}], ids=str)
def test_identifiers_and_households_are_not_released(params, mixed):
    frame = mixed.frame.assign(person=range(len(mixed)), house=range(len(mixed)))
    schema = Schema(
        [
            *mixed.schema,
            Variable("person", "nominal", role="identifier"),
            Variable("house", "nominal", role="household"),
        ]
    )
    release = released(Microdata(frame, schema), **params)
    for made in (release.data, release.points or release.data):
        assert not {"person", "house"} & set(made.frame)
    assert all(check.holds for check in release.check())
