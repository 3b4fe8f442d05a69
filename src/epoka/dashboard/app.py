"""The routes: what the pages ask for, as JSON; what changes, as server-sent events; and the files.

Asking takes no decision and changes nothing. The only route that changes something hands a fault verb to the
door of the cluster (`cluster/admin.py`), and exists only when faults are allowed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from epoka.cluster.admin import EXIT_USAGE, AdminFailed, ask_admin
from epoka.dashboard.chronicle import REFUSALS, told, told_steps
from epoka.dashboard.feed import Listener
from epoka.dashboard.gate import TOKEN_HEADER, Gate, Secrets
from epoka.dashboard.observing import Observer
from epoka.dashboard.tables import FILTERS, MOST_ON_A_PAGE, Tables
from epoka.model.ledger import LedgerEvent

STATIC: Final = Path(__file__).parent / "static"
TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PING_S: Final = 5.0
MOST_BODY_BYTES: Final = 4096
VERBS: Final = ("bounce", "kill", "stop", "start", "pause", "resume", "isolate", "heal", "wipe")


class FaultRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    verb: str
    node: int | None = None
    how: str = "clean"
    from_: str = "all"


def build(observer: Observer, secrets: Secrets, port: int, *, allow_faults: bool) -> Gate:
    pages = _Pages(observer, secrets, allow_faults)
    routes = [
        Route("/", pages.index),
        Route("/static/{name}", pages.static),
        Route("/api/session", pages.session),
        Route("/api/state", pages.state),
        Route("/api/feed", pages.feed),
        Route("/api/timeline", pages.time_line),
        Route("/api/decisions", pages.decisions),
        Route("/api/why/event", pages.why_event),
        Route("/api/why/broker/{broker:int}", pages.why_broker),
        Route("/api/topics", pages.topics),
        Route("/api/partitions", pages.partitions),
        Route("/api/partitions/{topic}/{partition:int}", pages.partition),
    ]
    if allow_faults:
        routes.append(Route("/api/faults", pages.fault, methods=["POST"]))
    app = Starlette(routes=routes, exception_handlers={HTTPException: _failed})
    return Gate(app, secrets, port)


class _Pages:
    def __init__(self, observer: Observer, secrets: Secrets, allow_faults: bool) -> None:
        self._observer = observer
        self._secrets = secrets
        self._allow_faults = allow_faults
        # Read once: what is served is what was installed when the dashboard started.
        self._files = {
            each.name: (each.read_bytes(), TYPES[each.suffix]) for each in STATIC.iterdir() if each.is_file()
        }

    async def index(self, request: Request) -> Response:
        return self._file("index.html")

    async def static(self, request: Request) -> Response:
        return self._file(request.path_params["name"])

    async def session(self, request: Request) -> Response:
        return _json(
            {
                "faults": self._allow_faults,
                "header": TOKEN_HEADER,
                "token": self._secrets.action,
                "verbs": VERBS,
            }
        )

    async def state(self, request: Request) -> Response:
        return _json(self._observer.state())

    async def time_line(self, request: Request) -> Response:
        return _json(self._observer.time_line())

    async def feed(self, request: Request) -> Response:
        listener = self._observer.feed.listen()
        if listener is None:
            raise HTTPException(503, "too many pages listen already")
        return StreamingResponse(self._stream(listener), media_type="text/event-stream")

    async def _stream(self, listener: Listener) -> AsyncIterator[bytes]:
        try:
            # Everything once, and from then on what changes. The listener was there first: nothing is missed.
            yield _event("state", self._observer.state())
            while True:
                message = await listener.next(PING_S)
                if message is None:
                    return
                kind, content = message
                yield _event("state", self._observer.state()) if kind == "anew" else _event(kind, content)
        finally:
            self._observer.feed.leave(listener)

    async def decisions(self, request: Request) -> Response:
        page, size = _paging(request)
        query = request.query_params
        fits = _fits(
            refused=query.get("verdict", "refused") == "refused",
            rule=query.get("rule", ""),
            broker=_number(query.get("broker", ""), "broker"),
            text=query.get("q", ""),
        )
        chronicle = self._observer.chronicle

        def find() -> dict[str, Any]:
            events, total = chronicle.verdicts(fits, page, size)
            return {
                "total": total,
                "page": page,
                "size": size,
                "rows": [told(event) for event in events],
                "rules": chronicle.rules(),
            }

        return _json(await run_in_threadpool(find))

    async def why_event(self, request: Request) -> Response:
        node = _number(request.query_params.get("node", ""), "node")
        event_id = _number(request.query_params.get("id", ""), "id")
        if node is None or event_id is None:
            raise HTTPException(400, "an event is named by node and id")

        def find() -> dict[str, Any] | None:
            event = self._observer.chronicle.find(node, event_id)
            if event is None:
                return None
            return {"event": told(event), "steps": told_steps(self._observer.chronicle.why(event))}

        return _found(await run_in_threadpool(find), "the ledger has no such event, or not any more")

    async def why_broker(self, request: Request) -> Response:
        answer = await run_in_threadpool(self._observer.chronicle.why_broker, request.path_params["broker"])
        return _json({"state": answer.state, "steps": told_steps(answer.steps)})

    async def topics(self, request: Request) -> Response:
        page, size = _paging(request)
        query, only = request.query_params.get("q", ""), _only(request)
        tables = self._tables()
        return _json(await run_in_threadpool(tables.topics, query, only, page, size))

    async def partitions(self, request: Request) -> Response:
        page, size = _paging(request)
        topic = request.query_params.get("topic") or None
        found = await run_in_threadpool(self._tables().partitions, topic, _only(request), page, size)
        return _found(found, f"there is no topic {topic}")

    async def partition(self, request: Request) -> Response:
        topic, partition = request.path_params["topic"], request.path_params["partition"]
        tables = self._tables()

        def find() -> dict[str, Any] | None:
            now = tables.partition(topic, partition)
            history = self._observer.chronicle.partition_history(topic, partition)
            if now is None and not history:
                return None
            return {
                "now": now,
                "history": [{**told(event), "causes": told_steps(steps)} for event, steps in history],
            }

        return _found(await run_in_threadpool(find), f"there is no partition {topic}-{partition}")

    async def fault(self, request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BODY_BYTES:
                raise HTTPException(413, "a fault is told in fewer words")
        try:
            wanted = msgspec.json.decode(body, type=FaultRequest)
        except msgspec.DecodeError as error:
            raise HTTPException(400, str(error)) from error
        if wanted.verb not in VERBS:
            raise HTTPException(400, f"nobody knows how to {wanted.verb} a node")
        about = {"node": wanted.node, "how": wanted.how, "from_": wanted.from_}
        try:
            outcome = await run_in_threadpool(ask_admin, self._observer.folder, wanted.verb, about)
        except AdminFailed as error:
            raise HTTPException(400 if error.code == EXIT_USAGE else 503, str(error)) from error
        return _json(outcome)

    def _file(self, name: str) -> Response:
        if name not in self._files:
            raise HTTPException(404, f"there is no file {name}")
        content, kind = self._files[name]
        return Response(content, media_type=kind)

    def _tables(self) -> Tables:
        tables = self._observer.tables
        if tables is None:
            raise HTTPException(503, "the controller has not answered yet")
        return tables


def _fits(*, refused: bool, rule: str, broker: int | None, text: str) -> Callable[[LedgerEvent], bool]:
    wanted = text.casefold()

    def fits(event: LedgerEvent) -> bool:
        return (
            (not refused or event.verdict in REFUSALS)
            and (not rule or event.rule == rule)
            and (broker is None or broker in (event.broker, event.node))
            and (not wanted or wanted in told(event)["text"].casefold())
        )

    return fits


def _paging(request: Request) -> tuple[int, int]:
    page = _number(request.query_params.get("page", "0"), "page")
    size = _number(request.query_params.get("size", "50"), "size")
    if page is None or size is None or page < 0 or not 1 <= size <= MOST_ON_A_PAGE:
        raise HTTPException(400, f"page counts from 0, and size goes from 1 to {MOST_ON_A_PAGE}")
    return page, size


def _only(request: Request) -> str:
    only: str = request.query_params.get("only", "all")
    if only not in FILTERS:
        raise HTTPException(400, f"only is one of {', '.join(FILTERS)}")
    return only


def _number(text: str, what: str) -> int | None:
    if text == "":
        return None
    digits = text.removeprefix("-")
    if not digits.isdecimal() or not digits.isascii() or len(digits) > 18:
        raise HTTPException(400, f"{what} is a whole number")
    return int(text)


def _found(content: Any, otherwise: str) -> Response:
    if content is None:
        raise HTTPException(404, otherwise)
    return _json(content)


def _json(content: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def _event(kind: str, content: Any) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(content) + b"\n\n"


async def _failed(request: Request, error: HTTPException) -> Response:
    return _json({"error": error.detail}, error.status_code)
