"""Who may see the dashboard, and who may do something through it. Every request passes here first.

- The Host header must be a loopback name with our own port, so no foreign name can be pointed at us.
- A session begins with the token of the URL that the command printed, once; then it is a cookie.
- Other programs on this machine that the browser visits see that cookie too, for cookies know no ports. So
  whatever changes something needs a second secret in a header, and an Origin that is ours. The browser gets
  it once, in the fragment of the address that the session begins at, and keeps it where only our own page
  can read it; nothing gives it to a cookie.
- No header that a proxy might set is read at all.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
TOKEN_HEADER: Final = "x-epoka-token"
READING: Final = ("GET", "HEAD")
SAFE_HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Secrets:
    """What one run of the dashboard knows and nobody can guess."""

    def __init__(self) -> None:
        self.entrance = secrets.token_urlsafe(32)
        """Opens a session; in the URL."""
        self.session = secrets.token_urlsafe(32)
        """The cookie."""
        self.action = secrets.token_urlsafe(32)
        """Allows to change something; in a header."""


class Gate:
    def __init__(self, app: App, secrets_: Secrets, port: int) -> None:
        self._app = app
        self._secrets = secrets_
        self._cookie = f"epoka_{port}"
        self._hosts = {f"{name}:{port}" for name in LOOPBACK} | ({*LOOPBACK} if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = _headers(scope)
        refused = self._refusal(scope, headers)
        if refused is not None:
            await _answer(send, *refused)
            return
        if scope["path"] == "/" and "token" in parse_qs(scope["query_string"].decode("latin-1")):
            await self._enter(scope, send)
            return
        if not self._has_session(headers):
            text = "Open the dashboard with the whole address that `epoka` printed; it has a token in it.\n"
            await _answer(send, 401, text)
            return
        if scope["method"] not in READING and not _same(headers.get(TOKEN_HEADER, ""), self._secrets.action):
            text = f"A request that changes something needs the right header {TOKEN_HEADER}; a page has it "
            text += "when it was opened with the whole address that `epoka` printed.\n"
            await _answer(send, 403, text)
            return

        async def send_safely(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *SAFE_HEADERS]
            await send(message)

        await self._app(scope, receive, send_safely)

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if host.lower() not in self._hosts:
            return 421, "This dashboard answers on loopback names only.\n"
        if scope["method"] in READING:
            return None
        if scope["method"] != "POST":
            return 405, "Whatever changes something is a POST.\n"
        if headers.get("origin", "").lower() != f"http://{host.lower()}":
            return 403, "A request that changes something must come from the dashboard's own page.\n"
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return 403, "A request that changes something must come from the dashboard's own page.\n"
        return None

    def _has_session(self, headers: Mapping[str, str]) -> bool:
        # Read by hand: SimpleCookie gives up at the first cookie that it dislikes, and another program's may
        # stand before ours.
        pairs = (each.strip().partition("=") for each in headers.get("cookie", "").split(";"))
        return any(name == self._cookie and _same(value, self._secrets.session) for name, _, value in pairs)

    async def _enter(self, scope: Scope, send: Send) -> None:
        given = parse_qs(scope["query_string"].decode("latin-1"))["token"][-1]
        if scope["method"] not in READING or not _same(given, self._secrets.entrance):
            await _answer(send, 401, "This is not the token of this dashboard.\n")
            return
        cookie = f"{self._cookie}={self._secrets.session}; HttpOnly; SameSite=Strict; Path=/"
        # The address without the token takes its place in the browser. A fragment is sent to nobody.
        location = f"/#key={self._secrets.action}"
        await _answer(send, 303, "", ((b"location", location.encode()), (b"set-cookie", cookie.encode())))


def _headers(scope: Scope) -> dict[str, str]:
    """The headers; one that comes twice, which no browser does to those read here, counts as absent."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        found[key] = "" if key in found else value.decode("latin-1")
    return found


def _same(given: str, expected: str) -> bool:
    return secrets.compare_digest(given.encode(), expected.encode())


async def _answer(send: Send, status: int, text: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    body = text.encode()
    about = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        *SAFE_HEADERS,
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": about})
    await send({"type": "http.response.body", "body": body})
