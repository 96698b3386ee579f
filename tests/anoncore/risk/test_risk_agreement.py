from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, norm

from anoncore import Microdata, Schema, Variable, anonymize
from anoncore.kernels.agreement import largest_agreement, log_mean_evidence
from anoncore.methods import PRAM, RankSwapping
from anoncore.risk.agreement import agreement
from anoncore.risk.presence import value_presence
from anoncore.risk.scores import score_attack, top_scores

LEVELS = tuple("abcdefgh")
SCHEMA = Schema(
    [Variable(f"number{j}", "continuous") for j in range(4)]
    + [Variable(f"level{j}", "nominal", levels=LEVELS) for j in range(6)]
)


def people(n, seed, gaps=0.05):
    rng = np.random.default_rng(seed)
    weights = np.array([0.4, 0.2, 0.15, 0.1, 0.07, 0.05, 0.02, 0.01])
    table = {f"number{j}": np.round(rng.gamma(2.0, 3.0, n), 1) for j in range(4)}
    table |= {f"level{j}": rng.choice(LEVELS, n, p=weights) for j in range(6)}
    frame = pd.DataFrame(table)
    return Microdata(frame.mask(rng.random(frame.shape) < gaps), SCHEMA)


def rng():
    return np.random.default_rng(11)


def with_copies(release, original, rows, columns):
    frame = release.frame.copy()
    frame.loc[rows, columns] = original.frame.loc[rows, columns]
    return Microdata(frame, SCHEMA)


def test_largest_agreement_is_what_a_loop_finds():
    draw = np.random.default_rng(3)
    lower = draw.integers(0, 5, (30, 4)).astype(np.int32)
    upper = lower + draw.integers(0, 3, (30, 4)).astype(np.int32)
    weights = draw.random((30, 4)).astype(np.float32)
    rows = draw.integers(0, 6, (4, 17)).astype(np.int32)
    best, second, place = largest_agreement(lower, upper, weights, rows)
    sums = np.zeros((30, 17))
    for t, y, j in product(range(30), range(17), range(4)):
        sums[t, y] += weights[t, j] * (lower[t, j] <= rows[j, y] < upper[t, j])
    ordered = np.sort(sums, axis=1)
    np.testing.assert_allclose(best, ordered[:, -1], rtol=1e-5)
    np.testing.assert_allclose(second, ordered[:, -2], rtol=1e-5)
    np.testing.assert_allclose(sums[np.arange(30), place], best, rtol=1e-5)


def test_a_single_row_has_no_second():
    one = np.zeros((3, 2), dtype=np.int32)
    best, second, _ = largest_agreement(one, one + 1, np.ones((3, 2), dtype=np.float32), one[:1].T)
    assert best.tolist() == [2.0] * 3
    assert second.tolist() == [0.0] * 3


@pytest.mark.parametrize("seed", range(4))
def test_an_independent_sample_gives_nothing_away(seed):
    a, b, c = (people(1000, 10 * seed + i) for i in range(3))
    found, values = agreement(a, c, b, rng=rng()), value_presence(a, c, b, rng=rng())
    assert found.worst.attack.area.lower < 0.5
    assert found.p > 0.01
    assert values.worst.attack.area.lower < 0.5
    assert values.excess.lower < 0.05


@pytest.mark.parametrize("seed", range(4))
def test_partial_copies_of_a_tenth_of_the_members_stand_out(seed):
    a, b, c = (people(1000, 10 * seed + i) for i in range(3))
    columns = [f"level{j}" for j in range(5)] + ["number0", "number1"]
    release = with_copies(c, a, np.arange(100), columns)
    found = agreement(a, release, b, rng=rng())
    assert found.p < 1e-6
    assert found.worst_top.attack.top.lower > 0.6


def test_the_original_as_release_scores_highest():
    a, b, c = (people(800, i) for i in range(3))
    whole = agreement(a, a, b, rng=rng()).worst.attack.area
    partly = agreement(a, with_copies(c, a, np.arange(400), list(a.frame)), b, rng=rng()).worst.attack.area
    assert whole.auc > 0.99
    assert 0.65 < partly.auc < 0.85


