import math

import numpy as np
import pandas as pd
import pytest

from anoncore.boxes.reader import read_boxes
from anoncore.errors import AnonymizationError
from anoncore.kernels.boxes.intervals import plain

STATISTICS = ("mean", "variance", "sd", "covariance", "correlation")


def release(values, k, rng, weights=False):
    """A released table: median cuts along random columns, records without a value outside the bounds."""
    filled = values.fillna(values.median()).to_numpy(dtype=float)
    codes, waiting, number = np.empty(len(values), dtype=int), [np.arange(len(values))], 0
    while waiting:
        members = waiting.pop()
        if len(members) < 2 * k:
            codes[members], number = number, number + 1
        else:
            order = members[np.argsort(filled[members, rng.integers(values.shape[1])], kind="stable")]
            waiting += [order[: len(order) // 2], order[len(order) // 2 :]]
    table = {"box": codes + 100}
    for v in values:
        grouped = values[v].groupby(codes)
        for end, how in (("_lo", "min"), ("_hi", "max")):
            table[v + end] = grouped.transform(how).where(values[v].notna())
        table[v + "_distinct"] = grouped.transform("nunique")
    if weights:
        drawn = rng.random(number) * (rng.random(number) < 0.9)
        table["weight"] = drawn[codes] / drawn[codes].sum()
    return pd.DataFrame(table)


def truth(statistic, values, w=None):
    values = values.dropna()
    w = np.ones(len(values)) if w is None else w[values.index]
    x = values.to_numpy(dtype=float)
    mean, moments = np.average(x, axis=0, weights=w), np.cov(x.T, aweights=w, ddof=0).reshape(x.shape[1], -1)
    if statistic == "covariance":
        return moments[0, 1]
    if statistic == "correlation":
        return moments[0, 1] / math.sqrt(moments[0, 0] * moments[1, 1])
    return {"mean": mean[0], "variance": moments[0, 0], "sd": math.sqrt(moments[0, 0])}[statistic]


def asked(statistic, names):
    return names[:2] if statistic in ("covariance", "correlation") else names[:1]


@pytest.fixture
def table():
    return pd.DataFrame(
        {
            "box": [4, 4, 9, 9, 9],
            "age_lo": [20, 20, 40, 40, 40],
            "age_hi": [30.0, 30.0, 60.0, 60.0, 60.0],
            "income_lo": [1.0, 1.0, 5.0, np.nan, 5.0],
            "income_hi": [2.0, 2.0, 8.0, np.nan, 8.0],
            "age_distinct": [2, 2, 3, 3, 3],
            "income_distinct": [1, 1, 2, 2, 2],
            "sex": ["f", "m", "f", "f", "m"],
            "weight": [0.1, 0.1, 0.8 / 3, 0.8 / 3, 0.8 / 3],
        },
        index=[11, 12, 13, 14, 15],
    )


# -- real microdata


@pytest.mark.parametrize(
    "names", [("wt71", "wt82"), ("age", "smokeintensity"), ("sbp", "cholesterol"), ("income", "wt71")]
)
@pytest.mark.parametrize("k", [3, 10])
def test_nhefs(nhefs_frame, names, k):
    values = nhefs_frame[list(names)].astype(float)
    rng = np.random.default_rng(1)
    boxes = read_boxes(release(values, k, rng, weights=True))
    w = pd.Series(boxes.frame["weight"].to_numpy(), index=values.index)
    assert boxes.k >= k
    for statistic in STATISTICS:
        chosen = list(asked(statistic, names))
        found = boxes.estimate(statistic, *chosen)
        assert found.guaranteed[0] <= truth(statistic, values[chosen]) <= found.guaranteed[1]
        assert found.records == len(values[chosen].dropna())
        weighted = boxes.estimate(statistic, *chosen, weights=True)
        assert weighted.guaranteed[0] <= truth(statistic, values[chosen], w) <= weighted.guaranteed[1]


def test_nhefs_is_narrower_than_interval_arithmetic(nhefs_frame):
    values = nhefs_frame[["wt71", "age"]].astype(float)
    boxes = read_boxes(release(values, 5, np.random.default_rng(1)))
    for statistic, most in (("variance", 1.0), ("covariance", 1.0), ("correlation", 0.7)):
        chosen = asked(statistic, list(values))
        found = boxes.estimate(statistic, *chosen)
        first = boxes.frame.drop_duplicates("box")
        naive = plain(
            statistic,
            first[[v + "_lo" for v in chosen]].to_numpy(),
            first[[v + "_hi" for v in chosen]].to_numpy(),
            boxes.frame.groupby("box", sort=False).size().to_numpy(),
        )
        assert found.guaranteed[1] - found.guaranteed[0] < most * (naive[1] - naive[0])


def test_rand_health_insurance():
    data = pytest.importorskip("statsmodels.datasets").randhie.load_pandas().data
    values = data[["lpi", "fmde"]].astype(float)
    for k in (5, 50):
        boxes = read_boxes(release(values, k, np.random.default_rng(k)))
        for statistic in STATISTICS:
            chosen = list(asked(statistic, list(values)))
            low, high = boxes.estimate(statistic, *chosen).guaranteed
            assert low <= truth(statistic, values[chosen]) <= high


def test_a_weighted_mean_is_biased_for_the_population_and_says_so():
    rng = np.random.default_rng(0)
    values = pd.DataFrame({"income": np.exp(rng.normal(0, 1, 3000))})
    frame = release(values, 5, rng)
    width = frame["income_hi"] - frame["income_lo"]
    w = np.maximum(0.0, 0.05 - width)
    frame["weight"] = w / w.sum()
    boxes = read_boxes(frame)
    plain_mean, weighted = boxes.estimate("mean(income)"), boxes.estimate("mean(income)", weights=True)
    assert plain_mean.guaranteed[0] <= values["income"].mean() <= plain_mean.guaranteed[1]
    assert weighted.guaranteed[1] < values["income"].mean()
    assert "biased" in weighted.note
    assert not plain_mean.note


# -- the reader


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", None])
def test_reads_files_and_frames(table, tmp_path, suffix):
    source = table if suffix is None else tmp_path / f"release{suffix}"
    if suffix == ".parquet":
        table.to_parquet(source)
    elif suffix is not None:
        table.to_csv(source, index=False)
    boxes = read_boxes(source if suffix is None else str(source))
    assert boxes.variables == ("age", "income")
    assert (boxes.records, boxes.boxes, boxes.k, boxes.weighted) == (5, 2, 2, True)
    assert boxes.estimate("mean(age)").guaranteed == pytest.approx((32, 48))
    assert boxes.estimate("mean", "income").guaranteed == pytest.approx((3, 5))


def test_infinite_bounds_survive_a_file(table, tmp_path):
    table.loc[table["box"] == 9, "age_hi"] = math.inf
    table.to_csv(tmp_path / "t.csv", index=False)
    found = read_boxes(tmp_path / "t.csv").estimate("mean(age)")
    assert found.value == pytest.approx(34)
    assert found.guaranteed == (pytest.approx(32), math.inf)
    assert "no bound" in found.note
    assert "infinity" in str(found)


def test_the_input_is_not_tied_to_the_result(table):
    boxes = read_boxes(table)
    before = boxes.estimate("mean(age)")
    table["age_lo"] = 0
    assert boxes.estimate("mean(age)") == before
    with pytest.raises(AttributeError):
        boxes.variables = ()


def test_records_without_a_value_are_left_out(table):
    boxes = read_boxes(table)
    found = boxes.estimate("covariance", "age", "income")
    assert found.records == 4
    assert "4 of 5 records have a value of age and income" in found.note
    whole = read_boxes(table.drop(index=14).reset_index(drop=True)).estimate("covariance(age, income)")
    assert (whole.value, whole.guaranteed) == (found.value, found.guaranteed)


def test_weights(table):
    boxes = read_boxes(table)
    found = boxes.estimate("mean(age)", weights=True)
    assert found.statistic == "weighted mean(age)"
    assert found.value == pytest.approx(0.2 * 25 + 0.8 * 50)
    assert found.guaranteed == pytest.approx((0.2 * 20 + 0.8 * 40, 0.2 * 30 + 0.8 * 60))
    with pytest.raises(AnonymizationError, match="without weights"):
        read_boxes(table.drop(columns="weight")).estimate("mean(age)", weights=True)


def test_both_ways_of_asking(table):
    boxes = read_boxes(table)
    assert boxes.estimate(" Correlation( income ,age) ") == boxes.estimate("correlation", "income", "age")
    assert boxes.estimate("variance(age)", unbiased=True).value == pytest.approx(
        boxes.estimate("variance", "age").value * 5 / 4
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mode(age)",), "must be one of"),
        (("mean",), "one variable, got none"),
        (("mean(age, income)",), "one variable, got age, income"),
        (("correlation(age)",), "two different variables"),
        (("covariance", "age", "age"), "two different variables"),
        (("mean(sex)",), "no bounds of 'sex'; there are of age, income"),
    ],
)
def test_questions_that_have_no_answer(table, arguments, message):
    with pytest.raises(AnonymizationError, match=message):
        read_boxes(table).estimate(*arguments)


def test_no_record_with_a_value(table):
    table[["income_lo", "income_hi"]] = np.nan
    with pytest.raises(AnonymizationError, match="no record has a value of income"):
        read_boxes(table).estimate("mean(income)")


def test_points(table):
    table.loc[table["box"] == 9, "age_hi"] = math.inf
    points = read_boxes(table).points()
    assert points.index.equals(table.index)
    assert list(points) == ["age", "income"]
    assert points["age"].tolist() == [25, 25, 40, 40, 40]
    np.testing.assert_array_equal(points["income"], [1.5, 1.5, 6.5, np.nan, 6.5])


def test_value_is_the_statistic_of_the_points(nhefs_frame):
    values = nhefs_frame[["wt71", "age"]].astype(float)
    boxes = read_boxes(release(values, 10, np.random.default_rng(0)))
    assert boxes.estimate("correlation(wt71, age)").value == pytest.approx(boxes.points().corr().iloc[0, 1])
    assert boxes.estimate("sd(age)").value == pytest.approx(boxes.points()["age"].std(ddof=0))


def test_check(table):
    boxes = read_boxes(table)
    assert boxes.check(2).passed
    found = boxes.check(3, l=2)
    assert (found.below_k, found.below_l, found.passed) == (1, {"age": 0, "income": 1}, False)
    with pytest.raises(AnonymizationError, match="leave l out"):
        read_boxes(table.drop(columns=["age_distinct", "income_distinct"])).check(2, 2)


def _replaced(**columns):
    return lambda t: t.assign(**columns)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="box"), "no column 'box'"),
        (lambda t: t.drop(columns="age_lo"), "'age_hi' has no partner 'age_lo'"),
        (lambda t: t.drop(columns="income_hi"), "'income_lo' has no partner 'income_hi'"),
        (lambda t: t[["box", "sex"]], "no variable has bounds"),
        (lambda t: t.iloc[:0], "no records"),
        (_replaced(box=[1, None, 2, 2, 2]), "1 records are in no box"),
        (_replaced(age_lo=[20, 20, 7717, 7717, 7717]), "'age': 3 records have a lower bound above"),
        (_replaced(income_lo=[1, 1, np.nan, np.nan, 5]), "'income': 1 records have only one"),
        (_replaced(age_hi=[30, 7717, 60, 60, 60]), "'age': 1 records have other bounds"),
        (_replaced(age_hi=["a", "b", "c", "d", "7717"]), "'age_hi' must hold numbers"),
        (_replaced(age_lo=[math.inf] * 5, age_hi=[math.inf] * 5), "lower bound of ∞"),
        (_replaced(weight=[0.5, -0.5, 0.5, 0.5, 0.0]), "1 weights are missing, infinite or negative"),
        (lambda t: pd.concat([t, t[["age_lo"]]], axis=1), "same name"),
    ],
)
def test_tables_that_are_none(table, change, message):
    with pytest.raises(AnonymizationError, match=message) as caught:
        read_boxes(change(table))
    assert "7717" not in str(caught.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(AnonymizationError, match="no file"):
        read_boxes(tmp_path / "absent.csv")
    with pytest.raises(AnonymizationError, match=r"must end in \.parquet"):
        read_boxes(tmp_path / "release.xlsx")


def test_text_reads_well(table):
    text = str(read_boxes(table).estimate("mean(income)", weights=True))
    first, note = text.split("\n")
    assert first.startswith("weighted mean(income) = ")
    assert "certainly within" in first
    assert "4 records" in first
    assert note.startswith("Note: the weights are larger where records lie close together")


def test_variables_are_named_once():
    table = pd.DataFrame({"box": [0, 0, 1], "age_lo": [20, 20, 40], "age_hi": [30, 30, 70]})
    boxes = read_boxes(table)
    with pytest.raises(AnonymizationError, match=r"'mean\(age\)' names its variables already; leave out 'age'"):
        boxes.estimate("mean(age)", "age")
    assert repr(boxes) == "Boxes(3 records, 2 boxes, k = 1, of age)"


def test_a_range_of_all_that_is_possible_tells_nothing():
    wide = {"box": [0, 1, 2], "u_lo": [-9, -8, -9], "u_hi": [9, 10, 12]}
    wide |= {"v_lo": [-9, 0, -12], "v_hi": [9, 19, 9]}
    boxes = read_boxes(pd.DataFrame(wide))
    found = boxes.estimate("correlation", "u", "v")
    assert (found.guaranteed, found.linearised) == ((-1, 1), (-1, 1))
    assert "says nothing" in found.note
    assert boxes.estimate("sd", "u").linearised[0] == 0
    assert "-0.0" not in str(boxes.estimate("sd", "u"))
    assert "says nothing" not in boxes.estimate("mean", "u").note


def test_one_row_per_box_with_its_records_is_read_as_all_of_them():
    rng = np.random.default_rng(4)
    values = pd.DataFrame({"x": rng.normal(size=400), "y": rng.gamma(2.0, size=400) + 1.0})
    table = release(values, 5, rng, weights=True)
    table["sex"] = np.array(["f", "m", "f|m"])[table["box"] % 3]
    once = table.drop_duplicates("box")
    counts = table["box"].value_counts().loc[once["box"]].to_numpy()
    whole, rows = read_boxes(table), read_boxes(once, counts)
    asked = [(name, of) for name in STATISTICS for of in (("x",), ("x", "y")) if len(of) == 1 + name.startswith("co")]
    for name, of in [*asked, ("median", ("y",)), ("ratio", ("x", "y"))]:
        for weights in (False, True):
            assert str(rows.estimate(name, *of, weights=weights)) == str(whole.estimate(name, *of, weights=weights))
    for weights in (False, True):
        found = (read.estimate("mean(x)", weights=weights, within={"sex": "f"}) for read in (rows, whole))
        assert len({str(one) for one in found}) == 1
    assert (rows.records, rows.boxes, rows.k) == (whole.records, whole.boxes, whole.k)
    assert [str(one) for one in rows.confidence("mean(y)")] == [str(one) for one in whole.confidence("mean(y)")]
    assert [rows.check(k, 5) for k in (2, 9)] == [whole.check(k, 5) for k in (2, 9)]
    for mine, theirs in zip(rows.bounds(), whole.bounds(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for wrong in (counts[1:], np.zeros_like(counts)):
        with pytest.raises(AnonymizationError, match="whole numbers from 1 on, one for each row"):
            read_boxes(once, wrong)


@pytest.mark.parametrize("counts", [[3], [1.5, 2.5], [np.nan, 3.0], [0, 2]])
def test_counts_of_rows_are_whole_numbers(counts):
    table = pd.DataFrame({"box": [0.0, 1.0], "x_lo": [0.0, 1.0], "x_hi": [1.0, 2.0]})
    with pytest.raises(AnonymizationError, match="counts must hold 2 whole numbers"):
        read_boxes(table, counts)
    assert read_boxes(table, [3, 4]).records == 7
