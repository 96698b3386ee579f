"""Ten thousand mutated inputs: plans, tables, form submissions, backups. Each is taken, or refused in one message.

    python -m tests.hostile.fuzzed --total 10000 --write

What must hold of each: an exit code that is documented, one message without a traceback, no value of the data shown,
nothing for the terminal to carry out; of a form submission: an answer that is no fault of the server.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.hostile.cases import CANARY, HEADER, parquet, planned
from tests.hostile.run import LINES, LONGEST, Met, at_most, meet_inside, ready
from tests.reliability.sections import replace_section

# Parts of all inputs; a restored home is verified by all its signatures, which takes longest.
PARTS = {"plan": 0.45, "csv": 0.25, "parquet": 0.18, "form": 0.1, "home": 0.02}
PUT = (
    "*a", "&a ", "!!int ''", "!!python/object:os.x {}", "<<: ", "[", "}", ": ", "- ", "\t", "\0", "\x1b[31m", "\u202e",
    "\udc80", "9" * 400, "1e999", ".nan", "~", "'", '"', "\n", "\r", "#", "|", ">", "%", "@", "../..", "=1+1", "é", ",",
)  # fmt: skip
EDITS = (
    "edits: {rules: [{edit: bound, name: e, variable: age, lower: 0}]}",
    "policy: {approval: person, decide_within_days: 3}",
    'schedule: {cron: "0 3 * * mon", timezone: UTC}',
)


@dataclass
class Tally:
    """How the inputs of each kind have ended, and what did not go as it must."""

    ends: dict[str, Counter[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def note(self, kind: str, end: str, problems: list[str], seed: int) -> None:
        self.ends.setdefault(kind, Counter())[end] += 1
        self.problems += [f"{kind} {seed}: {one}" for one in problems]

    def section(self) -> list[str]:
        """Return the section of the page, in Markdown."""
        total = sum(sum(ends.values()) for ends in self.ends.values())
        rows = [
            f"| {kind} | {sum(ends.values())} | {', '.join(f'{n} {end}' for end, n in ends.most_common())} |"
            for kind, ends in self.ends.items()
        ]
        problems = [f"- {' '.join(one.split())[:300]}" for one in self.problems] or ["Problems: none."]
        about = f"{datetime.now(UTC):%Y-%m-%d}: {total} inputs in {self.seconds / 60:.0f} minutes."
        return [about, "", "| input | tried | ended |", "|---|---|---|", *rows, "", *problems]


def mutated_text(text: str, draw: random.Random) -> str:
    """Cut, double and put things into a text."""
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(text) + 1)
        put = draw.choice((draw.choice(PUT), text[at : at + 20], "", chr(draw.randrange(1, 0x3000))))
        text = text[:at] + put + text[at + draw.randint(0, 12) :]
    return text


def mutated_plan(text: str, draw: random.Random) -> str:
    """Put a value in the place of another, so that the text can be read, and says something else."""
    document: Any = yaml.safe_load(text)
    place, key = {"": document}, ""
    while isinstance(place[key], dict | list) and place[key] and (draw.random() < 0.9 or place[key] is document):
        place = place[key]
        key = draw.choice([*place] if isinstance(place, dict) else [*range(len(place))])
    place[key] = draw.choice(
        (None, True, -1, 0.5, 10**30, "age", "=1", "", [], {}, ["a", 1], {"a": []}, mutated_text("age", draw))
    )
    return yaml.safe_dump(document, allow_unicode=True).replace("\udc80", "?")


def mutated_bytes(content: bytes, draw: random.Random, most: int = 6) -> bytes:
    """Replace bytes, or cut off."""
    changed = bytearray(content)
    for _ in range(draw.randint(1, most)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed[: draw.randrange(len(changed))] if draw.random() < 0.1 else changed)


def wrong(met: Met, codes: tuple[int, ...], header: str) -> list[str]:
    """Return what did not go as it must; what a mutation has put into the ``header`` are names, which may be shown."""
    said = met.out + met.err
    found = [f"exit code {met.code}: {said[-300:]}"] if met.code not in codes else []
    if met.code == 2 and (met.err.count("Refused\n") != 1 or met.out):
        found.append(f"not one message: {said[-300:]}")
    if "Traceback" in said or "a fault of anonflow" in said or "no end" in said:
        found.append(f"a fault: {said[-300:]}")
    if CANARY in said and CANARY not in header:
        found.append("a value of the data is shown")
    if len(said) > LONGEST or (met.code == 2 and len(said.splitlines()) > LINES):
        found.append(f"a message of {len(said)} characters")
    if any(not c.isprintable() and c not in "\n\t" for c in said):
        found.append("control characters")
    return found


def handled(command: Callable[[], object]) -> Met:
    """Carry something out with the handler of every command around it."""
    from flows import cli

    out, err = io.StringIO(), io.StringIO()
    begun = time.monotonic()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), at_most(60):
        code = cli.exit_code_of(command, as_json=False)
    return Met(code, out.getvalue(), err.getvalue(), time.monotonic() - begun)


class Fuzzer:
    """Makes inputs of each kind from good ones."""

    def __init__(self, folder: Path) -> None:
        from flows.plan.model import load_plan
        from tests.hostile.test_hostile_fuzz import SMALL

        self.folder, self.home = folder, ready(folder / "home")
        self.plan = planned(folder, *EDITS)
        self.text, self.table = self.plan.read_text(), SMALL
        self.variables = load_plan(self.plan).plan.variables
        self.parquets = [parquet(), parquet(use_dictionary=False, compression=None), parquet(compression="gzip")]
        self.forms = Forms(folder)
        self.backup = self._backup()
        self.header = ""

    def _backup(self) -> bytes:
        """Return the backup of a home in which a candidate waits."""
        frame = HEADER + "".join(f"{CANARY}{i},{20 + i % 50},{'DE' if i % 3 else 'FR'},{i % 2}\n" for i in range(300))
        plan = planned(self.folder, EDITS[1], data=frame, path="more.csv", file="more.yaml")
        met = meet_inside(["run", "--inline", str(plan)], self.home, 600)
        file = self.folder / "home.tar"
        assert met.code in (0, 3, 4), met
        assert meet_inside(["backup", str(file)], self.home, 600).code == 0
        return file.read_bytes()

    def plan_(self, draw: random.Random) -> tuple[Met, tuple[int, ...]]:
        from flows.plan.model import load_plan

        path, self.header = self.folder / "spoiled.yaml", ""
        mutated = mutated_plan if draw.random() < 0.5 else mutated_text
        path.write_bytes(mutated(self.text, draw).encode("utf-8", "surrogateescape"))
        return handled(lambda: load_plan(path)), (0, 2)

    def csv(self, draw: random.Random) -> tuple[Met, tuple[int, ...]]:
        encoding = draw.choice(("utf-8-sig", "latin-1", "utf-16", "cp1252"))
        text = mutated_text(self.table, draw)
        # Quotation marks let a header go on over several lines.
        self.header = "" if text.startswith(HEADER) else text
        content = text.encode(encoding, "replace")
        content += draw.randbytes(draw.choice((0, 0, 3)))
        return self.read("csv", content, encoding=encoding, delimiter=draw.choice(",,,,,,,;\t|")), (0, 2)

    def parquet(self, draw: random.Random) -> tuple[Met, tuple[int, ...]]:
        self.header = ""
        return self.read("parquet", mutated_bytes(draw.choice(self.parquets), draw), format="parquet"), (0, 2)

    def read(self, kind: Any, content: bytes, **source: Any) -> Met:
        """Read a table as a run does, with the handler of a command around it."""
        from tasks.common.errors import sanitise_errors
        from tasks.intake.columns import to_microdata
        from tasks.intake.read import read_file
        from tasks.intake.source import SourceSection

        path = self.folder / "table"
        path.write_bytes(content)

        def reading() -> None:
            frame = read_file(path, kind, SourceSection(path="table", **source), self.variables, shown="table")
            to_microdata(frame, self.variables)

        return handled(sanitise_errors(reading))

    def home_(self, draw: random.Random) -> tuple[Met, tuple[int, ...]]:
        """Restore a backup of which one file, or any bytes, were changed."""
        file, content = self.folder / "spoiled.tar", bytearray(self.backup)
        with tarfile.open(fileobj=io.BytesIO(self.backup)) as tar:
            members = [member for member in tar.getmembers() if member.isfile() and member.size]
        small = [member for member in members if member.size < 100_000]
        member = draw.choice(small if draw.random() < 0.8 else members)
        at = member.offset if draw.random() < 0.2 else member.offset_data
        size = 512 if at == member.offset else member.size
        content[at : at + size] = mutated_bytes(bytes(content[at : at + size]), draw).ljust(size, b"\0")
        file.write_bytes(content)
        with tempfile.TemporaryDirectory(dir=self.folder) as target:
            return meet_inside(["restore", str(file), "--home", target], self.home), (0, 1, 2, 3)


class Forms:
    """The pages of the studio, and Prefect's form, to which anything is sent."""

    def __init__(self, folder: Path) -> None:
        from starlette.testclient import TestClient

        from flows.studio.access import OnePerson
        from flows.studio.app import application
        from flows.studio.jobs import Jobs
        from flows.studio.pages import Studio
        from tasks.common.home import Home

        plans, home = folder / "plans", Home.locate(folder / "studio")
        plans.mkdir()
        self.plan = planned(plans, *EDITS)
        self.text = self.plan.read_text()
        studio = Studio(home, plans, Jobs(home), largest_upload=300_000)
        origin = "http://127.0.0.1"
        self.client = TestClient(
            application(studio, OnePerson("token", 80)), base_url=origin, headers={"origin": origin}
        )
        self.client.get("/?token=token")

    def send(self, draw: random.Random) -> tuple[str, list[str]]:
        """Send one form; return the status it got, and what was wrong."""
        if draw.random() < 0.3:
            return self.decide(draw)
        self.plan.write_text(self.text)
        part = draw.choice(("variables", "edits", "steps", "settings", "text"))
        html = self.client.get(f"/plans/plan.yaml/{part}").text
        names = sorted(set(_between(html, 'name="', '"'))) or ["version"]
        version = next(iter(_between(html, 'name="version" value="', '"')), "")
        sent = {draw.choice(names): self.value(draw) for _ in range(draw.randint(1, 4))}
        sent |= {"version": version} if draw.random() < 0.9 else {}
        answer = self.client.post(f"/plans/plan.yaml/{part}", data=sent, follow_redirects=False)
        found = [f"status {answer.status_code} of {part}: {sorted(sent)}"] if answer.status_code >= 500 else []
        found += ["a value of the data is shown"] if CANARY in answer.text else []
        found += ["a traceback"] if "Traceback" in answer.text else []
        return str(answer.status_code), found

    def decide(self, draw: random.Random) -> tuple[str, list[str]]:
        """Fill Prefect's form in."""
        from pydantic import ValidationError

        from flows.served.approval import Form

        fields = ("decision", "approver", "reason", "dossier_sha256", "signature", "more")
        good = {"decision": "approve", "approver": "Ada", "reason": "read it", "dossier_sha256": "0" * 64}
        given = good | {draw.choice(fields): self.value(draw) for _ in range(draw.randint(1, 3))}
        try:
            Form.model_validate(given)
        except ValidationError:
            return "not valid", []
        return "valid", []

    @staticmethod
    def value(draw: random.Random) -> str:
        text = draw.choice(("age", "0", "approve", "nominal", "{method: mdav, k: 5}", "", "a" * 3000))
        return mutated_text(text, draw).encode("utf-8", "replace").decode()