def test_numbers_that_moved_a_little_are_met_with_a_tolerance():
    a, b = people(800, 0, gaps=0.0), people(800, 1, gaps=0.0)
    frame = a.frame.copy()
    for j in range(4):
        frame[f"number{j}"] = np.round(frame[f"number{j}"] + rng().choice([-0.1, 0.1], 800), 1)
    found = agreement(a, Microdata(frame, SCHEMA), b, rng=rng())
    best = max((one for one in found.attacks if one.name.endswith("largest")), key=lambda one: one.attack.area.auc)
    assert "within" in best.name
    assert best.attack.area.auc > 0.95


def test_the_quasi_identifiers_are_an_attackers_knowledge_of_their_own():
    a, b = people(400, 0), people(400, 1)
    asked = agreement(a, a, b, quasi_identifiers=["level0", "level1", "nothing"], rng=rng())
    assert {one.name.split(",")[0].split(" within")[0] for one in asked.attacks} == {
        "quasi-identifiers",
        "levels",
        "all variables",
        "3 variables",
        "half of the variables",
        "all variables by likelihood",
    }


def test_combinations_of_values_find_partial_copies_that_single_values_do_not():
    a, b, c = (people(1000, i, gaps=0.0) for i in range(3))
    levels = [f"level{j}" for j in range(6)]
    release = with_copies(c, a, np.arange(150), levels)
    found = {one.name: one.attack.top.p for one in value_presence(a, release, b, rng=rng()).attacks}
    assert found["single values"] > 0.01
    assert found["all categorical values"] < 1e-6


def test_one_column_of_exact_values_is_enough():
    a, b, c = (people(1000, i) for i in range(3))
    frame = c.frame.copy()
    schema = Schema([Variable("spent", "continuous"), *SCHEMA])
    draw = np.random.default_rng(5)
    spent = [np.round(draw.gamma(2.0, 1000.0, 1000), 2) for _ in range(3)]
    tables = [Microdata(t.frame.assign(spent=s), schema) for t, s in zip((a, b, c), spent, strict=True)]
    shuffled = Microdata(frame.assign(spent=draw.permutation(spent[0])), schema)
    leaked, harmless = (value_presence(tables[0], r, tables[1], rng=rng()) for r in (shuffled, tables[2]))
    assert leaked.variable == "spent"
    assert leaked.worst.attack.area.auc > 0.99
    assert leaked.attacks[0].attack.area.auc > 0.96
    assert leaked.excess.lower > 0.9
    assert leaked.unique_nonmembers.value < 0.05
    assert harmless.worst.attack.area.lower < 0.5


def test_a_few_values_of_one_column_are_seen_beside_a_column_that_is_present_for_everybody():
    schema = Schema([Variable("common", "binary", levels=("y", "n")), Variable("spent", "continuous")])
    draw = np.random.default_rng(5)
    tables = [
        pd.DataFrame({"common": draw.choice(["y", "n"], 1000), "spent": draw.normal(size=1000)}) for _ in range(3)
    ]
    tables[2].loc[:29, "spent"] = tables[0]["spent"].sample(30, random_state=1).to_numpy()
    a, b, release = (Microdata(t, schema) for t in tables)
    found = value_presence(a, release, b, rng=rng())
    assert found.worst_top.name in ("the variable spent", "single values")
    assert found.p < 0.001
    assert {f"the variable {name}" for name in ("common", "spent")} <= {one.name for one in found.attacks}


def test_too_little_to_compare_is_not_tested():
    a, b = people(3, 0), people(100, 1)
    assert agreement(a, b, b, rng=rng()) is None
    assert value_presence(b, b, a, rng=rng()) is None


def test_the_top_of_equal_scores_says_nothing():
    top = top_scores(np.zeros(50), np.zeros(50))
    assert (top.n, top.members, top.p) == (100, 50, 1.0)


def test_ten_members_above_everybody_are_seen_and_the_area_does_not_see_them():
    draw = np.random.default_rng(2)
    members, nonmembers = draw.normal(size=2000), draw.normal(size=2000)
    members[:10] = 50.0
    found = score_attack(members, nonmembers)
    assert found.area.lower < 0.5
    assert found.top.members > 0.8 * found.top.n
    assert found.top.p < 0.01


