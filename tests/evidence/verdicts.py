"""How often the default gates reject independent samples, and pass planted leaks, on real tables.

Run with ``python -m tests.evidence.verdicts nulls|leaks|rates|planted --seeds 0:20 --people 1000``. The tables are
those of the folder ``ANONFLOW_EVIDENCE_DATA`` (adult_trn.csv.gz, adult_val.csv.gz, NHANESraw.csv.gz, testdata.csv.gz,
EIA.csv.gz, origins in docs/reference/evidence.md), and `fair` and `randhie` of statsmodels. Every judgement is printed;
counts come at the end. With ``--results FILE`` judgements are appended to a file, one JSON object a line, and those
that it holds are not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd

from anoncore import Microdata, Schema, Variable
from anoncore.kernels.neighbors import nearest
from anoncore.microdata.units import joined_units
from anoncore.risk import (
    MEMBERSHIP_ATTACKS,
    RiskReport,
    RiskSettings,
    agreement,
    measure_risk,
    relabelling,
    row_order,
    value_presence,
)
from anoncore.risk.scores import Certainty
from tasks.assessment.assess import AssessmentSection
from tasks.policy.assessment import Assessment, ExternalFiles, Records
from tasks.policy.gate import Gate, GateResult, GateVerdict
from tasks.policy.gates import GATES
from tasks.policy.halves import results_of
from tasks.policy.section import PolicySection

FOLDER = Path(os.environ.get("ANONFLOW_EVIDENCE_DATA", "."))
NUMBER = 25  # numbers with more different values are continuous
MOST = 30  # variables, drawn anew for each seed
SHARE = 0.1  # of the records a partial leak concerns
ISOLATED = 20
# Statistical units, and variables that are identifiers or weights.
UNITS = {"households": "ori_hid", "utilities": "UTILITYID"}
LEFT_OUT = {
    "ID", "SurveyYr", "WTINT2YR", "WTMEC2YR", "SDMVPSU", "SDMVSTRA", "household_weights", "sampling_weight", "UTILNAME",
    "family", *UNITS.values(),
}  # fmt: skip
KEYS = {
    "age", "workclass", "education", "marital-status", "occupation", "race", "sex", "native-country", "Age", "Race1",
    "Sex", "Education", "MaritalStatus", "urbrur", "relat", "STATE", "children", "educ",
}  # fmt: skip
Leak = Callable[[pd.DataFrame, pd.DataFrame, np.random.Generator], pd.DataFrame]
Leaks = dict[str, Leak]
NO_FINDING = ExternalFiles(0, 0)
FILES = "files"


@cache
def table(name: str) -> tuple[pd.DataFrame, str | None]:
    """Return a table, and the column of its units; a name after a colon leaves them out."""
    if name == "fair":
        import statsmodels.api as sm

        return sm.datasets.fair.load_pandas().data, None
    if name == "families":
        import statsmodels.api as sm

        return with_families(sm.datasets.randhie.load_pandas().data), "family"
    files = {"adult": ("adult_trn", "adult_val"), "nhanes": ("NHANESraw",), "eia": ("EIA",), "utilities": ("EIA",)}
    read = [pd.read_csv(FOLDER / f"{file}.csv.gz", low_memory=False) for file in files.get(name, ("testdata",))]
    return pd.concat(read, ignore_index=True), UNITS.get(name)


def with_families(years: pd.DataFrame) -> pd.DataFrame:
    """Return person-years with the family, which the table does not name: consecutive records equal in what it has."""
    shared = years[["idp", "lncoins", "lpi", "fmde"]]
    return years.assign(family=shared.ne(shared.shift()).any(axis=1).cumsum())


def samples(name: str, people: int, rng: np.random.Generator) -> list[pd.DataFrame]:
    """Return members, non-members and others, of as many units; records keep the number of their unit in `unit`."""
    whole, by = table(name)
    units = np.arange(len(whole)) if by is None else pd.factorize(whole[by])[0]
    each = min(people, (units.max() + 1) // 3)
    order = rng.permutation(units.max() + 1)
    whole = whole.drop(columns=[c for c in whole if c in LEFT_OUT])
    # Missing where everybody is asked nothing tells nothing.
    whole = whole.loc[:, whole.notna().mean() > 0.02]
    if len(whole.columns) > MOST:
        whole = whole[sorted(rng.choice(whole.columns, MOST, replace=False))]
    parts = (np.flatnonzero(np.isin(units, order[at * each : (at + 1) * each])) for at in range(3))
    return [whole.iloc[rows].assign(unit=units[rows]).reset_index(drop=True) for rows in parts]


def typed(frames: list[pd.DataFrame]) -> list[Microdata]:
    """Return tables of one schema, with their units where records share one."""
    whole = pd.concat([f.drop(columns="unit") for f in frames], ignore_index=True)
    variables, columns = [], {}
    for name, column in whole.items():
        role = cast(Any, "quasi-identifier" if name in KEYS else "other")
        if pd.api.types.is_numeric_dtype(column) and column.nunique() > NUMBER:
            variables.append(Variable(str(name), "continuous", role=role))
            columns[str(name)] = column.astype(float)
        elif len(levels := sorted((text := column.astype("string")).dropna().unique())) > 1:
            kind = cast(Any, "nominal" if len(levels) > 2 else "binary")
            variables.append(Variable(str(name), kind, role=role, levels=levels))
            columns[str(name)] = text
    schema, values, start, tables = Schema(variables), pd.DataFrame(columns), 0, []
    for frame in frames:
        one = Microdata(values.iloc[start : start + len(frame)].reset_index(drop=True), schema)
        start += len(frame)
        shared = frame["unit"].duplicated().any()
        tables.append(one.with_units(joined_units([frame["unit"]], len(frame))) if shared else one)
    return tables


def judged(members: Microdata, others: Microdata, released: Microdata, linked: bool, seed: int) -> dict[str, list[str]]:
    """Return the names of the gates on single records by verdict."""
    settings = AssessmentSection().settings(PolicySection(), rows_linked=linked, copied_parts=True)
    risk = measure_risk(members, released, others, settings=settings, rng=np.random.default_rng([seed, 7]))
    files = ExternalFiles(
        0, 0, relabelling=relabelling(members, released, others), row_order=row_order(members, released)
    )
    return verdicts_of(risk, Records(len(members), len(released), len(others)), GATES, files)


def verdicts_of(
    risk: RiskReport, records: Records, gates: Sequence[Gate], files: ExternalFiles = NO_FINDING
) -> dict[str, list[str]]:
    """Return the names of gates by verdict, as `anonflow assess` judges a file of unknown origin."""
    verdicts: dict[str, list[str]] = {}
    for result, verdict in results(risk, records, gates, files):
        verdicts.setdefault(verdict, []).append(result.name)
    return verdicts


def results(
    risk: RiskReport, records: Records, gates: Sequence[Gate], files: ExternalFiles = NO_FINDING
) -> Iterator[tuple[GateResult, GateVerdict]]:
    """Yield the results of gates on single records and on levels under other names, with the verdict that counts.

    Independent samples stem from no masking of the members.
    """
    policy = PolicySection()
    assessment = Assessment(records, risk, utility=cast(Any, None), external=files)
    for gate in gates:
        for result in results_of(gate, assessment, policy) if gate.individual or gate.name == FILES else ():
            counts = result.verdict != "not tested" or gate.untested_as not in policy.untested
            yield result, result.verdict if counts else "pass"


def first_rejection(members: Microdata, others: Microdata, released: Microdata, seed: int) -> dict[str, list[str]]:
    """Return the gates that fail of the two that find most leaks, with the figures of the whole assessment; or none."""
    draws = np.random.default_rng([seed, 7]).spawn(7)[5]
    certainty, tables = Certainty(RiskSettings().confidence, MEMBERSHIP_ATTACKS), (members, released, others)
    keys = [n for n in released.schema.with_role("quasi-identifier") if n in members.schema]
    for name, attack in (("presence", value_presence), ("agreement", agreement)):
        found = attack(*tables, quasi_identifiers=keys, certainty=certainty, rng=draws)
        risk = cast(RiskReport, SimpleNamespace(**{name: found}))
        records, gates = Records(*map(len, tables)), [gate for gate in GATES if gate.publishes.get(f"risk.{name}")]
        if "fail" in (verdicts := verdicts_of(risk, records, gates)):
            return {"fail": verdicts["fail"]}
    return {}


def decision(verdicts: dict[str, list[str]]) -> str:
    """Return what the default policy decides, utility aside."""
    if "fail" in verdicts:
        return "rejected"
    return "person" if {"inconclusive", "not tested"} & set(verdicts) else "passed"


def numbers(frame: pd.DataFrame) -> list[str]:
    """Return the continuous variables."""
    return [c for c in frame if pd.api.types.is_numeric_dtype(frame[c]) and frame[c].nunique() > NUMBER and c != "unit"]


def with_copies(release: pd.DataFrame, members: pd.DataFrame, rows: np.ndarray, names: list[str]) -> pd.DataFrame:
    """Return a release whose rows hold the members' values of some variables."""
    changed = release.copy()
    changed.loc[rows, names] = members.loc[rows, names]
    return changed


