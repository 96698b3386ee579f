"""Chertov and Tavrov 2010, Group Anonymity, IPMU 2010, CCIS 81, 592-601: section 3 and table 2.

Active-duty military by place of work in the 5 % sample of California, Census 2000.
"""

import numpy as np
import pytest
import pywt

from anoncore.errors import InfeasibleError
from anoncore.kernels.wavelet import decompose, outlier_positions, reconstruction_matrix
from anoncore.kernels.wavelet.inversion import audit, invert
from anoncore.kernels.wavelet.redistribution import Goals, JointRoute, PaperRoute, redistribute
from anoncore.kernels.wavelet.signal_model import SignalModel
from anoncore.kernels.wavelet.tradeoff import sweep
from tests.papers.areas_page import AREAS, CAP, CORRECTED, FORT, GIVEN, PUBLISHED, SCALE, SHIFT, SIGNAL

COEFFICIENTS = [2272.128, 136.352, 158.422, 569.098]
MATRIX = [
    [0.637, 0, 0, -0.137],
    [0.296, 0.233, 0, -0.029],
    [0.079, 0.404, 0, 0.017],
    [-0.012, 0.512, 0, 0],
    [-0.137, 0.637, 0, 0],
    [-0.029, 0.296, 0.233, 0],
    [0.017, 0.079, 0.404, 0],
    [0, -0.012, 0.512, 0],
    [0, -0.137, 0.637, 0],
    [0, -0.029, 0.296, 0.233],
    [0, 0.017, 0.079, 0.404],
    [0, 0, -0.012, 0.512],
    [0, 0, -0.137, 0.637],
    [0.233, 0, -0.029, 0.296],
    [0.404, 0, 0.017, 0.079],
    [0.512, 0, 0, -0.012],
]
APPROXIMATION = [
    *(1369.821, 687.286, 244.677, 41.992, -224.98, 11.373, 112.86, 79.481),
    *(82.24, 175.643, 244.757, 289.584, 340.918, 693.698, 965.706, 1156.942),
]
NEW_APPROXIMATION = [
    *(-750.103, -70.09, 244.677, 194.196, 241.583, 7530.756, 12879.498, 16287.81),
    *(20216.058, 10670.153, 4734.636, 2409.508, -883.021, 693.698, 965.706, -66.997),
]
BEFORE_SHIFT = [
    *(-2100.924, -745.376, 153.0, 223.204, 479.563, 7598.383, 12773.639, 16241.328),
    *(20149.818, 10764.51, 5301.879, 2254.924, -982.939, 14.0, 60.0, 3113.061),
]
# The inequalities of section 3 that ask for at least the original, and those for at most the original.
RAISED = {i: int(SIGNAL[i]) for i in range(4, 10)}
LOWERED = (0, 1, 2, 13, 14)


def printed(values, digits=3):
    """Half a unit of the last printed digit, and the rounding of the printed input."""
    return pytest.approx(values, abs=0.6 * 10.0**-digits)


def test_only_the_periodised_transform_is_the_papers():
    found = decompose(SIGNAL, "db2", 2).coefficients
    assert found.tolist() == printed(COEFFICIENTS)
    for mode in pywt.Modes.modes:
        theirs = pywt.wavedec(SIGNAL.astype(float), "db2", mode=mode, level=2)[0]
        same = len(theirs) == 4 and np.allclose(theirs, COEFFICIENTS, atol=1e-3)
        assert same == (mode == "periodization")


def test_reconstruction_matrix():
    found = reconstruction_matrix(16, "db2", 2)
    np.testing.assert_allclose(found, MATRIX, atol=6e-4)
    np.testing.assert_allclose(found.sum(axis=0), 2)


def test_approximations_and_signal_before_the_shift():
    parts = decompose(SIGNAL, "db2", 2)
    assert parts.approximation.tolist() == printed(APPROXIMATION)
    approximation = reconstruction_matrix(16, "db2", 2) @ GIVEN
    # The given coefficients are rounded to three decimals themselves.
    assert approximation.tolist() == printed(NEW_APPROXIMATION)
    assert (approximation + parts.detail).tolist() == printed(BEFORE_SHIFT)


@pytest.fixture(scope="module")
def papers():
    return redistribute(SIGNAL, Goals(caps=CAP, names=AREAS), route=PaperRoute(coefficients=GIVEN, shift=SHIFT))


def test_table_2_and_its_corrected_total(papers):
    assert papers.beta == pytest.approx(SCALE, rel=1e-12)
    assert np.rint(papers.unrounded).tolist() == PUBLISHED.tolist()
    assert PUBLISHED.sum() == SIGNAL.sum() - 1
    assert papers.target.tolist() == CORRECTED.tolist()
    assert papers.target.sum() == SIGNAL.sum()


