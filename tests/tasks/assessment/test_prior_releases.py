"""Earlier releases are read in the levels of the candidate, and people are compared in those of all releases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from anoncore.microdata import Microdata, Schema, Variable
from anoncore.recoding import Recoding, recoded
from tasks.assessment.assess import AssessmentSection
from tasks.assessment.prior_releases import by_all_releases, in_levels_of, recoded_people
from tasks.intake.split import Sides

COARSER = (
    Recoding("region", levels={"a": "a, b", "b": "a, b", "c": "c, d", "d": "c, d"}),
    Recoding("age", width=5.0),
)


def table(region: list[str], age: list[float], precision: float | None = 1.0) -> Microdata:
    frame = pd.DataFrame({"region": region, "age": age})
    return Microdata(frame, Schema([Variable("region", "nominal"), Variable("age", "continuous", precision=precision)]))


SOURCE = table(list("abcd"), [20.0, 24.0, 25.0, 31.0])
PEOPLE = recoded(SOURCE, COARSER)


def test_an_earlier_release_is_read_in_the_levels_of_the_candidate() -> None:
    finer = table(list("dcba"), [31.0, 25.0, 24.0, 20.0], precision=None)
    for before in (finer, recoded(table(list("dcba"), [31.0, 25.0, 24.0, 20.0]), COARSER)):
        found, lacking = in_levels_of(PEOPLE, before, COARSER)
        assert found is not None
        assert lacking == 0
        assert [*found.frame["region"]] == ["c, d", "c, d", "a, b", "a, b"]
        np.testing.assert_array_equal(found.frame["age"], [32.0, 27.0, 22.0, 22.0])


def test_variables_without_a_level_in_common_are_counted_and_left_out() -> None:
    found, lacking = in_levels_of(PEOPLE, table(["x", "y"], [20.0, 25.0]), COARSER)
    assert found is not None
    assert (found.schema.names, lacking) == (("age",), 1)
    assert in_levels_of(PEOPLE.select(["region"]), table(["x", "y"], [20.0, 25.0]), COARSER) == (None, 1)
    assert in_levels_of(PEOPLE, None, COARSER) == (None, 0)


NAMES = [f"q{number}" for number in range(8)]
RECODINGS = tuple(Recoding(name, {f"{area}{n}": area for area in "abcd" for n in "12"}) for name in NAMES)


@dataclass(frozen=True)
class _Stored:
    data: Microdata

    def load(self) -> Microdata:
        return self.data


class _Run:
    def rng(self, stream: str) -> np.random.Generator:
        return np.random.default_rng(len(stream))


def people(seed: int) -> Microdata:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: rng.choice([f"{a}{n}" for a in "abcd" for n in "12"], 300) for name in NAMES})
    return Microdata(frame, Schema([Variable(name, "nominal") for name in NAMES]))


MEMBERS, OTHERS = people(1), people(2)
SIDES = Sides(_Stored(MEMBERS), _Stored(OTHERS))
COARSE = recoded(MEMBERS, RECODINGS)


def attack(recodings: tuple[Recoding, ...], *releases: Microdata):
    found = recoded_people(SIDES, NAMES, recodings)
    return by_all_releases(_Run(), found, list(releases), AssessmentSection())


def test_releases_in_coarser_levels_disclose_who_is_in_them() -> None:
    found = attack(RECODINGS, COARSE, COARSE)
    assert found is not None
    # Of 4 to the 8 combinations hardly one is held by a member and a non-member.
    assert found.averaged.auc > 0.99


def test_levels_that_people_do_not_have_are_not_tested() -> None:
    assert attack((), COARSE, COARSE) is None
    assert attack((), MEMBERS, COARSE) is None


def test_a_release_in_finer_levels_is_recoded_as_the_newest_is() -> None:
    original = recoded_people(SIDES, NAMES, RECODINGS)[0]
    for before in (MEMBERS, COARSE):
        found, lacking = in_levels_of(original, before, RECODINGS)
        assert found is not None
        assert lacking == 0
        pd.testing.assert_frame_equal(found.frame, COARSE.frame, check_categorical=False)
    other = recoded(MEMBERS, tuple(Recoding(n, {f"{a}{i}": i for a in "abcd" for i in "12"}) for n in NAMES))
    assert in_levels_of(original, other, RECODINGS) == (None, len(NAMES))
