"""A draft loads, runs, lists every column once, and gives nobody away."""

import datetime
import decimal
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anoncore.edits.kinds import ConditionalEdit, LinearEdit
from anoncore.edits.lookup import LookupEdit
from anoncore.microdata.precision import MIN_COUNT
from flows.draft import draft_plan, sample
from flows.plan.model import Plan, load_plan
from tasks.common.errors import Refused
from tasks.common.home import Home
from tasks.common.run import Run
from tasks.intake.columns import to_microdata
from tasks.intake.ingest import ingest
from tasks.intake.read import read_file
from tasks.intake.split import split
from tasks.intake.units import Declared
from tasks.intake.validate import validate_raw
from tasks.masking.anonymize import mask


def drafted(data: Path) -> str:
    return draft_plan(data, data.parent)


def loaded(data: Path, text: str | None = None):
    """Draft beside the data, load, and return the plan."""
    path = data.parent / "plan.yaml"
    path.write_text(drafted(data) if text is None else text, encoding="utf-8")
    return load_plan(path)


def variables(plan: Plan):
    return {v.name: v for v in plan.variables}


def csv(folder: Path, frame: pd.DataFrame, name: str = "people.csv", **options) -> Path:
    frame.to_csv(folder / name, index=False, **options)
    return folder / name


def checked(file, folder: Path):
    """Read the source and check its edits; return the run and what it may release."""
    run = Run.start(Home.locate(folder / "home"), file.plan.seed)
    return run, validate_raw(run, ingest(run, file.plan.source, file.plan.variables, file.base), file.plan.edits)


def people(n: int = 300, seed: int = 1) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "pid": draw.permutation(10**6)[:n] + 10**6,
            "name": [f"Zacharias Quibble {i}" for i in range(n)],
            "sex": draw.choice(["f", "m"], n),
            "age": draw.integers(18, 90, n),
            "wages": draw.lognormal(7, 1, n).round(2),
            "rent": draw.lognormal(6, 1, n).round(2),
        }
    )
    return frame.assign(total=lambda f: (f.wages + f.rent).round(2))


# ---------------------------------------------------------------- groups on maps


def on_a_map(folder: Path, garrison: bool) -> Path:
    draw = np.random.default_rng(4)
    frame = people(900).assign(county=draw.choice([f"county {c}" for c in "abcdefgh"], 900))
    service = draw.choice(["none", "active"], 900, p=[0.96, 0.04])
    if garrison:
        service[(frame["county"] == "county c") & (np.arange(900) < 500)] = "active"
    return csv(folder, frame.assign(service=service))


def test_a_group_that_stands_out_is_proposed_and_the_proposal_can_be_used(tmp_path):
    data = on_a_map(tmp_path, garrison=True)
    text = drafted(data)
    proposals = [line for line in text.splitlines() if "group-anonymity" in line]
    assert len(proposals) == 1
    assert "'{service: [active]}'".strip("'") in proposals[0]
    steps = loaded(data, text.replace("  # - {method: group-anonymity", "  - {method: group-anonymity")).plan.steps
    assert steps[-1].method == "group-anonymity"
    assert list(steps[-1].caps) == ["county c"]
    assert not loaded(data, text).plan.problems(tmp_path)


def test_variables_without_a_role_that_outsiders_may_know_are_asked_about_last(tmp_path):
    frame = people(400).assign(dialect=np.repeat(list("abcd"), 100), flag=[1] + [0] * 399, psu=np.arange(400) % 16)
    questions = [line for line in drafted(csv(tmp_path, frame)).splitlines() if re.match(r"#   \d+\. ", line)]
    assert "(dialect): people differ by them" in questions[-1]
    assert "flag" not in questions[-1]
    assert "psu" not in questions[-1]


def test_chance_proposes_no_group(tmp_path):
    assert "group-anonymity" not in drafted(on_a_map(tmp_path, garrison=False))


# ---------------------------------------------------------------- figures of groups


def employees(folder: Path) -> Path:
    draw = np.random.default_rng(6)
    firm = np.repeat(np.arange(30), 20)
    wage = np.exp(8 + draw.normal(0, 0.3, 30)[firm] + draw.normal(0, 0.3, 600)).round()
    frame = pd.DataFrame({"firm": [f"F{f}" for f in firm], "age": draw.integers(18, 65, 600), "wage": wage})
    wages = frame.groupby("firm")["wage"]
    index = draw.normal(100, 10, 30).round(1)[firm]
    frame = frame.assign(firm_top_wage=wages.transform("max"), average=wages.transform("mean").round(1), index=index)
    return csv(folder, frame.astype({"wage": int, "firm_top_wage": int}))


