"""MDAV and fuzzy microaggregation on microdata: edits, gaps, blocks, and the promises that are checked."""

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import (
    AnonymizationError,
    BoundEdit,
    Condition,
    ConditionalEdit,
    EditSet,
    InfeasibleError,
    LinearEdit,
    Microdata,
    RatioEdit,
    Schema,
    Variable,
)
from anoncore.methods import MDAV, FuzzyMicroaggregation
from anoncore.microaggregation import blocks, corrected_covariance, linked_across_blocks, variances_kept

EDITS = EditSet(
    [
        LinearEdit(name="gross", terms={"net": 1, "tax": 1, "gross": -1}),
        LinearEdit(name="days", terms={"work": 1, "leave": 1}, constant=365),
        BoundEdit(name="tax", variable="tax", lower=0),
        BoundEdit(name="leave", variable="leave", lower=0),
        RatioEdit(name="rate", numerator="tax", denominator="net", upper=2),
    ]
)


def businesses(n: int = 400, gaps: float = 0.05) -> Microdata:
    """Sums that a tenth of the raw records break, zeros at a bound, gaps, and variables with levels."""
    rng = np.random.default_rng(5)
    net = np.exp(rng.normal(9, 1.0, n)).round(2)
    tax = np.where(rng.random(n) < 0.3, 0.0, (net * rng.uniform(0, 0.5, n)).round(2))
    wrong = np.where(rng.random(n) < 0.1, rng.normal(0, 300, n), 0.0)
    leave = rng.integers(0, 60, n).astype(float)
    frame = pd.DataFrame(
        {
            "net": net,
            "tax": np.where(rng.random(n) < gaps, np.nan, tax),
            "gross": (net + tax + wrong).round(2),
            "work": 365 - leave,
            "leave": leave,
            "size": rng.choice(["small", "mid", "large"], n, p=[0.6, 0.3, 0.1]),
            "sector": rng.choice(list("ABCD"), n),
        },
        index=pd.RangeIndex(1000, 1000 + n),
    )
    numbers = [Variable(v, "continuous") for v in ("net", "tax", "gross", "work", "leave")]
    levels = [
        Variable("size", "ordinal", levels=("small", "mid", "large")),
        Variable("sector", "nominal"),
    ]
    return Microdata(frame, Schema([*numbers, *levels]))


def masked(data, params, edits=EDITS, seed=1):
    return anoncore.anonymize(data, params, rng=np.random.default_rng(seed), edits=edits)


METHODS = [
    MDAV(k=5),
    FuzzyMicroaggregation(k=5),
    FuzzyMicroaggregation(k=5, lambda1=0.5),
    FuzzyMicroaggregation(k=5, form="fcm", m1=1.1, m2=1.3, sweeps=20),
    FuzzyMicroaggregation(k=5, form="entropy", lambda1=3.0, lambda2=1.0, sweeps=20),
]


@pytest.mark.parametrize("params", METHODS, ids=str)
def test_edits_that_the_raw_data_break_hold_in_every_record(params):
    data = businesses()
    assert EDITS.violations(data.frame)["gross"] > 20
    released = masked(data, params).data
    assert EDITS.violations(released.frame) == dict.fromkeys(EDITS.violations(data.frame), 0)
    frame = released.frame.dropna()
    assert (np.abs(frame.net + frame.tax - frame.gross) <= 1e-9 * frame.gross.abs()).all()
    assert (frame.work + frame.leave == 365).all()
    assert released.frame.tax.min() >= 0


@pytest.mark.parametrize("params", METHODS, ids=str)
def test_numbers_keep_the_precision_of_the_source(params):
    released = masked(businesses(), params).data
    for name, unit in (("net", 0.01), ("tax", 0.01), ("gross", 0.01), ("leave", 1.0)):
        values = released.frame[name].dropna().to_numpy()
        assert np.abs(values / unit - np.rint(values / unit)).max() < 1e-6, name


@pytest.mark.parametrize("params", METHODS, ids=str)
def test_nothing_of_the_input_is_changed_and_the_same_seed_gives_the_same(params):
    data = businesses()
    before = data.frame.copy(deep=True)
    one, again = masked(data, params), masked(data, params)
    pd.testing.assert_frame_equal(data.frame, before)
    pd.testing.assert_frame_equal(one.data.frame, again.data.frame)
    assert list(one.data.frame.index) == list(before.index)