def half_of_columns(share: float) -> Leak:
    """Return the leak that copies a random half of the values of a share of the records."""

    def leak(members: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        names = [c for c in members if c != "unit"]
        mask = np.zeros((len(others), len(names)), dtype=bool)
        for row in chosen(others, share, rng):
            mask[row, rng.choice(len(names), len(names) // 2, replace=False)] = True
        return others[names].mask(mask, members[names].iloc[: len(others)]).assign(unit=others["unit"])

    return leak


def chosen(frame: pd.DataFrame, share: float, rng: np.random.Generator) -> np.ndarray:
    """Return a share of the rows."""
    return rng.choice(len(frame), int(share * len(frame)), replace=False)


def levels(members: pd.DataFrame) -> list[str]:
    """Return the variables that are not continuous."""
    return [c for c in members if c not in (*numbers(members), "unit")]


def keys(members: pd.DataFrame) -> list[str]:
    """Return the quasi-identifiers."""
    return [c for c in members if c in KEYS]


def copied(share: float, of: Callable[[pd.DataFrame], list[str]]) -> Leak:
    """Return the leak that copies some variables of a share of the records."""

    def leak(members: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        return with_copies(others, members, chosen(others, share, rng), of(members))

    return leak


def isolated_copied(members: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Copy the records whose fifth nearest other is farthest away."""
    encoded = pd.get_dummies(members.drop(columns="unit"), dtype=float).fillna(0.0)
    scaled = ((encoded - encoded.mean()) / encoded.std().replace(0.0, 1.0)).to_numpy()
    far = pd.Series(nearest(scaled, scaled, 5, skip_self=True)[0][:, -1]).iloc[: len(others)]
    return with_copies(others, members, far.nlargest(ISOLATED).index.to_numpy(), [c for c in members if c != "unit"])


def half_unchanged(members: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Release every other column of the members as it is, and the others shuffled together."""
    names = [c for c in members if c != "unit"][::2]
    moved = members[names].iloc[rng.permutation(len(members))].reset_index(drop=True)
    return members.assign(**{c: moved[c] for c in names})


def unique_column(members: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Keep the values of the most distinct number, in another order."""
    name = max(numbers(members), key=lambda c: members[c].nunique())
    return others.assign(**{name: rng.permutation(members[name])})


def one_shuffled(members: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Shuffle one number and release the rest as it is."""
    name = numbers(members)[-1]
    return members.assign(**{name: rng.permutation(members[name])})


def noise(share: float) -> Leak:
    """Return the leak that adds noise of a share of each number's deviation."""

    def leak(members: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        moved = {c: members[c] + share * members[c].std() * rng.normal(size=len(members)) for c in numbers(members)}
        return members.assign(**moved)

    return leak


def pairs_averaged(members: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Average the numbers of each record with those of the nearest one."""
    names = numbers(members)
    scaled = ((members[names] - members[names].mean()) / members[names].std()).fillna(0.0).to_numpy()
    near = nearest(scaled, scaled, 1, skip_self=True)[1][:, 0]
    return members.assign(**{c: (members[c].to_numpy() + members[c].to_numpy()[near]) / 2 for c in names})


def outliers_copied(members: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Copy the ten records with the most extreme number."""
    names = numbers(members)
    far = ((members[names] - members[names].median()) / members[names].std()).abs().max(axis=1)
    rows = far.iloc[: len(others)].nlargest(10).index.to_numpy()
    return with_copies(others, members, rows, [c for c in members if c != "unit"])


def small_group_copied(members: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Copy one record in a hundred."""
    return with_copies(others, members, np.arange(len(others) // 100), [c for c in members if c != "unit"])


def transformed(members: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Transform every number by an increasing function."""
    bent = {c: np.sign(members[c]) * members[c].abs() ** 1.2 * 1.1 + 3.0 for c in numbers(members)}
    return members.assign(**bent)


def renamed(members: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Give every level another name."""
    return members.assign(**{c: "x" + members[c].astype("string") for c in levels(members)})


def exchanged(members: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Transform every number, and give every level the name of the next one."""
    known = {c: sorted(members[c].astype("string").dropna().unique()) for c in levels(members)}
    following = {c: dict(zip(names, [*names[1:], *names[:1]], strict=True)) for c, names in known.items()}
    moved = {c: members[c].astype("string").map(names) for c, names in following.items()}
    return transformed(members, others, rng).assign(**moved)


LEAKS: Leaks = {
    "half of the columns of 10 %": half_of_columns(SHARE),
    "levels of 10 %": copied(SHARE, levels),
    "quasi-identifiers of 10 %": copied(SHARE, keys),
    "values of one column": unique_column,
    "one column shuffled": one_shuffled,
    "noise of 1 %": noise(0.01),
    "noise of 5 %": noise(0.05),
    "noise of 10 %": noise(0.10),
    "nearest pairs averaged": pairs_averaged,
    "1 % copied": small_group_copied,
    "ten outliers copied": outliers_copied,
    "increasing transformation": transformed,
    "levels renamed": renamed,
    "numbers transformed, levels exchanged": exchanged,
}
NULL: Leaks = {"independent sample": lambda members, others, rng: others}
# The same by how many are concerned, from which each is found.
RATES: Leaks = {
    **{f"half of the columns of {share:.0%}": half_of_columns(share) for share in (0.01, 0.02, 0.05)},
    **{f"levels of {share:.0%}": copied(share, levels) for share in (0.05, 0.2, 0.3, 0.5)},
    **{f"quasi-identifiers of {share:.0%}": copied(share, keys) for share in (0.05, 0.2, 0.3, 0.5)},
}
NAMELESS = "quasi-identifiers of all, columns without names"
UNCHANGED = "every other column unchanged, rows linked"
PLANTED: Leaks = {
    "quasi-identifiers of all": copied(1.0, keys),
    NAMELESS: copied(1.0, keys),
    UNCHANGED: half_unchanged,
    "20 isolated records copied": isolated_copied,
}
KINDS = LEAKS | RATES | PLANTED | NULL


def small_reference(name: str, reference: int, seed: int) -> dict[str, list[str]]:
    """Judge copies of one record in twenty of at most 20 000, with a reference of so many people."""
    rng = np.random.default_rng([seed, reference])
    members, others, spare = samples(name, 20_000, rng)
    copied = with_copies(others, members, chosen(others, 0.05, rng), [c for c in members if c != "unit"])
    a, b, y = typed([members, spare.sample(reference, random_state=seed).reset_index(drop=True), copied])
    return judged(a, b, y.with_units(None), False, seed)


def run(what: str, name: str, kind: str, people: int, seed: int) -> dict[str, list[str]] | None:
    """Judge one release; None where the table cannot have the leak."""
    if what == "references":
        return small_reference(name, people, seed)
    rng = np.random.default_rng([seed, people])
    members, spare, others = samples(name, people, rng)
    if kind not in NULL and not numbers(members):
        return None
    tables = [members, spare, KINDS[kind](members, others, rng)]
    if kind == NAMELESS:
        nameless = {c: f"v{at}" for at, c in enumerate(members) if c != "unit"}
        tables = [one.rename(columns=nameless) for one in tables]
    a, b, y = typed(tables)
    y = y.with_units(None)
    # Every other sample is released with rows that seem to stem from records: their law must reveal no one.
    linked = kind == UNCHANGED or (kind in NULL and bool(seed % 2))
    return (kind not in NULL and first_rejection(a, b, y, seed)) or judged(a, b, y, linked, seed)


def main(arguments: list[str]) -> None:
    """Judge, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["nulls", "leaks", "rates", "planted", "references"])
    parser.add_argument("--tables", default="adult,nhanes,survey,households,families,eia,utilities,fair")
    parser.add_argument("--seeds", default="0:5")
    parser.add_argument("--people", type=int, default=2000)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    asked = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    copies = f"copies, reference {asked.people}"
    kinds = {"leaks": LEAKS, "rates": RATES, "planted": PLANTED, "nulls": NULL, "references": [copies]}[asked.what]
    before = asked.results.read_text().splitlines() if asked.results and asked.results.exists() else []
    judgements = {tuple(one[:4]): one[4] for one in map(json.loads, before)}
    until = time.monotonic() + 60.0 * asked.minutes
    for seed in range(*map(int, asked.seeds.split(":"))):
        for name, kind in ((name, kind) for name in asked.tables.split(",") for kind in kinds):
            key, begun = (kind, name, asked.people, seed), time.process_time()
            if key in judgements or time.monotonic() > until:
                continue
            verdicts = run(asked.what, name, kind, asked.people, seed)
            judgements[key] = verdicts
            if asked.results:
                with asked.results.open("a") as file:
                    file.write(json.dumps([*key, verdicts]) + "\n")
            if verdicts is not None:
                reasons = {v: names for v, names in verdicts.items() if v in ("fail", "inconclusive", "not tested")}
                took = time.process_time() - begun
                sys.stdout.write(f"{seed} {name} {asked.people} {kind}: {decision(verdicts)} {reasons} {took:.1f} s\n")
                sys.stdout.flush()
    counts = Counter((kind, name, decision(v)) for (kind, name, *_), v in judgements.items() if v is not None)
    for (kind, name, decided), n in sorted(counts.items()):
        sys.stdout.write(f"{kind:30} {name:12} {decided:10} {n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
