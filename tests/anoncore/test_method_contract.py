"""One contract over the whole registry."""

import inspect
import re
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import AnonymizationError, EditSet, Microdata, Schema, Variable
from anoncore.method import public_parameters
from anoncore.methods import (
    MDAV,
    PRAM,
    RHS,
    AdditiveNoise,
    DataShuffling,
    ExtremeRecords,
    FuzzyMicroaggregation,
    GlobalRecoding,
    GowerMicroaggregation,
    GroupAnonymity,
    HouseholdTrees,
    LocalSuppression,
    OptimalBoxes,
    RankSwapping,
    RareLevels,
    RecordSwapping,
    SequentialTrees,
    SpectralRHS,
    SpectralSuppression,
    SpectralSwap,
    SpectralSynthesis,
    ValueCoding,
    WeightCalibration,
)
from anoncore.registry import METHODS

CASES = [
    SpectralSwap(),
    SpectralSwap(released="mode"),
    SpectralSwap(released="probabilities"),
    SpectralSwap(exact_covariance=True, axes="independent"),
    SpectralSwap(marginals="exact"),
    SpectralSwap(marginals="drawn"),
    SpectralSwap(numeric="normal"),
    SpectralSwap(local=2),
    SpectralSwap(jitter=5),
    SpectralSwap(leading=0.9),
    SpectralSuppression(),
    SpectralSuppression(k=20, within=0.1),
    SpectralSynthesis(),
    SpectralSynthesis(records=50, axes="independent", scores="normal", numeric="log"),
    SpectralSynthesis(released="mode"),
    SpectralRHS(k=4),
    SpectralRHS(k=4, representative="medoid"),
    SpectralRHS(k=4, released="mode", emphasis=0.0),
    SpectralRHS(k=4, released="probabilities"),
    AdditiveNoise(),
    AdditiveNoise(correction="exact", axes="spectral"),
    AdditiveNoise(correction="exact", released="mode"),
    AdditiveNoise(b=1.0, correction="none"),
    AdditiveNoise(released="probabilities"),
    DataShuffling(),
    DataShuffling(values="exact", tail_coding=None),
    RankSwapping(),
    RankSwapping(values="exact", correlation_tolerance=0.1),
    DataShuffling(confidential=("income", "region", "smokes")),
    RHS(k=4),
    RHS(k=4, representative="medoid", released="mode"),
    RHS(k=4, small="keep"),
    HouseholdTrees(leaf=20),
    RHS(k=4, released="probabilities"),
    MDAV(k=4),
    MDAV(k=4, blocks=(("income", "change"),)),
    GowerMicroaggregation(k=4),
    GowerMicroaggregation(k=4, numbers="median", levels="draw"),
    FuzzyMicroaggregation(k=4),
    FuzzyMicroaggregation(k=4, blocks=(("income", "change"),), released="mode"),
    FuzzyMicroaggregation(k=4, form="fcm", m1=1.2, m2=1.5, clusters=1),
    FuzzyMicroaggregation(k=4, form="entropy", lambda1=1.0, clusters=1),
    OptimalBoxes(k=8),
    OptimalBoxes(k=8, l=2, rare="fuzzy"),
    OptimalBoxes(k=8, categorical="constant", bounds="grid"),
    OptimalBoxes(k=8, release="means"),
    GroupAnonymity(
        vital=({"smokes": (1,)},),
        parameter="region",
        order=("n", "e", "s", "w"),
        level=1,
        caps={"n": 20},
        details="winsorised",
    ),
    SequentialTrees(),
    SequentialTrees(leaf=10, significance=1.0, first=("income",)),
    RareLevels(k=30),
    RareLevels(k=30, action="suppress"),
    RareLevels(k=30, action="redistribute"),
    GlobalRecoding(keys=("income", "region", "grade"), suppression=0.1),
    GlobalRecoding(diversity={"grade": 2}, closeness={"smokes": 0.5}, loss="entropy"),
    LocalSuppression(keys=("region", "smokes", "grade"), importance={"region": 2.0}),
    RecordSwapping(area="region", keys=("grade", "smokes"), k=20, similar=("sex",)),
    PRAM(variables=("region", "smokes"), strata=("grade",)),
    ValueCoding(top={"income": 8000}, base={"income": 50}, rounding="controlled"),
    WeightCalibration(weight="constant", variables=("region", "smokes")),
    ExtremeRecords(),
    ExtremeRecords(action="top-code", tail=0.05),
    ExtremeRecords(action="winsorise", tail=0.05),
]
RANDOM = [
    case
    for case in CASES
    if isinstance(
        case,
        (
            SpectralSwap,
            SpectralSynthesis,
            AdditiveNoise,
            DataShuffling,
            HouseholdTrees,
            PRAM,
            RankSwapping,
            RecordSwapping,
            SequentialTrees,
        ),
    )
]


def test_every_method_is_in_the_cases():
    assert {type(case) for case in CASES} == set(METHODS.values())
    assert all(method().method == name for name, method in METHODS.items() if method is not GroupAnonymity)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_help_explains_the_method(method):
    """The first line names the method; its source, claim and every parameter follow."""
    text = inspect.getdoc(method)
    assert re.fullmatch(r"[^.]+\.", text.splitlines()[0])
    assert "Source: " in text
    assert re.search(r"[Cc]laims|Nothing is proven", text)
    described = set(re.findall(r"^(\w+(?:, \w+)*|.* : .*; .*) : ", text.split("Parameters\n")[1], flags=re.MULTILINE))
    stated = {name for line in described for name in re.findall(r"\w+", line)}
    assert {f.name for f in fields(method)} - {"method"} <= stated
    assert method.title
    assert method.description.endswith(".")
    assert "-" not in method.description.split()


