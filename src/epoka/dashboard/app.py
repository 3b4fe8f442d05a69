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
from epoka.dashboard import past
from epoka.dashboard.answers import as_json, filtered, found, number, one_of, paging, text
from epoka.dashboard.chronicle import REFUSALS, told, told_steps
from epoka.dashboard.feed import Listener
from epoka.dashboard.gate import TOKEN_HEADER, Gate, Secrets
from epoka.dashboard.observing import Observer, now_ms
from epoka.dashboard.questions import Questions
from epoka.dashboard.tables import Tables
from epoka.fencing import RULES
from epoka.ledger.telling import sentence
from epoka.model.ledger import LedgerEvent

STATIC: Final = Path(__file__).parent / "static"
TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
STATE_GOES_HERE: Final = b'id="told">'
PING_S: Final = 5.0
MOST_BODY_BYTES: Final = 4096
VERBS: Final = ("bounce", "kill", "stop", "start", "pause", "resume", "isolate", "heal", "wipe")


class FaultRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    verb: str
    node: int | None = None
    how: str = "clean"
    from_: str = "all"


def build(observer: Observer, secrets: Secrets, port: int, *, allow_faults: bool) -> Gate:
    pages = _Pages(observer, allow_faults)
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
        Route("/api/past", pages.past),
        Route("/api/past/partitions", pages.past_partitions),
        Route("/api/events", pages.events),
        *Questions(observer).routes(),
    ]
    if allow_faults:
        routes.append(Route("/api/faults", pages.fault, methods=["POST"]))
    app = Starlette(routes=routes, exception_handlers={HTTPException: _failed})
    return Gate(app, secrets, port)


class _Pages:
    def __init__(self, observer: Observer, allow_faults: bool) -> None:
        self._observer = observer
        self._allow_faults = allow_faults
        # Read once: what is served is what was installed when the dashboard started.
        self._files = {
            each.name: (each.read_bytes(), TYPES[each.suffix]) for each in STATIC.iterdir() if each.is_file()
        }

    async def index(self, request: Request) -> Response:
        """The page, and in it the state, which it would otherwise ask for once its scripts are there."""
        content, kind = self._files["index.html"]
        # As data in a page; whatever is in it, nothing ends the element before its end.
        state = msgspec.json.encode(self._observer.state()).replace(b"<", b"\\u003c")
        return Response(content.replace(STATE_GOES_HERE, STATE_GOES_HERE + state), media_type=kind)

    async def static(self, request: Request) -> Response:
        return self._file(request.path_params["name"])

    async def session(self, request: Request) -> Response:
        return as_json(
            {
                "faults": self._allow_faults,
                "header": TOKEN_HEADER,
                "verbs": VERBS,
            }
        )

    async def state(self, request: Request) -> Response:
        return as_json(self._observer.state())

    async def time_line(self, request: Request) -> Response:
        return as_json(self._observer.time_line())

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
        page, size = paging(request)
        fits = _fits(
            refused=one_of(request, "verdict", ("refused", "all")) == "refused",
            rule=text(request, "rule"),
            broker=number(request, "broker"),
            words=text(request, "q"),
            until_ms=number(request, "until_ms"),
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

        return as_json(await run_in_threadpool(find))

    async def why_event(self, request: Request) -> Response:
        node, event_id = number(request, "node"), number(request, "id")
        if node is None or event_id is None:
            raise HTTPException(400, "an event is named by node and id")

        def find() -> dict[str, Any] | None:
            event = self._observer.chronicle.find(node, event_id)
            if event is None:
                return None
            steps = told_steps(self._observer.chronicle.why(event))
            return {"event": told(event), "rule": _rule(event.rule), "steps": steps}

        return found(await run_in_threadpool(find), "the ledger has no such event, or not any more")

    async def why_broker(self, request: Request) -> Response:
        answer = await run_in_threadpool(self._observer.chronicle.why_broker, request.path_params["broker"])
        return as_json({"state": answer.state, "steps": told_steps(answer.steps)})

    async def topics(self, request: Request) -> Response:
        page, size = paging(request)
        query, only = text(request, "q"), filtered(request)
        tables = self._tables()
        return as_json(await run_in_threadpool(tables.topics, query, only, page, size))

    async def partitions(self, request: Request) -> Response:
        page, size = paging(request)
        topic = text(request, "topic") or None
        rows = await run_in_threadpool(self._tables().partitions, topic, filtered(request), page, size)
        return found(rows, f"there is no topic {topic}")

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

        return found(await run_in_threadpool(find), f"there is no partition {topic}-{partition}")

    async def past(self, request: Request) -> Response:
        return as_json(await run_in_threadpool(past.moment, self._observer.chronicle, _moment(request)))

    async def past_partitions(self, request: Request) -> Response:
        about = (_moment(request), text(request, "q"), filtered(request), *paging(request))
        return as_json(await run_in_threadpool(past.partitions, self._observer.chronicle, *about))

    async def events(self, request: Request) -> Response:
        """What the ledger says, of every kind, those of newer versions included."""
        page, size = paging(request)
        until_ms, wanted = _moment(request), text(request, "q").casefold()
        every = one_of(request, "show", ("notable", "all")) == "all"

        def fits(event: LedgerEvent) -> bool:
            return (
                event.time_ms <= until_ms
                and (every or past.notable(event))
                and (not wanted or wanted in sentence(event).casefold())
            )

        def find() -> dict[str, Any]:
            rows, total = self._observer.chronicle.events(fits, page, size)
            return {"total": total, "page": page, "size": size, "rows": [told(event) for event in rows]}

        return as_json(await run_in_threadpool(find))

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
        return as_json(outcome)

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


def _fits(
    *, refused: bool, rule: str, broker: int | None, words: str, until_ms: int | None
) -> Callable[[LedgerEvent], bool]:
    wanted = words.casefold()

    def fits(event: LedgerEvent) -> bool:
        return (
            (not refused or event.verdict in REFUSALS)
            and (until_ms is None or event.time_ms <= until_ms)
            and (not rule or event.rule == rule)
            and (broker is None or broker in (event.broker, event.node))
            and (not wanted or wanted in sentence(event).casefold())
        )

    return fits


def _rule(name: str) -> dict[str, str] | None:
    """What a rule is for; None for one that only a newer version knows."""
    known = RULES.get(name)
    return None if known is None else {"refuses_when": known.refuses_when, "asked_by": known.asked_by}


def _moment(request: Request) -> int:
    """The moment that is meant; now, when none is."""
    return number(request, "at_ms", now_ms()) or 0


def _event(kind: str, content: Any) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(content) + b"\n\n"


async def _failed(request: Request, error: HTTPException) -> Response:
    return as_json({"error": error.detail}, error.status_code)
