import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from anoncore.errors import AnonymizationError, InfeasibleError
from anoncore.kernels.wavelet import decompose, pad_signal, reconstruction_matrix
from anoncore.kernels.wavelet.redistribution import Goals, JointRoute, PaperRoute, redistribute, round_to_total
from anoncore.kernels.wavelet.signal_model import SignalModel

Q = np.array([30, 5, 80, 12, 9, 41, 6, 217])
AREAS = [f"area {letter}" for letter in "abcdefgh"]


def detail(signal, wavelet="db2", level=2):
    return decompose(np.asarray(signal, dtype=float), wavelet, level).detail


# -- optimality


def test_no_goals_change_nothing():
    found = redistribute(Q, Goals())
    assert found.target.tolist() == Q.tolist()
    assert found.beta == pytest.approx(1)
    assert found.agreement == pytest.approx(1)
    assert found.moved == 0


def test_unrounded_counts_are_a_share_of_the_details_on_another_approximation():
    found = redistribute(Q, Goals(caps={7: 50}))
    expected = reconstruction_matrix(8, "db2", 2) @ found.coefficients + found.beta * detail(Q)
    np.testing.assert_allclose(found.unrounded, expected, atol=1e-6)
    np.testing.assert_allclose(detail(found.unrounded), found.beta * detail(Q), atol=1e-6)


@pytest.mark.parametrize("wavelet", ["haar", "db2"])
def test_share_and_moves_against_a_grid(wavelet):
    """Two coefficients whose sum the total fixes: one coefficient and the share remain to be searched."""
    q = np.array([10.0, 0.0, 14.0, 60.0])
    M, D = reconstruction_matrix(4, wavelet, 1), detail(q, wavelet, 1)
    total = q.sum() / np.sqrt(2)
    first, share = np.meshgrid(np.linspace(-40, 120, 3201), np.linspace(0, 1, 1001), indexing="ij")
    counts = first[..., None] * M[:, 0] + (total - first[..., None]) * M[:, 1] + share[..., None] * D
    good = (counts >= -1e-9).all(axis=-1) & (counts[..., 3] <= 35)
    found = redistribute(q, Goals(caps={3: 35}), SignalModel(wavelet, 1))
    assert found.beta == pytest.approx(share[good].max(), abs=0.003)
    for fixed in (0.0, 0.25):
        row = np.isclose(share, fixed) & good
        fewest = np.abs(counts[row] - q).sum(axis=-1).min() / 2
        at = redistribute(q, Goals(caps={3: 35}), SignalModel(wavelet, 1), route=JointRoute(share=fixed))
        assert at.beta == pytest.approx(fixed)
        assert np.abs(at.unrounded - q).sum() / 2 == pytest.approx(fewest, abs=0.1)
        assert np.abs(at.unrounded - q).sum() / 2 <= fewest + 1e-6


def test_largest_share_against_a_general_optimiser():
    M, D = reconstruction_matrix(8, "db2", 2), detail(Q)
    goals = Goals(caps={7: 90}, raises={4: 20}, protected=(2,))
    R = np.column_stack([M, D])
    conditions = [
        {"type": "eq", "fun": lambda x: (R @ x).sum() - Q.sum()},
        {"type": "ineq", "fun": lambda x: R @ x},
        {"type": "ineq", "fun": lambda x: np.array([90 - R[7] @ x, R[4] @ x - 20, 80 - R[2] @ x])},
    ]
    general = minimize(lambda x: -x[-1], np.zeros(3), bounds=[(None, None)] * 2 + [(0, 1)], constraints=conditions)
    assert general.success
    assert redistribute(Q, goals).beta == pytest.approx(-general.fun, abs=1e-6)


def test_weights_decide_whose_records_move():
    goals = Goals(caps={7: 90})
    plain = redistribute(Q, goals, route=JointRoute(share=0.1))
    dear = np.ones(8)
    dear[2] = 50.0
    weighted = redistribute(Q, goals, route=JointRoute(share=0.1, weights=dear))
    assert abs(weighted.unrounded[2] - Q[2]) <= abs(plain.unrounded[2] - Q[2])
    assert weighted.moved >= plain.moved
    cost = [np.abs(r.unrounded - Q) @ dear for r in (weighted, plain)]
    assert cost[0] <= cost[1] + 1e-6


