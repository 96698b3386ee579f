"""Pages of a plan: import, variables, edits, steps and policy, text, and what a plan is run for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from flows.studio import forms, workbook
from flows.studio.describe import Description, describe
from flows.studio.jobs import Job
from flows.studio.pages import HEADERS, Asked, NotAllowed, allow, asked, plan_address, show, to
from flows.studio.workbook import Document
from tasks.common.errors import Refused, cut, visible
from tasks.common.home import PRIVATE_FILE
from tasks.connectors.formats import SUFFIXES
from tasks.policy.gate import WORST_FIRST

FILE_NAME = re.compile(r"[\w][\w .()+-]{0,99}", re.ASCII)
READABLE = tuple(SUFFIXES)
BAD_NAME = (
    "The file {} cannot be stored under its name: names have at most 100 letters a to z, digits, spaces and "
    ". _ - + ( ), and begin with a letter or digit. Rename it and choose it again."
)
PARTS = {"variables": "Variables", "edits": "Edits", "steps": "Steps and policy", "run": "Run", "text": "Text"}
MOST_DESCRIBED = 4
MINUTES = ("1", "3", "10", "30")


def home_page(one: Asked) -> Response:
    """Show the plans of the folder, the import, and work under way."""
    names = workbook.plans_in(one.studio.folder) if "author" in one.roles else []
    return show(one, "home", plans=names, jobs=[job for job in one.studio.jobs.all() if _may_see(one, job)])


async def upload(request: Request) -> Response:
    """Store a file whose bytes are the request's body beside the plans, and draft its plan.

    It is written for the owner alone while it arrives, never to a shared folder of temporary files, and what arrives
    beyond the limit is not written.
    """
    one = asked(request, {})
    try:
        allow(one, "author")
        name = _safe_name(one.query.get("name", ""))
        target = one.studio.folder / name
        limit = one.studio.largest_upload
        too_large = f"The file is larger than {limit / 1e9:g} GB; use a folder or a database as the source."
        if int(request.headers.get("content-length") or 0) > limit:
            return JSONResponse({"message": too_large}, 413, HEADERS)
        _check_new(target)
        part = target.with_name(f".{uuid4().hex}.part")
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as file:
                async for block in request.stream():
                    if file.tell() + len(block) > limit:
                        return JSONResponse({"message": too_large}, 413, HEADERS)
                    file.write(block)
            _check_new(target)  # Another upload of this name may have ended meanwhile.
            part.rename(target)
        finally:
            part.unlink(missing_ok=True)
        return JSONResponse({"location": _drafted(one, target)}, 200, HEADERS)
    except NotAllowed as error:
        return JSONResponse({"message": str(error)}, 403, HEADERS)
    except (Refused, OSError, ValueError) as error:
        text = str(error) if isinstance(error, Refused) else "The file could not be stored."
        return JSONResponse({"message": text}, 422, HEADERS)


def import_path(one: Asked) -> Response:
    """Draft the plan of a file on this machine; with logins, of one in the folder of the plans alone."""
    given = one.form.get("path", "").strip()
    path = (one.studio.folder / Path(given).expanduser()).resolve()
    if one.studio.people and not path.is_relative_to(one.studio.folder.resolve()):
        raise Refused("With logins, files are read from the folder of the plans alone; upload the file.")
    if not given or not path.is_file():
        raise Refused(f"There is no file {cut(visible(given))} on this machine.")
    return to(_drafted(one, path))


def plan_page(one: Asked) -> Response:
    """Show a part of a plan, or change it as a form says."""
    document = workbook.opened(one.studio.folder, one.subject)
    part = one.part
    if part not in PARTS:
        raise Refused("A plan has no such page.")
    if one.form:
        text = CHANGES[part](document, one.form)
        workbook.changed(one.studio.home, document, one.form.get("version", ""), text)
        return to(f"{plan_address(document.name, part)}?changed=1")
    values = VIEWS[part](one, document) if document.plan is not None or part in ("text", "run") else {}
    template = part if values or part == "text" else "unreadable"
    return show(one, template, document=document, part=part, parts=PARTS, diff=_diff(one, document), **values)


def undo(one: Asked) -> Response:
    """Take the last change of a plan back."""
    document = workbook.opened(one.studio.folder, one.subject)
    workbook.undone(one.studio.home, document, one.form.get("version", ""))
    part = one.form.get("part", "")
    return to(f"{plan_address(document.name, part if part in PARTS else 'variables')}?undone=1")


def start(one: Asked) -> Response:
    """Run, compare or tune a plan."""
    document = workbook.opened(one.studio.folder, one.subject)
    if one.form.get("version") != document.version:
        raise workbook.Stale(workbook.STALE)
    if document.plan is None or document.problems:
        raise Refused("\n".join(("The plan cannot be run yet:", *document.problems)))
    kind = one.form.get("kind", "")
    more = {"run": ["--rebuild"] * bool(one.form.get("rebuild")), "compare": [], "tune": [f"--minutes={_minutes(one)}"]}
    if kind not in more:
        raise Refused("Choose what to do: run, compare or tune.")
    alone = not one.studio.people or "approver" in one.roles
    job = one.studio.jobs.start(kind, document.name, [str(document.path), "--json", *more[kind]], one.name, alone=alone)
    return to(f"/work/{job.id}")


def _may_see(one: Asked, job: Job) -> bool:
    """Return whether work is this person's own, or of the kind that their role is for: messages may quote a source."""
    return job.by == one.name or ("approver" if job.kind in ("approve", "reject") else "author") in one.roles


def _job(one: Asked) -> Job:
    """Return the work that is asked for; raises `NotAllowed` where it is somebody else's."""
    job = one.studio.jobs.find(one.subject)
    if not _may_see(one, job):
        raise NotAllowed("A person with another role started this work. Nothing was done.")
    return job


