"""Trees whose leaves hold donors: leaves are large enough, chance splits go, levels are ordered by what they say."""

import numpy as np
import pytest
from scipy.stats import f, linregress
from sklearn.tree import DecisionTreeRegressor
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from anoncore.kernels.donor_tree import (
    DonorTree,
    LeafRule,
    _Nodes,
    independent_targets,
    leaf_lines,
    level_scores,
    target_groups,
)


def grown(x, y, *, least=20, significance=0.05, weights=None, seed=0, independent=1.0):
    rng, rule = np.random.default_rng(seed), LeafRule(least, significance, independent)
    return DonorTree.grow(np.float32(x), y, rule, rng=rng, weights=weights)


@pytest.mark.parametrize("seed", range(5))
def test_a_target_that_depends_on_nothing_is_not_split(seed):
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(600, 8))
    for target in (draw.normal(size=600), draw.integers(0, 4, 600)):
        assert len(np.unique(grown(x, target).leaves)) == 1
        assert len(np.unique(grown(x, target, significance=1e9).leaves)) > 5


def test_leaves_hold_so_many_units_and_donors_come_from_the_own_leaf():
    draw = np.random.default_rng(1)
    x = draw.normal(size=(900, 3))
    y = x[:, 0] + x[:, 1] * (x[:, 2] > 0)
    tree = grown(x, y, least=25)
    sizes = np.unique(tree.leaves, return_counts=True)[1]
    assert len(sizes) > 10
    assert sizes.min() >= 25
    donors = tree.donors(tree.leaf_of(np.float32(x)), draw)
    own = np.empty(900, dtype=int)
    own[tree.ordered] = tree.leaves
    assert (own[donors] == own).all()
    assert np.corrcoef(y, y[donors])[0, 1] > 0.85
    assert len(tree.donors(tree.leaf_of(np.float32(x[:0])), draw)) == 0


def test_with_weights_units_are_counted_and_not_records():
    draw = np.random.default_rng(2)
    units = np.repeat(np.arange(60), 10)
    x = np.repeat(draw.normal(size=60), 10)[:, None] + 1e-6 * draw.normal(size=(600, 1))
    tree = grown(x, x[:, 0].copy(), least=12, weights=np.full(600, 0.1))
    by_leaf = [len(np.unique(units[tree.ordered[tree.leaves == leaf]])) for leaf in np.unique(tree.leaves)]
    assert len(by_leaf) >= 3
    assert min(by_leaf) >= 12


@pytest.mark.parametrize("rho", [0.0, 0.3, 1.0])
def test_independent_targets_of_a_unit_follow_from_how_alike_its_records_are(rho):
    draw = np.random.default_rng(7)
    size = draw.integers(1, 9, 2000)
    unit = np.repeat(draw.permutation(2000), size)
    target = np.sqrt(rho) * draw.normal(size=2000)[unit] + np.sqrt(1 - rho) * draw.normal(size=len(unit))
    expected = (size / (1 + (size - 1) * rho)).mean()
    assert independent_targets(target, unit) == pytest.approx(expected, rel=0.05)
    # Of two classes it is that of their indicator, whose variances are those of the analysis of variance.
    classes = (target > 0).astype(int)
    table = anova_lm(ols("y ~ C(u)", {"y": classes[:900], "u": unit[:900]}).fit())["mean_sq"]
    counts = np.unique(unit[:900], return_counts=True)[1]
    typical = (900 - (counts**2).sum() / 900) / (len(counts) - 1)
    alike = np.clip((table.iloc[0] - table.iloc[1]) / (table.iloc[0] + (typical - 1) * table.iloc[1]), 0, 1)
    mean = (counts / (1 + (counts - 1) * alike)).mean()
    assert independent_targets(classes[:900], unit[:900]) == pytest.approx(mean)


def test_equal_targets_and_single_units_count_once():
    assert independent_targets(np.zeros(6), np.repeat([0, 1], 3)) == 1.0
    assert independent_targets(np.arange(3.0), np.zeros(3, dtype=int)) == 1.0
    assert independent_targets(np.arange(3.0), np.arange(3)) == 1.0


def test_a_weak_relation_of_independent_records_is_kept_and_one_of_units_by_chance_is_not():
    draw = np.random.default_rng(8)
    unit, weights = np.repeat(np.arange(200), 10), np.full(2000, 0.1)
    x = draw.normal(size=(2000, 3))
    weak = 0.15 * x[:, 0] + draw.normal(size=2000)
    for target, splits in ((weak, True), (draw.normal(size=200)[unit], False)):
        independent = independent_targets(target, unit)
        own = x if splits else draw.normal(size=(200, 3))[unit]
        assert (len(np.unique(grown(own, target, weights=weights, independent=independent).leaves)) > 1) == splits
        assert len(np.unique(grown(own, target, weights=weights).leaves)) == 1