def test_whose_records_are_is_asked_first_where_they_look_like_several_of_one(tmp_path):
    draw = np.random.default_rng(0)
    who = np.repeat(np.arange(250), 8)
    frame = pd.DataFrame({"born": draw.integers(1, 20_000, 250)[who] + 0.5, "sex": draw.choice(["f", "m"], 250)[who]})
    frame["height"] = draw.normal(170, 9, 250).round()[who]
    frame["pressure"] = draw.normal(120, 12, len(who)).round()
    text = drafted(csv(tmp_path, frame))
    first = next(line for line in text.splitlines() if line.startswith("#   1. "))
    assert "records agree in " in first
    assert "untested: [several records] under policy" in first
    assert loaded(tmp_path / "people.csv", text).plan.unit == ()
    named = drafted(csv(tmp_path, frame.assign(patient_id=who)))
    assert "records agree in " not in named
    visit = np.arange(len(who))
    visit[1] = 0
    assert "records agree in " in drafted(csv(tmp_path, frame.assign(visit_id=visit)))


def test_figures_of_groups_are_excluded_and_asked_about_and_no_lookup_keeps_them(tmp_path):
    data = employees(tmp_path)
    text = drafted(data)
    file = loaded(data, text)
    roles = {name: v.role for name, v in variables(file.plan).items()}
    assert {name for name, role in roles.items() if role == "excluded"} == {"firm_top_wage", "average"}
    assert [e.dependent for e in file.plan.edits.rules if isinstance(e, LookupEdit)] == ["index"]
    (question,) = [line for line in text.splitlines() if "numbers computed from all records of a group" in line]
    assert re.match(r"#   1\. lines \d+ \(firm_top_wage\), \d+ \(average\): ", question)
    assert "# confirm: computed from all records of a group: greatest wage of the same firm; " in text
    assert not file.plan.problems(tmp_path)


def test_a_figure_of_a_dropped_column_is_known_when_the_table_is_read(tmp_path):
    data = employees(tmp_path)
    text = re.sub(r"(name: firm_top_wage, kind: \w+, role: )excluded", r"\1other", drafted(data))
    text = re.sub(r"(name: wage, kind: continuous, role: )\w+", r"\1excluded", text)
    file = loaded(data, "\n".join(line for line in text.splitlines() if "limits of wage" not in line))
    run = Run.start(Home.locate(tmp_path / "home"), file.plan.seed)
    figures = ingest(run, file.plan.source, file.plan.variables, file.base).figures
    assert [(one.variable, one.number, one.group) for one in figures] == [("firm_top_wage", "wage", "firm")]


# ---------------------------------------------------------------- real data


@pytest.fixture(scope="module")
def nhefs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nhefs")
    source = str(resources.files("causaldata") / "nhefs" / "nhefs.dta")
    data = csv(folder, pd.read_stata(source, convert_dates=False), "nhefs.csv")
    return folder, data, drafted(data)


def test_nhefs_loads_without_a_problem(nhefs):
    _, data, text = nhefs
    file = loaded(data, text)
    assert len(file.plan.variables) == 67


def test_nhefs_sums_are_found(nhefs):
    _, data, text = nhefs
    sums = [r for r in loaded(data, text).plan.edits.rules if isinstance(r, LinearEdit) and r.relation == "=="]
    assert {(s.dependent, s.tolerance) for s in sums} == {
        ("wt82_71", None),
        (None, 0.0005),  # looked up, as the prices and taxes are
        (None, 0.0002),
    }
    assert sums[0].terms == {"wt71": -1.0, "wt82": 1.0, "wt82_71": -1.0}


def test_nhefs_identifiers_are_dropped(nhefs):
    _, data, text = nhefs
    found = variables(loaded(data, text).plan)
    assert {n for n, v in found.items() if v.role == "identifier"} == {"seqn", "id"}
    assert found["sex"].role == found["age"].role == found["race"].role == "quasi-identifier"


def test_nhefs_rules_that_its_codebook_states_are_found(nhefs):
    _, data, text = nhefs
    rules = [r for r in loaded(data, text).plan.edits.rules if isinstance(r, ConditionalEdit)]
    said = {(r.when[0].variable, r.when[0].values, r.then.variable, r.then.values, r.then.missing) for r in rules}
    assert ("sex", (0,), "pregnancies", None, True) in said
    assert ("death", (0,), "yrdth", None, True) in said
    assert ("death", (1,), "yrdth", None, False) in said
    assert ("censored", (1,), "wt82", None, True) in said
    looked_up = {(r.dependent, *r.of) for r in loaded(data, text).plan.edits.rules if isinstance(r, LookupEdit)}
    assert {("older", "age"), ("education", "school"), ("hightax82", "tax82")} <= looked_up


def test_nhefs_runs_as_drafted(nhefs):
    folder, data, text = nhefs
    file = loaded(data, text)
    run, given = checked(file, folder)
    try:
        edits = file.plan.edits.edit_set().learned(given.data.load())
        assert not any(edits.violations(given.data.load().frame).values())
        sides = split(run, given, file.plan.reference, Declared(file.plan.variables), file.base)
        released = mask(run, sides.original, file.plan.steps, edits).released.load()
        assert len(released) == 1629
        assert not any(edits.violations(released.frame).values())
    finally:
        run.workspace.wipe()