def test_balanced_groups_hold_exactly_k_the_remainder_spread():
    data = businesses(403)
    release = masked(data, FuzzyMicroaggregation(k=5))
    sizes = release.data.frame.groupby(list(release.data.frame), dropna=False, observed=True).size()
    assert sizes.sum() == 403
    assert sizes.min() >= 5
    # Two centres may be rounded to one; no group is smaller, and nearly all hold 5 or 6.
    assert np.isin(sizes, (5, 6)).mean() > 0.9
    checks = {type(c).__name__: c.check(release.data) for c in release.claims}
    assert set(checks) == {"KAnonymity", "LinkagePosterior", "EffectiveRecords"}
    assert all(check.holds for check in checks.values())
    assert checks["LinkagePosterior"].figures["worst_posterior"] <= 1 / 5 + 1e-6
    assert checks["LinkagePosterior"].figures["share_above"] == 0.0
    assert checks["EffectiveRecords"].figures["fewest_effective_records"] >= 5 - 1e-6


def test_the_promise_of_the_balanced_form_holds_at_any_fuzziness():
    for lam in (0.05, 0.5, 5.0, 500.0):
        release = masked(businesses(), FuzzyMicroaggregation(k=5, lambda1=lam))
        assert all(check.holds for check in release.check()), lam


@pytest.mark.parametrize(
    "params",
    [
        FuzzyMicroaggregation(k=5, form="fcm", m1=1.1, m2=1.2),
        FuzzyMicroaggregation(k=5, form="entropy", lambda1=20.0),
    ],
    ids=str,
)
def test_a_setting_that_breaks_its_promise_fails_its_check(params):
    release = masked(businesses(), params)
    linkage = next(c for c in release.check() if "linked" in c.claim)
    assert not linkage.holds
    assert linkage.figures["share_above"] > 0.05
    assert "above 1/5" in linkage.observed


def test_the_papers_guarantee_needs_so_large_an_m2_that_all_is_lost():
    # As m2 grows the posterior falls and the loss approaches that of releasing the mean.
    found = [masked(businesses(), FuzzyMicroaggregation(k=5, form="fcm", m1=1.1, m2=m2)) for m2 in (1.2, 2.0, 50.0)]
    worst = [r.claims[0].check(r.data).figures["worst_posterior"] for r in found]
    loss = [r.figures["information_loss"] for r in found]
    assert worst[0] > worst[1] > worst[2]
    assert loss[0] < loss[1] < loss[2]
    assert worst[0] > 0.9
    assert loss[2] > 100.0


def test_less_is_lost_than_with_mdav_or_hardly_more():
    data = businesses(800, gaps=0.0)
    ours = masked(data, FuzzyMicroaggregation(k=5)).figures["information_loss"]
    theirs = masked(data, MDAV(k=5)).figures["information_loss"]
    assert ours <= 1.1 * theirs


def test_analysts_get_variances_and_covariances_nearly_back():
    data = businesses(gaps=0.0)
    release = masked(data, MDAV(k=10))
    names = ["net", "tax", "gross", "work"]
    kept = variances_kept(data, release.data, 10)
    assert any(f"net {kept['net']:g}" in note for note in release.notes)
    true, after = (one.frame[names].astype(float).cov() for one in (data, release.data))
    given_back = corrected_covariance(after, kept)
    np.testing.assert_allclose(np.diag(given_back), np.diag(true), rtol=0.12)
    error = [np.abs(one - true).to_numpy()[np.triu_indices(4, 1)] for one in (given_back, after)]
    assert error[0].sum() < 0.6 * error[1].sum()


def test_no_published_share_or_note_depends_on_the_outermost_values():
    data = businesses(gaps=0.0)
    release = masked(data, MDAV(k=10))
    further = data.frame.copy()
    further.loc[further["net"].nlargest(10).index, "net"] *= 100
    kept = variances_kept(data, release.data, 10)
    assert variances_kept(Microdata(further, data.schema), release.data, 10) == kept
    assert variances_kept(data, release.data, 41) == {}
    assert not any(
        "SSE" in note for params in (MDAV(k=10), FuzzyMicroaggregation()) for note in masked(data, params).notes
    )


def test_blocks_are_intersected_as_by_brute_force():
    draw = np.random.default_rng(5)
    u = [draw.dirichlet(np.ones(4) / 4, 30) for _ in range(2)]
    labels = [np.array([draw.choice(4, p=row) for row in part]) for part in u]
    likelihood = u[0][:, labels[0]] * u[1][:, labels[1]]
    best = likelihood >= likelihood.max(axis=1, keepdims=True) * (1 - 1e-9)
    expected = (np.diag(best) / best.sum(axis=1)).mean()
    assert linked_across_blocks(labels, [part.__getitem__ for part in u], draw) == pytest.approx(expected)