def test_an_excess_among_the_highest_scores_counts_where_it_is_more_than_an_accepted_area_shows():
    draw = np.random.default_rng(3)
    members, nonmembers = draw.normal(0.09, size=50_000), draw.normal(size=50_000)
    small = top_scores(members, nonmembers)
    by_chance = float(binomtest(small.members, small.n, alternative="greater").pvalue)
    assert 0.5 < small.precision < 0.58
    assert by_chance < 1e-4
    assert small.p == 1.0
    # One member in fifty is given away beside that.
    members[:1000] += 4.0
    found = top_scores(members, nonmembers)
    assert max(found.p, found.accepted_p) < 1e-9


def test_chance_among_the_highest_scores_is_what_it_is_said_to_be():
    draw = np.random.default_rng(4)
    rejected = sum(top_scores(*draw.normal(size=(2, 300))).p < 0.05 for _ in range(400))
    assert rejected <= 0.05 * 400 + 3 * np.sqrt(0.05 * 0.95 * 400)


def test_an_accepted_area_explains_the_highest_scores_that_chance_does_not():
    draw = np.random.default_rng(5)
    apart = np.sqrt(2.0) * norm.ppf(0.55)
    tops = [top_scores(draw.normal(apart, size=2000), draw.normal(size=2000)) for _ in range(200)]
    assert sum(one.p < 0.01 for one in tops) > 80
    assert sum(one.accepted_p < 0.05 for one in tops) <= 0.05 * 200 + 3 * np.sqrt(0.05 * 0.95 * 200)
    members, nonmembers = draw.normal(apart, size=2000), draw.normal(size=2000)
    members[:40] = 9.0
    assert top_scores(members, nonmembers).accepted_p < 1e-6


def scores_by_likelihood(a, release, b, own):
    found = agreement(a, release, b, own=own, rng=rng())
    return {one.name: one.attack for one in found.attacks if "likelihood" in one.name}, found


@pytest.mark.parametrize("size", [17, 2048, 5000])
def test_evidence_of_rows_is_the_mean_over_all_of_them(size):
    draw = np.random.default_rng(3)
    lower = draw.integers(0, 5, (30, 4)).astype(np.int32)
    upper = lower + draw.integers(0, 3, (30, 4)).astype(np.int32)
    weights, columns = draw.normal(size=(30, 4)).astype(np.float32), np.array([0, 0, 1, 2])
    rows = np.sort(draw.integers(0, 6, (3, size)).astype(np.int32), axis=1)
    mean, inside = log_mean_evidence(lower, upper, weights, columns, rows, parts=True)
    values = rows[columns].T
    within = (lower[:, None] <= values) & (values < upper[:, None])
    ratios = np.exp((weights[:, None] * within).sum(axis=2))
    np.testing.assert_allclose(mean, np.log(ratios.mean(axis=1)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        inside, (ratios[:, :, None] * within).sum(axis=1) / ratios.sum(axis=1)[:, None], rtol=1e-4, atol=1e-5
    )


def test_the_law_of_pram_reveals_members_whom_agreement_alone_does_not():
    a, b = people(800, 0), people(800, 1)
    variables = tuple(name for name in a.frame if name.startswith("level"))
    levels = [t.select(variables) for t in (a, b)]
    release = anonymize(levels[0], PRAM(variables=variables, keep=0.6), rng=rng()).data
    own = release.frame.index.get_indexer(levels[0].frame.index)
    order = rng().permutation(800)
    by_law, found = scores_by_likelihood(levels[0], release.take(order), levels[1], np.argsort(order)[own])
    rest = max(one.attack.area.auc for one in found.attacks if "likelihood" not in one.name)
    assert by_law["all variables by likelihood, law of the masking"].area.auc > rest + 0.02
    unknown, _ = scores_by_likelihood(levels[0], release, levels[1], np.full(800, -1))
    assert list(unknown) == ["all variables by likelihood, estimated law"]


def test_rank_swapped_numbers_are_met_within_windows_of_ranks():
    a, b, c = (people(800, i).select([f"number{j}" for j in range(4)]) for i in range(3))
    release = anonymize(a, RankSwapping(window=0.02), rng=rng()).data
    by_law, _ = scores_by_likelihood(a, release, b, np.arange(800))
    assert min(one.area.lower for one in by_law.values()) > 0.6
    harmless, _ = scores_by_likelihood(a, c, b, np.arange(800))
    assert max(one.area.lower for one in harmless.values()) < 0.5
