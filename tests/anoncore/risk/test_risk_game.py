"""The in/out game: methods with known answers, and the statistics beside brute force."""

import math

import numpy as np
import pandas as pd
import pytest

from anoncore import AnonymizationError, Microdata, Schema, Variable
from anoncore.recoding import Recoding, recoded
from anoncore.risk import GameSettings, ShadowRelease, choose_targets, play
from anoncore.risk._rounds import Placements, epsilon, true_positives
from anoncore.risk._target_scores import TargetScores
from anoncore.risk._values import SortedValues, aligned_values

LEVELS = tuple("abcde")
SCHEMA = Schema([*(Variable(f"x{j}", "continuous") for j in range(3)), Variable("c", "nominal", levels=LEVELS)])


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(np.round(rng.gamma(2.0, 2.0, (n, 3)), 2), columns=["x0", "x1", "x2"])
    frame["c"] = rng.choice(LEVELS, n)
    return Microdata(frame.mask(rng.random(frame.shape) < 0.03), SCHEMA)


PEOPLE = table(120)


def unmasked(data, rng):
    return data


def independent(data, rng):
    return table(60, seed=int(rng.integers(2**31)))


def noisy(data, rng):
    frame = data.frame.copy()
    for name in ("x0", "x1", "x2"):
        frame[name] += rng.normal(0.0, 2.0, len(frame))
    return Microdata(frame, SCHEMA)


def game(mask, rounds=48, seed=3, **options):
    rng = np.random.default_rng(seed)
    targets = choose_targets(PEOPLE, isolated=6, random=6, rng=rng)
    return play(PEOPLE, mask, targets, settings=GameSettings(rounds=rounds), rng=rng, **options)


def test_a_release_of_the_records_themselves_is_told_without_error():
    played = game(unmasked)
    areas = {(one.score, one.group): one for one in played.game.areas}
    for group in ("isolated", "random"):
        assert areas["distance", group].mean == 1.0
        assert areas["agreement", group].true_positives == 1.0
        assert areas["distance", group].lower > 0.85
    assert played.game.epsilon > 0.5
    assert all(target.lower > 0.6 for target in played.targets)
    assert (played.game.n_people, played.game.n_targets, played.game.rounds) == (120, 12, 48)


def test_a_release_that_owes_nothing_to_the_people_is_told_as_by_guessing():
    found = game(independent, rounds=64).game
    assert all(abs(one.mean - 0.5) < 0.08 and one.lower < 0.5 < one.upper for one in found.areas)
    assert all(one.largest_lower < 0.5 for one in found.areas)
    assert found.epsilon == 0.0


def test_noise_lies_between_and_isolated_people_are_told_better_than_others():
    areas = {one.group: one for one in game(noisy, rounds=64).game.areas if one.score == "distance"}
    isolated, others = areas["isolated"], areas["random"]
    assert 0.55 < others.mean < isolated.mean < 0.99
    assert isolated.pooled < isolated.mean


def test_one_exact_value_is_found_and_named():
    def mask(data, rng):
        frame = independent(data, rng).frame.iloc[: len(data)].copy()
        frame["x1"] = data.frame["x1"].iloc[: len(frame)].to_numpy()
        return Microdata(frame, SCHEMA)

    first = game(mask).targets[0]
    assert first.score == "presence"
    assert first.drivers[0] == ("x1", pytest.approx(1.0, abs=0.5))
    assert sum(share for _, share in first.drivers) == pytest.approx(1.0)


def test_the_caller_can_stop_the_game():
    class Stop(Exception):
        pass

    seen = []

    def on_round(number):
        seen.append(number)
        if number == 3:
            raise Stop

    with pytest.raises(Stop):
        game(unmasked, on_round=on_round)
    assert seen == [1, 2, 3]


