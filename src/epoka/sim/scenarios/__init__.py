"""Named schedules, one module a document: each safe with its rule and harmful without it.

`SCENARIOS` has them by name, in the order of the documents; `run(scenario, without_rule=...)` plays one and
returns its `Outcome`: every message with its verdict, and the harm if there was any.
"""

# The order of these imports is the order of the gallery.
from epoka.sim.scenarios import kip_380  # isort: skip
from epoka.sim.scenarios import cache_kip  # isort: skip
from epoka.sim.scenarios import kip_343  # isort: skip
from epoka.sim.scenarios import kip_841  # isort: skip
from epoka.sim.scenarios import kip_903  # isort: skip
from epoka.sim.scenarios import kafka_bugs  # isort: skip
from epoka.sim.scenarios.story import SCENARIOS, Harm, Outcome, Scenario, run

__all__ = [
    "SCENARIOS",
    "Harm",
    "Outcome",
    "Scenario",
    "cache_kip",
    "kafka_bugs",
    "kip_343",
    "kip_380",
    "kip_841",
    "kip_903",
    "run",
]