def test_what_the_published_row_keeps_and_moves(papers):
    detail = decompose(SIGNAL, "db2", 2).detail
    kept = decompose(papers.unrounded, "db2", 2).detail
    np.testing.assert_allclose(kept, SCALE * detail, atol=1e-9)
    assert papers.moved / SIGNAL.sum() == pytest.approx(0.73, abs=0.005)
    expected = reconstruction_matrix(16, "db2", 2) @ papers.coefficients + kept
    np.testing.assert_allclose(papers.unrounded, expected, atol=1e-9)


def test_the_published_row_breaks_the_papers_own_inequalities():
    broken = [i for i in LOWERED if CORRECTED[i] > SIGNAL[i]]
    assert [AREAS[i] for i in broken] == ["06010", "06020", "06409", "06600"]


# -- the joint route on the paper's signal


def test_joint_route_keeps_more_details_than_the_paper():
    free = redistribute(SIGNAL, Goals(caps=CAP))
    assert free.beta == pytest.approx(0.068725, abs=1e-6)
    raised = redistribute(SIGNAL, Goals(caps=CAP, raises=RAISED))
    assert raised.beta == pytest.approx(0.066755, abs=1e-6)
    held = redistribute(SIGNAL, Goals(caps=CAP, raises=RAISED, protected=(2,)))
    for found in (free, raised, held):
        assert found.beta > SCALE
        assert found.target[FORT] <= 305
        assert found.target.sum() == SIGNAL.sum()
    assert (held.target[list(RAISED)] >= list(RAISED.values())).all()
    assert held.target[2] <= SIGNAL[2]


def test_joint_route_moves_fewer_records_at_the_papers_share(papers):
    found = redistribute(SIGNAL, Goals(caps=CAP), route=JointRoute(share=SCALE))
    assert found.beta == pytest.approx(SCALE)
    assert found.moved < papers.moved


def test_all_twelve_inequalities_on_the_counts_themselves_contradict_the_cap():
    with pytest.raises(InfeasibleError, match="cap of 06700, protection of 06409;"):
        redistribute(SIGNAL, Goals(caps=CAP, raises=RAISED, protected=LOWERED, names=AREAS))


# -- there is a way back


@pytest.mark.parametrize(("row", "value"), [(PUBLISHED, 4491), (CORRECTED, 4478)])
def test_inversion_recovers_the_hidden_extreme(row, value):
    found = invert(row, positions=[FORT])
    assert found.recovered[FORT] == pytest.approx(value, abs=0.5)
    assert found.high[0] - found.low[0] < 0.01
    assert found.recovered[FORT] == pytest.approx(SIGNAL[FORT], rel=0.05)


@pytest.mark.parametrize("row", [PUBLISHED, CORRECTED])
def test_audit_fails_the_papers_row(row):
    found = audit(SIGNAL, row, Goals(caps=CAP), tolerance=0.05)
    assert found.within.tolist() == [True]
    assert found.ranks_first.tolist() == [True]
    assert not found.passed
    assert not len(found.shared_outliers)


def test_a_published_share_brackets_the_hidden_extreme():
    found = invert(CORRECTED, share=SCALE, positions=[FORT])
    assert 0.99 * SIGNAL[FORT] < found.low[0] < SIGNAL[FORT] < found.high[0] < 1.03 * SIGNAL[FORT]


def test_plain_details_fail_the_audit_with_every_wavelet():
    models = [SignalModel(wavelet, level) for wavelet in ("haar", "db2", "db4", "sym4") for level in (1, 2)]
    trials = sweep(SIGNAL, Goals(caps=CAP), models)
    for trial in trials:
        assert trial.redistribution.beta > SCALE
        assert trial.audit.ranks_first.tolist() == [True]
        assert not trial.audit.passed


def test_winsorised_details_pass_the_audit():
    assert [AREAS[i] for i in outlier_positions(SIGNAL)] == ["06200", "06700"]
    plain, fenced = (redistribute(SIGNAL, Goals(caps=CAP), details=d) for d in ("plain", "winsorised"))
    checked = audit(SIGNAL, fenced.target, Goals(caps=CAP))
    assert checked.passed
    assert checked.recovered[0] == pytest.approx(1111, abs=1)
    assert audit(SIGNAL, fenced.target, Goals(caps=CAP), share=fenced.beta).passed
    assert fenced.beta == pytest.approx(1)
    assert fenced.agreement == pytest.approx(0.70, abs=0.005)
    assert fenced.moved == 4306
    assert plain.moved == 5230
