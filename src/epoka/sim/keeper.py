"""The coordination service of zookeeper mode: sessions, transactions, a registry, elections, state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.model.events import Register, WriteIsr
from epoka.model.image import ClusterImage

if TYPE_CHECKING:
    from epoka.sim.process import Process
    from epoka.sim.world import World


class Keeper:
    def __init__(self, world: World) -> None:
        raise NotImplementedError("zookeeper mode is not simulated yet")

    office: int = -1
    image: ClusterImage

    def stand(self, address: int) -> None: ...

    def broker_started(self, process: Process) -> None: ...

    def process_ended(self, process: Process) -> None: ...

    def perform(self, process: Process, effect: Register | WriteIsr) -> None: ...

    def controller_acted(self, process: Process) -> None: ...
