"""`format("epoka-sim")`: seeds in, one row a seed out; a table of given seeds, or a stream through them.

Decides how seeds become tasks and where a stream stands. An offset is the next seed, and what the seeds are
asked: a campaign that is resumed with other options would mix two experiments in one table, so it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from epoka.spark.fleet.table import columns_of
from epoka.spark.options import BadOption, truth

if TYPE_CHECKING:
    from epoka.spark.fleet.options import Asked, FleetOptions
    from epoka.spark.fleet.seeds import Begin

NAME = "epoka-sim"


class SimulationSource(DataSource):
    begin: ClassVar[Begin | None] = None
    """How a run begins; None: as the simulator does it. Tests plant their crashes here."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in self._columns().items())

    def reader(self, schema: Any) -> SimulationReader:
        return SimulationReader(self._checked(schema, streaming=False), type(self).begin)

    def streamReader(self, schema: Any) -> SimulationStreamReader:
        return SimulationStreamReader(self._checked(schema, streaming=True), type(self).begin)

    def _columns(self) -> dict[str, str]:
        given = {name.lower(): value for name, value in self.options.items()}
        return columns_of(truth(given, "totals", False))

    def _checked(self, schema: Any, *, streaming: bool) -> FleetOptions:
        from epoka.spark.fleet.options import fleet_options

        if [field.dataType.simpleString() for field in schema] != list(self._columns().values()):
            raise BadOption(
                f"the schema of simulations is fixed and cannot be given: {schema.simpleString()}"
            )
        return fleet_options(self.options, streaming=streaming)


class Block(InputPartition):
    """One task: some seeds that are asked the same."""

    def __init__(self, asked: Asked, first: int, end: int) -> None:
        self.asked = asked
        self.first = first
        self.end = end

    def __repr__(self) -> str:
        return f"{self.first}:{self.end} of {self.asked}"


def blocks(options: FleetOptions, spans: Sequence[tuple[int, int]]) -> list[InputPartition]:
    """Seeds as tasks: neighbours together, none larger than said, all of a span about as large."""
    found: list[InputPartition] = []
    for asked in options.asked:
        for first, end in spans:
            count = -(-(end - first) // options.seeds_per_task)
            edges = [first + (end - first) * number // count for number in range(count + 1)]
            found += [Block(asked, one, other) for one, other in pairwise(edges)]
    return found


class _Tasks:
    """What both readers do with a task."""

    def __init__(self, options: FleetOptions, begin: Begin | None) -> None:
        self._options = options
        self._begin = begin

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from epoka.spark.fleet import seeds
        from epoka.spark.fleet.table import batches, total

        if not isinstance(partition, Block):
            return iter(())
        seeds.settle()
        wanted = range(partition.first, partition.end)
        begin = self._begin or seeds.begin
        rows = seeds.run_seeds(wanted, partition.asked, self._options.limits, begin)
        return total(rows) if self._options.totals else batches(rows)


class SimulationReader(_Tasks, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        spans = [(span.first, span.end) for span in self._options.seeds if span.end is not None]
        return blocks(self._options, spans)


class SimulationStreamReader(_Tasks, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: FleetOptions, begin: Begin | None) -> None:
        super().__init__(options, begin)
        self._span = options.seeds[0]
        self._of = f"from {self._span.first}; " + "; ".join(map(str, options.asked))

    def initialOffset(self) -> dict[str, Any]:
        return {"seed": self._span.first, "of": self._of}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.seeds_per_trigger)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._check(start)
        seed = start["seed"] + self._options.seeds_per_trigger
        if self._span.end is not None:
            seed = min(seed, max(self._span.end, start["seed"]))
        return {"seed": seed, "of": self._of}

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._span.end is None else {"seed": self._span.end, "of": self._of}

    def prepareForTriggerAvailableNow(self) -> None:
        if self._span.end is None:
            raise BadOption(f"seeds={self._span} has no end, and Trigger.AvailableNow needs one")

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._check(start)
        self._check(end)
        if start["seed"] >= end["seed"]:
            return []
        return blocks(self._options, [(start["seed"], end["seed"])])

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept here: a seed can always be run again."""

    def _check(self, offset: dict[str, Any]) -> None:
        if offset["of"] != self._of:
            raise BadOption(
                f"the campaign was begun with other options ({offset['of']}), not with ({self._of})"
            )
