"""Prefect's and MLflow's pages as they are served here: no calls to other servers, and corrections of display.

The pages are those of their packages, with a few lines added to the head of the document: preferences of a
first visit, and corrections of what cannot be read or must not be offered.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# No page may load from, or send to, any server but its own.
POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:; form-action 'self'"
# MLflow's assistant starts programs on this machine, its gateway calls language models.
BLOCKED = ("/ajax-api/3.0/mlflow/assistant", "/gateway", "/ajax-api/2.0/mlflow/gateway-proxy")
# MLflow's page asks for the gateway's models by itself, and shows an error unless the list is empty.
NO_MODELS = "/ajax-api/2.0/mlflow/gateway-proxy"

# Preferences are set once; what the user chooses afterwards stays.
_PREFER = """<script>(preferences => {
  for (const key in preferences)
    if (localStorage.getItem(key) === null) localStorage.setItem(key, preferences[key]);
})(%s)</script>"""
# In a low window its form leaves no room for the text that people decide on; digests and tables are cut off,
# tables on the pages of artifacts too, whose cells it does not break.
# A click on a list reaches its button and the frame around it, each of which opens or closes it: the frame alone may.
# A first visit, before a login was possible, begins with errors about the connection and the password.
_PREFECT = (
    _PREFER % '{"prefect-show-promotional-content": "false"}'
    + """<style>
.p-modal__body > .markdown-renderer { flex-shrink: 0; }
.p-modal__card:has(> .p-modal__body > .markdown-renderer) { max-width: min(72rem, 94vw); }
.p-modal__body .markdown-renderer code { overflow-wrap: anywhere; white-space: pre-wrap; }
:not(.p-modal__body) > .markdown-renderer table { display: block; overflow-x: auto; }
.markdown-renderer .markdown-renderer__table { max-width: 100%; }
.markdown-renderer .p-table-data, .markdown-renderer .p-table-header { white-space: normal; }
img[src^="https:"] { visibility: hidden; }
.p-select-button__control { pointer-events: none; }
.p-toast-container__toast:has(.p-heading--6) { display: none; }
form:has(input[placeholder="admin:pass"])::before { content: "As printed by: anonflow serve --secrets"; }
</style>"""
)
_LOGIN = """<script>
if (!localStorage.getItem("prefect-password") && location.pathname !== "/login")
  location.replace("/login?redirect=" + encodeURIComponent(location.pathname + location.search));
</script>"""
# The columns of a list of runs that nobody has arranged yet: what was decided, by whom, with what risk and utility.
_COLUMNS = """<script>
const stored = Storage.prototype.getItem, chosen = {
  "tags.`release.status`": 105, "tags.`release.status_since`": 180, "tags.`release.decided_by`": 120,
  "tags.`release.risk`": 205, "metrics.`utility/variable/largest`": 150, "metrics.`risk/gates_failed`": 130,
  "metrics.`risk/gates_inconclusive`": 170, "metrics.`risk/linkability/upper`": 160,
  "metrics.`risk/inference/upper`": 150,
  "metrics.`utility/propensity/released_ratio`": 230, "tags.`release.reason`": 300};
const columns = JSON.stringify({selectedColumns: Object.keys(chosen), columnWidths: chosen,
  columnOrder: ["0", "attributes.`Run Name`", "runDateAndNestInfo", ...Object.keys(chosen)]});
const untouched = /^MLflowLocalStorage-[0-9.]+-ExperimentPage-.*ComponentState$/;
Storage.prototype.getItem = function (key) {
  return stored.call(this, key) ?? (untouched.test(key) ? columns : null);
};
</script>"""
# On a phone its side bar takes half of the width; the path above each page leads back.
# It opens as a tool for language models, with its assistant, and its registry with an advertisement.
_MLFLOW = (
    _PREFER
    % """{"mlflow.workflowType_v1": '"machine_learning"', "mlflow.assistant.panelOpen_v1": "false",
  "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": "true", "_mlflow_model_registry_promo_modal_dismissed_v1": "true"}"""
    + """<script>
if (location.hash.length < 3) location.hash = "#/experiments?workflowType=machine_learning";
</script><style>[data-assistant-ui] { display: none !important; }
@media (max-width: 600px) { aside:has([href="#/"]) { display: none; } }</style>"""
    + _COLUMNS
)
_HEADS = {"prefect": _PREFECT, "mlflow": _MLFLOW}
# Request headers that would bring the document packed, in part, or not at all.
_UNWANTED = ("accept-encoding", "if-none-match", "if-modified-since", "range")
# Response headers that no longer hold once lines were added.
_OF_THE_FILE = ("content-length", "cache-control", "etag", "last-modified", "accept-ranges")


class Page:
    """An application whose document carries a few lines of ours, and which may call no other server.

    Parameters
    ----------
    app
        Prefect or MLflow.
    role
        Which of the two.
    login
        Whether Prefect asks for a password by itself.
    """

    def __init__(self, app: ASGIApp, role: str, *, login: bool = False) -> None:
        self.app, self.role = app, role
        self.head = (_HEADS[role] + (_LOGIN if login else "")).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request that has been admitted, or the application's lifespan."""
        if scope.get("type") == "lifespan":
            return await self.app(scope, receive, send)
        path: str = scope["path"]
        if path.startswith(NO_MODELS) and scope.get("method") == "GET":
            return await JSONResponse({"endpoints": []})(scope, receive, send)
        if path.startswith(BLOCKED):
            if scope.get("type") == "websocket":
                return await send({"type": "websocket.close", "code": 1008})
            return await PlainTextResponse("Switched off.", 404)(scope, receive, send)
        if self._is_document(scope):
            return await self.app(_whole(scope), receive, _WithHead(send, self.head))

        async def with_policy(message: Message) -> None:
            if message.get("type") == "http.response.start":
                message.setdefault("headers", [])
                MutableHeaders(scope=message).append("content-security-policy", POLICY)
            await send(message)

        return await self.app(scope, receive, with_policy)

    def _is_document(self, scope: Scope) -> bool:
        if scope.get("type") != "http" or scope.get("method") != "GET":
            return False
        path: str = scope["path"]
        # Prefect answers every address that it does not know with its document, MLflow has one only.
        return path == "/" or (self.role == "prefect" and "." not in path and not path.startswith("/api/"))


class _WithHead:
    """Sends a document on with lines added to its head; anything else as it is."""

    def __init__(self, send: Send, head: bytes) -> None:
        self.send, self.head = send, head
        self.start: Message = {}
        self.body = b""

    async def __call__(self, message: Message) -> None:
        if message.get("type") == "http.response.start":
            self.start = message
            return
        self.body += message.get("body", b"")
        if message.get("more_body"):
            return
        headers = MutableHeaders(raw=[(name.lower(), value) for name, value in self.start.get("headers", [])])
        if headers.get("content-type", "").startswith("text/html"):
            self.body = self.body.replace(b"<head>", b"<head>" + self.head, 1)
            for name in _OF_THE_FILE:
                del headers[name]
            # A copy in the browser would lack the lines of a later version.
            headers.update({"content-length": str(len(self.body)), "cache-control": "no-store"})
        headers.append("content-security-policy", POLICY)
        await self.send({**self.start, "headers": headers.raw})
        await self.send({"type": "http.response.body", "body": self.body})


def _whole(scope: Scope) -> Scope:
    """Return the request as one for the whole document, not packed."""
    headers = [(name, value) for name, value in Headers(scope=scope).raw if name.decode("latin-1") not in _UNWANTED]
    return {**scope, "headers": headers, "extensions": {}}
