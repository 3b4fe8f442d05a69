"""Routes whose answer the brokers have: groups and their lag, messages of a topic, offsets of a replica.

Each runs on a thread and has a deadline. A broker that does not answer is a 503 that says so, never a page
that hangs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from epoka.client.cluster import ClusterClient
from epoka.client.errors import ClientError, OffsetOutOfRange, TopicGone
from epoka.dashboard.answers import found, needed, number, one_of, paging, text
from epoka.dashboard.groups import group_page, groups_page
from epoka.dashboard.messages import FORMS, MOST_MESSAGES, STARTS, BadQuestion, message, messages_page
from epoka.dashboard.observing import Observer
from epoka.dashboard.offsets import replicas
from epoka.model.image import ClusterImage


class Questions:
    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def routes(self) -> list[Route]:
        return [
            Route("/api/groups", self.groups),
            Route("/api/group", self.group),
            Route("/api/messages", self.messages),
            Route("/api/message", self.message),
            Route("/api/partitions/{topic}/{partition:int}/replicas", self.replicas),
        ]

    async def groups(self, request: Request) -> Response:
        page, size = paging(request)
        image, query = self._image(), text(request, "q")
        return await self._ask(lambda client: groups_page(client, image, query, page, size))

    async def group(self, request: Request) -> Response:
        page, size = paging(request)
        image, name = self._image(), needed(request, "name")
        return await self._ask(
            lambda client: group_page(client, image, name, page, size), f"there is no group {name}"
        )

    async def messages(self, request: Request) -> Response:
        topic, partition = needed(request, "topic"), number(request, "partition")
        size = number(request, "size", 50)
        if size is None or not 1 <= size <= MOST_MESSAGES:
            raise HTTPException(400, f"size goes from 1 to {MOST_MESSAGES}")
        start, form = one_of(request, "start", STARTS), one_of(request, "as", FORMS)
        at, cursor = number(request, "at"), text(request, "cursor")
        return await self._ask(
            lambda client: messages_page(
                client, topic, partition, start=start, at=at, cursor=cursor, size=size, form=form
            )
        )

    async def message(self, request: Request) -> Response:
        topic, form = needed(request, "topic"), one_of(request, "as", FORMS)
        partition, offset = number(request, "partition"), number(request, "offset")
        if partition is None or offset is None or partition < 0 or offset < 0:
            raise HTTPException(400, "a message is named by topic, partition and offset")
        return await self._ask(
            lambda client: message(client, topic, partition, offset, form),
            f"{topic}-{partition} has no record with offset {offset}",
        )

    async def replicas(self, request: Request) -> Response:
        topic, partition = request.path_params["topic"], request.path_params["partition"]
        image, states = self._image(), self._observer.broker_states()

        def look() -> list[dict[str, Any]] | None:
            return replicas(self._observer.asking.settings(), image, topic, partition, states)

        return await _answered(look, f"there is no partition {topic}-{partition}")

    async def _ask(self, question: Callable[[ClusterClient], Any], otherwise: str = "") -> Response:
        def ask() -> Any:
            with self._observer.asking.client() as client:
                return question(client)

        return await _answered(ask, otherwise)

    def _image(self) -> ClusterImage:
        tables = self._observer.tables
        if tables is None:
            raise HTTPException(503, "the controller has not answered yet")
        return tables.image


async def _answered(ask: Callable[[], Any], otherwise: str) -> Response:
    try:
        return found(await run_in_threadpool(ask), otherwise)
    except TopicGone as error:
        raise HTTPException(404, str(error)) from error
    except (BadQuestion, OffsetOutOfRange) as error:
        raise HTTPException(400, str(error)) from error
    except ClientError as error:
        raise HTTPException(503, str(error)) from error
