"""A healthy world with its checkers, on which something is then put wrong."""

from __future__ import annotations

from typing import Any

from epoka.model.events import Wake
from epoka.sim import World, client
from epoka.sim.checkers import Checkers
from epoka.sim.oracle import Oracle

VALUES = (b"one", b"two")


class Watched:
    def __init__(self, mode: str = "log") -> None:
        self.world = World(mode=mode)
        client.create_topic(self.world, "t", (1, 2, 3), min_insync_replicas="2")
        self.checkers = Checkers(self.world, Oracle())
        for value in VALUES:
            client.write(self.world, 1, "t", value)
        self.world.run(400)
        topic = self.world.controller.image.topic("t")
        assert topic is not None and not self.checkers.violations
        self.topic = topic
        self.key = (topic.id, 0)

    def process(self, node: int) -> Any:
        return self.world.process_at(node)

    def replica(self, node: int) -> Any:
        return self.world.broker(node).replicas.by_name["t", 0]

    def look(self, node: int, event: Any = None) -> None:
        self.checkers.after(self.process(node), event or Wake())

    def decree(self, *records: Any) -> None:
        """What no controller would decide."""
        image = self.world.controller.image
        for record in records:
            image.apply(record, image.offset + 1)
        self.look(100)

    def objection(self) -> str:
        (violation,) = self.checkers.violations
        return violation.checker
