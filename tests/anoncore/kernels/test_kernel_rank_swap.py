import numpy as np
import pytest

from anoncore.kernels._rank_swap_compiled import pair_up
from anoncore.kernels.rank_swap import rank_swap


def by_hand(n, reach, draws):
    """The procedure as it is described: from the lowest rank upwards, a partner among those within reach."""
    partner = list(range(n))
    free = set(range(n))
    chosen = []
    for i in range(n):
        if i in free:
            free.remove(i)
            window = sorted(free & set(range(i + 1, i + reach + 1)))
            chosen.append(len(window))
            if window:
                j = window[int(draws[i] * len(window))]
                free.remove(j)
                partner[i], partner[j] = j, i
    return partner, chosen


def test_records_are_exchanged_in_pairs_within_reach():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 40, 501).astype(float)
    order, partner = rank_swap(x, 25, rng=rng)
    receives = np.empty_like(order)
    receives[order] = order[partner]
    np.testing.assert_array_equal(receives[receives], np.arange(501))
    below, upto = (np.searchsorted(np.sort(x), x, side=side) for side in ("left", "right"))
    assert (below[receives] - (upto - 1) <= 25).all()
    assert (below - (upto[receives] - 1) <= 25).all()
    assert (receives == np.arange(501)).sum() <= 3


@pytest.mark.parametrize("reach", [1, 3, 40])
def test_partners_are_drawn_uniformly_as_by_hand(reach):
    """Whom a rank is paired with depends on the draw, how many there are to choose from does not."""
    counts = np.zeros((12, 12))
    expected = np.zeros((12, 12))
    rng = np.random.default_rng(1)
    for _ in range(4000):
        draws = rng.random(12)
        partner = np.arange(12)
        pair_up(reach, draws, partner)
        counts[np.arange(12), partner] += 1
        expected[np.arange(12), by_hand(12, reach, rng.random(12))[0]] += 1
    assert np.abs(counts - expected).max() <= (0 if reach == 1 else 5 * np.sqrt(2 * 1000))