def test_all_records_of_a_unit_join_and_leave_together():
    units = np.arange(120) // 3
    rng = np.random.default_rng(0)
    people = PEOPLE.with_units(units)
    targets = choose_targets(people, isolated=5, random=5, rng=rng)
    assert len(np.unique(units[np.concatenate(list(targets.values()))])) == 10
    sizes = set()

    def mask(data, rng):
        held = np.bincount(units[data.frame.index], minlength=40)
        sizes.update(held.tolist())
        return data

    assert play(people, mask, targets, settings=GameSettings(rounds=32), rng=rng).game.n_people == 40
    assert sizes == {0, 3}


def test_records_of_an_isolated_unit_do_not_hide_each_other():
    rng = np.random.default_rng(1)
    places = np.concatenate([np.repeat(rng.normal(size=(60, 3)), 8, axis=0), rng.normal(size=(40, 3))])
    places[:40] += 30.0 * np.repeat(np.arange(1.0, 6.0), 8)[:, None]
    frame = pd.DataFrame(places + 0.001 * rng.normal(size=places.shape), columns=["x0", "x1", "x2"]).assign(c="a")
    people = Microdata(frame, SCHEMA).with_units(np.concatenate([np.arange(60).repeat(8), np.arange(60, 100)]))
    chosen = choose_targets(people, isolated=5, random=0, rng=rng)
    assert sorted(people.units[chosen["isolated"]]) == [0, 1, 2, 3, 4]


def test_variables_that_the_attacker_does_not_compare_change_nothing():
    def hidden(data, rng):
        frame = independent(data, rng).frame.iloc[: len(data)].copy()
        frame["x0"] = data.frame["x0"].iloc[: len(frame)].to_numpy()
        return Microdata(frame, SCHEMA)

    rng = np.random.default_rng(1)
    targets = choose_targets(PEOPLE, isolated=6, random=0, rng=rng)
    settings = GameSettings(rounds=48, variables=("x1", "x2", "c"))
    found = play(PEOPLE, hidden, targets, settings=settings, rng=rng).game
    assert found.worst("isolated").lower < 0.5
    assert found.worst("random") is None


def test_the_same_generator_gives_the_same_game():
    assert game(noisy, rounds=32).game == game(noisy, rounds=32).game


RECODINGS = (Recoding("c", {level: "ab" if level in "ab" else "cde" for level in LEVELS}),)


def coarse(data, rng):
    return ShadowRelease(recoded(data, RECODINGS), RECODINGS)


def test_targets_are_recoded_as_each_release_is():
    targets, settings = {"random": np.arange(12)}, GameSettings(rounds=32)
    one, other = (
        play(people, mask, targets, settings=settings, rng=np.random.default_rng(3)).game
        for people, mask in ((PEOPLE, coarse), (recoded(PEOPLE, RECODINGS), unmasked))
    )
    assert one == other
    assert one.worst("random").mean == 1.0


def test_a_release_in_levels_that_people_do_not_have_is_not_scored():
    with pytest.raises(AnonymizationError, match=r"^c: no released level is one that people have"):
        game(lambda data, rng: coarse(data, rng).data, rounds=32)


def test_values_are_aligned_level_by_level_as_record_by_record():
    released = table(90, seed=4).frame.assign(c=lambda frame: frame["c"].cat.rename_categories({"a": "a, b"}))
    released["c"] = released["c"].cat.add_categories(["z"]).fillna("z")
    released.loc[3, "c"] = np.nan
    letters = Variable("c", "nominal", levels=("a, b", "z", *"cbed"))
    other = Microdata(released, Schema([*SCHEMA.select(["x0", "x1", "x2"]), letters]))
    scores = TargetScores.of(PEOPLE.take(np.arange(20)), PEOPLE.take(np.arange(20, 120)), SCHEMA.names)
    for name in SCHEMA.names:
        places = []
        for pair in (scores._aligned(other, name), aligned_values([scores.asked, other], name)):
            lower, upper = SortedValues(pair[1]).interval(pair[0])
            places.append(upper - lower > 0)
        assert (places[0] == places[1]).all()


