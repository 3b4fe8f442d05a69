"""A seeded world that drives the real cores: virtual time, links and disks that fail, checkers that watch.

For scripts:

    world = World(seed=7, mode="log", level=FeatureLevel.FETCH_EPOCHS, without=["isr.generation"])
    client.create_topic(world, "t", (1, 2, 3), min_insync_replicas="2")
    client.write(world, world.partition("t").leader, "t", b"one")      # an ErrorCode, NONE when acknowledged

A new world has booted: every broker serves. In a script every message takes one millisecond, so a script
alone decides what happens.

Processes and disks    `crash(id, disk="keep"|"lose"|"tear"|"wipe", silent=False)`, `restart(id)`,
                       `bounce(id, disk)`, `pause(id)`, `resume(id)`, `stop(id)` (controlled shutdown),
                       `stop_cleanly(id)`, `flush(id)`; `machines[id].store.full`, `.fail_flushes`,
                       `.fail_writes`; `machines[id].slow_disk_ms`; `machines[id].clock.jump`, `.drift`.
                       `CONTROLLER` stands for the controller in office wherever an id is asked for.
Network                `cut(a, b, both=True)`, `mend(a, b)`, `isolate(id, from_=[...])`, `heal()`,
                       `hold("AlterPartitionRequest", sender=..., to=..., most=1, where=...)`, which returns
                       a `Hold` with `.messages` and `.release()`. What was held reaches whoever lives at
                       the address by then.
Time                   `run(ms)`, `run_until(condition, ms)`, `step()`, `now`, `later(ms, call, ...)`.
Cores                  `controller`, `broker(id)`, `is_up(id)`, `leads(id, topic, index)`,
                       `partition(topic, index)`, `generation(id)`, `all_active()`.
Clients                `ask(id, message, version)`, `call(...)`, and the words in `sim/client.py`:
                       `create_topic`, `write`, `producing`, `produced`, `read`, `log_of`, `climb`,
                       `reassign`.
Zookeeper mode         `World(mode="zookeeper", controllers=2)`; `keeper.expire(process)` ends a session.
Record                 `ledger`, the events of all nodes in order; `broken`, whatever a core raised;
                       `trace_hash()`.

For campaigns: `runner.run(seed, Options(...)) -> Result`, `fleet.campaign(seeds, options) -> Tally`,
`shrink.shrink(seed, options)`, `runner.replay(schedule)`. See docs/simulator.md.
"""

from epoka.sim import client
from epoka.sim.world import CONTROLLER, KEEP, LOSE, TEAR, WIPE, StoodStill, World

__all__ = ["CONTROLLER", "KEEP", "LOSE", "TEAR", "WIPE", "StoodStill", "World", "client"]
