"""What both pages need before they are shown: no calls to anybody else, and what their makers left out.

Prefect's and MLflow's pages are served as their packages bring them, with a few lines put into the head of
the document: preferences of a first visit, and corrections of what cannot be read or must not be offered.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

from flows.embedded.child import App, Receive, Scope, Send

# No page may load from, or send to, anything but its own server.
POLICY = b"default-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:; form-action 'self'"
# MLflow's assistant starts programs on this machine, its gateway calls language models.
BLOCKED = ("/ajax-api/3.0/mlflow/assistant", "/gateway", "/ajax-api/2.0/mlflow/gateway-proxy")
# MLflow's page asks for the gateway's models by itself, and shows an error unless there are just none.
NO_MODELS = "/ajax-api/2.0/mlflow/gateway-proxy"

# Preferences are set once; what the user chooses afterwards stays.
_PREFER = """<script>(seen => {
  for (const key in seen) if (localStorage.getItem(key) === null) localStorage.setItem(key, seen[key]);
})(%s)</script>"""
# In a low window its form squeezes the text that people decide on to nothing; digests and tables are cut off,
# tables on the pages of artifacts too.
# A first visit, before anybody could log in, begins with errors about the connection and the password.
_PREFECT = (
    _PREFER % '{"prefect-show-promotional-content": "false"}'
    + """<style>
.p-modal__body > .markdown-renderer { flex-shrink: 0; }
.p-modal__card:has(> .p-modal__body > .markdown-renderer) { max-width: min(72rem, 94vw); }
.p-modal__body .markdown-renderer code { overflow-wrap: anywhere; white-space: pre-wrap; }
:not(.p-modal__body) > .markdown-renderer table { display: block; overflow-x: auto; }
img[src^="https:"] { visibility: hidden; }
.p-toast-container__toast:has(.p-heading--6) { display: none; }
form:has(input[placeholder="admin:pass"])::before { content: "As printed by: anonflow serve --secrets"; }
</style>"""
)
_LOGIN = """<script>
if (!localStorage.getItem("prefect-password") && location.pathname !== "/login")
  location.replace("/login?redirect=" + encodeURIComponent(location.pathname + location.search));
</script>"""
# It opens as a tool for language models, with its assistant.
_MLFLOW = (
    _PREFER
    % """{"mlflow.workflowType_v1": '"machine_learning"', "mlflow.assistant.panelOpen_v1": "false",
  "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": "true"}"""
    + """<script>
if (location.hash.length < 3) location.hash = "#/experiments?workflowType=machine_learning";
</script><style>[data-assistant-ui] { display: none !important; }</style>"""
)
_OF_THE_FILE = (b"content-length", b"cache-control", b"etag", b"last-modified", b"accept-ranges")
HEADS = {"prefect": _PREFECT, "mlflow": _MLFLOW}


class Page:
    """An application whose document carries a few lines of ours, and which may call nobody else.

    Parameters
    ----------
    app
        Prefect or MLflow.
    role
        Which of the two.
    login
        Whether Prefect asks for a password by itself.
    """

    def __init__(self, app: App, role: str, *, login: bool = False) -> None:
        self.app, self.role = app, role
        self.head = (HEADS[role] + (_LOGIN if login else "")).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request that has been let in, or the application's lifespan."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        path: str = scope["path"]
        if path.startswith(NO_MODELS) and scope.get("method") == "GET":
            return await answer(send, 200, [(b"content-type", b"application/json")], b'{"endpoints": []}')
        if path.startswith(BLOCKED):
            return await refuse(scope, send, 404, b"Switched off.")
        if self._is_document(scope):
            return await self.app(_plain(scope), receive, _Completed(send, self.head))

        async def sent(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), (b"content-security-policy", POLICY)]
            await send(message)

        return await self.app(scope, receive, sent)

    def _is_document(self, scope: Scope) -> bool:
        if scope["type"] != "http" or scope.get("method") != "GET":
            return False
        path: str = scope["path"]
        # Prefect answers every address that it does not know with its document, MLflow has one only.
        return path == "/" or (self.role == "prefect" and "." not in path and not path.startswith("/api/"))


class _Completed:
    """Sends a document on with lines put into its head; anything else as it is."""

    def __init__(self, send: Send, head: bytes) -> None:
        self.send, self.head = send, head
        self.start: MutableMapping[str, Any] = {}
        self.body = b""

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.start = message
            return
        self.body += message.get("body", b"")
        if message.get("more_body"):
            return
        headers = [(name.lower(), value) for name, value in self.start.get("headers", [])]
        if dict(headers).get(b"content-type", b"").startswith(b"text/html"):
            self.body = self.body.replace(b"<head>", b"<head>" + self.head, 1)
            # A copy in the browser would be without the lines of a later version.
            headers = [pair for pair in headers if pair[0] not in _OF_THE_FILE]
            headers += [(b"content-length", b"%d" % len(self.body)), (b"cache-control", b"no-store")]
        headers.append((b"content-security-policy", POLICY))
        await self.send({**self.start, "headers": headers})
        await self.send({"type": "http.response.body", "body": self.body})


def _plain(scope: Scope) -> Scope:
    """Return the request as one for the whole document, not packed."""
    unwanted = (b"accept-encoding", b"if-none-match", b"if-modified-since", b"range")
    headers = [pair for pair in scope["headers"] if pair[0] not in unwanted]
    return {**scope, "headers": headers, "extensions": {}}


async def answer(send: Send, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
    """Answer one request whole."""
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


async def refuse(scope: Scope, send: Send, status: int, body: bytes) -> None:
    """Turn a request, or a websocket, away."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
    else:
        await answer(send, status, [(b"content-type", b"text/plain")], body)