def test_moves_are_a_convex_function_of_the_share():
    goals = Goals(caps={7: 90})
    most = redistribute(Q, goals).beta
    moved = [
        np.abs(redistribute(Q, goals, route=JointRoute(share=share)).unrounded - Q).sum()
        for share in np.linspace(0, most - 1e-6, 7)
    ]
    assert (np.diff(moved, 2) >= -1e-5).all()
    assert np.ptp(moved) > 1


# -- invariants


@st.composite
def problems(draw):
    m = draw(st.sampled_from([4, 8, 12, 16]))
    q = np.array(draw(st.lists(st.integers(0, 500), min_size=m, max_size=m)))
    places = draw(st.permutations(range(m)))
    caps = {i: draw(st.floats(0, 500)) for i in places[: draw(st.integers(0, 2))]}
    raises = {i: draw(st.floats(0, 300)) for i in places[2 : 2 + draw(st.integers(0, 2))]}
    protected = tuple(places[-draw(st.integers(1, 3)) :]) if draw(st.booleans()) else ()
    room = np.array(draw(st.lists(st.integers(1, 400), min_size=m, max_size=m)))
    population = q + room if draw(st.booleans()) else None
    ratio = population is not None and draw(st.booleans())
    return q, Goals(caps=caps, raises=raises, protected=protected), population, ratio


@settings(max_examples=60, deadline=None)
@given(
    problems(),
    st.sampled_from(["haar", "db2", "sym4"]),
    st.integers(1, 2),
    st.sampled_from(["plain", "winsorised", "capped"]),
)
def test_targets_keep_every_goal(problem, wavelet, level, details):
    q, goals, population, ratio = problem
    try:
        found = redistribute(q, goals, SignalModel(wavelet, level, population=population, ratio=ratio), details=details)
    except InfeasibleError:
        assume(False)
    assert found.target.dtype.kind == "i"
    assert found.target.sum() == q.sum()
    assert (found.target >= 0).all()
    assert all(found.target[i] <= cap for i, cap in goals.caps.items())
    assert all(found.target[i] >= least for i, least in goals.raises.items())
    assert all(found.target[i] <= q[i] for i in goals.protected)
    assert population is None or (found.target <= population).all()
    assert (np.abs(found.target - found.unrounded) < 1 + 1e-6).all()
    assert 0 <= found.beta <= 1 + 1e-9
    assert found.moved == np.abs(found.target - q).sum() / 2
    assert found.unmet == ()
    if details == "plain":
        base = population if ratio else np.ones(len(q))
        wanted = found.beta * detail(q / base, wavelet, level)
        np.testing.assert_allclose(
            detail(found.unrounded / base, wavelet, level), wanted, atol=1e-6 * max(1, np.abs(wanted).max())
        )


def test_same_input_same_output():
    first, second = (redistribute(Q, Goals(caps={7: 90}), details="winsorised") for _ in range(2))
    assert first.unrounded.tobytes() == second.unrounded.tobytes()


def test_large_and_small_totals():
    for factor in (1, 1000, 1_000_000):
        found = redistribute(Q * factor, Goals(caps={7: 90 * factor}))
        assert found.target.sum() == Q.sum() * factor
        assert found.beta == pytest.approx(redistribute(Q, Goals(caps={7: 90})).beta, abs=1e-7)
    nobody = redistribute(np.zeros(8, dtype=int), Goals(caps={0: 3}))
    assert not nobody.target.any()
    assert nobody.agreement == 1


# -- ratio signals


def test_ratio_signals_have_the_details_of_the_ratio_and_whole_counts():
    heads = np.array([100, 40, 900, 60, 50, 300, 45, 400])
    found = redistribute(Q, Goals(caps={7: 120}), SignalModel(population=heads, ratio=True))
    kept = found.beta * detail(Q / heads)
    np.testing.assert_allclose(detail(found.unrounded / heads), kept, atol=1e-9)
    ratio = reconstruction_matrix(8, "db2", 2) @ found.coefficients + kept
    np.testing.assert_allclose(ratio * heads, found.unrounded, atol=1e-6)
    assert found.target.sum() == Q.sum()
    assert (found.target <= heads).all()
    plain = redistribute(Q, Goals(caps={7: 120}), SignalModel(population=heads))
    assert not np.allclose(plain.unrounded, found.unrounded, atol=0.5)