@pytest.mark.parametrize("params", CASES, ids=str)
def test_what_is_declared_follows_from_the_release(params, mixed):
    release = anoncore.anonymize(mixed, params, rng=np.random.default_rng(3))
    assert params.releases_ranges == (release.points is not None)
    assert params.makes_new_records == (not release.keeps_records)
    assert set(params.hidden_variables) <= set(mixed.schema.names)
    assert set(params.confidential_parameters) <= {f.name for f in fields(params)}
    assert set(public_parameters(params)) == {f.name for f in fields(params)} - set(params.confidential_parameters)
    if params.prepares:
        assert release.keeps_records
    else:
        assert not params.hidden_variables
    if "uncertainty" in params.void_by_design:
        assert any("anonymity" in claim.statement for claim in release.claims) or params.form in ("fcm", "entropy")
    restored = params.restore(release.data, release.claims, edits=EditSet(), rng=np.random.default_rng(0))
    assert restored == (release.data, ())


@pytest.mark.parametrize("params", CASES, ids=str)
def test_contract(params, mixed):
    before = mixed.frame.copy(deep=True)
    release = anoncore.anonymize(mixed, params, rng=np.random.default_rng(3))
    again = anoncore.anonymize(mixed, params, rng=np.random.default_rng(3))
    pd.testing.assert_frame_equal(mixed.frame, before)
    pd.testing.assert_frame_equal(release.data.frame, again.data.frame)
    assert release.claims
    assert all(check.holds for check in release.check())
    assert release.notes
    if release.keeps_records:
        assert set(release.data.frame.index) <= set(mixed.frame.index)


@pytest.mark.parametrize("params", RANDOM, ids=str)
def test_another_seed_differs(params, mixed):
    one = anoncore.anonymize(mixed, params, rng=np.random.default_rng(3)).data.frame
    other = anoncore.anonymize(mixed, params, rng=np.random.default_rng(4)).data.frame
    assert not one.equals(other)


@pytest.mark.parametrize("params", CASES, ids=str)
def test_identifiers_and_households_are_not_released(params, mixed):
    frame = mixed.frame.assign(person=range(len(mixed)), house=range(len(mixed)))
    schema = Schema(
        [
            *mixed.schema,
            Variable("person", "nominal", role="identifier"),
            Variable("house", "nominal", role="household"),
        ]
    )
    data = Microdata(frame, schema)
    if not params.prepares:
        released = anoncore.anonymize(data, params, rng=np.random.default_rng(0)).data
        assert "person" not in released.frame
        assert ("house" in released.frame) == params.rebuilds_households


@pytest.mark.parametrize("params", CASES, ids=str)
def test_one_record_is_refused_or_handled(params, mixed):
    data = Microdata(mixed.frame.iloc[:1].reset_index(drop=True), mixed.schema)
    if (
        not params.prepares
        or params.hidden_variables
        or isinstance(params, (GlobalRecoding, SpectralSuppression, WeightCalibration))
    ):
        with pytest.raises(AnonymizationError, match="counts" if params.hidden_variables else "record"):
            anoncore.anonymize(data, params, rng=np.random.default_rng(0))
    else:
        assert len(anoncore.anonymize(data, params, rng=np.random.default_rng(0)).data) == 1


@pytest.mark.parametrize(
    ("cls", "wrong", "said"),
    [
        (SpectralRHS, {"k": 1}, "k must be at least 2, got 1"),
        (RareLevels, {"action": "redistribute", "label": "x"}, "label has no effect on action redistribute"),
        (RareLevels, {"k": 0}, "k must be at least 2, got 0"),
        (GlobalRecoding, {"suppression": 1.0}, "suppression must lie in"),
        (GlobalRecoding, {"diversity": {"sex": 1}}, "diversity of sex is out of range, got 1"),
        (RecordSwapping, {"rate": 2.0}, "rate must lie in"),
        (PRAM, {"keep": 1.0}, "keep must lie in"),
        (ValueCoding, {"top": {"x": 7}, "base": {"x": 5}}, "limits of x must be multiples of its base"),
        (LocalSuppression, {"importance": {"sex": 0}}, "importance of sex must be above 0 and finite, got 0"),
        (RHS, {"k": 1}, "k must be at least 2, got 1"),
        (AdditiveNoise, {"b": 0.0}, "b must be above 0 and finite, got 0.0"),
        (DataShuffling, {"tail_coding": 1}, "tail_coding must be at least 2, got 1"),
        (RankSwapping, {"window": 0.0}, "window must be above 0 and at most 1, got 0.0"),
        (RankSwapping, {"k": 1}, "k must be at least 2, got 1"),
        (SpectralSwap, {"jitter": 0}, "jitter must be at least 1, got 0"),
        (SpectralSwap, {"local": 0}, "local must be at least 1, got 0"),
        (ExtremeRecords, {"tail": 0.5}, "tail must lie in"),
        (ExtremeRecords, {"times": 1}, "times must be above 1"),
    ],
)
def test_parameters_check_their_ranges(cls, wrong, said):
    with pytest.raises(AnonymizationError, match=said.replace("(", r"\(")):
        cls(**wrong)


def test_rng_is_required(mixed):
    with pytest.raises(TypeError):
        anoncore.anonymize(mixed, SpectralSwap())  # type: ignore[call-arg]


def test_unknown_parameters_are_refused(mixed):
    with pytest.raises(AnonymizationError, match="no method takes"):
        anoncore.anonymize(mixed, object(), rng=np.random.default_rng(0))