def test_without_pruning_leaves_are_those_of_the_tree_itself():
    draw = np.random.default_rng(3)
    x = draw.normal(size=(400, 4)).astype(np.float32)
    y = x[:, 0] ** 2 + draw.normal(size=400)
    tree = grown(x, y, significance=1e9)
    reference = DecisionTreeRegressor(min_samples_leaf=20, random_state=0).fit(x, y)
    assert len(np.unique(tree.leaves)) == reference.get_n_leaves()


def test_a_relation_of_two_predictors_that_shows_in_neither_alone_is_kept():
    draw = np.random.default_rng(4)
    x = draw.normal(size=(2000, 2))
    y = (x[:, 0] > 0) ^ (x[:, 1] > 0)
    tree = grown(x, y)
    donors = tree.donors(tree.leaf_of(np.float32(x)), draw)
    assert (y[donors] == y).mean() > 0.9


def test_levels_are_ordered_by_what_they_say_of_the_target():
    draw = np.random.default_rng(5)
    codes = draw.integers(0, 12, 5000)
    effect = draw.permutation(12).astype(float)
    first = level_scores(codes, target_groups(effect[codes] + draw.normal(size=5000)), 12)[:, 0]
    assert abs(np.corrcoef(first, effect)[0, 1]) > 0.95


def test_a_level_that_hardly_anybody_holds_lies_near_the_mean_of_all():
    codes = np.concatenate([np.repeat([0, 1], 500), [2]])
    target = np.concatenate([np.repeat([0, 1], 500), [1]])
    scores = level_scores(codes, target_groups(target), 4)[:, 0]
    assert abs(scores[2]) < 0.25 * abs(scores[1])
    assert scores[3] == pytest.approx(0, abs=1e-12)


def test_a_line_in_a_leaf_carries_what_the_leaf_is_too_wide_for_and_chance_gives_none():
    draw = np.random.default_rng(6)
    x = np.column_stack(
        [draw.normal(size=200), np.r_[draw.normal(size=100), np.zeros(100)], np.repeat([0.0, 1.0], 100)]
    )
    y = 10 * x[:, 2] + np.where(x[:, 2] == 0, 3 * x[:, 1] + 0.1 * draw.normal(size=200), draw.normal(size=200))
    tree = grown(x, y, least=80)
    lines = leaf_lines(tree, x, y, 0.001)
    assert lines.predictor[0] == 1
    assert lines.slope == pytest.approx([3, 0], abs=0.1)
    rest = y - lines.at(x, tree.leaf_of(x))
    assert rest[:100].std() < 0.2
    assert rest.mean() == pytest.approx(y.mean())


def test_a_line_grows_from_0_at_the_border_of_its_test():
    """As F grows past what chance gives at most, c, a line has 1 − c / F of its full slope."""
    draw = np.random.default_rng(8)
    x, noise = draw.normal(size=(400, 1)).astype(np.float32), draw.normal(size=400)
    tree = DonorTree.grow(x, noise, LeafRule(400, 0.05), rng=draw)
    for strength in np.linspace(0.0, 0.6, 13):
        y = strength * x[:, 0] + noise
        fitted = linregress(x[:, 0], y)
        found = (fitted.slope / fitted.stderr) ** 2
        kept = max(1 - f.isf(0.05, 1, 398) / found, 0.0)
        assert leaf_lines(tree, x, y, 0.05).slope[0] == pytest.approx(kept * fitted.slope, abs=1e-4)


@pytest.mark.parametrize("classes", [0, 4])
def test_a_tree_of_cells_is_the_one_of_every_cut_where_predictors_have_few_values(classes):
    draw = np.random.default_rng(6)
    x = np.float32(draw.normal(size=(4000, 5)).round(1))
    y = x[:, 0] + x[:, 1] * x[:, 2] + draw.normal(size=4000)
    target = np.digitize(y, [-1, 0, 1]) if classes else y
    weight = draw.choice([0.5, 1.0], 4000)
    every, cells = _Nodes.grow(x, target, weight, 20, 0), _Nodes._from_cells(x, target, weight, 20)
    pairs = set(zip(every.leaf_of(x).tolist(), cells.leaf_of(x).tolist(), strict=True))
    assert len(pairs) == (every.left < 0).sum() == (cells.left < 0).sum()
    assert every.impurity[0] == pytest.approx(cells.impurity[0])


def test_a_tree_of_cells_of_many_values_leaves_hardly_more_variance():
    draw = np.random.default_rng(7)
    x = np.float32(draw.normal(size=(60_000, 3)))
    x[:, 2] = np.arange(60_000) < 50
    y = x[:, 0] * x[:, 1] + 20 * x[:, 2] + draw.normal(size=60_000)
    tree = grown(x, y, least=40)
    reference = DecisionTreeRegressor(min_samples_leaf=40, random_state=0).fit(x, y)
    assert np.mean((y - reference.predict(x)) ** 2) == pytest.approx(tree.variance_within(y), rel=0.1)
    leaf = tree.leaf_of(x)
    assert not set(leaf[:50]) & set(leaf[50:])