def job_page(one: Asked) -> Response:
    """Show how work is going, or what came of it; a drafted plan leads to its variables."""
    job = _job(one)
    if job.kind == "plan" and job.status == "done":
        return to(plan_address(job.subject))
    known = job.kind == "tune" and job.subject in workbook.plans_in(one.studio.folder)
    version = workbook.opened(one.studio.folder, job.subject).version if known else ""
    result = job.result or {}
    gates = sorted(result.get("gates") or (), key=lambda gate: WORST_FIRST.index(gate.get("verdict")))
    template, seconds = "work_state" if one.query.get("part") else "work", sum(took or 0.0 for _, took in job.steps)
    return show(one, template, job=job, result=result, gates=gates, seconds=seconds, version=version)


def cancel(one: Asked) -> Response:
    """End work that is under way."""
    _job(one).cancel()
    return to(f"/work/{one.subject}")


def apply_choice(one: Asked) -> Response:
    """Write what a search has chosen into the plan, as a change that can be undone."""
    job = one.studio.jobs.find(one.subject)
    result = job.result or {}
    if job.kind != "tune" or not result.get("diff"):
        raise Refused("This work has chosen no change of a plan.")
    document = workbook.opened(one.studio.folder, job.subject)
    workbook.changed(one.studio.home, document, one.form.get("version", ""), str(result.get("text")))
    return to(f"{plan_address(document.name, 'steps')}?changed=1")


def picture(one: Asked) -> Response:
    """Return the picture of compared settings."""
    job = one.studio.jobs.find(one.subject)
    path = Path(str((job.result or {}).get("picture", "")))
    if job.kind != "compare" or path.suffix != ".svg" or not path.is_relative_to(one.studio.home.path):
        raise Refused("There is no picture of this work.")
    return Response(path.read_bytes(), 200, HEADERS, "image/svg+xml")


def _variables(one: Asked, document: Document) -> dict[str, object]:
    rows = forms.variable_rows(document)
    units = [row for row in rows if row.variable.role in ("identifier", "household")]
    return {"rows": rows, "units": units, "seen": _described(one, document), "kinds": forms.KINDS, "roles": forms.ROLES}


def _edits(one: Asked, document: Document) -> dict[str, object]:
    return {"rows": forms.rule_rows(document), "seen": _described(one, document)}


def _steps(one: Asked, document: Document) -> dict[str, object]:
    settings = forms.setting_fields(document)
    return {"rows": forms.step_rows(document), "settings": settings, "methods": forms.method_fields()}


def _run(one: Asked, document: Document) -> dict[str, object]:
    mine = [job for job in one.studio.jobs.all() if job.subject == document.name and job.kind != "plan"]
    return {"jobs": mine, "minutes": MINUTES}


def _text(one: Asked, document: Document) -> dict[str, object]:
    return {"jobs": ()}


def _new_text(document: Document, form: forms.Form) -> str:
    text = form.get("text", document.text)
    return text if text.endswith("\n") else text + "\n"


VIEWS: dict[str, Callable[[Asked, Document], dict[str, object]]] = {
    "variables": _variables,
    "edits": _edits,
    "steps": _steps,
    "text": _text,
    "run": _run,
}
CHANGES: dict[str, Callable[[Document, forms.Form], str]] = {
    "variables": forms.with_variables,
    "edits": forms.with_rules,
    "steps": forms.with_steps,
    "text": _new_text,
    "run": forms.confirmed,
}


def _described(one: Asked, document: Document) -> Description:
    """Return the description of a plan's source, which is read once for what it depends on."""
    plan, kept = document.plan, one.studio.described
    if plan is None:
        return Description()
    path = plan.source.file(document.path.parent) if plan.source.sql is None and not plan.source.remote else None
    stat = path.stat() if path is not None and path.is_file() else None
    about = plan.model_dump_json(include={"source", "variables", "unit", "edits"})
    key = (document.path, about, stat.st_mtime_ns if stat else 0, stat.st_size if stat else 0)
    if key not in kept:
        while len(kept) >= MOST_DESCRIBED:
            kept.pop(next(iter(kept)))
        kept[key] = describe(plan, document.path.parent)
    return kept[key]


def _diff(one: Asked, document: Document) -> str:
    return workbook.last_change(one.studio.home, document)


def _safe_name(given: str) -> str:
    if not FILE_NAME.fullmatch(given) or ".yaml" in given or ".yml" in given:
        raise Refused(BAD_NAME.format(cut(visible(given))))
    if not given.lower().endswith(READABLE):
        raise Refused(f"Rename it: files of tables end in {', '.join(READABLE)}; {cut(visible(given))} is none.")
    return given


def _check_new(target: Path) -> None:
    if target.exists():
        raise Refused(f"{target.name} is in the folder already; nothing is overwritten. Give its path, or rename it.")


def _drafted(one: Asked, data: Path) -> str:
    """Begin to draft the plan of a file; return where that is shown."""
    stem = re.sub(r"[^a-z0-9]+", "-", data.stem.lower()).strip("-")[:60] or "plan"
    name = next(
        n for i in range(1, 1000) if not (one.studio.folder / (n := f"{stem}{f'-{i}' * (i > 1)}.yaml")).exists()
    )
    job = one.studio.jobs.start("plan", name, [str(data), f"--output={one.studio.folder / name}"], one.name)
    return f"/work/{job.id}"


def _minutes(one: Asked) -> str:
    given = one.form.get("minutes", "3")
    if given not in MINUTES:
        raise Refused(f"Choose {', '.join(MINUTES)} minutes.")
    return given
