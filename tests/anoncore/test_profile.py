"""What a profile guesses, which rules it finds, and what it never writes down."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anoncore.edits.kinds import BoundEdit, ConditionalEdit, LinearEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.edits.model import EditSet
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.profile import MIN_COUNT, exclusions, find_rules, find_sums, outward, profile
from anoncore.profile.support import at_a_wall, never_meeting

N = 400
RNG = np.random.default_rng(7)
GROUP_SIZES = [55, 12, 48, 11, 60, 14, 20, 45, 10, 50, 13, 40, 22]


def rng():
    return np.random.default_rng(0)


def guess(column, name="x"):
    (found,) = profile(pd.DataFrame({name: column}), rng=rng()).guesses
    return found


def variable(column, name="x"):
    found = guess(column, name).variable
    return found.kind, found.role


def rules(frame):
    found = profile(frame, rng=rng())
    kept = [g.variable for g in found.guesses if g.variable.is_masked]
    data = Microdata(frame[[v.name for v in kept]], Schema(kept))
    return find_rules(data, found.sums), data


def active(frame, kind):
    return [f.edit for f in rules(frame)[0] if f.active and isinstance(f.edit, kind)]


# ---------------------------------------------------------------- kinds and roles


@pytest.mark.parametrize(
    ("column", "kind", "role"),
    [
        (RNG.integers(0, 2, N), "binary", "other"),
        (RNG.choice(["yes", "no"], N), "binary", "other"),
        (RNG.choice([True, False], N), "binary", "other"),
        (np.full(N, 3), "binary", "other"),
        (RNG.choice(["red", "green", "blue"], N), "nominal", "other"),
        (RNG.choice(["low", "medium", "high"], N), "ordinal", "other"),
        (RNG.integers(1, 6, N), "ordinal", "other"),
        (RNG.integers(0, 60, N), "continuous", "other"),
        (RNG.normal(size=N), "continuous", "other"),
        (np.full(N, np.nan), "nominal", "excluded"),
        (RNG.permutation(N) + 1000, "nominal", "identifier"),
        ([f"text {i}" for i in range(N)], "nominal", "identifier"),
        ([f"text {i % 150}" for i in range(N)], "nominal", "excluded"),
        ([f"p{i % 30}@example.org" for i in range(N)], "nominal", "identifier"),
        ([f"2020-{i % 12 + 1:02d}-01" for i in range(N)], "continuous", "excluded"),
        (pd.to_datetime([f"2020-{i % 12 + 1:02d}-01" for i in range(N)]), "continuous", "excluded"),
        ([20200101 + i % 28 for i in range(N)], "nominal", "excluded"),
        ([f"+49 30 12345{i % 40:02d}" for i in range(N)], "nominal", "excluded"),
        ([f"{i % 40},5" for i in range(N)], "nominal", "excluded"),
        ([f"{'word ' * 20}{i % 7}" for i in range(N)], "nominal", "excluded"),
        ([[i] for i in range(N)], "nominal", "excluded"),
        ([1, "a"] * (N // 2), "nominal", "excluded"),
        ([1.0, np.inf] * (N // 2), "nominal", "excluded"),
    ],
)
def test_kind_and_role_from_the_values(column, kind, role):
    assert variable(column) == (kind, role)


@pytest.mark.parametrize(
    ("name", "column", "kind", "role"),
    [
        ("expend", RNG.choice(10**8, N, replace=False), "continuous", "other"),
        ("case", np.sort(RNG.permutation(2 * N)[:N] + 1), "nominal", "identifier"),
        ("case", RNG.permutation(900_000)[:N] + 100_000, "nominal", "identifier"),
        ("case", RNG.lognormal(9, 2, N).round(0), "continuous", "other"),
        ("AgeSex", RNG.integers(10, 60, N), "continuous", "quasi-identifier"),
        ("SDMVSTRA", RNG.integers(75, 104, N), "nominal", "other"),
        ("relat", RNG.integers(1, 10, N), "nominal", "other"),
        ("roof", RNG.choice([2, 4, 5, 6], N), "nominal", "other"),
        ("code", RNG.choice([1.0, 2.0, 4.0, np.nan], N), "nominal", "other"),
        ("household_size", RNG.integers(1, 41, N), "continuous", "other"),
        ("party_id", RNG.integers(0, 7, N), "nominal", "sensitive"),
        ("WTMEC2YR", RNG.lognormal(10, 1, N), "continuous", "weight"),
        ("household_weights", RNG.choice([8.33, 12.5, 25.0], N), "continuous", "weight"),
        ("sampling_weight", np.full(N, 100), "continuous", "weight"),
        ("w", RNG.lognormal(-0.05, 0.3, N), "continuous", "weight"),
        ("weight", RNG.normal(75, 12, N).round(1), "continuous", "quasi-identifier"),
        ("wt82", RNG.normal(75, 12, N), "continuous", "quasi-identifier"),
        ("start", [f"{i % 24:02d}:30" for i in range(N)], "continuous", "excluded"),
        ("weight", RNG.lognormal(4, 2.5, N), "continuous", "weight"),
        ("living_area", RNG.permutation(2000)[:N] + 300, "continuous", "other"),
        ("city_mpg", RNG.integers(11, 35, N), "continuous", "other"),
        ("hospital", RNG.geometric(0.5, N) - 1, "continuous", "other"),
        ("stays", RNG.geometric(0.45, N) - 1, "continuous", "other"),
        ("tenure", RNG.geometric(0.05, N), "continuous", "other"),
        ("tenure", RNG.integers(0, 73, N), "continuous", "other"),
        ("second", np.repeat(np.arange(1, 14), GROUP_SIZES), "nominal", "other"),
        ("second", RNG.permutation(np.repeat(np.arange(1, 14), np.sort(GROUP_SIZES))), "continuous", "other"),
        ("job_level", RNG.integers(1, 6, N), "ordinal", "quasi-identifier"),
        ("commune", RNG.permutation(150).repeat(2), "nominal", "excluded"),
        ("fat_free", ["yes"] * 7 + [None] * (N - 7), "nominal", "excluded"),
        ("idcode", RNG.integers(0, 100, N), "nominal", "identifier"),
        ("schoolNR", np.arange(N) * 7 % 25, "nominal", "quasi-identifier"),
        ("dcode", RNG.integers(1, 120, N), "nominal", "excluded"),
        ("school", RNG.integers(0, 18, N), "continuous", "quasi-identifier"),
        ("schoolSES", RNG.integers(0, 60, N), "continuous", "quasi-identifier"),
        ("hamlet", np.arange(N) // 12, "nominal", "other"),
        ("fraction", RNG.choice([8.33, 12.5, 25.0], N), "ordinal", "other"),
        ("fraction", RNG.choice(np.linspace(0, 1, 14), N), "continuous", "other"),
        ("ori_hid", np.arange(N) // 2, "nominal", "household"),
        ("hamlet", np.arange(N)[::-1] // 12, "continuous", "other"),
        ("case", np.cumsum(RNG.geometric(0.01, N)), "nominal", "identifier"),
        ("BirthWeightGm", RNG.normal(3300, 500, N).round(2), "continuous", "quasi-identifier"),
        ("lwage", RNG.lognormal(2, 1, N), "continuous", "sensitive"),
        ("hill", RNG.lognormal(2, 1, N), "continuous", "other"),
        ("huseduc", RNG.integers(1, 30, N), "continuous", "quasi-identifier"),
        ("begun", [f"2020-01-01T{i // 60:02d}:{i % 60:02d}" for i in range(N)], "continuous", "excluded"),
    ],
)
def test_names_and_values_decide_together(name, column, kind, role):
    assert variable(column, name) == (kind, role)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("age", "quasi-identifier"),
        ("Sex", "quasi-identifier"),
        ("birthYear", "quasi-identifier"),
        ("zip_code", "quasi-identifier"),
        ("birthcontrol", "other"),
        ("ageing", "other"),
        ("wages", "sensitive"),
        ("district", "area"),
        ("state_id", "area"),
        ("pweight", "weight"),
        ("sampling_weight", "weight"),
        ("hhid", "household"),
        ("person_id", "identifier"),
        ("E-Mail", "identifier"),
        ("lastName", "excluded"),
        ("remarks", "excluded"),
        ("UTILITYID", "identifier"),
        ("passport", "identifier"),
    ],
)
def test_role_from_the_name(name, role):
    assert variable(RNG.integers(1, 41, N), name)[1] == role


def test_a_flag_about_an_identifier_is_none():
    assert variable(RNG.integers(0, 2, N), "has_email") == ("binary", "other")


def test_amounts_that_never_repeat_are_no_identifiers():
    assert variable(RNG.choice(10**6, N, replace=False), "income") == ("continuous", "sensitive")


def test_columns_that_add_up_are_no_identifiers():
    parts = RNG.choice(10**6, 2 * N, replace=False).reshape(2, N)
    frame = pd.DataFrame({"u": parts[0], "v": parts[1], "w": parts.sum(axis=0)})
    assert {g.variable.kind for g in profile(frame, rng=rng()).guesses} == {"continuous"}


def test_precision_is_observed():
    assert guess(RNG.normal(size=N).round(2)).variable.precision == pytest.approx(0.01)
    assert guess(RNG.integers(0, 90, N)).variable.precision == 1


# ---------------------------------------------------------------- levels


def test_levels_are_listed_only_when_each_has_enough_records():
    column = ["a"] * 50 + ["b"] * MIN_COUNT + ["c"] * 20
    assert guess(column).variable.levels == ("a", "b", "c")
    assert guess([*column, *["rare"] * (MIN_COUNT - 1)]).variable.levels is None


def test_levels_are_not_listed_when_there_are_many():
    assert guess([f"l{i % 21}" for i in range(N)]).variable.levels is None
    assert len(guess([f"l{i % 20}" for i in range(N)]).variable.levels) == 20


def test_periods_are_no_telephone_numbers():
    assert guess(RNG.choice(["1985-1989", "1990-1994", "1995-1998"], N)).variable.is_masked
    assert "telephone" in guess([f"0{n:03d} {n + 5000:04d}" for n in range(N)]).reason


def test_levels_of_a_known_scale_keep_its_order():
    assert guess(RNG.choice(["high", "low", "medium"], N)).variable.levels == ("low", "medium", "high")


def test_levels_of_an_ordered_column_keep_their_order():
    column = pd.Categorical(RNG.choice(["b", "a", "c"], N), categories=["c", "b", "a"], ordered=True)
    assert guess(column).variable.levels == ("c", "b", "a")


def test_codes_with_leading_zeros_stay_text():
    found = guess(RNG.choice(["01", "02", "10"], N)).variable
    assert (found.kind, found.levels) == ("nominal", ("01", "02", "10"))


def test_numbers_with_more_digits_than_a_float_holds_stay_text():
    assert variable(["12345678901234567", "12345678901234568", "3"] * 100)[0] == "nominal"


# ---------------------------------------------------------------- codes for missing


def test_text_among_numbers_is_declared_missing():
    found = guess([*[str(i % 45) for i in range(90)], *["NA"] * 10, *["unknown"] * 3])
    assert found.variable.kind == "continuous"
    assert found.variable.missing == ("NA", "unknown")
    assert "13 record(s)" in found.reason


def test_rare_codes_beside_text_stay_in_their_order():
    column = ["1"] * 40 + ["2"] * 40 + ["10"] * 3 + ["NA"] * 20
    assert guess(column).variable.kind == "continuous"
    assert guess([*column, *["10"] * 5]).variable.levels == (1, 2, 10)


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([1, 2, 3, 9], [9]),
        ([0, 1, 9], [9]),
        ([*range(1, 10)], []),
        ([*range(20, 70), 99], [99]),
        ([*range(20, 99), 99], []),
        ([*range(20, 70), 97, 98, 99], [97, 98, 99]),
        ([*range(5), -9], [-9]),
        ([*range(5), -1], [-1]),
        ([*range(-20, 20)], []),
        ([-1, 0, 1], [-1]),
        ([-1, 0, 1, None], []),
        ([*range(-2, 3)], []),
        ([*range(100, 1000, 7), 9999], [9999]),
    ],
)
def test_outlying_codes_are_proposed(values, codes):
    found = guess(values * 6)
    assert [code for code, _ in found.codes] == codes
    assert found.variable.missing == ()


def test_codes_that_few_records_hold_are_not_proposed():
    assert guess([*[20, 30, 40, 50, 60] * 30, *[99] * (MIN_COUNT - 1)]).codes == ()


def test_text_that_means_missing_is_proposed_with_its_count():
    assert guess(["a"] * 50 + ["b"] * 50 + ["unknown"] * 7).codes == (("unknown", 7),)


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([10 * j for j in range(3, 43)], 10),
        ([100 * j for j in range(3, 43)], 100),
        ([*(10 * j for j in range(3, 43)), 7], 1),
        (list(range(1001, 1041)), 1),
    ],
)
def test_amounts_that_were_rounded_to_tens_or_hundreds_keep_that_unit(values, unit):
    found = guess(values * 6, "income").variable
    assert found.precision == (unit if found.kind == "continuous" else None)


# ---------------------------------------------------------------- sums


def amounts(names, n=2000, seed=1):
    draw = np.random.default_rng(seed)
    return pd.DataFrame({c: draw.lognormal(5, 1, n).round(2) for c in names})


def terms(findings):
    return [(f.edit.dependent, set(f.edit.terms)) for f in findings if f.active]


def test_a_difference_is_found_with_its_dependent():
    frame = amounts("ab").assign(change=lambda f: (f.a - f.b).round(2))
    (found,) = find_sums(frame, rng=rng())
    assert found.edit.terms == {"a": 1, "b": -1, "change": -1}
    assert found.edit.dependent == "change"


@pytest.mark.parametrize("parts", [2, 3, 4, 5])
@pytest.mark.parametrize("sparse", [0.0, 0.9])
def test_a_total_is_found_among_other_columns(parts, sparse):
    frame = amounts("abcdefgh")
    frame = frame * (np.random.default_rng(2).random(frame.shape) >= sparse)
    names = list("abcdefgh")[:parts]
    frame["total"] = frame[names].sum(axis=1).round(2)
    assert terms(find_sums(frame, rng=rng())) == [("total", {*names, "total"})]


@pytest.mark.parametrize(("whole", "single"), [(1, False), (1, True), (100, False)])
def test_shares_of_a_whole_add_up_to_it(whole, single):
    shares = np.random.default_rng(1).dirichlet([4, 2, 1, 0.5], 500) * whole
    frame = pd.DataFrame(shares, columns=["food", "rent", "travel", "rest"]).assign(**amounts("ab", 500))
    frame = frame.astype("float32").astype(float) if single else frame
    (found,) = find_sums(frame, rng=rng())
    assert (found.edit.constant, found.edit.dependent) == (whole, "food")
    assert set(found.edit.terms) == {"food", "rent", "travel", "rest"}
    assert found.edit.holds(frame).all()


def test_ranks_and_shares_with_an_exception_add_up_to_nothing():
    shares = np.random.default_rng(1).dirichlet([4, 2, 1], 500)
    shares[7] *= 0.9
    ranks = np.array([np.random.default_rng(j).permutation(5) + 1.0 for j in range(500)])
    assert find_sums(pd.DataFrame(shares, columns=list("abc")), rng=rng()) == ()
    assert find_sums(pd.DataFrame(ranks, columns=list("abcde")), rng=rng()) == ()


def test_sums_of_sums_are_found_without_repetition():
    frame = amounts("abcdef").assign(ab=lambda f: f.a + f.b, cd=lambda f: f.c + f.d)
    frame = frame.assign(abcd=lambda f: f.ab + f.cd, everything=lambda f: f.abcd + f.e - f.f).round(2)
    found = find_sums(frame, rng=rng())
    assert {d for d, _ in terms(found)} == {"ab", "cd", "abcd", "everything"}
    EditSet(f.edit for f in found)


def test_gaps_do_not_hide_a_sum():
    frame = amounts("abc").assign(t=lambda f: (f.a + f.b + f.c).round(2), d=lambda f: (f.a - f.b).round(2))
    gaps = np.random.default_rng(3).random(frame.shape) < 0.4
    found = find_sums(frame.mask(gaps), rng=rng())
    assert {frozenset(f.edit.terms) for f in found if f.active} == {frozenset("abct"), frozenset("abd")}


def test_a_total_goes_to_its_parts_and_a_net_to_its_difference():
    frame = amounts(["w", "p", "tax"]).assign(income_total=lambda f: (f.w + f.p).round(2))
    frame["net"] = (frame.income_total - frame.tax).round(2)
    assert {d for d, _ in terms(find_sums(frame, rng=rng()))} == {"income_total", "net"}


def test_a_copy_is_found():
    frame = amounts("ab").assign(again=lambda f: f.a)
    assert terms(find_sums(frame, rng=rng())) == [("again", {"a", "again"})]


def test_a_sum_with_one_wrong_record_says_so():
    frame = amounts("ab").assign(c=lambda f: (f.a + f.b).round(2))
    frame.loc[5, "c"] += 1
    (found,) = find_sums(frame, rng=rng())
    assert (found.active, found.broken) == (True, 1)
    assert "all but 1 of 2000" in found.reason


def test_a_sum_up_to_rounding_has_a_tolerance_above_the_largest_gap():
    frame = amounts("ab", seed=4).assign(c=lambda f: (f.a + f.b).round(0))
    (found,) = find_sums(frame, rng=rng())
    assert (found.edit.dependent, found.edit.tolerance, found.broken) == ("c", 1.0, 0)
    assert found.edit.holds(frame).all()


def test_a_long_sum_up_to_rounding_that_few_records_break_is_found():
    frame = (amounts("abcdef") * 100).round(0)
    parts = amounts("wxyz", seed=3) * 100
    frame = frame.assign(**parts.round(0)).assign(all=parts.sum(axis=1).round(0))
    frame.loc[:9, "all"] += 5000
    (found,) = find_sums(frame, rng=rng())
    assert (found.edit.dependent, set(found.edit.terms)) == ("all", {*"wxyz", "all"})
    assert found.broken == 10
    assert 1 <= found.edit.tolerance <= 3


@pytest.mark.parametrize("items", [9, 20])
def test_scores_of_long_scales_are_found_also_where_missing_answers_count_as_0(items):
    draw = np.random.default_rng(items)
    frame = pd.DataFrame({f"i{j}": draw.integers(0, 4, 900).astype(float) for j in range(items)})
    frame["short"] = frame.iloc[:, 1 : items - 1].sum(axis=1)
    frame["score"] = frame.iloc[:, :items].sum(axis=1)
    answered = {f.edit.dependent: set(f.edit.terms) for f in find_sums(frame, rng=rng())}
    assert len(answered) == 2
    assert answered["score"] >= {"i0", f"i{items - 1}", "score"}
    frame.loc[:99, "i2"] = np.nan
    found = find_sums(frame, rng=rng())
    assert all(f.active for f in found)
    assert {f.edit.dependent for f in found if "i2" in f.edit.terms} == {None}


def test_an_average_of_readings_is_found():
    draw = np.random.default_rng(5)
    person = draw.normal(120, 15, 2000)
    frame = pd.DataFrame({c: (person + draw.normal(0, 5, 2000)).round(0) for c in ("first", "second", "third")})
    frame.insert(0, "average", ((frame.second + frame.third) / 2).round(0))
    (found,) = find_sums(frame, rng=rng())
    assert found.edit.dependent == "average"
    assert found.edit.terms == {"average": -1, "second": 0.5, "third": 0.5}


@pytest.mark.parametrize("n", [1, 5, 29])
def test_few_records_prove_no_sum(n):
    frame = amounts("ab", n=n).assign(c=lambda f: (f.a + f.b).round(2))
    assert not any(f.active for f in find_sums(frame, rng=rng()))


def test_few_combinations_of_values_prove_no_sum():
    frame = pd.DataFrame({"a": [1.0, 2, 3] * 50, "b": [1.0, 1, 2] * 50}).assign(c=lambda f: f.a + f.b)
    assert not any(f.active for f in find_sums(frame, rng=rng()))


@pytest.mark.parametrize("seed", range(10))
def test_independent_counts_add_up_to_nothing(seed):
    draw = np.random.default_rng(seed)
    counts = {f"c{j}": draw.poisson(draw.choice([0.05, 0.5, 3]), 300).astype(float) for j in range(15)}
    assert find_sums(pd.DataFrame(counts), rng=rng()) == ()


# ---------------------------------------------------------------- rules


def survey(n=3000, seed=5):
    draw = np.random.default_rng(seed)
    sex, age = draw.choice(["f", "m"], n), draw.integers(18, 95, n)
    return pd.DataFrame(
        {
            "sex": sex,
            "age": age,
            "pregnancies": np.where(sex == "m", np.nan, draw.poisson(2, n)),
            "older": (age > 50).astype(int),
            "band": np.digitize(age, [30, 45, 60]),
            "upper": age * 2 + draw.integers(0, 30, n),
            "score": draw.normal(50, 10, n).round(1),
        }
    )


def conditions(edit):
    (when,) = edit.when
    return (
        when.variable,
        when.values or (when.lower, when.upper),
        edit.then.variable,
        edit.then.values,
        edit.then.missing,
    )


def test_structural_gaps_are_found_in_both_directions():
    found = [conditions(e) for e in active(survey(), ConditionalEdit)]
    assert ("sex", ("m",), "pregnancies", None, True) in found
    assert ("sex", ("f",), "pregnancies", None, False) in found


def lookups(frame):
    return {(e.dependent, *e.of) for e in active(frame, LookupEdit)}


def test_flags_and_classes_of_a_number_are_looked_up():
    assert lookups(survey()) == {("older", "age"), ("band", "age")}


def test_logarithms_squares_and_other_units_follow():
    x = np.random.default_rng(6).lognormal(3, 1, 4000).round(2)
    frame = pd.DataFrame({"lx": np.float32(np.log(x)), "x": x, "lxsq": np.float32(np.log(x) ** 2), "euro": x / 1.95583})
    assert lookups(frame) == {("lx", "x"), ("lxsq", "lx"), ("euro", "x")}


def test_levels_are_looked_up_from_the_coarsest_that_determine_them():
    village = np.random.default_rng(6).integers(0, 12, 4000)
    frame = pd.DataFrame({"village": [f"v{v:02d}" for v in village]})
    frame["region"] = [f"r{v // 3}" for v in village]
    frame["side"] = ["west" if v < 6 else "east" for v in village]
    frame["number"] = (village // 3) * 7.5 + 1
    assert lookups(frame) == {("region", "village"), ("number", "region"), ("side", "number")}


def test_a_dependency_with_an_exception_or_a_missing_determinant_is_none():
    frame = survey()
    frame.loc[frame.index[frame.age > 80][0], "older"] = 0
    frame.loc[:20, "age"] = np.nan
    assert lookups(frame) == set()


def test_sentences_of_the_few_who_have_one_determine_nothing():
    draw = np.random.default_rng(3)
    total, mean = np.zeros((2, 1500))
    total[:70] = draw.permutation(np.arange(1, 71)) / 2
    mean[:70] = (total[:70] * draw.choice([0.4, 0.5, 0.8, 1.0], 70)).round(1)
    assert lookups(pd.DataFrame({"total": total, "mean": mean})) == set()


def test_a_stratum_follows_from_its_survey_weights():
    draw = np.random.default_rng(5)
    stratum = draw.integers(0, 4, 600)
    weight = np.array([[10.5, 20.25], [31.0, 40.5], [55.5, 62.0], [71.25, 88.0]])[stratum, draw.integers(0, 2, 600)]
    frame = pd.DataFrame({"weight": weight, "stratum": np.array([*"abcd"])[stratum]})
    schema = Schema(
        [
            Variable("weight", "continuous", role="weight"),
            Variable("stratum", "nominal"),
        ]
    )
    found = find_rules(Microdata(frame, schema))
    pairs = {(f.edit.dependent, f.edit.of[0]) for f in found if isinstance(f.edit, LookupEdit)}
    assert pairs == {("stratum", "weight")}


def test_months_of_age_are_twelve_to_a_year():
    frame = survey().assign(months=lambda f: 12 * f.age + np.random.default_rng(3).integers(0, 12, len(f)))
    found = {(e.relation, e.constant) for e in active(frame, LinearEdit) if e.terms == {"months": 1, "age": -12}}
    assert found == {(">=", 0), ("<=", 11)}


def test_an_age_at_first_never_exceeds_the_age():
    frame = survey().assign(began=lambda f: np.minimum(f.age, 18 + f.upper % 23).where(f.score > 45))
    (order,) = active(frame, LinearEdit)
    assert (order.relation, order.terms) == (">=", {"age": 1, "began": -1})


@pytest.mark.parametrize(("low", "high", "is_found"), [("bid_lower", "bid_upper", True), ("bid", "offer", False)])
def test_names_say_which_number_is_the_smaller_one(low, high, is_found):
    rng = np.random.default_rng(3)
    least = rng.integers(0, 60, 400)
    frame = pd.DataFrame({low: least, high: np.where(least > 30, 999, least + rng.integers(20, 60, 400))})
    orders = [f for f in rules(frame)[0] if f.edit.name == f"{low} is at most {high}"]
    assert bool(orders) == is_found


def test_who_is_not_old_enough_is_not_asked():
    draw = np.random.default_rng(9)
    frame = pd.DataFrame({"age": draw.integers(0, 90, 3000), "sex": draw.choice(["f", "m"], 3000)})
    work = draw.choice(["yes", "no", "looking"], 3000).astype(object)
    frame["work"] = np.where(frame.age < 16, None, work)
    frame["firm"] = np.where(frame.work == "yes", draw.integers(1, 9, 3000), np.nan)
    found = [conditions(e) for e in active(frame, ConditionalEdit)]
    assert ("age", (None, 15), "work", None, True) in found
    assert ("work", ("looking", "no"), "firm", None, True) in found
    assert ("work", ("yes",), "firm", None, False) in found
    assert {c[2] for c in found} == {"work", "firm"}


def test_spouses_are_neither_children_nor_single():
    draw = np.random.default_rng(10)
    relation = draw.choice(["head", "spouse", "child"], 4000, p=[0.3, 0.2, 0.5])
    age = np.where(relation == "child", draw.integers(0, 30, 4000), draw.integers(20, 80, 4000))
    single = (
        (age < 20)
        | ((relation == "child") & (draw.random(4000) < 0.8))
        | ((relation == "head") & (draw.random(4000) < 0.2))
    )
    frame = pd.DataFrame({"relation": relation, "age": age, "civil": np.where(single, "single", "married")})
    found = [conditions(e) for e in active(frame, ConditionalEdit)]
    assert ("relation", ("spouse",), "civil", ("married",), None) in found
    lowest = {e.when[0].values: e.then.lower for e in active(frame, ConditionalEdit) if e.then.lower is not None}
    assert all(15 <= lowest[level,] <= 20 for level in ("head", "spouse"))


def test_limits_are_zero_or_beyond_what_few_hold():
    found, data = rules(survey())
    for finding in found:
        edit = finding.edit
        if isinstance(edit, BoundEdit):
            values = data.frame[edit.variable]
            assert edit.lower == 0 or edit.lower < values.min() or (values == edit.lower).sum() >= MIN_COUNT
            assert edit.upper is None or edit.upper > values.max() or (values == edit.upper).sum() >= MIN_COUNT


@pytest.mark.parametrize(("highest", "upper"), [(100.0, 100.0), (98.7, 100.0), (104.2, 200.0)])
def test_percentages_end_at_100(highest, upper):
    share = np.append(np.random.default_rng(1).uniform(0, 90, 500).round(1), highest)
    (limits,) = active(pd.DataFrame({"lunch": share, "group": ["a", "b", "c"] * 167}), BoundEdit)
    assert limits.upper == upper


def test_every_active_rule_holds_and_all_names_differ():
    found, data = rules(survey())
    assert all(EditSet([f.edit]).learned(data).satisfied(data.frame).all() for f in found if f.active)
    assert len({f.edit.name for f in found}) == len(found)
    assert EditSet(f.edit for f in found if f.active).problems(data.schema) == []


def staff(n=740, seed=3):
    """A table of roles and departments, in the smallest of which each role of others would be rare by chance."""
    draw = np.random.default_rng(seed)
    roles = ["clerk", *(f"researcher {i}" for i in range(5)), "seller", "trainee", "manager"]
    role = draw.choice(roles, n, p=[0.035, *[0.12] * 5, 0.24, 0.065, 0.06])
    own = {"clerk": "staff", "seller": "sales", "trainee": "sales"}
    department = pd.Series(role).map(own).fillna("research")
    boss = role == "manager"
    department[boss] = draw.choice(["research", "sales", "staff"], boss.sum(), p=[0.6, 0.33, 0.07])
    return pd.DataFrame({"role": role, "department": department, "site": draw.choice(list("xyz"), n)})


def test_a_small_level_is_excluded_from_several_others_together():
    frame = staff()
    edits = EditSet(active(frame, ConditionalEdit))
    wrong = pd.DataFrame({"role": ["researcher 1", "seller"], "department": "staff", "site": "x"})
    fits = pd.DataFrame({"role": ["clerk", "manager"], "department": "staff", "site": "x"})
    schema = Schema.infer(frame)
    broken = [~edits.satisfied(Microdata(one, schema).frame) for one in (wrong, fits)]
    assert [one.tolist() for one in broken] == [[True, True], [False, False]]


def test_levels_that_have_nothing_to_do_with_each_other_are_not_excluded():
    draw = np.random.default_rng(5)
    shares = 1 / np.arange(1, 19) ** 0.8
    for seed in range(30):
        frame = staff(seed=seed).apply(lambda column: draw.permutation(column))
        for name in ("origin", "trade", "union"):
            frame[name] = draw.choice([f"{name} {i}" for i in range(18)], len(frame), p=shares / shares.sum())
        assert not active(frame, ConditionalEdit)


@given(seed=st.integers(0, 2**31), weight=st.sampled_from([1.0, 0.4]), limit=st.sampled_from([1.0, 3.0, 6.0]))
def test_rare_pairs_of_levels_are_excluded_as_one_by_one(seed, weight, limit):
    draw = np.random.default_rng(seed)
    sizes = draw.integers(2, 9, size=3)
    codes = [draw.choice(k, 900, p=draw.dirichlet(np.full(k, 0.6))) for k in sizes]
    codes[1][(codes[0] == 0) & (draw.random(900) < 0.9)] = 0
    levels = [codes[v] == q for v, k in enumerate(sizes) for q in range(k)]
    levels = np.array([one & (draw.random(900) < 0.98) for one in levels], dtype=float)
    counts, own = levels @ levels.T, np.repeat(np.arange(3), sizes)
    starts, rows = np.cumsum(sizes) - sizes, slice(0, int(sizes[0]))
    found = exclusions._never(counts[rows], starts, own, limit, weight)
    for v in (1, 2):
        both = counts[rows, own == v]
        assert np.array_equal(found[:, own == v], excluded(both, limit, weight))


def excluded(both, limit, weight):
    """The same of two variables, pair by pair and set by set."""
    rows, columns, total = both.sum(axis=1), both.sum(axis=0), both.sum()
    chance = np.outer(rows, columns) / max(total, 1.0)
    rates = np.where(both > 0, both / np.where(chance > 0, chance, 1.0), 1.0)
    lowest = np.minimum(1.0, np.minimum(rates.min(axis=1)[:, None], rates.min(axis=0)))

    def shows(one, other, rate, needed):
        return float(never_meeting(total, one, other)) * rate >= needed

    alone = np.zeros(both.shape, dtype=bool)
    for i, j in zip(*np.nonzero((both == 0) & (chance >= 10)), strict=True):
        alone[i, j] = shows(rows[i], columns[j], lowest[i, j], limit)
    rare, result = (both == 0) & (chance >= 1) & ~alone, alone.copy()
    for axis, (mine, theirs) in enumerate(((rows, columns), (columns, rows))):
        for at, met in enumerate(theirs):
            cells, rate = (rare[:, at], lowest[:, at]) if axis == 0 else (rare[at], lowest[at])
            likely = int(((chance[:, at] if axis == 0 else chance[at]) >= 1).sum())
            size = mine[cells].sum()
            if cells.sum() < 2 or size * met < 10 * total:
                continue
            ways = math.log(math.comb(likely, int(cells.sum()))) / weight
            if shows(size, met, rate[cells].min(), 4 * (limit + ways)):
                result[(cells, at) if axis == 0 else (at, cells)] = True
    return result


def test_exclusions_that_follow_from_others_are_not_repeated():
    draw = np.random.default_rng(4)
    line = draw.choice(["no", "fibre", "copper"], 4000)
    services = {f"service{i}": np.where(line == "no", "none", draw.choice(["y", "n"], 4000)) for i in range(4)}
    rules = [conditions(e) for e in active(pd.DataFrame({"line": line, **services}), ConditionalEdit)]
    assert {(by, name) for by, _, name, _, _ in rules} == {("line", name) for name in services}


def test_a_number_that_is_zero_wherever_another_is():
    draw = np.random.default_rng(6)
    stays = draw.poisson(0.7, 4000)
    frame = pd.DataFrame({"stays": stays, "paid": np.where(stays > 0, draw.lognormal(5, 1, 4000).round(2), 0.0)})
    found = {
        (e.when[0].variable, e.when[0].values, e.then.variable, e.then.upper) for e in active(frame, ConditionalEdit)
    }
    assert ("paid", (0,), "stays", 0) in found or ("stays", (0,), "paid", 0) in found


def test_times_of_day_as_whole_numbers_are_not_released_as_numbers():
    """Of arrivals released as numbers 38 % were times such as 2063."""
    draw = np.random.default_rng(4)
    clock = draw.integers(0, 24, N) * 100 + draw.integers(0, 60, N)
    found = guess(clock, "arrival")
    assert (found.variable.role, found.reason[:28]) == ("excluded", "holds times of day written a")
    assert variable(clock + 50, "arrival")[1] != "excluded"
    assert variable(draw.integers(0, 60, N), "minute")[1] != "excluded"
    assert variable(draw.integers(0, 2400, N), "grams")[1] != "excluded"
    assert variable(draw.integers(0, 49, N) * 50, "rent")[1] != "excluded"


def test_parts_and_dates_are_in_order_and_what_merely_differs_is_not():
    draw = np.random.default_rng(0)
    n = 1500
    start, total = draw.uniform(0, 3650, n).round(), draw.lognormal(5, 1, n).round(2)
    tries = draw.gamma(0.7, 200, n).round()
    age, height = draw.normal(45, 12, n).round(1), draw.normal(170, 9, n).round(1)
    frame = pd.DataFrame(
        {
            "start": start,
            "end": start + draw.exponential(200, n).round(),
            "total": total,
            "part": (total * draw.beta(2, 2, n)).round(2),
            "tries": tries,
            "hits": draw.binomial(tries.astype(int), 0.26),
            "weight": (height - 100 + draw.normal(0, 12, n)).round(1),
            "height": height,
            "age": age,
            "later": age + draw.gamma(5, 4, n).round(1),
        }
    )
    found = {tuple(sorted(e.terms, key=lambda name: e.terms[name])) for e in active(frame, LinearEdit)}
    assert found == {("start", "end"), ("part", "total"), ("hits", "tries")}


@pytest.mark.parametrize(("rounding", "constant", "tolerance"), [(0, 6.0, None), (1, 7.0, 1.0)])
def test_age_is_schooling_and_the_years_since_and_a_constant(rounding, constant, tolerance):
    draw = np.random.default_rng(11)
    n = 800
    schooling, since = draw.integers(8, 21, n), draw.integers(0, 40, n)
    noise = draw.integers(0, rounding + 1, n)
    frame = pd.DataFrame(
        {"age": schooling + since + 6 + noise, "schooling": schooling, "exper": since, "square": since**2}
    ).assign(height=draw.normal(170, 9, n).round(), weight=draw.normal(75, 12, n).round())
    frame.loc[frame.index[:3], "age"] += 9
    (found,) = [f for f in rules(frame)[0] if isinstance(f.edit, LinearEdit)]
    assert found.edit.terms == {"age": 1.0, "schooling": -1.0, "exper": -1.0}
    assert (found.edit.constant, found.edit.dependent, found.edit.tolerance) == (constant, "exper", tolerance)
    assert found.broken == 3
    assert "exper" in {one.of[0] for one in active(frame, LookupEdit) if one.dependent == "square"}


def test_a_term_that_hardly_varies_makes_no_sum_of_whole_numbers():
    draw = np.random.default_rng(12)
    x = draw.integers(0, 60, 900)
    frame = pd.DataFrame({"x": x, "y": x + draw.integers(0, 2, 900) + 4, "few": draw.binomial(12, 0.03, 900)})
    assert not any(e.relation == "==" for e in active(frame, LinearEdit))


def test_numbers_that_an_area_shares_are_counted_once_as_evidence():
    draw = np.random.default_rng(13)
    area = draw.integers(0, 40, 4000)
    tuition = draw.permutation(np.arange(40) / 8 + 0.35)[area]
    coast = np.where(area < 30, "inland", "coast")
    assert active(pd.DataFrame({"coast": coast, "tuition": tuition}), ConditionalEdit) == []


def test_evidence_of_a_wall_is_finite_beside_an_empty_range():
    near = np.repeat([0.0, 1.0], [8, 30])
    with np.errstate(all="raise"):
        assert 0 < at_a_wall(np.concatenate([near, np.arange(10.0, 172.0)]), 1.0) < 30
        assert at_a_wall(np.concatenate([near, np.full(160, 50.0)]), 1.0) < 0
        assert at_a_wall(np.concatenate([np.zeros(100), np.arange(1.0, 101.0)]), 1.0) < 0


def test_amounts_of_which_one_never_reaches_half_the_other_are_not_in_order():
    draw = np.random.default_rng(2)
    capital = draw.lognormal(5.5, 2.2, 6000)
    employment = 0.015 * capital**0.9 * draw.lognormal(0, 0.5, 6000)
    frame = pd.DataFrame({"capital": capital, "employment": employment}).round(3)
    assert [e for e in active(frame, LinearEdit) if e.relation == ">="] == []


def test_an_order_that_limits_imply_is_none():
    draw = np.random.default_rng(6)
    frame = pd.DataFrame({"part": draw.random(2000).round(1), "plan": draw.integers(1, 30, 2000)})
    assert active(frame, LinearEdit) == []


def test_a_rule_with_one_exception_is_not_found():
    frame = survey()
    frame.loc[frame.index[frame.sex == "m"][0], "pregnancies"] = 1
    found = [conditions(e) for e in active(frame, ConditionalEdit)]
    assert not any(e[0] == "sex" and e[2] == "pregnancies" for e in found)


def test_rare_cases_prove_nothing():
    frame = pd.DataFrame({"ill": [1] * 10 + [0] * 990, "sex": ["f"] * 600 + ["m"] * 400})
    assert active(frame, ConditionalEdit) == []


@pytest.mark.parametrize("seed", range(20))
def test_independent_columns_give_limits_alone(seed):
    draw = np.random.default_rng(seed)
    n = int(draw.choice([200, 1000, 5000]))
    frame = pd.DataFrame({f"q{j}": draw.integers(0, draw.choice([2, 4, 12, 40, 500]), n) for j in range(8)})
    frame = frame.assign(
        amount=draw.lognormal(5, 2, n).round(2),
        sparse=np.where(draw.random(n) < 0.9, 0.0, draw.lognormal(5, 1, n).round(0)),
        score=draw.normal(size=n),
        rare=draw.choice(list("abcdef"), n, p=[0.9, 0.05, 0.02, 0.01, 0.01, 0.01]),
    )
    gaps = draw.choice([0.0, 0.02, 0.5, 0.98], frame.shape[1])
    frame = frame.mask(draw.random(frame.shape) < gaps)
    assert [f for f in rules(frame)[0] if not isinstance(f.edit, BoundEdit)] == []


def test_computed_variables_get_no_rules_of_their_own():
    frame = amounts(["a", "b"]).assign(lost=lambda f: np.arange(len(f)) % 3 == 0)
    frame["change"] = (frame.a - frame.b).round(2).where(~frame.lost)
    frame["a"] = frame.a.where(~frame.lost)
    found = active(frame, ConditionalEdit)
    assert {e.then.variable for e in found} == {"a"}
    assert [e.dependent for e in active(frame, LinearEdit)] == ["change"]


# ---------------------------------------------------------------- confidentiality, invariants


def test_an_edge_between_rare_values_is_no_value():
    draw = np.random.default_rng(8)
    number = np.r_[draw.uniform(0, 29.9, 1000), draw.uniform(30.1, 60, 1000)].round(2)
    frame = pd.DataFrame({"number": number, "asked": np.where(number >= 30, draw.choice(["a", "b"], 2000), None)})
    edges = [e.when[0].upper for e in active(frame, ConditionalEdit) if e.when[0].variable == "number"]
    assert len(edges) == 1
    assert not set(edges) & set(number)


def test_limits_are_the_extremes_that_five_units_hold():
    held = np.r_[np.tile(np.arange(13.0, 98), 3), np.full(5, 100.0)]
    frame = pd.DataFrame({"share": held, "other": np.r_[held[:-5], np.full(4, 100.0), 98]})
    limits = {e.variable: (e.lower, e.upper) for e in active(frame, BoundEdit)}
    assert limits == {"share": (10, 100), "other": (10, 120)}


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.booleans())
def test_outward_is_beyond_and_near(value, upward):
    limit = outward(value, upward=upward)
    if value == 0:
        assert limit == 0
    elif upward:
        assert limit > value
        assert abs(limit) <= 2.5 * abs(value) * (1 + 1e-6) or value < 0
    else:
        assert limit < value


CELLS = st.one_of(
    st.none(),
    st.integers(-3, 12),
    st.floats(allow_nan=False, allow_infinity=False, width=16),
    st.sampled_from(["a", "b", "NA", "7", "07", "1.5", "x@y.org", "2020-01-01", ""]),
    st.booleans(),
)
COLUMNS = st.one_of(
    st.lists(CELLS, min_size=40, max_size=40),
    st.lists(st.integers(0, 3), min_size=40, max_size=40),
    st.lists(st.sampled_from(["1", "2", "NA"]), min_size=40, max_size=40),
    st.lists(st.one_of(st.none(), st.booleans()), min_size=40, max_size=40),
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(min_size=1).filter(str.strip), COLUMNS, min_size=1, max_size=5))
def test_every_column_is_guessed_once_and_the_input_is_untouched(columns):
    frame = pd.DataFrame(columns)
    before = frame.copy()
    found = profile(frame, rng=rng())
    assert [g.variable.name for g in found.guesses] == list(frame.columns)
    pd.testing.assert_frame_equal(frame, before)
    for guessed in found.guesses:
        levels = guessed.variable.levels or ()
        counts = frame[guessed.variable.name].astype(str).value_counts()
        if not pd.api.types.is_bool_dtype(frame[guessed.variable.name]) and all(isinstance(v, str) for v in levels):
            assert all(counts.get(level, MIN_COUNT) >= MIN_COUNT for level in levels)


def test_the_same_table_gives_the_same_profile():
    frame = survey().assign(total=lambda f: f.age + f.upper)
    assert profile(frame, rng=rng()) == profile(frame, rng=rng())
    assert rules(frame)[0] == rules(frame)[0]


def test_a_sum_that_is_known_where_a_part_is_missing_is_not_computed():
    draw = np.random.default_rng(3)
    parts = draw.integers(50, 200, (600, 2)).astype(float)
    frame = pd.DataFrame({"first": parts[:, 0], "second": parts[:, 1], "total": parts.sum(axis=1)})
    frame.loc[:29, "second"] = np.nan
    (sum_,) = [f for f in find_sums(frame, rng=rng()) if f.edit.name == "total adds up"]
    assert sum_.active
    assert sum_.edit.dependent is None
    frame.loc[:29, "total"] = np.nan
    (sum_,) = [f for f in find_sums(frame, rng=rng()) if f.edit.name == "total adds up"]
    assert sum_.edit.dependent == "total"


def test_a_rounded_sum_of_what_follows_from_one_variable_follows_from_it_too():
    draw = np.random.default_rng(0)
    before, after = draw.uniform(1, 3, (2, 30))
    state = draw.integers(0, 30, 900)
    frame = pd.DataFrame({"state": [f"s{at:02d}" for at in state]})
    frame["before"], frame["after"] = before.round(2)[state], after.round(2)[state]
    frame["change"] = (after - before).round(2)[state]
    found, data = rules(frame)
    edits = {f.edit.name: f.edit for f in found if f.active}
    assert edits["change adds up"].dependent is None
    assert {e.dependent for e in edits.values() if isinstance(e, LookupEdit)} == {"before", "after", "change"}
    assert EditSet(edits.values()).satisfied(data.frame).all()