def test_the_same_file_gives_the_same_draft(nhefs):
    _, data, text = nhefs
    assert drafted(data) == text


@pytest.mark.parametrize("suffix", ["csv", "parquet", "dta"])
def test_every_format_gives_the_same_variables(tmp_path, suffix):
    frame = people().drop(columns="name")
    data = tmp_path / f"people.{suffix}"
    if suffix == "csv":
        frame.to_csv(data, index=False)
    elif suffix == "parquet":
        frame.to_parquet(data)
    else:
        frame.to_stata(data, write_index=False)
    file = loaded(data)
    found = {n: (v.kind, v.role) for n, v in variables(file.plan).items()}
    assert found == {
        "pid": ("nominal", "identifier"),
        "sex": ("binary", "quasi-identifier"),
        "age": ("continuous", "quasi-identifier"),
        "wages": ("continuous", "sensitive"),
        "rent": ("continuous", "other"),
        "total": ("continuous", "other"),
    }
    assert [e.dependent for e in file.plan.edits.edit_set().dependents] == ["total"]
    checked(file, tmp_path)


# ---------------------------------------------------------------- how the file is read


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_delimiter_and_encoding_are_found_out(tmp_path, delimiter, encoding):
    frame = people(50).rename(columns={"rent": "loyer à payer; en €, par | mois"})
    data = csv(tmp_path, frame, "people.txt", sep=delimiter, encoding=encoding)
    source = loaded(data).plan.source
    assert source.delimiter == delimiter
    assert ("16" in source.encoding) == ("16" in encoding)


def test_what_is_not_utf8_is_read_as_latin1_and_marked(tmp_path):
    data = csv(tmp_path, people(50).assign(place=["Zürich", "Genève"] * 25), encoding="latin-1")
    text = drafted(data)
    assert re.search(r"encoding: latin-1  # confirm: ", text)
    assert variables(loaded(data, text).plan)["place"].levels == ("Genève", "Zürich")


def test_tsv_states_its_format(tmp_path):
    data = csv(tmp_path, people(50), "people.tsv", sep="\t")
    assert loaded(data).plan.source.format == "csv"


def test_the_path_is_relative_to_the_plan(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "plans").mkdir()
    data = csv(tmp_path / "data", people(50))
    text = draft_plan(data, tmp_path / "plans")
    assert yaml.safe_load(text)["source"]["path"] == "../data/people.csv"
    (tmp_path / "plans" / "p.yaml").write_text(text)
    load_plan(tmp_path / "plans" / "p.yaml")


def test_a_path_with_nothing_in_common_is_absolute(tmp_path, monkeypatch):
    data = csv(tmp_path, people(50))
    assert yaml.safe_load(draft_plan(data, Path("/opt")))["source"]["path"] == str(data.resolve())


def test_a_link_to_the_data_stays_a_link(tmp_path):
    csv(tmp_path, people(50), "version-7.csv")
    (tmp_path / "current.csv").symlink_to("version-7.csv")
    assert yaml.safe_load(drafted(tmp_path / "current.csv"))["source"]["path"] == "current.csv"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "there is no file none.csv"),
        ("t.docx", b"PK", "is not known by its name"),
        ("t.csv", b"", "is empty"),
        ("t.csv", b"a,b\n", "holds no records"),
        ("t.csv", b"a,a\n1,2\n", "holds columns twice"),
        ("t.csv", b",a\n1,2\n", "a column without a name"),
        ("t.csv", b"a,b\n1,\0\n", "NUL bytes"),
        ("t.csv", b"a,b\n1,2,3\n", "more fields|line 2 has 3 fields"),
        ("t.csv", b"4711,Quibble\n4712,Quibbly\n4713,Squibb\n", "looks like a record"),
        ("t.csv", b"Quibble,f,north\nQuibbly,f,south\nSquibb,m,north\n", "looks like a record"),
        ("t.csv", b"4711,0.5,Quibble\n4712,1.5,Quibbly\n", "looks like a record"),
        ("t.csv", b"zq@example.org,2001-02-03,x\n", "looks like a record"),
        ("t.parquet", b"not parquet", "is not a readable parquet file"),
        ("t.dta", b"not stata", "is not a readable stata file"),
    ],
)
def test_what_cannot_be_read_is_refused_without_a_value(tmp_path, name, content, message):
    data = tmp_path / name
    if content is not None:
        data.write_bytes(content)
    with pytest.raises(Refused, match=message) as refused:
        drafted(data)
    assert not re.search("Quibbl|471|zq@|2001", str(refused.value))


