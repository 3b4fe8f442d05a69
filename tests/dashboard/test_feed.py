"""Listeners that keep up, that do not, and that are too many."""

from __future__ import annotations

import asyncio

from epoka.dashboard.feed import MOST_LISTENERS, MOST_WAITING, Feed


def test_a_listener_that_does_not_keep_up_begins_anew() -> None:
    async def play() -> list[str]:
        feed = Feed()
        listener = feed.listen()
        assert listener is not None
        for _ in range(MOST_WAITING + 3):
            feed.publish("delta", {})
        await asyncio.sleep(0)
        heard = []
        while (message := await listener.next(0.01)) is not None and message[0] != "ping":
            heard.append(message[0])
        return heard

    heard = asyncio.run(play())
    assert heard[0] == "anew"
    assert len(heard) < 10


def test_too_many_listeners_are_turned_away_until_one_leaves() -> None:
    async def play() -> None:
        feed = Feed()
        listeners = [feed.listen() for _ in range(MOST_LISTENERS)]
        assert feed.listen() is None
        assert listeners[0] is not None
        feed.leave(listeners[0])
        assert feed.listen() is not None

    asyncio.run(play())


def test_closing_ends_every_stream() -> None:
    async def play() -> None:
        feed = Feed()
        listener = feed.listen()
        assert listener is not None
        feed.close()
        assert await listener.next(1) is None
        assert feed.listen() is None

    asyncio.run(play())
