import numpy as np
import pandas as pd
import pytest

from anoncore.encoding import Encoder
from anoncore.kernels.neighbors import nearest
from anoncore.microdata import Microdata, Schema, Variable
from anoncore.partitions.store import Serial
from anoncore.partitions.table import partitioned
from tasks.assessment import full_release
from tasks.common.partitions import StoredPartitions

SCHEMA = Schema([Variable(name, "continuous", precision=1e-6) for name in "xyz"])


def people(rng, n):
    return Microdata(pd.DataFrame(rng.normal(size=(n, 3)), columns=[*"xyz"]), SCHEMA)


@pytest.mark.parametrize("strangers", [True, False])
def test_members_keep_their_distances(monkeypatch, strangers):
    monkeypatch.setattr(full_release, "CLOSE", 60)
    run, rng = Serial(), np.random.default_rng(1)
    members, nonmembers, released = (people(rng, n) for n in (100, 80, 500))
    encoder = Encoder.fit(members)
    stored = StoredPartitions(partitioned(run.store, "released", released, 200), run)
    drawn = full_release._People(encoder, None, set(), members, nonmembers if strangers else None)
    distances = full_release._nearest_distances(stored, drawn)
    asked = drawn.asked(distances)
    np.testing.assert_array_equal(asked.rows, encoder.encode(members)[:60])
    if not strangers:
        assert distances is None
        assert asked.released_distances is None
        return
    expected = nearest(asked.rows, encoder.encode(released), 1)[0][:, 0]
    np.testing.assert_array_equal(asked.released_distances, expected)
    assert full_release._nearest(distances, drawn).area.auc == pytest.approx(0.5, abs=0.15)