def _between(text: str, start: str, end: str) -> list[str]:
    return [part.split(end, 1)[0] for part in text.split(start)[1:]]


def fuzz(folder: Path, total: int, seed: int, minutes: float) -> Tally:
    """Try so many inputs, or as many as there is time for; the seed of each is named where it went wrong."""
    fuzzer, tally, begun = Fuzzer(folder), Tally(), time.monotonic()
    feeds: dict[str, Callable[[random.Random], tuple[Met, tuple[int, ...]]]] = {
        "plan": fuzzer.plan_, "csv": fuzzer.csv, "parquet": fuzzer.parquet, "home": fuzzer.home_,
    }  # fmt: skip
    for number in range(total):
        if time.monotonic() - begun > minutes * 60:
            break
        one = seed * 1_000_000 + number
        draw = random.Random(one)
        kind = draw.choices([*PARTS], [*PARTS.values()])[0]
        if kind == "form":
            end, problems = fuzzer.forms.send(draw)
        else:
            met, codes = feeds[kind](draw)
            end = {0: "taken", 2: "refused", 3: "restored, with findings"}.get(met.code, "failed")
            problems = wrong(met, codes, fuzzer.header)
        tally.note(kind, end, problems, one)
    tally.seconds = time.monotonic() - begun
    return tally


def main() -> int:
    """Fuzz; 0 when every input ended as it must."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--total", type=int, default=10_000)
    options.add_argument("--minutes", type=float, default=600)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--write", action="store_true", help="write the section of the page about reliability")
    given = options.parse_args()
    os.environ["COLUMNS"] = "200"
    os.umask(0o077)
    with tempfile.TemporaryDirectory(prefix="fuzzed-", ignore_cleanup_errors=True) as name:
        tally = fuzz(Path(name), given.total, given.seed, given.minutes)
    if given.write:
        replace_section("fuzzed", "\n".join(tally.section()))
    sys.stdout.write(json.dumps(vars(tally), indent=1) + "\n")
    return bool(tally.problems)


if __name__ == "__main__":
    sys.exit(main())