def test_groups_are_released_with_a_gap_or_without_as_a_whole():
    data = businesses(gaps=0.2)
    for params in (MDAV(k=5), FuzzyMicroaggregation(k=5)):
        released = masked(data, params).data
        share = released.frame.tax.isna().mean()
        assert 0.1 < share < 0.3
        assert anoncore.KAnonymity(k=5).check(released).holds


def test_blocks_lose_less_and_say_that_k_is_lost_over_them():
    data = businesses()
    parts = (("net", "tax", "gross"), ("work", "leave"))
    for method in (MDAV, FuzzyMicroaggregation):
        whole, blockwise = masked(data, method(k=5)), masked(data, method(k=5, blocks=parts))
        assert blockwise.figures["information_loss"] < 0.6 * whole.figures["information_loss"]
        claim = blockwise.claims[0]
        assert claim.blocks == (*parts, ("size", "sector"))
        check = claim.check(blockwise.data)
        assert check.holds
        assert check.figures["joint_k"] == 1
        assert blockwise.figures["linked_across_blocks"] > 0.5
        assert "linked_across_blocks" not in whole.figures
        assert "on all together: 1" in check.observed
        assert EDITS.violations(blockwise.data.frame)["gross"] == 0


def test_an_edit_that_spans_blocks_is_refused_by_name():
    for method in (MDAV, FuzzyMicroaggregation):
        params = method(k=5, blocks=(("net", "tax"), ("gross",)))
        with pytest.raises(AnonymizationError, match=r"edit\(s\) gross stand in different blocks"):
            masked(businesses(), params)
        assert "gross" in params.problems(businesses().schema, EDITS)[0]


@pytest.mark.parametrize(
    ("blocks", "said"),
    [((("net", "nobody"),), "nobody is not released"), ((("net",), ("net",)), "net stands in more than one")],
)
def test_blocks_name_each_variable_once(blocks, said):
    with pytest.raises(AnonymizationError, match=said):
        masked(businesses(), MDAV(k=5, blocks=blocks), EditSet())


def test_centres_keep_edits_under_conditions_before_any_repair():
    rng = np.random.default_rng(2)
    age = rng.uniform(0, 80, 240).round()
    income = np.where(age > 15, rng.lognormal(3, 0.6, 240), 0.0)
    truth = np.column_stack([age, income, income * rng.uniform(0, 0.3, 240)])
    noisy = (truth + rng.normal(0, [4, 4, 1], truth.shape)).round(2)
    names = ("age", "income", "tax")
    data = Microdata(pd.DataFrame(noisy, columns=list(names)), Schema(Variable(n, "continuous") for n in names))
    children = Condition(variable="age", upper=15)
    edits = EditSet(
        [
            ConditionalEdit(name="children", when=(children,), then=Condition(variable="income", values=(0,))),
            LinearEdit(name="tax", terms={"tax": 1}, when=(Condition(variable="income", values=(0,)),)),
        ]
    )
    release = masked(data, FuzzyMicroaggregation(k=5), edits)
    assert edits.satisfied(release.data.frame).all()
    assert all(check.holds for check in release.check())
    block = next(blocks(data, (), edits))
    centres = block.constrain(block.matrix[::5])
    decoded = block.encoder.decode(
        centres, form="mode", groups=np.arange(len(centres)), index=pd.RangeIndex(len(centres))
    )
    assert edits.satisfied(decoded.frame).all()


def test_contradicting_edits_are_refused_by_name():
    edits = EditSet(
        [
            LinearEdit(name="sum", terms={"work": 1, "leave": 1}, constant=365),
            BoundEdit(name="much work", variable="work", lower=300),
            BoundEdit(name="much leave", variable="leave", lower=100),
            BoundEdit(name="idle", variable="tax", lower=0),
        ]
    )
    for params in (MDAV(k=5), FuzzyMicroaggregation(k=5)):
        with pytest.raises(InfeasibleError, match="together: sum, much work, much leave"):
            masked(businesses(), params, edits)


def test_too_few_records_are_refused():
    data = businesses().take(np.arange(4))
    for params in (MDAV(k=5), FuzzyMicroaggregation(k=5)):
        with pytest.raises(AnonymizationError, match="needs as many records, got 4"):
            masked(data, params, EditSet())
    with pytest.raises(AnonymizationError, match="at most the 400 records"):
        masked(businesses(), FuzzyMicroaggregation(k=5, form="fcm", clusters=401))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"k": 1}, "k must be at least 2, got 1"),
        ({"m1": 1.5}, "m1 has no meaning for form: balanced"),
        ({"form": "fcm", "m1": 0.5}, "m1 must be at least 1"),
        ({"form": "fcm", "lambda1": 1.0}, "lambda1 has no meaning for form: fcm"),
        ({"form": "entropy", "lambda2": 0.0}, "lambda2 must be above 0"),
        ({"clusters": 4}, "clusters: the balanced form"),
        ({"form": "fcm", "clusters": 0}, "clusters must be at least 1"),
        ({"sweeps": 0}, "sweeps must be at least 1"),
    ],
)
def test_parameters_check_themselves(wrong, said):
    with pytest.raises(AnonymizationError, match=said):
        FuzzyMicroaggregation(**wrong)


