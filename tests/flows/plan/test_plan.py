"""What a plan may state, and what is reported when it is wrong."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from flows.plan.file import MAX_BYTES
from flows.plan.model import load_plan
from tasks.common.errors import Refused

LINES = [
    "anonflow: 1",
    "name: people",
    "source: {path: people.csv}",
    "variables:",
    "  - {name: a, kind: continuous}",
    "  - {name: b, kind: continuous}",
    "  - {name: s, kind: nominal, levels: [x, y]}",
    "steps:",
    "  - {method: spectral-swap}",
]
NUMBER = {line.split(":")[0].strip(): i for i, line in enumerate(LINES, start=1)}


def plan(folder: Path, *more: str, **changed: str) -> Path:
    """Write a plan whose lines are those above, some of them changed by number (l5=...), and more."""
    lines = list(LINES)
    for key, line in changed.items():
        lines[int(key[1:]) - 1] = line
    (folder / "people.csv").write_text("a,b,s\n1,2,x\n3,4,y\n", encoding="utf-8")
    path = folder / "plan.yaml"
    path.write_text("\n".join([*lines, *more]) + "\n", encoding="utf-8")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(Refused) as refused:
        load_plan(path)
    assert refused.value.__cause__ is None
    return str(refused.value)


def rules(*edits: str) -> list[str]:
    return ["edits:", "  rules:", *(f"    - {edit}" for edit in edits)]


def test_a_plan_loads(tmp_path):
    file = load_plan(plan(tmp_path))
    assert file.plan.name == "people"
    assert file.base == tmp_path
    assert file.text.startswith("anonflow: 1\n")


def test_the_digest_ignores_layout_and_comments(tmp_path):
    one = load_plan(plan(tmp_path)).plan.digest
    assert load_plan(plan(tmp_path, "# a comment", l2='"name":   people  # said otherwise')).plan.digest == one
    assert load_plan(plan(tmp_path, l2="name: people2")).plan.digest != one


def test_what_masks_is_recognised_whatever_a_plan_is_called_and_accepts(tmp_path):
    one = load_plan(plan(tmp_path)).plan
    renamed = one.model_copy(
        update={
            "name": "people2",
            "policy": one.policy.model_copy(update={"tail_p": 0.5}),
            "publication": one.publication.model_copy(update={"title": "another"}),
            "variables": tuple(replace(v, description="another") for v in reversed(one.variables)),
        }
    )
    assert renamed.masking == one.masking
    assert one.model_copy(update={"steps": (*one.steps, *one.steps)}).masking != one.masking
    assert one.model_copy(update={"variables": one.variables[1:]}).masking != one.masking


def test_paths_are_relative_to_the_plan(tmp_path, monkeypatch):
    path = plan(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load_plan(path).base == tmp_path


# ---------------------------------------------------------------- everything at once, with its line


def test_everything_that_is_wrong_is_told_at_once(tmp_path):
    told = refusal(
        plan(
            tmp_path,
            "policy: {tail_p: 7, approval: nobody}",
            "extra: 1",
            "assessment:",
            "  k: 1",
            l3="source: {pth: people.csv}",
            l5="  - {name: a, kind: cont}",
            l6="  - {nmae: b, kind: continuous}",
            l7="  - {name: s, kind: nominal, levels: [yes, [1]]}",
            l9="  - {method: swap}",
        )
    )
    for place in (
        "line 3: source.pth: is not a key here; allowed: path, package, sql, ",
        "line 5: variables.1.kind: ",
        "line 6: variables.2.nmae: is not a key here; allowed: name, kind, role, levels, missing, precision, ",
        "line 6: variables.2.name: is missing",
        "line 7: variables.3.levels: must hold numbers or text",
        "line 9: steps.1: ",
        "line 10: policy.tail_p: ",
        "line 10: policy.approval: ",
        "line 11: extra: is not a key here; allowed: anonflow, name, source, variables, ",
        "line 13: assessment.k: ",
    ):
        assert f"plan.yaml: {place}" in told
    assert "must not be empty" not in told


def test_problems_between_sections_are_told_together_with_their_lines(tmp_path):
    told = refusal(
        plan(
            tmp_path,
            *rules(
                "{edit: linear, name: text, terms: {a: 1, s: 1}}",
                "{edit: bound, name: nobody, variable: zz, lower: 0}",
                "{edit: set, name: level, variable: s, values: [q]}",
            ),
            l6="  - {name: c, kind: continuous}",
        )
    )
    for place in (
        "line 12: edit 'text' computes with 's', which holds no numbers",
        "line 13: edit 'nobody' names unknown variable(s) zz",
        "line 14: edit 'level' lists a value that is no level of 's'",
        "line 4: variables that the source does not have: c",
        "line 4: columns of the source without a declaration: b",
    ):
        assert f"plan.yaml: {place}" in told


def test_one_problem_does_not_hide_the_others(tmp_path):
    told = refusal(
        plan(
            tmp_path,
            *rules(bound("e", lower=0), bound("e", upper=9)),
            l6="  - {name: c, kind: continuous}",
        )
    )
    assert "line 10: edits declared more than once: e" in told
    assert "variables that the source does not have: c" in told


def test_a_problem_of_a_step_has_the_line_of_the_step(tmp_path):
    told = refusal(plan(tmp_path, "  - {method: data-shuffling, confidential: [zz]}", "policy: {tail_p: 0.02}"))
    assert "plan.yaml: line 10: steps: 2 (data-shuffling): " in told


def test_what_a_person_must_still_decide_is_listed_with_its_line(tmp_path):
    file = load_plan(plan(tmp_path, "policy: {tail_p: 0.02}  # confirm: a guess", "# nothing to confirm here"))
    assert file.unconfirmed == ["line 10: a guess"]


def test_a_released_code_of_sampling_units_is_warned_of(tmp_path):
    released = load_plan(plan(tmp_path, l7="  - {name: s, kind: nominal, role: sampling-unit}")).plan
    assert released.warnings[0].startswith("variables: s with the role sampling-unit is released")
    more = "reference: {kind: cross, sampling_units: [s]}"
    for role in ("excluded", "sampling-unit"):
        assert load_plan(plan(tmp_path, more, l7=f"  - {{name: s, kind: nominal, role: {role}}}")).plan.warnings == ()


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        ("{kind: cross, sampling_units: [s]}", "sampling_units names s, which is no column with the role"),
        ("{kind: cross, sampling_units: [zz]}", "sampling_units names zz, which is no column"),
        ("{kind: leave-one-out, sampling_units: [s]}", "only a reference of kind cross or holdout has sampling_units"),
    ],
)
def test_sampling_units_that_cannot_be_set_apart_are_refused(tmp_path, stated, problem):
    assert problem in refusal(plan(tmp_path, f"reference: {stated}"))


def bound(name: str, **limits: float) -> str:
    stated = "".join(f", {k}: {v}" for k, v in limits.items())
    return f"{{edit: bound, name: {name}, variable: a{stated}}}"


def linear(name: str, terms: str = "{a: 1, b: -1}", more: str = "") -> str:
    return f"{{edit: linear, name: {name}, terms: {terms}{more}}}"


def conditional(when: str) -> str:
    return f"{{edit: conditional, name: e, when: [{when}], then: {{variable: b, missing: true}}}}"


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([bound("e", lower=9), bound("f", upper=1)], "line 10: no record can satisfy .* together: e, f"),
        ([bound("e", lower=9, upper=1)], "line 12: .*lower must not exceed upper"),
        ([bound("e")], "line 12: .*give lower, upper or both"),
        ([linear("e", more=", dependent: s")], "line 12: .*dependent 's' must be one of its terms"),
        (
            [linear("e", more=", dependent: a"), linear("f", more=", dependent: b")],
            "line 10: edits compute each other in a circle: e, f",
        ),
        (
            [linear("e", more=", dependent: a"), linear("f", "{a: 1, b: 1}", ", dependent: a")],
            "line 10: computed by more than one edit: a",
        ),
        ([linear("e", "{a: .nan}")], "line 12: .*finite coefficients"),
        ([linear("e", "[a, b]")], "line 12: edits.rules.1.terms: must hold keys with values"),
        (["{edit: lineer, name: e}"], "line 12: edits.rules.1: .*'linear', 'bound', 'set'"),
        (["{name: e, variable: a}"], "line 12: edits.rules.1: does not state its kind"),
        ([conditional("{variable: a}")], "line 12: edits.rules.1.when.1: condition on 'a' states nothing"),
        ([conditional("")], "line 12: .*when needs at least one"),
        (
            ["{edit: set, name: e, variable: s, values: [[1]]}"],
            "line 12: edits.rules.1.values: must hold numbers or text",
        ),
        (
            ["{edit: ratio, name: e, numerator: a, denominator: a, upper: 1}"],
            "line 12: .*the same variable",
        ),
    ],
)
def test_impossible_edits_are_refused(tmp_path, edits, message):
    assert re.search(message, refusal(plan(tmp_path, *rules(*edits))))


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (1, "anonflow: 2", "line 1: anonflow: must be 1"),
        (2, "name: My Plan", "line 2: name: must hold lower-case letters a to z, digits, '-', '_' alone, begin with"),
        (2, "name: ../up", "line 2: name: "),
        (2, r'name: "x\n"', "line 2: name: "),
        (2, "name: 5", "line 2: name: must be text; quote it"),
        (3, "source: {}", "line 3: source: name a source"),
        (3, "source: {path: none.csv}", "line 3: source: there is no file none.csv"),
        (3, "source: {path: .}", "line 3: source: .* is a folder"),
        (3, "source: {path: people.csv, delimiter: ';;'}", "line 3: source.delimiter: "),
        (3, "source: {path: people.csv, encoding: klingon}", "line 3: source: .*no encoding called klingon"),
        (3, "source: [people.csv]", "line 3: source: must hold keys with values"),
        (
            5,
            "  - {name: a, kind: continuous, precision: -1}",
            "line 5: .*precision must be a positive number",
        ),
        (5, "  - {name: a, kind: continuous, levels: [1]}", "line 5: .*continuous variable has no levels"),
        (5, "  - a", "line 5: variables.1: must hold keys with values"),
        (5, "  - {name: b, kind: continuous}", "line 4: variables declared more than once: b"),
        (7, "  - {name: s, kind: nominal, levels: xy}", "line 7: variables.3.levels: must be a list"),
        (7, "  - {name: s, kind: nominal, levels: [x, 1]}", "line 7: .*all text or all numbers"),
        (7, "  - {name: s, kind: nominal, levels: [x, x]}", "line 7: .*listed twice"),
        (7, "  - {name: s, kind: nominal, levels: [yes, no]}", "line 7: variables.3.levels: .*quote"),
        (7, "  - {name: s, kind: nominal, levels: [2020-01-01]}", "line 7: variables.3.levels: .*quote"),
        (7, "  - {name: s, kind: nominal, levels: [~, x]}", "line 7: variables.3.levels: .*quote"),
        (
            7,
            "  - {name: s, kind: nominal, missing: [{a: 1}]}",
            "line 7: variables.3.missing: must hold numbers",
        ),
        (7, "  - {name: s, kind: nominal, role: [other]}", "line 7: variables.3.role: "),
        (9, "  - spectral-swap", "line 9: steps.1: must hold keys with values"),
        (9, "  - {method: swop}", "line 9: steps.1: 'method' must be one of 'additive-noise', "),
        (9, "  - {k: 5}", "line 9: steps.1: does not state its kind; add method"),
        (9, "  - {method: spectral-swap, kk: 5}", "line 9: steps.1.kk: is not a key here; allowed: .*method"),
        (9, "  - {method: spectral-rhs}", r"policy: .*by_design: \[uncertainty\]"),
        (9, "  - {method: spectral-rhs, k: 1}", "line 9: steps.1: k must be at least 2, got 1"),
    ],
)
def test_wrong_values_are_refused_with_the_line(tmp_path, line, text, message):
    assert re.search(message, refusal(plan(tmp_path, **{f"l{line}": text})))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("assessment: {k: five}", "line 10: assessment.k: must be a whole number"),
        ("assessment: {k: 1}", "line 10: assessment.k: must be at least 2"),
        ("assessment: {margin: 0}", "line 10: assessment.margin: must be above 0"),
        ("assessment: {alpha: 0.5}", "line 10: assessment.alpha: must be below 0.5"),
        ("assessment: {alpha: much}", "line 10: assessment.alpha: must be a number"),
        ("assessment: {exhaustive: 7}", "line 10: assessment.exhaustive: must be true or false"),
        ("policy: {membership_auc: 2}", "line 10: policy.membership_auc: must be at most 1"),
        ("assessment: {k: 5.5}", "line 10: assessment.k: "),
        ("assessment: {margins: {distance: 0.2}}", "line 10: assessment: margins must be above 0 and at most margin"),
        ("assessment: {margin: .nan}", "line 10: assessment.margin: "),
        ("assessment: {margin: .inf}", "line 10: assessment.margin: "),
        ("assessment: {margin: 1.0e+999}", "line 10: assessment.margin: "),
        ("assessment:", "line 10: assessment: must hold keys with values"),
        ("edits: {rules: }", "line 10: edits.rules: must be a list"),
        ("reference: {kind: file}", "line 10: reference: a reference of kind file needs a source"),
        ("policy: {by_design: [zz]}", "line 10: policy.by_design.1: "),
        ("policy: {utility: {median: 1}}", "line 10: policy.utility.median: .*; allowed: marginal, pair, "),
        ("publication: {formats: []}", "line 10: publication.formats: must not be empty"),
        ("seed: {public: -1}", "line 10: seed.public: "),
        (
            "edits: {rules: [{edit: bound, name: x, variable: a, low: 0}]}",
            "low: .*; allowed: edit, name, variable, lower",
        ),
        ("publication: {to: [{fold: x}]}", r"publication.to.1.fold: is not a key here; allowed: table, database, "),
        ("series: {kind: panel}\nseed: {secret: S}", "line 10: series: panel draws other units .* remove the seed"),
        ("series: {shared: S}", "series: shared needs a variable with the role identifier"),
        ("series: {shared: no name}", "shared must name a secret"),
        ("series: {kind: panel, pseudonym: who}", "series: pseudonym needs a variable with the role identifier, kind"),
        (
            "series: {kind: panel, pseudonym: who}",
            "and spectral-swap makes rows that are no record's; remove it, or choose",
        ),
        ("series: {kind: panel, pseudonym: no name}", "pseudonym"),
        ("game: {shadows: 10}", "line 10: game: shadows must be 0, for no game, or at least 64"),
        ("game: {groups: [{name: x, variable: none, level: 1}]}", "line 10: game: group x needs a released variable"),
    ],
)
def test_wrong_sections_are_refused_with_the_line(tmp_path, more, message):
    assert re.search(message, refusal(plan(tmp_path, more)))


def test_an_empty_list_of_steps_is_told_as_such(tmp_path):
    path = plan(tmp_path)
    path.write_text("\n".join([*LINES[:7], "steps: []"]), encoding="utf-8")
    assert "line 8: steps: must not be empty" in refusal(path)


def test_one_weight_counts_and_is_released_of_all_units(tmp_path):
    weights = {f"l{n}": f"  - {{name: {'ab'[n - 5]}, kind: continuous, role: weight}}" for n in (5, 6)}
    told = refusal(plan(tmp_path, **weights))
    assert "a, b all have the role weight" in told
    assert "reference: holdout releases a part of the units" in told
    assert load_plan(plan(tmp_path, "reference: {kind: cross}", l5=weights["l5"])).plan.reference.kind == "cross"


def test_a_plan_that_would_release_nothing_is_refused(tmp_path):
    told = refusal(
        plan(
            tmp_path,
            l5="  - {name: a, kind: continuous, role: identifier}",
            l6="  - {name: b, kind: nominal, role: household}",
            l7="  - {name: s, kind: nominal, role: identifier}",
        )
    )
    assert "line 4: variables: every one is an identifier, excluded or a household" in told


# ---------------------------------------------------------------- YAML


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["x: &a [1]", "y: *a"], "line 11: aliases"),
        (["x: &a {b: *a}"], "line 10: aliases"),
        (["name: again"], "line 10: the key name is given twice"),
        (['"name": again'], "line 10: the key name is given twice"),
        (["policy: {tail_p: 0.1, tail_p: 0.2}"], "line 10: the key tail_p is given twice"),
        (["? [a, b]", ": 1"], "line 10: a key must be one word or text"),
        (["? {a: 1}", ": 1"], "line 10: a key must be one word or text"),
        (["1: x"], "line 10: the key 1 is not text to YAML"),
        (["yes: x"], "line 10: the key yes is not text to YAML"),
        (["<<: {name: x}"], "line 10: the key << is not text to YAML"),
        (["---", "a: 1"], "line 10: "),
        (["x: [1, 2"], "line 11: "),
        (["\tx: 1"], "line 10: "),
        (['x: "\\q"'], "line 10: "),
        (['x: !!python/object/apply:os.system ["true"]'], "line 10: could not determine a constructor"),
        (["x: 2020-13-45"], "line 10: a value that YAML takes for a number or date"),
        ([f"assessment: {{k: {'9' * 400}}}"], "line 10: a number with more than 18 digits"),
        ([f"assessment: {{k: {'9' * 5000}}}"], "line 10: a value that YAML takes for a number"),
        ([f"assessment: {{margin: 1{'0' * 400}}}"], "line 10: a number with more than 18 digits"),
        ([f"seed: {{public: 1{'0' * 100}}}"], "line 10: a number with more than 18 digits"),
        (["x: " + "[" * 3000 + "]" * 3000], "is not readable YAML"),
        (["x: " + "{a: " * 1500 + "1" + "}" * 1500], "is not readable YAML"),
        (['x: "\x01"'], "is not readable YAML"),
    ],
)
def test_yaml_that_no_plan_needs_is_refused(tmp_path, more, message):
    assert re.search(message, refusal(plan(tmp_path, *more)))


def test_a_bomb_of_aliases_does_not_go_off(tmp_path):
    path = tmp_path / "plan.yaml"
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    path.write_text("\n".join(["a0: &a0 [x, x, x]", *levels]))
    assert "line 2: aliases" in refusal(path)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
def test_an_empty_plan_is_refused(tmp_path, text):
    (tmp_path / "plan.yaml").write_text(text)
    assert re.search("is empty|must hold keys with values", refusal(tmp_path / "plan.yaml"))


@pytest.mark.parametrize("text", ["- a\n", "hello\n", "5\n", "null\n", "!!set {a, b}\n"])
def test_a_plan_that_is_no_mapping_is_refused(tmp_path, text):
    (tmp_path / "plan.yaml").write_text(text)
    assert "plan.yaml: line 1: " in refusal(tmp_path / "plan.yaml")


def test_a_plan_that_is_not_utf8_is_refused(tmp_path):
    path = plan(tmp_path)
    path.write_bytes(path.read_bytes() + "# Zürich\n".encode("latin-1"))
    assert refusal(path) == "plan plan.yaml is not UTF-8 text"


def test_a_plan_that_is_too_large_is_refused_unread(tmp_path):
    (tmp_path / "plan.yaml").write_bytes(b"x" * (MAX_BYTES + 1))
    assert "larger than 5 MB" in refusal(tmp_path / "plan.yaml")


@pytest.mark.parametrize("name", ["none.yaml", ".", "a\0b", "a" * 300, "none/plan.yaml"])
def test_a_path_without_a_plan_is_refused(tmp_path, name):
    assert re.search("does not exist|cannot be read as a file", refusal(tmp_path / name))


# ---------------------------------------------------------------- no value of the data


def test_a_missing_header_does_not_show_the_first_record(tmp_path):
    path = plan(tmp_path)
    (tmp_path / "people.csv").write_text("4711,Quibble,zq@example.org\n4712,Quibbly,q@example.org\n")
    told = refusal(path)
    assert "line 3: source: none of the 3 variables is among its 3 columns" in told
    assert not re.search("471|Quibbl|@", told)


def test_a_password_is_not_repeated(tmp_path):
    told = refusal(plan(tmp_path, l3='source: {sql: select 1, url: "postgresql://me:HUNTER2@db/people"}'))
    assert "holds a password" in told
    assert "HUNTER2" not in told


def test_levels_are_not_repeated(tmp_path):
    told = refusal(
        plan(
            tmp_path,
            *rules("{edit: set, name: e, variable: s, values: [Quibble]}"),
            l7="  - {name: s, kind: nominal, levels: [x, y, Zacharias], missing: [Zacharias]}",
        )
    )
    assert not re.search("Quibble|Zacharias", told)


def test_names_cannot_write_to_the_terminal(tmp_path):
    told = refusal(plan(tmp_path, l5='  - {name: "a\\e[31m\\nb", kind: continuous}'))
    assert "\x1b" not in told
    assert r"a\x1b[31m\nb" in told


# ---------------------------------------------------------------- declared regressions


def regressions(*entries: str) -> list[str]:
    return ["assessment:", "  regressions:", *(f"    - {entry}" for entry in entries)]


def test_a_plan_declares_the_regressions_that_should_survive(tmp_path):
    lines = regressions("{outcome: a, predictors: [b, s]}", "{outcome: s, predictors: [a], kind: logistic}")
    found = load_plan(plan(tmp_path, *lines)).plan.assessment.regressions
    assert [r.formula for r in found] == ["a ~ b + s", "s ~ a"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{outcome: zz, predictors: [a]}", "regression zz ~ a: 'zz' is not among the variables"),
        ("{outcome: s, predictors: [a]}", "a linear regression needs a continuous outcome"),
        ("{outcome: a, predictors: []}", "needs at least one predictor"),
        ("{outcome: a, predictors: [b], levels: 0.9}", "levels: is not a key here"),
        ("{outcome: a, predictors: [b], level: 0.4}", "level must be between 0.5 and 1"),
    ],
)
def test_a_regression_that_does_not_fit_is_refused_with_its_line(tmp_path, entry, message):
    told = refusal(plan(tmp_path, *regressions(entry)))
    assert message in told
    assert "line 1" in told


def test_names_of_our_own_columns_are_refused(tmp_path):
    said = refusal(plan(tmp_path, l7="  - {name: __values__, kind: continuous}"))
    assert "variables with names that begin and end with two underscores, as columns of anonflow do: __values__" in said


@pytest.mark.parametrize("letter", ["\\e", "\\u202e", "\\t", "\\n"])
def test_names_and_levels_that_write_to_a_terminal_are_refused(tmp_path, letter):
    said = refusal(plan(tmp_path, l7=f'  - {{name: s, kind: nominal, levels: ["a{letter}", y]}}'))
    assert "levels: must not hold control characters" in said
    said = refusal(plan(tmp_path, l7=f'  - {{name: "s{letter}", kind: nominal}}'))
    assert "variables with names that hold control characters: s" in said
    assert all(line.isprintable() for line in said.split("\n"))


def test_a_first_record_is_not_shown_because_one_value_is_a_variables_name(tmp_path):
    path = plan(tmp_path)
    (tmp_path / "people.csv").write_text("Zacharias,40,s\nQuibble,3,y\n")
    said = refusal(path)
    assert "columns of the source without a declaration: 2 (names are shown when most agree);" in said
    assert "Zacharias" not in said


@pytest.mark.parametrize(
    ("unit", "told"),
    [
        ("[nobody]", "unit: nobody is no declared variable"),
        ("[a]", "unit: a would be released or only dropped"),
        ("[s, s]", "unit: s is named twice"),
    ],
)
def test_a_unit_is_named_by_identifiers(tmp_path, unit, told):
    identifier = "  - {name: s, kind: nominal, role: identifier}"
    assert told in refusal(plan(tmp_path, f"unit: {unit}", l7=identifier))


def test_levels_of_targets_are_neither_shown_to_auditors_nor_guessed_from_the_digest(tmp_path):
    found = load_plan(plan(tmp_path, "game: {shadows: 64, groups: [{name: few, variable: s, level: x, number: 3}]}"))
    assert "name: few" in found.plan.public_text()
    assert "level: x" not in found.plan.public_text()
    assert found.plan.confides
