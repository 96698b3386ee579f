"""What every page has in common: who asks, the form that was sent, templates, and headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from flows.studio.describe import Description
from flows.studio.jobs import Jobs
from flows.studio.workbook import Stale
from tasks.common.errors import Refused, ReleaseError, sanitise_errors
from tasks.common.home import Home

HERE = Path(__file__).parent
LONGEST_FORM = 5_000_000
MOST_FIELDS = 20_000
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
# A report brings its styles with it, and no script.
REPORT_HEADERS = HEADERS | {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
}


@dataclass(eq=False)
class Studio:
    """What the pages of one home need.

    Parameters
    ----------
    folder : of the plans
    links : names and addresses of the pages of Prefect and MLflow, where they are known
    people : whether people have logins of their own
    largest_upload : bytes
    described : the description of each plan's source, by what it depends on; in memory only
    """

    home: Home
    folder: Path
    jobs: Jobs
    links: tuple[tuple[str, str], ...] = ()
    people: bool = False
    largest_upload: int = 2_000_000_000
    described: dict[tuple[object, ...], Description] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """One request: for which plan, work or release, for which part of it, with which form, and whose."""

    studio: Studio
    subject: str
    part: str
    query: Mapping[str, str]
    form: Mapping[str, str]
    name: str
    roles: tuple[str, ...]


Handler = Callable[[Asked], Response]


class NotAllowed(Refused):
    """The person's roles do not include what was asked for."""


def page(handler: Handler, role: str) -> Callable[[Request], Any]:
    """Return the endpoint of a handler, for people who have the role; what is refused is answered with a page."""

    async def endpoint(request: Request) -> Response:
        form: dict[str, str] = {}
        if request.method == "POST":
            content = b""
            async for block in request.stream():
                content += block
                if len(content) > LONGEST_FORM:
                    return problem(asked(request, {}), "The form is larger than 5 MB, which no plan needs.", 413)
            pairs = parse_qsl(content.decode("utf-8", "replace"), keep_blank_values=True)[:MOST_FIELDS]
            form = {key: value.replace("\r\n", "\n") for key, value in pairs}
        return await run_in_threadpool(answered, handler, role, asked(request, form))

    return endpoint


def answered(handler: Handler, role: str, one: Asked) -> Response:
    """Return what a handler answers; a refusal is shown with its reason."""
    try:
        allow(one, role)
        return sanitise_errors(handler)(one)
    except NotAllowed as error:
        return problem(one, str(error), 403)
    except Stale as error:
        return problem(one, str(error), 409)
    except ReleaseError as error:
        return problem(one, str(error), 422 if isinstance(error, Refused) else 500)


def allow(one: Asked, role: str) -> None:
    """Raise `NotAllowed` where the person does not have a role; what a request says of roles counts for nothing."""
    if role and role not in one.roles:
        mine = ", ".join(one.roles)
        raise NotAllowed(f"This is for people with the role {role}; {one.name} has the role {mine}. Nothing was done.")


def asked(request: Request, form: Mapping[str, str]) -> Asked:
    """Return a request as handlers take it."""
    studio: Studio = request.app.state.studio
    roles = tuple(request.auth.scopes)
    where = (request.path_params.get("subject", ""), request.path_params.get("part", ""))
    return Asked(studio, *where, dict(request.query_params), form, request.user.display_name, roles)


def show(one: Asked, template: str, **values: Any) -> Response:
    """Return a page."""
    html = _TEMPLATES.get_template(f"{template}.html.j2").render(asked=one, studio=one.studio, **values)
    return HTMLResponse(html, headers=HEADERS)


def problem(one: Asked, message: str, status: int) -> Response:
    """Return a page that says why something was not done."""
    response = show(one, "problem", message=message, status=status)
    response.status_code = status
    return response


def to(path: str) -> Response:
    """Lead the browser on to a page of ours."""
    return RedirectResponse(path, 303, HEADERS)


def plan_address(name: str, part: str = "variables") -> str:
    """Return the address of a page of a plan."""
    return f"/plans/{quote(name, safe='')}/{part}"


_TEMPLATES = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals.update(plan_address=plan_address)