def test_two_runs_with_other_seeds_differ_in_who_gets_which_centre():
    data = businesses()
    one, other = (masked(data, FuzzyMicroaggregation(k=5, lambda1=0.5), seed=s).data.frame for s in (1, 2))
    assert not one.equals(other)


def test_a_constant_variable_and_one_without_values_come_back_as_they_were():
    frame = pd.DataFrame({"x": np.arange(40.0), "c": 7.0, "e": np.nan})
    data = Microdata(frame, Schema([Variable(v, "continuous") for v in "xce"]))
    for params in (MDAV(k=4), FuzzyMicroaggregation(k=4)):
        released = masked(data, params, EditSet()).data.frame
        assert (released.c == 7.0).all()
        assert released.e.isna().all()
        assert released.x.nunique() <= 10


@pytest.mark.parametrize("seed", range(4))
def test_no_lonely_record_is_released_as_it_is(seed):
    x = np.random.default_rng(seed).pareto(0.5, (200, 2)).round(2)
    data = Microdata(pd.DataFrame(x, columns=["a", "b"]), Schema([Variable(v, "continuous") for v in "ab"]))
    for lam in (None, 1e4, 1e6):
        released = masked(data, FuzzyMicroaggregation(k=5, lambda1=lam, sweeps=5), EditSet()).data.frame
        assert not set(map(tuple, released.to_numpy())) & set(map(tuple, x))


def test_blocks_do_not_promise_linkage_over_all_variables():
    release = masked(businesses(), FuzzyMicroaggregation(k=5, blocks=(("work", "leave"),)))
    assert "within each of 2 blocks of variables, not on all together" in release.claims[1].statement


def test_forms_that_draw_record_by_record_promise_an_average_and_nothing_for_coinciding_centres():
    data = businesses(100, gaps=0.0)
    release = masked(data, FuzzyMicroaggregation(k=5, form="fcm", m1=6.0, m2=50.0, sweeps=50))
    linkage = release.claims[0].check(release.data)
    assert "on average over the drawings" in linkage.claim
    assert linkage.figures["distinct_centres"] < linkage.figures["centres"]
    assert not linkage.holds


def test_a_ratio_does_not_force_its_denominator_above_zero():
    rng = np.random.default_rng(3)
    b = rng.uniform(-10, 10, 400)
    frame = pd.DataFrame({"a": rng.uniform(0, 1, 400), "b": np.where((b > 0) & (b < 2), 3.0, b)})
    edits = EditSet([RatioEdit(name="r", numerator="a", denominator="b", upper=0.5)])
    data = Microdata(frame, Schema([Variable("a", "continuous"), Variable("b", "continuous")]))
    for params in (MDAV(k=5), FuzzyMicroaggregation(k=5)):
        released = masked(data, params, edits).data.frame
        assert released.b.min() < -5
        assert edits.violations(released) == {"r": 0}


def test_tables_in_which_nothing_varies_come_back():
    frame = pd.DataFrame({"c": np.full(20, 0.1), "e": np.nan})
    data = Microdata(frame, Schema([Variable("c", "continuous"), Variable("e", "continuous")]))
    for params in (MDAV(k=4), FuzzyMicroaggregation(k=4), FuzzyMicroaggregation(k=4, form="fcm")):
        release = masked(data, params, EditSet())
        assert (release.data.frame.c == 0.1).all()
        assert release.figures["information_loss"] == 0.0


def test_a_computed_variable_may_be_named_in_a_block_and_edits_on_it_tie_its_parts():
    computed = LinearEdit(name="sum", terms={"net": 1, "tax": 1, "gross": -1}, dependent="gross")
    schema = businesses().schema
    whole = MDAV(k=5, blocks=(("net", "tax", "gross"),))
    apart = MDAV(k=5, blocks=(("net",), ("tax",)))
    assert whole.problems(schema, EditSet([computed])) == []
    assert apart.problems(schema, EditSet([computed])) == []
    bound = BoundEdit(name="limit", variable="gross", upper=1e6)
    assert "limit" in apart.problems(schema, EditSet([computed, bound]))[0]
