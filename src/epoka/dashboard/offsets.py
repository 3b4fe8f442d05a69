"""How far partitions and their replicas have come, asked of whoever holds them. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from epoka.client.cluster import LATEST, ClusterClient, TopicPartition
from epoka.client.connection import Connection
from epoka.client.errors import ClientError
from epoka.client.settings import ClientSettings
from epoka.model.ids import CONSUMER, ONLOOKER
from epoka.model.image import ClusterImage
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import fetch, list_offsets

BY_NAME: Final = 12
"""The last version of Fetch that names topics by their names, and its reader in the request itself."""


def ends(
    client: ClusterClient, image: ClusterImage, wanted: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Where consumers find the end of partitions; those whose leader does not say are left out."""
    by_leader: dict[int, dict[str, list[int]]] = {}
    for topic, partition in wanted:
        state = image.partition(topic, partition)
        if state is not None and state.leader >= 0:
            by_leader.setdefault(state.leader, {}).setdefault(topic, []).append(partition)
    client.brokers()
    found: dict[TopicPartition, int] = {}
    for leader, topics in by_leader.items():
        try:
            answer = client.node(leader).ask(_latest(CONSUMER, topics))
        except ClientError:
            continue
        for topic in answer.topics:
            for each in topic.partitions:
                if not each.error_code:
                    found[topic.name, each.partition_index] = each.offset
    return found


def replicas(
    settings: ClientSettings, image: ClusterImage, topic: str, partition: int, states: Mapping[int, str]
) -> list[dict[str, Any]] | None:
    """Every replica of a partition with its end and its high watermark, or why it does not say.

    `states` says which brokers need not be asked. None for a partition that does not exist.
    """
    state = image.partition(topic, partition)
    if state is None:
        return None
    rows: list[dict[str, Any]] = []
    for broker in state.replicas:
        row: dict[str, Any] = {
            "broker": broker,
            "leads": broker == state.leader,
            "in_sync": broker in state.isr,
            "end_offset": None,
            "high_watermark": None,
            "problem": "",
        }
        known = image.broker(broker)
        places = () if known is None else known.client_endpoints
        if states.get(broker) in ("down", "paused"):
            row["problem"] = f"it is {states[broker]}"
        elif not places:
            row["problem"] = "it is not registered"
        else:
            try:
                address = (places[0].host, places[0].port)
                row["end_offset"], row["high_watermark"] = _look(address, settings, topic, partition)
            except ClientError as error:
                row["problem"] = str(error)
        rows.append(row)
    furthest = max((row["end_offset"] for row in rows if row["end_offset"] is not None), default=None)
    for row in rows:
        ended = row["end_offset"]
        row["behind"] = None if ended is None or furthest is None else furthest - ended
    return rows


def _look(
    address: tuple[str, int], settings: ClientSettings, topic: str, partition: int
) -> tuple[int, int | None]:
    """The end of the replica at an address, and its high watermark where it can be told."""
    connection = Connection(address, settings)
    try:
        answer = connection.ask(_latest(ONLOOKER, {topic: [partition]}))
        told = answer.topics[0].partitions[0]
        if told.error_code:
            raise ClientError(f"it answers {ErrorCode.of(told.error_code).name}")
        request = fetch.FetchRequest(
            replica_id=ONLOOKER,
            max_bytes=1,
            topics=(
                fetch.FetchTopic(
                    topic=topic,
                    # At the end there is nothing to read, so only the figures travel.
                    partitions=(
                        fetch.FetchPartition(
                            partition=partition, fetch_offset=told.offset, partition_max_bytes=1
                        ),
                    ),
                ),
            ),
        )
        read = connection.ask(request, version=BY_NAME).responses[0].partitions[0]
        return told.offset, None if read.error_code else read.high_watermark
    finally:
        connection.close()


def _latest(who: int, topics: Mapping[str, list[int]]) -> list_offsets.ListOffsetsRequest:
    return list_offsets.ListOffsetsRequest(
        replica_id=who,
        topics=tuple(
            list_offsets.ListOffsetsTopic(
                name=name,
                partitions=tuple(
                    list_offsets.ListOffsetsPartition(partition_index=each, timestamp=LATEST)
                    for each in partitions
                ),
            )
            for name, partitions in topics.items()
        ),
    )