def test_placements_are_counted_pair_by_pair():
    rng = np.random.default_rng(0)
    scores, inside = rng.integers(0, 5, (20, 3)).astype(float), np.zeros((20, 3), dtype=bool)
    inside[:10] = True
    for j, area in enumerate(Placements.of(scores, inside).areas):
        one, other = scores[:10, j][:, None], scores[10:, j]
        assert area == pytest.approx(((one > other) + 0.5 * (one == other)).mean())


def test_bounds_of_the_mean_hold_where_scores_say_nothing_and_targets_depend_on_one_another():
    rng = np.random.default_rng(0)
    wrong, errors = 0, []
    for _ in range(120):
        scores = rng.normal(size=(64, 1)) * 3 + rng.normal(size=(64, 10))
        inside = rng.permuted(np.repeat([[True], [False]], 32, axis=0).repeat(10, axis=1), axis=0)
        bounds = Placements.of(scores, inside).mean_area(0.95, 1)
        wrong += not bounds.lower <= 0.5 <= bounds.upper
        errors.append(bounds.mean - 0.5)
    assert wrong < 120 * 0.05 + 3 * math.sqrt(120 * 0.05 * 0.95)
    assert abs(np.mean(errors)) < 0.01


def test_epsilon_stays_below_the_truth_and_nears_it():
    # Randomised response: a score is 1 with probability e^ε/(1 + e^ε) where the target is in, and else 0.
    rng = np.random.default_rng(0)
    inside = np.repeat([[True], [False]], 5000, axis=0)
    truth = 1.5
    kept = rng.random((10000, 1)) < 1.0 / (1.0 + math.exp(-truth))
    scores = (inside == kept) + rng.random((10000, 1))
    assert 0.8 * truth < epsilon(scores, inside, 0.01) < truth
    assert epsilon(rng.random((10000, 1)), inside, 0.01) == 0.0


def test_true_positives_are_counted_above_99_in_100_rounds_without_the_target():
    scores = np.concatenate([np.arange(95.0, 105.0), np.full(90, 99.5), np.arange(100.0)])[:, None]
    inside = np.repeat([[True], [False]], 100, axis=0)
    assert true_positives(scores, inside)[0] == pytest.approx(0.95)


def test_too_few_rounds_people_and_targets_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(AnonymizationError, match="rounds must be at least 32"):
        GameSettings(rounds=10)
    with pytest.raises(AnonymizationError, match="at least 8 people"):
        choose_targets(PEOPLE.take(np.arange(5)), rng=rng)
    for groups in ({}, {"all": np.arange(120)}):
        with pytest.raises(AnonymizationError, match="needs targets and others"):
            play(PEOPLE, unmasked, groups, rng=rng)


def test_releases_that_follow_each_other_average_noise_out_while_others_come_and_go():
    rng = np.random.default_rng(3)
    targets = choose_targets(PEOPLE, isolated=6, random=6, rng=rng)
    sizes = []

    def counted(data, rng):
        sizes.append(len(data))
        return noisy(data, rng)

    def mean(releases, turnover=0.0, drawn=0.0):
        settings = GameSettings(rounds=32, releases=releases, turnover=turnover, drawn=drawn)
        found = play(PEOPLE, counted, targets, settings=settings, rng=np.random.default_rng(3)).game
        assert (found.releases, found.rounds) == (releases, 32)
        return found.worst("isolated").mean

    assert mean(10) > mean(1) + 0.05
    sizes.clear()
    mean(2, turnover=0.5)
    assert len(sizes) == 64
    assert np.mean(sizes) < 0.7 * len(PEOPLE)
    assert mean(1, drawn=0.8) < mean(1) - 0.05, "who is left out cannot be found"
    with pytest.raises(AnonymizationError, match="turnover must be 0 to"):
        GameSettings(turnover=1.0)
