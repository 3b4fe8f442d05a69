"""Topics and partitions in pages, of a cluster that is large."""

from __future__ import annotations

from uuid import UUID

import pytest

from epoka.dashboard.tables import Tables
from epoka.model.image import ClusterImage
from epoka.wire.messages import metadata_records as m

TOPICS = 10_000
PARTITIONS = 4


@pytest.fixture(scope="module")
def image() -> ClusterImage:
    """Partition 3 of every tenth topic has lost broker 3, partition 0 of every hundredth its leader."""
    image = ClusterImage()
    records = []
    for topic in range(TOPICS):
        topic_id = UUID(int=topic + 1)
        records.append(m.TopicRecord(name=f"topic-{topic:05}", topic_id=topic_id))
        for index in range(PARTITIONS):
            isr = (1, 2) if index == 3 and topic % 10 == 0 else (1, 2, 3)
            leader = -1 if index == 0 and topic % 100 == 0 else 1
            records.append(
                m.PartitionRecord(
                    partition_id=index, topic_id=topic_id, replicas=(1, 2, 3), isr=isr, leader=leader
                )
            )
    image.apply_batch(records, 0)
    return image


def test_a_page_of_topics(image: ClusterImage) -> None:
    page = Tables(image).topics("", "all", 2, 50)
    assert (page["total"], len(page["rows"])) == (TOPICS, 50)
    assert page["rows"][0] == {
        "name": "topic-00100",
        "partitions": PARTITIONS,
        "replicas": 3,
        "out_of_sync": 1,
        "offline": 1,
    }
    assert page["rows"][1]["out_of_sync"] == page["rows"][1]["offline"] == 0


def test_topics_are_found_by_a_part_of_their_name_and_by_their_trouble(image: ClusterImage) -> None:
    tables = Tables(image)
    assert [row["name"] for row in tables.topics("TOPIC-0999", "all", 0, 50)["rows"]] == [
        f"topic-0999{last}" for last in range(10)
    ]
    assert tables.topics("", "out-of-sync", 0, 50)["total"] == TOPICS // 10
    assert tables.topics("", "offline", 0, 50)["total"] == TOPICS // 100
    assert tables.topics("no such name", "all", 0, 50) == {
        "total": 0,
        "page": 0,
        "size": 50,
        "offset": image.offset,
        "rows": [],
    }


def test_partitions_of_a_topic_and_of_all(image: ClusterImage) -> None:
    tables = Tables(image)
    one = tables.partitions("topic-00010", "all", 0, 50)
    assert one is not None
    assert [(row["partition"], row["isr"], row["out"]) for row in one["rows"]] == [
        (0, (1, 2, 3), ()),
        (1, (1, 2, 3), ()),
        (2, (1, 2, 3), ()),
        (3, (1, 2), (3,)),
    ]
    out = tables.partitions(None, "out-of-sync", 1, 50)
    assert out is not None
    assert (out["total"], out["rows"][0]["topic"]) == (TOPICS // 10, "topic-00500")
    offline = tables.partitions("topic-00100", "offline", 0, 50)
    assert offline is not None
    assert [row["leader"] for row in offline["rows"]] == [-1]
    assert tables.partitions("unknown", "all", 0, 50) is None
    assert tables.partition("topic-00010", 4) is None
