"""Topics and partitions in pages, from one copy of the metadata that nobody changes any more.

Forty thousand partitions are counted and filtered as columns; only the rows of the page become values.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from epoka.model.image import ClusterImage
from epoka.model.partitions import PartitionState, Rows

MOST_ON_A_PAGE: Final = 200
FILTERS: Final = ("all", "out-of-sync", "offline")


class Tables:
    def __init__(self, image: ClusterImage) -> None:
        self.image = image

    def topics(self, query: str, only: str, page: int, size: int) -> dict[str, Any]:
        """One page of the topics whose name contains `query`."""
        wanted = query.casefold()
        troubled = {"out-of-sync": self._under, "offline": self._offline}.get(only)
        found = [
            (name, slot)
            for name, slot in self._by_name
            if (not wanted or wanted in name.casefold()) and (troubled is None or troubled[slot])
        ]
        shown = found[page * size : (page + 1) * size]
        return {
            "total": len(found),
            "page": page,
            "size": size,
            "offset": self.image.offset,
            "rows": [
                {
                    "name": name,
                    "partitions": int(self._partitions[slot]),
                    "replicas": int(self._replicas[slot]),
                    "out_of_sync": int(self._under[slot]),
                    "offline": int(self._offline[slot]),
                }
                for name, slot in shown
            ],
        }

    def partitions(self, topic: str | None, only: str, page: int, size: int) -> dict[str, Any] | None:
        """One page of a topic's partitions, or of all; None for a topic that does not exist."""
        image, table = self.image, self.image.partitions
        rows: Rows
        if topic is None:
            rows = self._in_order
        elif image.topic(topic) is None:
            return None
        else:
            rows = image.rows_of([(topic, index) for index in range(image.partition_count_of(topic))])
            rows = rows[rows >= 0]
        if only == "out-of-sync":
            rows = rows[table.isr_length[rows] < table.replicas_length[rows]]
        elif only == "offline":
            rows = rows[table.leader[rows] == -1]
        shown = rows[page * size : (page + 1) * size]
        return {
            "total": len(rows),
            "page": page,
            "size": size,
            "offset": image.offset,
            "rows": [
                _row(
                    image.topic_in(table.topic.item(row)).name,
                    table.index.item(row),
                    table.state(row),
                )
                for row in shown.tolist()
            ],
        }

    def partition(self, topic: str, index: int) -> dict[str, Any] | None:
        state = self.image.partition(topic, index)
        return None if state is None else _row(topic, index, state)

    @cached_property
    def _rows(self) -> Rows:
        return self.image.partitions.rows()

    @cached_property
    def _in_order(self) -> Rows:
        return self.image.all_rows()

    @cached_property
    def _slots(self) -> npt.NDArray[np.int32]:
        return self.image.partitions.topic[self._rows]

    @cached_property
    def _partitions(self) -> Rows:
        return np.bincount(self._slots)

    @cached_property
    def _under(self) -> Rows:
        table = self.image.partitions
        return self._count(table.isr_length[self._rows] < table.replicas_length[self._rows])

    @cached_property
    def _offline(self) -> Rows:
        return self._count(self.image.partitions.leader[self._rows] == -1)

    @cached_property
    def _replicas(self) -> Rows:
        most = np.zeros(len(self._partitions), np.int64)
        np.maximum.at(most, self._slots, self.image.partitions.replicas_length[self._rows])
        return most

    @cached_property
    def _by_name(self) -> list[tuple[str, int]]:
        slots = np.flatnonzero(self._partitions).tolist()
        return sorted((self.image.topic_in(slot).name, slot) for slot in slots)

    def _count(self, which: npt.NDArray[np.bool_]) -> Rows:
        return np.bincount(self._slots[which], minlength=len(self._partitions))


def _row(topic: str, index: int, state: PartitionState) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": index,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
        "replicas": state.replicas,
        "isr": state.isr,
        "out": tuple(each for each in state.replicas if each not in state.isr),
        "adding": state.adding,
        "removing": state.removing,
    }
