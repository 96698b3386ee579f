"""Everything in one call: complete, plain, deterministic, and defined for the poorest tables."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from anoncore.encoding import EncodedTables, Encoder
from anoncore.errors import AnonymizationError
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.utility import (
    Regression,
    UtilitySettings,
    compare_utility,
    kept_columns,
    marginal_utility,
    measure_utility,
    utility_figures,
)
from tests.anoncore.plain import plain

SCHEMA = Schema(
    [
        Variable("id", "nominal", role="identifier"),
        Variable("income", "continuous"),
        Variable("age", "continuous"),
        Variable("g", "nominal", levels=("a", "b", "c")),
        Variable("s", "binary", levels=(0, 1)),
        Variable("w", "continuous", role="weight"),
    ]
)
DECLARED = (
    Regression(outcome="income", predictors=("age", "g")),
    Regression(outcome="s", predictors=("age",), kind="logistic"),
)
SETTINGS = UtilitySettings(regressions=DECLARED, triples=5)


def table(size, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, size)
    return Microdata(
        pd.DataFrame(
            {
                "id": np.arange(size),
                "income": np.exp(rng.normal(7 + age / 100, 0.5)).round(),
                "age": np.where(rng.random(size) < 0.1, np.nan, age),
                "g": rng.choice(list("abc"), size, p=[0.6, 0.3, 0.1]),
                "s": (rng.normal(age, 30) > 50).astype(int),
                "w": rng.gamma(3, size=size).round(2) + 0.1,
            }
        ),
        SCHEMA,
    )


def walk(value):
    if isinstance(value, dict):
        for one in value.values():
            yield from walk(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from walk(one)
    else:
        yield value


def test_the_original_is_perfect_in_every_figure():
    a, r = table(400, 0), table(400, 1)
    found = measure_utility(a, a, r, settings=UtilitySettings(regressions=DECLARED, triples=10, interactions=5))
    assert all(part.released_largest == 0 and part.reference_largest > 0 for part in found.figures.figures)
    assert found.figures.sufficient
    assert all(worst.released == 0 for worst in found.variables.worst)
    assert found.propensity.released.pmse == 0
    assert found.propensity.reference.pmse > 0
    assert [one.largest for one in found.marginals] == [0, 0]
    assert [one.size for one in found.marginals] == [2, 3]
    assert [one.released.mean_overlap for one in found.regressions] == [1, 1]
    assert all(one.reference.mean_overlap < 1 for one in found.regressions)
    assert found.weights.variable == "w"


def test_the_report_is_whole_and_deterministic():
    a, b, r = table(300, 2), table(250, 3), table(300, 4)
    found = measure_utility(a, b, r, settings=SETTINGS)
    text = json.dumps(plain(found), allow_nan=False)
    assert text == json.dumps(plain(measure_utility(a, b, r, settings=SETTINGS)))
    assert {type(one) for one in walk(plain(found))} <= {str, int, float, bool, type(None)}
    assert [part.name for part in found.figures.figures] == ["mean", "variance", "correlation", "rank_correlation"]
    assert len(found.figure("correlation").worst) == 2
    assert found.figures.released.mean.values.shape == (len(found.columns),)
    assert "id" not in {row.name for row in found.variables.variables}
    assert found.regressions[0].regression.formula == "income ~ age + g"
    meanings = [part.meaning for part in found.figures.figures] + [found.propensity.released.meaning]
    meanings += [one.meaning for one in (*found.variables.worst, *found.marginals, *found.regressions)]
    assert all(isinstance(one, str) and one.endswith(".") for one in meanings)
    alone = measure_utility(a, b)
    assert alone.figure("mean").reference_median is None
    assert alone.figure("mean").sufficient_median is None
    assert alone.propensity.reference is None
    json.dumps(plain(alone), allow_nan=False)


def test_the_worst_marginal_tables_are_named_the_worst_first():
    a, b, r = table(300, 2), table(250, 3), table(300, 4)
    whole = marginal_utility(a, b, r)
    named = measure_utility(a, b, r).marginals[0]
    assert (named.used, named.mean) == (whole.used, whole.mean)
    assert list(named.values) == sorted(whole.values, reverse=True)[: len(named.values)]
    assert named.tuples[0] == whole.worst
    assert len(whole.worst_only(2).reference_values) == 2


def test_the_summary_sets_every_figure_beside_the_reference():
    a, b, r = table(300, 2), table(250, 3), table(300, 4)
    found = measure_utility(a, b, r, settings=UtilitySettings(regressions=DECLARED))
    title, head, *figures = found.summary().split("\n\n")[0].splitlines()
    assert title.startswith("Utility")
    assert head.split() == ["figure", "released", "reference"]
    declared = next(line for line in figures if "income ~ age + g" in line)
    assert float(declared.split()[-1]) == pytest.approx(found.regressions[0].reference.mean_overlap, rel=1e-3)
    assert "worst variable" in figures[0]
    assert "worst pair" in figures[1]
    assert measure_utility(a, b).summary().splitlines()[2].endswith("–")


def test_given_encodings_and_weights_are_used():
    a, b, r = table(200, 5), table(200, 6), table(200, 7)
    encoder = Encoder.fit(a)
    matrices = [encoder.encode(t) for t in (a, b, r)]
    without = measure_utility(a, b, r, encoded=EncodedTables(a, b, r, encoder, *matrices), weights=(None, None, None))
    expected = utility_figures(matrices[0], matrices[1])
    np.testing.assert_allclose(without.figures.released.correlation.values, expected.correlation.values, atol=1e-12)
    arrays = [t.frame["w"].to_numpy() for t in (a, b, r)]
    declared, given = measure_utility(a, b, r), measure_utility(a, b, r, weights=arrays)
    for one in (declared, given):
        assert one.propensity.released.pmse == pytest.approx(given.propensity.released.pmse)
        assert one.marginals[0].mean == pytest.approx(given.marginals[0].mean)
        np.testing.assert_allclose(one.figures.released.mean.values, given.figures.released.mean.values)
    assert declared.marginals[0].mean != pytest.approx(without.marginals[0].mean)
    assert not without.weights.used


def test_suppressed_levels_are_left_out_of_the_figures_and_counted():
    a = table(300, 8)
    b = Microdata(a.frame.assign(g=a.frame["g"].astype(object).where(a.frame["g"] != "c", None)), SCHEMA)
    found = measure_utility(a, b)
    assert found.left_out == 1
    assert "g=c" not in found.columns
    assert kept_columns(Encoder.fit(a), b).sum() == len(found.columns)
    assert found.propensity.released.pmse > 0


def test_variables_that_the_release_dropped_are_named_and_the_rest_is_measured():
    a = table(200, 14)
    b = table(200, 15).select(["income", "g", "s"])
    found = measure_utility(a, b, settings=UtilitySettings(regressions=DECLARED))
    assert found.variables.absent == ("age", "w")
    assert found.marginals[0].left_out == ("age", "w")
    assert "age" not in found.columns
    assert any("age: left out" in note for note in found.regressions[0].released.notes)
    json.dumps(plain(found), allow_nan=False)
    with pytest.raises(AnonymizationError, match="none of the original's variables"):
        measure_utility(a.select(["age"]), b)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_the_poorest_tables_are_defined(rows):
    frame = pd.DataFrame({"empty": [math.nan] * rows, "constant": [3.0] * rows, "one": ["a"] * rows})
    schema = Schema([Variable("empty", "continuous"), Variable("constant", "continuous"), Variable("one", "nominal")])
    a = Microdata(frame, schema)
    found = measure_utility(a, a, a)
    assert found.figures is None
    assert found.propensity is None
    json.dumps(plain(found), allow_nan=False)
    small = table(rows, 9)
    json.dumps(
        plain(measure_utility(small, table(3, 10), small, settings=UtilitySettings(regressions=DECLARED))),
        allow_nan=False,
    )


def test_weighted_figures_are_those_of_repeated_records():
    rng = np.random.default_rng(11)
    tables = [rng.integers(0, 9, size=(size, 3)).astype(float) for size in (40, 30, 35)]
    counts = [rng.integers(0, 4, size=len(t)) for t in tables]
    found = compare_utility(*tables, weights=counts, names=("a", "b", "c"))
    brute = compare_utility(*[np.repeat(t, w, axis=0) for t, w in zip(tables, counts, strict=True)])
    for ours, theirs in zip(found.released.figures, brute.released.figures, strict=True):
        np.testing.assert_allclose(ours.values, theirs.values, atol=1e-12)
    for ours, theirs in zip(found.figures, brute.figures, strict=True):
        assert ours.reference_largest == pytest.approx(theirs.reference_largest)
        assert ours.worst == tuple("abc"[int(j)] for j in theirs.worst)


def test_weighted_ranks_of_many_values():
    rng = np.random.default_rng(12)
    x, y = rng.normal(size=(2, 600, 2))
    counts = rng.integers(1, 3, size=600)
    found = utility_figures(x, y, weights=counts).rank_correlation.values
    np.testing.assert_allclose(
        found, utility_figures(np.repeat(x, counts, axis=0), y).rank_correlation.values, atol=1e-12
    )


def test_the_worst_column_and_pair_are_named():
    rng = np.random.default_rng(13)
    x = rng.normal(size=(500, 4))
    x[:, 3] += x[:, 1]
    y = x.copy()
    y[:, 3] = rng.permutation(y[:, 3])
    y[:, 2] += 1
    found = compare_utility(x, y, names=list("abcd"))
    assert [part.worst for part in found.figures][2:] == [("b", "d"), ("b", "d")]
    assert found.figures[0].worst == ("c",)
    assert found.sufficient is None


def stripped(value):
    if isinstance(value, dict):
        return {k: stripped(v) for k, v in value.items() if not k.startswith(("reference", "sufficient"))}
    return [stripped(one) for one in value] if isinstance(value, list | tuple) else value


def test_the_reference_is_told_under_its_own_keys_only():
    a, b = table(200, 16), table(200, 17)
    one, two = (plain(measure_utility(a, b, table(150, seed), settings=SETTINGS)) for seed in (18, 19))
    assert one != two
    assert stripped(one) == stripped(two)


# ---------------------------------------------------------------- left out


@pytest.mark.parametrize("weighted", [True, False])
def test_comparisons_leave_records_out_and_ranges_and_totals_do_not(weighted):
    data, released = table(400, 1), table(400, 2)
    left_out = np.arange(400) % 5 == 0
    # The largest income, and a level that no other record has, are of one left out.
    frame = data.frame.copy()
    frame.loc[0, "income"] = 90_000.0
    data = Microdata(frame, SCHEMA)
    beyond = released.frame.copy()
    beyond.loc[3, "income"] = 80_000.0
    released, weights = Microdata(beyond, SCHEMA), None if weighted else (None, None)
    part = measure_utility(data.take(np.flatnonzero(~left_out)), released, settings=SETTINGS, weights=weights)
    whole = measure_utility(data, released, settings=SETTINGS, weights=weights)
    found = measure_utility(data, released, settings=SETTINGS, weights=weights, left_out=left_out)
    assert (found.units_left_out, whole.units_left_out) == (80, 0)
    for one, other in zip(found.pairs.worst, part.pairs.worst, strict=True):
        assert (one.variables, one.change) == (other.variables, pytest.approx(other.change))
    for one, other in zip(found.regressions, part.regressions, strict=True):
        assert one.released.records == other.released.records
        assert one.released.mean_overlap == pytest.approx(other.released.mean_overlap)
    assert plain(found.structure) == plain(whole.structure)
    for one, of_part, of_whole in zip(found.variables, part.variables, whole.variables, strict=True):
        assert one.released_shift.distance == pytest.approx(of_part.released_shift.distance)
        assert (one.released_shift.beyond, one.total) == (of_whole.released_shift.beyond, of_whole.total)
    assert part.variables.variables[0].released_shift.beyond > whole.variables.variables[0].released_shift.beyond == 0


def test_who_knows_all_others_learns_no_level_from_rounded_figures():
    """One person's level, by how far each level's share moved in steps of a hundredth of its standard deviations.

    The attacker knows the law of the units left out, and takes the most probable level.
    """
    n, levels, right = 3000, pd.Series(list("abcdefgh")), np.zeros(2)
    shares = np.array([0.93, *[0.01] * 7])
    schema = Schema([Variable("x", "nominal", levels=tuple(levels))])
    for seed in range(100):
        draw = np.random.default_rng([1, seed])
        codes = np.append(draw.choice(8, n - 1, p=shares), draw.integers(1, 8))
        known, given = np.bincount(codes[:-1], minlength=8), np.bincount(draw.choice(8, n, p=shares), minlength=8)
        people, released = (
            Microdata(pd.DataFrame({"x": levels[own].to_numpy()}), schema)
            for own in (codes, np.repeat(np.arange(8), given))
        )
        p = (known + np.eye(8)[1:]) / n
        expected = np.abs(given / n - p) / np.sqrt(p * (1 - p))
        for case, units in enumerate((0, 400)):
            left_out = np.isin(np.arange(n), draw.permutation(n)[:units]) if units else None
            figures = measure_utility(people, released, left_out=left_out).figures.released.mean.values
            variance = 0.01**2 / 12 + units / n / (n - units)
            likely = -(((expected - np.round(figures / 0.01) * 0.01) ** 2) / variance).sum(axis=1)
            right[case] += int(likely.argmax()) + 1 == codes[-1]
    exact, hidden = right / 100
    assert exact > 0.45
    assert hidden < 0.25  # 1/7 by guessing