def test_equal_populations_make_no_difference():
    goals = Goals(caps={7: 90}, raises={1: 10})
    counts, ratio = (
        redistribute(Q, goals, SignalModel(population=np.full(8, 5000), ratio=ratio)) for ratio in (False, True)
    )
    np.testing.assert_allclose(counts.unrounded, ratio.unrounded, atol=1e-5)
    assert counts.beta == pytest.approx(ratio.beta)
    np.testing.assert_allclose(counts.coefficients, ratio.coefficients * 5000, atol=1e-5)


def test_counts_stay_within_the_population():
    open_ = redistribute(Q, Goals(caps={7: 30}), SignalModel(level=1))
    tight = np.maximum(Q, open_.target.max() - 5)
    assert (open_.target > tight).any()
    found = redistribute(Q, Goals(caps={7: 30}), SignalModel(level=1, population=tight))
    assert (found.target <= tight).all()
    assert found.target.sum() == Q.sum()
    assert found.beta <= open_.beta + 1e-9


def test_an_area_without_population_stays_empty():
    q, heads = np.array([5, 0, 30, 8]), np.array([50, 0, 100, 90])
    found = redistribute(q, Goals(caps={2: 12}), SignalModel(level=1, population=heads, ratio=True))
    assert found.target[1] == 0
    assert found.target.sum() == 43


# -- padding


@pytest.mark.parametrize("pad", ["zero", "repeat"])
@pytest.mark.parametrize("m", [29, 30, 31])
def test_padded_results_have_the_details_by_the_same_rule(pad, m):
    q = np.random.default_rng(0).poisson(20, m)
    q[12] = 300
    found = redistribute(q, Goals(caps={12: 90}), SignalModel(pad=pad))
    assert len(found.target) == m
    assert found.target.sum() == q.sum()
    before, after = (decompose(pad_signal(x, 2, pad), "db2", 2).detail for x in (q.astype(float), found.unrounded))
    np.testing.assert_allclose(after, found.beta * before, atol=1e-6)
    assert found.beta > 0.1


def test_lengths_are_refused_without_padding():
    with pytest.raises(AnonymizationError, match=r"10 positions.*multiple of 4"):
        redistribute(np.ones(10), Goals())


# -- goals that conflict


PLAIN = SignalModel()


def message(goals, model=PLAIN, **options):
    with pytest.raises(InfeasibleError) as caught:
        redistribute(Q, replace(goals, names=AREAS), model, **options)
    return str(caught.value)


def test_a_cap_and_a_raise_of_one_area():
    said = message(Goals(caps={7: 90, 2: 60}, raises={2: 61}))
    assert "cap of area c, raise of area c;" in said
    assert "area h" not in said


def test_a_single_impossible_goal():
    assert "cannot be met: raise of area b;" in message(Goals(raises={1: 401}, caps={7: 90}))
    assert "cannot be met: raise of area b;" in message(
        Goals(raises={1: 50}), SignalModel(population=np.maximum(Q, 40))
    )


def test_everything_capped():
    """In pairs of equal approximation, one cap per pair suffices for a contradiction."""
    said = message(Goals(caps=dict.fromkeys(range(8), 49)), SignalModel("haar", 1))
    assert said.count("cap of") == 4


def test_positions_left_over_are_protected_when_free_ones_are_named():
    goals = Goals(caps={7: 90}, free=(0,))
    assert goals.protected_positions(8) == [1, 2, 3, 4, 5, 6]
    assert Goals(caps={7: 90}).protected_positions(8) == []
    assert "protection of" in message(goals)


def test_free_and_bound_at_once():
    with pytest.raises(AnonymizationError, match=r"positions \[2\] are named free"):
        Goals(caps={2: 1}, free=(2, 3))


def test_full_areas_leave_no_room_for_other_details():
    """Every area is full, so only the original counts fit, and their details are not the winsorised ones."""
    assert "even without any goal" in message(Goals(), SignalModel(population=Q), details="winsorised")