def test_years_and_counted_columns_are_names(tmp_path):
    draw = np.random.default_rng(9)
    for names in (["1990", "2000", "2010"], ["1", "2", "3"], ["q3", "q2", "1"]):
        data = csv(tmp_path, pd.DataFrame({n: draw.integers(0, 90, 40) for n in ["country", *names]}))
        assert [v.name for v in loaded(data).plan.variables] == ["country", *names]


@pytest.mark.parametrize(("odd", "precision"), [(1, 10.0), (4, 10.0), (5, 0.01)])
def test_a_few_values_do_not_decide_the_precision(tmp_path, odd, precision):
    frame = people(900).assign(capital=lambda f: (f.wages // 10) * 10)
    frame.loc[: odd - 1, "capital"] = np.arange(odd) + 271.37
    assert variables(loaded(csv(tmp_path, frame)).plan)["capital"].precision == precision


@pytest.mark.parametrize(
    ("name", "message"),
    [("t.csv", "holds files which are not Parquet"), ("year=1/t.parquet", "folders called name=value")],
)
def test_a_folder_that_a_draft_cannot_read_is_refused(tmp_path, name, message):
    (tmp_path / "people" / name).parent.mkdir(parents=True)
    pd.DataFrame({"a": [1.0]}).to_parquet(tmp_path / "people" / name)
    with pytest.raises(Refused, match=message):
        drafted(tmp_path / "people")


def test_a_folder_is_drafted_with_the_limits_and_levels_of_all_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "MOST", 400)
    folder, draw = tmp_path / "people", np.random.default_rng(4)
    folder.mkdir()
    for part in range(3):
        n = 3000
        frame = pd.DataFrame(
            {
                "age": draw.integers(20, 70, n),
                "income": draw.gamma(2, 900, n).round(1),
                "region": draw.choice(["north", "south"], n),
                "sector": draw.choice(["a", "b", "c"], n),
                "household": np.arange(n) // 3 + 1000 * part + 7_000_000,
            }
        )
        if part == 2:
            frame.loc[1500:1530, "age"] = 90
            frame.loc[2990:2996, "region"] = "island"
        frame.to_parquet(folder / f"{part}.parquet")
    text = drafted(folder)
    assert "from people: 9000 records, of which" in text
    assert "engine: auto" in text
    plan = loaded(folder).plan
    age = next(e for e in plan.edits.rules if getattr(e, "variable", "") == "age")
    assert (age.lower, age.upper) == (20, 90)
    assert set(variables(plan)["region"].levels) == {"north", "south", "island"}
    assert drafted(folder) == text


def test_every_type_that_parquet_knows_is_read_or_dropped(tmp_path):
    n = 60
    frame = pd.DataFrame(
        {
            "x": np.random.default_rng(10).normal(size=n),
            "day": [datetime.date(2020, 1, 1 + i % 28) for i in range(n)],
            "moment": pd.to_datetime(["2020-01-01"] * n),
            "clock": [datetime.time(1, i) for i in range(n)],
            "span": pd.to_timedelta(range(n)),
            "raw": [b"a", b"b"] * (n // 2),
            "share": [decimal.Decimal(i % 7) / 2 for i in range(n)],
            "one_or_two": [decimal.Decimal(i % 2) for i in range(n)],
            "flag": [True, False] * (n // 2),
            "flag_or_not": [None, True, False] * (n // 3),
            "code": pd.array([1, None, 3] * (n // 3), dtype="Int64"),
            "size": pd.Categorical(["s", "l", "m"] * (n // 3), categories=["s", "m", "l"], ordered=True),
            "digits": [str(i % 5) for i in range(n)],
            "nothing": [None] * n,
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    file = loaded(tmp_path / "t.parquet")
    found = variables(file.plan)
    dropped = {n for n, v in found.items() if v.role == "excluded"}
    assert dropped == {"day", "moment", "clock", "span", "raw", "nothing"}
    assert found["size"].levels == ("s", "m", "l")
    assert found["flag_or_not"].levels == (0, 1)
    assert found["share"].kind == "continuous"
    checked(file, tmp_path)
    folder = tmp_path / "people"
    folder.mkdir()
    for part in range(2):
        frame[part * 30 : part * 30 + 30].to_parquet(folder / f"{part}.parquet", index=False)
    file = loaded(folder)
    assert {n for n, v in variables(file.plan).items() if v.role == "excluded"} == dropped
    checked(file, tmp_path)


def test_lists_are_refused(tmp_path):
    pd.DataFrame({"x": range(30), "l": [[4711]] * 30}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(Refused, match="hold lists or structures: l; convert them"):
        drafted(tmp_path / "t.parquet")


# ---------------------------------------------------------------- names

HOSTILE = [
    *(
        "a: b",
        "- a",
        "-",
        "#c",
        "a #c",
        '"q"',
        "it's",
        "{f}",
        "[g]",
        "&a",
        "*b",
        "!t",
        "%d",
        "@e",
        "`f",
        "key:",
    ),
    *("yes", "No", "null", "~", "true", "0x1F", "1_000", "12:30:45", ".inf", "2020-01-01", "=", "<<", "? k"),
    *("a\nb", "a\r\nb", "tab\there", "\\n", "x\x85y", "x\u2028y", "\u200b", "\ufeffx", "a\x07b", "\x7f"),
    *(
        "ünï",
        "日本",
        "\U0001f600",
        "a,b",
        "a;b",
        "a|b",
        "| p",
        "> q",
        " lead",
        "trail ",
        "---",
        "...",
        "a''b",
    ),
    *('a"b', "$(rm)", "{{ x }}", "%s", "n" * 300, "n" * 2000),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_survive(tmp_path, name):
    draw = np.random.default_rng(3)
    frame = pd.DataFrame({"plain": draw.lognormal(3, 1, 200).round(2), name: draw.lognormal(3, 1, 200).round(2)})
    frame["sum"] = (frame.plain + frame[name]).round(2)
    frame.to_parquet(tmp_path / "t.parquet")
    file = loaded(tmp_path / "t.parquet")
    assert [v.name for v in file.plan.variables] == ["plain", name, "sum"]
    assert all(len(v.splitlines()) == 1 for v in (name,)) or name not in drafted(tmp_path / "t.parquet")


def test_hostile_names_survive_together_in_csv(tmp_path):
    draw = np.random.default_rng(4)
    names = [n for n in HOSTILE if n.strip() and "\r" not in n and len(n) < 1000]
    data = csv(tmp_path, pd.DataFrame({n: draw.integers(0, 50, 60) for n in names}))
    file = loaded(data)
    assert [v.name for v in file.plan.variables] == names
    checked(file, tmp_path)


def test_a_blank_name_is_refused(tmp_path):
    pd.DataFrame({"a": [1, 2], " ": [1, 2]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(Refused, match="without a name"):
        drafted(tmp_path / "t.parquet")


@pytest.mark.parametrize("stem", ["2020 Survey (final)", "ÄÖÜ", "---", "a" * 200, "x#y: z"])
def test_the_files_name_becomes_a_plans_name(tmp_path, stem):
    loaded(csv(tmp_path, people(50), f"{stem}.csv"))


# ---------------------------------------------------------------- nobody is given away


def test_no_value_of_an_identifier_stands_in_the_draft(tmp_path):
    n, draw = 240, np.random.default_rng(5)
    secrets = {
        "pid": [f"{v}" for v in draw.integers(10**8, 10**9, n)],
        "full_name": [f"Zacharias{i} Quibble" for i in range(n)],
        "contact": [f"zq{i}@example.org" for i in range(n)],
        "remarks": [f"said {i} odd things" for i in range(n)],
        "born": [f"19{i % 80 + 10}-0{i % 9 + 1}-1{i % 9}" for i in range(n)],
        "phone_no": [f"+41 79 555 {i:04d}" for i in range(n)],
        "surname": [f"Quibble{i % 30}" for i in range(n)],
        "code": [f"{v:09d}" for v in draw.integers(10**3, 10**9, n)],
    }
    text = drafted(csv(tmp_path, people(n).drop(columns=["pid", "name"]).assign(**secrets)))
    roles = {v["name"]: v["role"] for v in yaml.safe_load(text)["variables"]}
    for column, values in secrets.items():
        assert roles[column] == ("identifier" if column in ("pid", "contact", "code") else "excluded")
        assert not [v for v in values if str(v) in text]


def test_no_rare_level_and_no_extreme_stands_in_the_draft(tmp_path):
    frame = people(500)
    frame["town"] = ["Bern", "Basel"] * 248 + ["Quibbleville"] * 4
    frame.loc[3, ["age", "wages"]] = [117, 987654.32]
    frame["total"] = (frame.wages + frame.rent).round(2)
    frame["delta"] = (frame.wages - 5000).round(2)
    text = drafted(csv(tmp_path, frame))
    for word in ("Quibbleville", "117", "987654", f"{frame.total.max():.2f}", f"{frame.delta.min():.2f}"):
        assert word not in text
    for column in ("age", "wages", "rent", "total", "delta"):
        for extreme in (frame[column].min(), frame[column].max()):
            if (frame[column] == extreme).sum() >= MIN_COUNT:
                continue
            assert not re.search(rf"(?<![\d.]){re.escape(f'{extreme:g}')}(?![\d.])", text.split("variables:")[1])


def test_a_rare_code_for_missing_is_not_proposed(tmp_path):
    ages = np.r_[np.random.default_rng(6).integers(20, 60, 300), [99] * 4]
    assert "99" not in drafted(csv(tmp_path, pd.DataFrame({"years": ages, "x": ages % 7}))).split("reference:")[0]


# ---------------------------------------------------------------- what a person sees


def test_choices_are_the_defaults_but_for_approval_and_reference(tmp_path):
    plan = loaded(csv(tmp_path, people())).plan
    least = Plan(anonflow=1, name="x", source=plan.source, variables=plan.variables, steps=plan.steps)
    assert plan.policy.approval == "person"
    assert plan.policy.model_copy(update={"approval": "automatic"}) == least.policy
    assert plan.publication.model_copy(update={"title": ""}) == least.publication
    assert plan.reference.kind == "cross"
    assert (plan.assessment, plan.seed) == (least.assessment, least.seed)
    assert plan.edits.on_violation == "refuse"


def test_there_is_no_seed_and_it_says_why(tmp_path):
    text = drafted(csv(tmp_path, people()))
    assert "seed" not in yaml.safe_load(text)
    assert "no seed section on purpose" in text


def test_text_for_missing_is_declared_and_codes_are_proposed(tmp_path):
    draw = np.random.default_rng(7)
    frame = people().assign(
        height=[*map(str, draw.integers(150, 200, 290)), *["NA"] * 10],
        children=draw.choice([0, 1, 2, 3, 99], 300),
        status=draw.choice(["a", "b", "unknown"], 300),
    )
    data = csv(tmp_path, frame)
    text = drafted(data)
    found = variables(loaded(data, text).plan)
    assert found["height"].missing == ("NA",)
    assert found["children"].missing == found["status"].missing == ()
    assert re.search(r"\{name: height.*text where a number is missing \(10 record", text)
    assert re.search(r"# does 99 mean a missing value \(\d+ records\)\? then move it from levels to missing", text)
    assert re.search(r"# does unknown mean a missing value", text)
    checked(loaded(data, text), tmp_path)


def test_a_table_of_identifiers_is_drafted_and_not_released(tmp_path):
    data = csv(tmp_path, people()[["pid", "name"]])
    text = drafted(data)
    assert "every column would be dropped" in text
    with pytest.raises(Refused, match="nothing would be released") as refused:
        loaded(data, text)
    assert len(str(refused.value).splitlines()) == 1


def test_a_draft_without_rules_can_be_filled_in(tmp_path):
    data = csv(tmp_path, pd.DataFrame({"q": ["a", "b"] * 20, "r": ["a", "a", "b", "b"] * 10}))
    text = drafted(data)
    assert "rules: []" in text
    loaded(data, text.replace("rules: []", 'rules: [{edit: set, name: q, variable: q, values: ["a", "b"]}]'))


# ---------------------------------------------------------------- any table

TEXTS = st.sampled_from(
    ["", "a", "b b", "NA", "1", "01", "1.5", "1,5", "x: y", "true", "False", "-", "1e3", " 2", "é", "inf"]
)
NUMBERS = st.one_of(st.integers(-5, 5), st.integers(-(2**40), 2**40), st.floats(-1e9, 1e9, allow_nan=False))
FEW = st.sampled_from([0, 1, 2, 99])
COLUMN = st.sampled_from(
    [
        TEXTS,
        NUMBERS,
        FEW,
        st.none(),
        st.booleans(),
        st.one_of(st.none(), st.booleans()),
        st.one_of(FEW, st.none()),
    ]
)
NAME = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=8).filter(str.strip)


@st.composite
def tables(draw):
    names = draw(st.lists(NAME, min_size=1, max_size=5, unique=True))
    rows = draw(st.sampled_from([1, 2, 6, 30]))
    return pd.DataFrame({n: draw(st.lists(draw(COLUMN), min_size=rows, max_size=rows)) for n in names})


def attempt(function, *arguments):
    """Return the result and no message, or no result and the message of the refusal."""
    try:
        return function(*arguments), ""
    except Refused as refused:
        return None, str(refused)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(frame=tables(), parquet=st.booleans())
def test_the_draft_of_any_table_loads_lists_every_column_and_can_be_read(tmp_path, frame, parquet):
    data = tmp_path / ("t.parquet" if parquet else "t.csv")
    try:
        frame.to_parquet(data) if parquet else frame.to_csv(data, index=False)
    except (ValueError, TypeError):
        return
    text, refused = attempt(drafted, data)
    if text is None and "look alike" in refused:
        return
    if text is None:
        known = "regular|more fields|cannot be read|looks like a record|no records|NUL|without a name|twice"
        assert not parquet
        assert re.search(known, refused)
        return
    names = [v["name"] for v in yaml.safe_load(text)["variables"]]
    # A CSV file does not carry line ends in a header as they are.
    assert names == list(frame.columns) or not (parquet or all(n.isprintable() for n in frame.columns))
    file, refused = attempt(loaded, data, text)
    if file is None:
        assert re.fullmatch(r".*nothing would be released", refused)
        return
    source, declared = file.plan.source, file.plan.variables
    read = read_file(data, source.kind(data), source, declared, shown="table")
    microdata, _ = to_microdata(read, declared)
    assert not any(file.plan.edits.edit_set().violations(microdata.frame).values())


def test_columns_with_control_characters_are_dropped_until_a_person_says_otherwise(tmp_path):
    draw = np.random.default_rng(6)
    frame = people(200).assign(land=draw.choice(["no\x1b]0;pwn\x07", "so\u202eevil"], 200))
    frame["b\x07ell"] = draw.integers(0, 50, 200)
    frame.to_parquet(tmp_path / "t.parquet")
    text = drafted(tmp_path / "t.parquet")
    roles = {v["name"]: v["role"] for v in yaml.safe_load(text)["variables"]}
    assert roles["land"] == roles["b\x07ell"] == "excluded"
    assert len(re.findall("^  - .*its name or values hold control characters", text, re.M)) == 2
    checked(loaded(tmp_path / "t.parquet"), tmp_path)


# ---------------------------------------------------------------- statistical units


def panel(n=300, waves=3):
    frame = people(n).drop(columns=["name"])
    return frame.assign(pid=[f"{i // waves:05d}" for i in range(n)])


def test_an_identifier_that_repeats_is_proposed_as_the_unit(tmp_path):
    data = csv(tmp_path, panel())
    text = drafted(data)
    assert loaded(data, text).plan.unit == ("pid",)
    assert "# confirm: 300 records are of 100 units, joined by pid." in text
    assert loaded(csv(tmp_path, people(300), "own.csv")).plan.unit == ()


def test_an_identifier_that_joins_nearly_everybody_is_excluded(tmp_path):
    frame = panel().assign(hid=[i // 6 for i in range(300)], line_id=[i % 14 for i in range(300)])
    data = csv(tmp_path, frame)
    text = drafted(data)
    roles = {n: v.role for n, v in variables(loaded(data, text).plan).items()}
    assert (roles["pid"], roles["hid"], roles["line_id"]) == ("identifier", "household", "excluded")
    assert "# confirm: 300 records are of 50 units, joined by hid or pid." in text
    assert "its values join most of the records" in text


def test_household_columns_are_proposed_together_and_chance_joins_nothing(tmp_path):
    draw = np.random.default_rng(8)
    frame = panel().drop(columns="pid")
    homes = [i // 3 for i in range(300)]
    frame = frame.assign(hid=homes, household_weights=[home % 7 for home in homes], tally=draw.permutation(5000)[:300])
    frame.loc[299, "tally"] = frame.loc[0, "tally"]
    data = csv(tmp_path, frame)
    text = drafted(data)
    plan = loaded(data, text).plan
    assert plan.unit == ("hid",)
    assert "300 records are of 100 units, joined by hid." in text
    roles = {name: (v.kind, v.role) for name, v in variables(plan).items()}
    assert roles["tally"] == ("continuous", "other")
    assert roles["household_weights"] == ("continuous", "weight")


def test_what_names_the_units_of_a_panel_is_found(tmp_path):
    draw = np.random.default_rng(9)
    firms, years = np.divmod(np.arange(600), 10)
    frame = pd.DataFrame(
        {"firm": [f"firm {i}" for i in firms], "year": 2000 + years, "sales": draw.lognormal(5, 1, 600)}
    )
    text = drafted(csv(tmp_path, frame))
    assert loaded(tmp_path / "people.csv", text).plan.unit == ("firm",)
    assert "# confirm: 600 records are of 60 units, joined by firm." in text


@pytest.mark.parametrize("twice", [False, True])
def test_the_time_of_a_panel_is_drawn_first(tmp_path, twice):
    draw = np.random.default_rng(9)
    firms, years = np.divmod(np.arange(3000), 6)
    frame = pd.DataFrame({"firmid": firms, "sales": draw.lognormal(5, 1, 3000), "year": 2000 + years})
    frame.loc[1, "year"] -= twice
    text = drafted(csv(tmp_path, frame))
    (trees,) = [step for step in loaded(tmp_path / "people.csv", text).plan.steps if step.method == "sequential-trees"]
    assert trees.first == (() if twice else ("year",))
    assert ("# The time of a panel is drawn first" in text) is not twice


def test_a_panel_with_many_gaps_is_found(tmp_path):
    draw = np.random.default_rng(9)
    firms, years = np.divmod(np.flatnonzero(draw.random(60 * 15) < 0.3), 15)
    frame = pd.DataFrame({"holding": firms, "year": 2000 + years, "sales": draw.lognormal(5, 1, len(firms))})
    assert loaded(csv(tmp_path, frame)).plan.unit == ("holding",)


def test_numbers_of_groups_that_rise_with_an_identifier_are_the_unit(tmp_path):
    order = np.arange(600)
    frame = people(600).drop(columns=["name"]).assign(pid=order + 5, mother=order * 2 // 5 * 3, block=order // 5)
    assert loaded(csv(tmp_path, frame)).plan.unit == ("mother",)


def test_numbers_within_schools_are_no_identifiers_and_schools_no_unit(tmp_path):
    school, pupil = np.divmod(np.arange(900), 15)
    data = csv(tmp_path, people(900).drop(columns=["name"]).assign(school=school, memberid=pupil + 1 + school % 7))
    text = drafted(data)
    assert loaded(data, text).plan.unit == ()
    assert "(school): numbers of groups of records: identifier or household if" in text
    assert "it counts from the start again within each school" in text.replace("\n#    ", "")


@pytest.mark.parametrize("name", ["rownames", "Record number"])
def test_numbers_of_records_are_identifiers_in_any_order(tmp_path, name):
    number = (np.random.default_rng(2).lognormal(9, 1, 600) // 1).cumsum()
    data = csv(tmp_path, people(600).drop(columns=["name"]).assign(**{name: np.roll(number, 251)}))
    assert variables(loaded(data).plan)[name].role == "identifier"


def test_numbers_of_areas_may_get_the_role_of_areas(tmp_path):
    text = drafted(csv(tmp_path, people(900).drop(columns=["name"]).assign(commune=np.arange(900) // 6)))
    assert "(commune): numbers of areas: role area to release them" in text


def test_names_that_repeat_are_asked_about_where_no_identifier_joins_records(tmp_path):
    once = [f"Person {i}" for i in range(600)]
    frame = people(600).drop(columns=["name"]).assign(name=once)
    question = "(name): names that repeat: identifier if they say whose record it is"
    assert question not in drafted(csv(tmp_path, frame))
    frame["name"] = [*once[:560], *once[:40]]
    data = csv(tmp_path, frame)
    assert question in drafted(data)
    assert variables(loaded(data).plan)["name"].role == "excluded"
    frame["patientid"] = [*range(560), *range(40)]
    assert question not in drafted(csv(tmp_path, frame))


def test_a_day_that_hardly_repeats_makes_no_panel(tmp_path):
    day = np.arange(600)
    frame = pd.DataFrame({"day": day, "band": day % 7, "births": np.random.default_rng(2).poisson(200, 600)})
    assert loaded(csv(tmp_path, frame)).plan.unit == ()


def test_levels_that_are_names_of_columns_are_no_missing_header(tmp_path):
    others = {f"group{i}": list("xyz") * 20 for i in range(4)}
    frame = people(60).assign(f=["f", "m"] * 30, north=["north", "south"] * 30, **others)
    assert "north" in variables(loaded(csv(tmp_path, frame)).plan)


def test_the_first_lines_say_what_to_confirm_and_what_is_dropped(tmp_path):
    draw = np.random.default_rng(10)
    frame = panel().assign(
        case=range(700, 1000), weight=draw.lognormal(9, 1, 300), wage_number=draw.permutation(10**6)[:300]
    )
    frame["note"] = [f"said {i % 150} things" for i in range(300)]
    frame["finalweight"] = draw.lognormal(9, 1, 300)
    text = drafted(csv(tmp_path, frame))
    lines = text.splitlines()
    asked = re.findall(r"^#   \d\. line (\d+)(?: \((\w+)\))?: ", text, re.M)
    assert [subject for _, subject in asked] == ["", "case", "weight"]
    assert [lines[int(n) - 1].partition(",")[0] for n, _ in asked] == [
        "unit: [pid]",
        "  - {name: case",
        "  - {name: weight",
    ]
    assert re.search(r"name: finalweight, .*# a weight, too; weight counts", text)
    assert re.search(r"^#   note \(excluded: ", text, re.M)
    assert re.search(r"^#   pid \(identifier: ", text, re.M)


def test_a_newcomer_beyond_a_drafted_limit_is_refused_with_the_limit_and_the_mend(tmp_path):
    frame = people().drop(columns="name")
    file = loaded(csv(tmp_path, frame))
    frame.loc[7, "age"] = 4321
    csv(tmp_path, frame)
    with pytest.raises(Refused, match=r"limits of age: at least \d+ and at most \d+ \(1\).*widen") as refused:
        checked(file, tmp_path)
    assert "4321" not in str(refused.value)


def test_records_that_break_a_sum_are_repaired_and_no_run_refused(tmp_path):
    frame = people().drop(columns="name")
    frame.loc[7, "total"] += 100
    assert loaded(csv(tmp_path, frame)).plan.edits.on_violation == "repair"


@pytest.mark.parametrize(("sigma", "by_rank"), [(0.3, False), (1.5, True)])
def test_small_tables_of_heavy_amounts_are_masked_by_rank(tmp_path, sigma, by_rank):
    """On other scales the zeros of earnings were lost, and a quarter of the capital of firms."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sales": np.exp(8 + sigma * rng.normal(size=200)).round(), "age": rng.integers(18, 90, 200)})
    (swap,) = [s for s in loaded(csv(tmp_path, frame)).plan.steps if s.method == "spectral-swap"]
    assert ((swap.numeric, swap.marginals) == ("normal", "drawn")) == by_rank
