"""Global recoding: hierarchies read, stated or drafted, the losses, and what holds again after later steps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import anoncore
from anoncore import AnonymizationError, EditSet, Microdata, Schema, Variable
from anoncore.edits.kinds import BoundEdit, LinearEdit
from anoncore.method import public_parameters
from anoncore.methods import GlobalRecoding, LocalSuppression, RankSwapping
from anoncore.recoding import Intervals, Prefixes, Recoding, Rows, parse_hierarchy, recoded, steps_of


def people(n=400) -> Microdata:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "zip": rng.choice(["8011", "8012", "8021", "9000"], n),
            "school": rng.choice(["none", "first", "second", "high"], n),
            "illness": rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1]),
        }
    )
    frame.loc[frame["zip"] == "9000", "school"] = "none"
    key = {"role": "quasi-identifier"}
    schema = [
        Variable("age", "continuous", **key),
        Variable("zip", "nominal", **key),
        Variable("school", "ordinal", levels=("none", "first", "second", "high"), **key),
        Variable("illness", "nominal", role="sensitive"),
    ]
    return Microdata(frame, Schema(schema))


def test_drafted_steps_are_intervals_prefixes_and_neighbours():
    data = people()
    assert [step.width for step in steps_of(data, "age", None)] == [5.0, 10.0, np.inf]
    assert [step.levels["8021"] for step in steps_of(data, "zip", None)] == ["802*", "80**", "8***", "*"]
    assert [step.levels["second"] for step in steps_of(data, "school", None)] == ["second–high", "*"]
    masked = recoded(data, (Recoding("age", width=10.0), steps_of(data, "school", None)[0]))
    assert set(masked.frame["age"]) == {14.5 + 10 * i for i in range(8)}
    assert masked.schema["school"].levels == ("none–first", "second–high")
    assert masked.schema["school"].kind == "ordinal"


def test_ends_of_drafted_whole_numbers_do_not_depend_on_one_person():
    labels = []
    for lowest in (1, 2):
        column = pd.Series([lowest, *list(range(2, 17)) * 5])
        schema = Schema(
            [Variable("years", "ordinal", role="quasi-identifier", levels=sorted(column.unique().tolist()))]
        )
        data = Microdata(column.to_frame("years"), schema)
        labels.append([step.levels[5] for step in steps_of(data, "years", None)])
        release = anoncore.anonymize(data, GlobalRecoding(k=5, suppression=0.1), rng=np.random.default_rng(0))
        assert "years as it is" in release.notes[0] or "years at step" in release.notes[0]
    assert labels == [["4–5", "4–7", "0–7", "*"]] * 2


def test_the_largest_number_of_one_person_does_not_show_in_what_is_lost():
    data, other = people(), people()
    other.frame.loc[0, "age"] = 900
    for hierarchy in (None, Intervals((5.0, 20.0))):
        assert steps_of(data, "age", hierarchy) == steps_of(other, "age", hierarchy)


def test_a_file_of_arx_is_read():
    hierarchy = parse_hierarchy("a;mild;*\nb;mild;*\nc;hard;*\n")
    first, second = steps_of(people(), "illness", hierarchy)
    assert first.levels == {"a": "mild", "b": "mild", "c": "hard"}
    assert first.covered == {"mild": 0.5, "hard": 0.0}
    assert set(second.levels.values()) == {"*"}


def test_claims_hold_and_again_after_swapping():
    data = people()
    params = GlobalRecoding(k=20, suppression=0.3, diversity={"illness": 2}, closeness={"illness": 0.5})
    release = anoncore.anonymize(data, params, rng=np.random.default_rng(0))
    assert [check.holds for check in release.check()] == [True] * 3
    assert release.recodings
    assert release.figures["suppressed_records"] <= 0.3 * len(data)
    swapped = anoncore.anonymize(release.data, RankSwapping(values="exact"), rng=np.random.default_rng(1)).data
    assert not all(claim.check(swapped).holds for claim in release.claims)
    restored, notes = params.restore(swapped, release.claims, edits=EditSet(), rng=np.random.default_rng(2))
    assert all(claim.check(restored).holds for claim in release.claims)
    assert notes


def test_local_suppression_may_follow_on_the_same_keys():
    params, rng = GlobalRecoding(k=5, suppression=0.3, highest={"age": 1}), np.random.default_rng(0)
    release = anoncore.anonymize(people(), params, rng=rng)
    cells = anoncore.anonymize(release.data, LocalSuppression(k=40), rng=rng)
    assert cells.figures["suppressed_cells"] > 0
    assert release.claims[0].check(cells.data).holds
    assert params.restore(cells.data, release.claims, edits=EditSet(), rng=rng) == (cells.data, ())


def test_records_without_keys_help_no_other_record():
    levels = tuple(f"{i:03d}" for i in range(100))
    frame = pd.DataFrame({"zip": [None] * 10 + [*levels[:90]], "sex": ["f"] * 20 + ["m"] * 79 + [None]})
    key = {"role": "quasi-identifier"}
    data = Microdata(
        frame, Schema([Variable("zip", "nominal", levels=levels, **key), Variable("sex", "binary", **key)])
    )
    params = GlobalRecoding(k=5)
    (claim,) = params._claims(("zip", "sex"))
    assert not claim.check(data).holds
    restored, notes = params.restore(data, (claim,), edits=EditSet(), rng=np.random.default_rng(0))
    assert claim.check(restored).holds
    assert restored.frame["zip"].notna().sum() == 0
    assert not any(character.isdigit() for character in notes[0])


def test_the_measure_of_loss_and_the_highest_step_decide_on_levels():
    data = people()
    levels = {
        loss: [one.variable for one in anoncore.anonymize(data, params, rng=np.random.default_rng(0)).recodings]
        for loss, params in {
            "loss": GlobalRecoding(k=5, highest={"school": 0}),
            "entropy": GlobalRecoding(k=5, highest={"zip": 0}, loss="entropy"),
        }.items()
    }
    assert "school" not in levels["loss"]
    assert "zip" not in levels["entropy"]


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"hierarchies": {"zip": Intervals((5.0,))}}, "hierarchies: zip: widths are for numbers"),
        ({"hierarchies": {"age": Prefixes((1,))}}, "hierarchies: age: rows and kept are for variables with levels"),
        ({"hierarchies": {"illness": Prefixes((1,))}}, "hierarchies: illness is no key"),
        ({"hierarchies": {"zip": Rows((("8011", "*"),))}}, r"3 level\(s\) of the variable have no row"),
        ({"closeness": {"age": 0.2}, "keys": ("zip",)}, "closeness: age has no levels"),
        ({"diversity": {"zip": 2}, "keys": ("zip",)}, "diversity, closeness: zip is a key, too"),
    ],
)
def test_what_does_not_fit_is_refused(params, problem):
    with pytest.raises(AnonymizationError, match=problem):
        anoncore.anonymize(people(), GlobalRecoding(**params), rng=np.random.default_rng(0))


def test_edits_that_compute_keys_are_refused_unless_these_keep_their_values():
    bound = EditSet([BoundEdit(name="adult", variable="age", lower=18)])
    assert not GlobalRecoding().problems(people().schema, bound)
    edits = EditSet([LinearEdit(name="sum", terms={"age": 1, "other": -1}, dependent="age")])
    assert "edit sum computes one of age, other" in GlobalRecoding().problems(people().schema, edits)[0]
    assert not GlobalRecoding(highest={"age": 0}).problems(people().schema, edits)


def test_rows_of_a_hierarchy_which_name_every_level_of_the_source_are_not_public():
    step = GlobalRecoding(keys=("work",), hierarchies={"work": Rows((("Without-pay", "any"), ("Private", "any")))})
    assert "Without-pay" not in repr(public_parameters(step))
    assert public_parameters(step)["keys"] == ("work",)