def test_a_share_that_is_too_large_says_so():
    assert "with a share of details of 1" in message(Goals(caps={7: 90}), route=JointRoute(share=1.0))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_conflicts_are_irreducible(data):
    """By brute force: what is named cannot be met, and without any one of it can."""
    m = 8
    q = np.array(data.draw(st.lists(st.integers(0, 90), min_size=m, max_size=m)))
    caps = data.draw(st.dictionaries(st.integers(0, m - 1), st.integers(0, 30), max_size=5))
    raises = data.draw(st.dictionaries(st.integers(0, m - 1), st.integers(20, 90), max_size=5))

    def possible(caps, raises, protected):
        try:
            redistribute(q, Goals(caps=caps, raises=raises, protected=protected))
        except InfeasibleError as error:
            return str(error)
        return ""

    said = possible(caps, raises, (3,))
    assume(said)
    named = said.split(": ")[1].split(";")[0].split(", ")
    parsed = [(name.split(" of ")[0], int(name.split(" of ")[1])) for name in named]

    def chosen(which):
        return (
            {i: caps[i] for kind, i in which if kind == "cap"},
            {i: raises[i] for kind, i in which if kind == "raise"},
            tuple(i for kind, i in which if kind == "protection"),
        )

    assert possible(*chosen(parsed))
    for fewer in itertools.combinations(parsed, len(parsed) - 1):
        assert not possible(*chosen(fewer))


# -- the other route, other details


def test_paper_route_without_coefficients():
    found = redistribute(Q, Goals(caps={7: 60}, raises={1: 5}), route=PaperRoute())
    assert found.target.sum() == Q.sum()
    assert (found.target >= 0).all()
    np.testing.assert_allclose(detail(found.unrounded), found.beta * detail(Q), atol=1e-6)
    expected = reconstruction_matrix(8, "db2", 2) @ found.coefficients + found.beta * detail(Q)
    np.testing.assert_allclose(found.unrounded, expected, atol=1e-6)


def test_paper_route_reports_goals_that_shift_and_scale_break():
    found = redistribute(Q, Goals(caps={7: 60}, names=AREAS), route=PaperRoute(shift=5000.0))
    assert found.unmet == () or found.unmet == ("cap of area h",)
    assert (found.target[7] > 60) == bool(found.unmet)
    capped = redistribute(Q, Goals(caps={7: 10}, names=AREAS), route=PaperRoute(shift=500.0))
    assert capped.unmet == ("cap of area h",)


def test_paper_route_of_a_ratio_signal():
    heads = np.array([100, 40, 900, 60, 50, 300, 45, 400])
    found = redistribute(Q, Goals(caps={7: 120}), SignalModel(population=heads, ratio=True), route=PaperRoute())
    assert found.target.sum() == Q.sum()
    np.testing.assert_allclose(detail(found.unrounded / heads), found.beta * detail(Q / heads), atol=1e-9)


def test_details_of_a_winsorised_signal():
    plain, fenced = (redistribute(Q, Goals(caps={7: 40}), details=d) for d in ("plain", "winsorised"))
    low, high = np.percentile(Q, [25, 75])
    source = np.clip(Q, None, high + 1.5 * (high - low))
    source[7] = 40
    np.testing.assert_allclose(detail(fenced.unrounded), fenced.beta * detail(source), atol=1e-6)
    assert fenced.beta > plain.beta
    assert fenced.agreement < plain.agreement


# -- rounding


@settings(max_examples=80)
@given(
    st.lists(st.tuples(st.floats(0, 4), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4),
    st.integers(0, 12),
)
def test_rounding_is_nearest_of_all_admissible_integers(cells, total):
    values, low, extra = (np.array(column) for column in zip(*cells, strict=True))
    high = low + extra
    grid = [
        choice
        for choice in itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))
        if sum(choice) == total
    ]
    if not grid:
        with pytest.raises(InfeasibleError, match="no integers"):
            round_to_total(values, total, low, high)
        return
    found = round_to_total(values, total, low, high)
    assert tuple(found) in grid
    best = min(((np.array(choice) - values) ** 2).sum() for choice in grid)
    assert ((found - values) ** 2).sum() == pytest.approx(best, abs=1e-5)


def test_rounding_is_the_largest_remainder_without_bounds():
    assert round_to_total(np.array([2.5, 1.3, 0.2]), 4).tolist() == [3, 1, 0]
    assert round_to_total(np.array([2.999999999, 1.0, 0.000000001]), 4).tolist() == [3, 1, 0]
    assert round_to_total(np.full(4, 0.25), 1).tolist() == [1, 0, 0, 0]
