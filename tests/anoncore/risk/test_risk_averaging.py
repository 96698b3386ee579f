"""Several releases of one table: noise averages out, and what owes nothing to the members stays harmless."""

from __future__ import annotations

import numpy as np
import pytest

from anoncore.errors import AnonymizationError
from anoncore.kernels.spectral_swap import swap
from anoncore.microdata import ComparedUnits
from anoncore.risk import averaging_attack, membership_attack, nearest_distance_attack
from anoncore.risk.scores import Certainty


def people(seed: int, n: int = 400, columns: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(99).normal(size=(columns, columns)) / 2 + np.eye(columns)
    one, other = (rng.normal(size=(n, columns)) @ mix for _ in range(2))
    spread = one.std(axis=0)
    return one / spread, other / spread


def test_noise_averages_out_and_every_release_adds_to_the_risk():
    rng = np.random.default_rng(2)
    members, others = people(1, columns=12)
    releases = [members + 0.5 * rng.normal(size=members.shape) for _ in range(32)]
    found = [averaging_attack(members, others, releases[:m]) for m in (1, 4, 32)]
    areas = [one.averaged.auc for one in found]
    assert areas[0] < areas[1] < areas[2]
    assert areas[0] < 0.9
    assert areas[2] > 0.98
    assert [one.n_releases for one in found] == [1, 4, 32]
    assert found[2].n_rows == 32 * 400
    assert found[2].averaged.lower > found[2].newest.auc + 0.1


def test_repeated_copies_gather_evidence():
    """Each release holds another tenth of the members as they are: alone weak, together plain."""
    rng = np.random.default_rng(3)
    members, others = people(4)
    nonmembers = people(5)[0]
    parts = np.array_split(rng.permutation(len(members)), 10)
    releases = [np.vstack([members[part], nonmembers[len(part) :]]) for part in parts]
    found = averaging_attack(members, others, releases)
    assert found.gathered.auc > 0.99
    assert found.newest.auc < 0.6


@pytest.mark.parametrize("releases", [1, 5, 20])
def test_releases_that_owe_nothing_to_the_members_are_never_held_against_them(releases):
    failed = 0
    for seed in range(20):
        members, others = people(seed, n=150)
        drawn = [people(1000 + seed * 50 + t, n=150)[0] for t in range(releases)]
        found = averaging_attack(members, others, drawn)
        failed += "fail" in (found.averaged.verdict, found.gathered.verdict)
    assert failed <= 1


def test_swapped_releases_stay_close_to_guessing():
    members, others = people(7)
    releases = [swap(members, rng=np.random.default_rng(seed)) for seed in range(12)]
    found = averaging_attack(members, others, releases)
    assert found.averaged.lower < 0.55
    assert found.gathered.lower < 0.55


def test_one_release_is_the_nearest_distance_attack():
    members, others = people(8)
    release = members + np.random.default_rng(9).normal(size=members.shape)
    found = averaging_attack(members, others, [release])
    alone = nearest_distance_attack(members, others, release)
    assert found.newest == alone
    assert found.averaged.auc == pytest.approx(alone.auc)
    assert found.gathered.auc == pytest.approx(alone.auc)


def test_scores_equal_a_plain_loop():
    rng = np.random.default_rng(11)
    members, others = people(10, n=40)
    releases = [rng.normal(size=(size, 6)) for size in (30, 50, 20)]

    def scored(table: np.ndarray) -> list[float]:
        found = []
        for row in table:
            rows = [min(release, key=lambda other: float(((other - row) ** 2).sum())) for release in releases]
            found.append(-float(np.linalg.norm(row - np.mean(rows, axis=0))))
        return found

    expected = membership_attack(scored(members), scored(others))
    assert averaging_attack(members, others, releases).averaged.auc == pytest.approx(expected.auc)


def test_a_release_equal_to_the_original_is_told_however_many_others_there_are():
    members, others = people(12)
    releases = [members, *(people(20 + t)[0] for t in range(3))]
    assert averaging_attack(members, others, releases).gathered.auc > 0.99


def test_inputs_are_left_alone_and_bad_ones_refused():
    members, others = people(13, n=30)
    before = members.copy()
    averaging_attack(members, others, [members, others])
    assert (members == before).all()
    with pytest.raises(AnonymizationError, match="at least one"):
        averaging_attack(members, others, [])
    with pytest.raises(AnonymizationError, match="releases"):
        averaging_attack(members, others, [members[:, :2]])


def test_rows_that_carry_pseudonyms_are_joined_whatever_their_order():
    rng = np.random.default_rng(5)
    members, others = rng.normal(size=(2, 150, 6))
    orders = [rng.permutation(150) for _ in range(12)]
    noisy = [members[order] + rng.normal(scale=2.0, size=members.shape) for order in orders]
    apart = averaging_attack(members, others, noisy)
    joined = averaging_attack(members, others, noisy, pseudonyms=orders)
    assert apart.histories is None
    assert joined.histories.lower > max(joined.averaged.auc, joined.gathered.auc)
    mixed = averaging_attack(members, others, noisy, pseudonyms=[rng.permutation(150) for _ in orders])
    assert mixed.histories.lower < 0.5, "pseudonyms that are no one's reveal nothing"


def test_a_unit_of_several_records_has_one_history():
    rng = np.random.default_rng(6)
    units = np.repeat(np.arange(40), 3)
    members, others = rng.normal(size=(2, 120, 5))
    found = averaging_attack(
        members,
        others,
        [members, members],
        certainty=Certainty(units=ComparedUnits(units, units)),
        pseudonyms=[units, units],
    )
    assert found.histories.auc == 1.0
