"""The application: addresses and their handlers, behind a token or logins."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.authentication import AuthenticationBackend
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from flows.servers.middleware import guard
from flows.studio import decision_pages as decisions
from flows.studio import plan_pages as plans
from flows.studio.pages import HEADERS, HERE, Handler, Studio, asked, page, problem

STATIC = {"studio.css": "text/css", "studio.js": "text/javascript", "studio.svg": "image/svg+xml"}
# Address, handler, the role that it needs (none: whoever is admitted), and whether it changes something.
PAGES: tuple[tuple[str, Handler, str, bool], ...] = (
    ("/", plans.home_page, "", False),
    ("/import", plans.import_path, "author", True),
    ("/plans/{subject}/undo", plans.undo, "author", True),
    ("/plans/{subject}/start", plans.start, "author", True),
    ("/plans/{subject}/{part}", plans.plan_page, "author", False),
    ("/plans/{subject}/{part}", plans.plan_page, "author", True),
    ("/work/{subject}", plans.job_page, "", False),
    ("/work/{subject}/cancel", plans.cancel, "", True),
    ("/work/{subject}/apply", plans.apply_choice, "author", True),
    ("/work/{subject}/picture.svg", plans.picture, "author", False),
    ("/decisions", decisions.decisions, "approver", False),
    ("/releases/{subject}", decisions.release_page, "", False),
    ("/releases/{subject}/report", decisions.report, "", False),
    ("/releases/{subject}/decide", decisions.decide, "approver", True),
    ("/record", decisions.record, "auditor", False),
)


def application(studio: Studio, backend: AuthenticationBackend) -> ASGIApp:
    """Return the application of a studio behind what admits people."""
    routes = [
        Route(path, page(handler, role), methods=["POST" if changes else "GET"])
        for path, handler, role, changes in PAGES
    ]
    routes += [Route("/upload", plans.upload, methods=["POST"]), Route("/static/{subject}", _static)]
    handlers = {HTTPException: _no_page, Exception: _no_page}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.state.studio = studio
    return guard(app, backend)


async def _static(request: Request) -> Response:
    name = request.path_params.get("subject", "")
    if name not in STATIC:
        raise HTTPException(404)
    return FileResponse(HERE / "static" / name, headers=HEADERS, media_type=STATIC[name])


async def _no_page(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "There is no such page.", 405: "This address takes no such request."}
    return problem(asked(request, {}), words.get(status, "This is a fault of anonflow; please report it."), status)
