"""Histories of a cluster: runs of metadata records that follow from one another."""

from __future__ import annotations

from uuid import UUID

from hypothesis import strategies as st

from epoka.model.records import MetadataRecord
from epoka.wire.messages import metadata_records as m

BROKERS = range(1, 6)


@st.composite
def histories(draw: st.DrawFn, max_steps: int = 40) -> list[MetadataRecord]:
    """Records such as a controller could have written, creations and deletions and changes mixed."""
    history: list[MetadataRecord] = []
    epochs: dict[int, int] = {}
    topics: dict[UUID, tuple[str, dict[int, tuple[int, ...]]]] = {}
    next_id = 1
    for _ in range(draw(st.integers(0, max_steps))):
        step = draw(st.integers(0, 9))
        if step == 0 or not epochs:
            broker = draw(st.sampled_from(BROKERS))
            epochs[broker] = len(history)
            history.append(
                m.RegisterBrokerRecord(
                    broker_id=broker,
                    incarnation_id=UUID(int=1000 + len(history)),
                    broker_epoch=len(history),
                    end_points=(m.BrokerEndpoint("PLAINTEXT", "host", 9092, 0),),
                    features=(m.BrokerFeature("epoka.level", 2, 5),),
                    rack=draw(st.sampled_from([None, "a", "b"])),
                    log_dirs=(UUID(int=broker + 500),),
                )
            )
        elif step == 1:
            broker = draw(st.sampled_from(sorted(epochs)))
            history.append(
                m.BrokerRegistrationChangeRecord(
                    broker_id=broker,
                    broker_epoch=epochs[broker],
                    fenced=draw(st.sampled_from([-1, 0, 1])),
                    in_controlled_shutdown=draw(st.sampled_from([0, 1])),
                )
            )
        elif step == 2:
            broker = draw(st.sampled_from(sorted(epochs)))
            history.append(m.UnregisterBrokerRecord(broker_id=broker, broker_epoch=epochs.pop(broker)))
        elif step == 3 or not topics:
            topic_id, next_id = UUID(int=next_id), next_id + 1
            name = f"topic-{draw(st.integers(0, 99))}-{next_id}"
            topics[topic_id] = (name, {})
            history.append(m.TopicRecord(name=name, topic_id=topic_id))
            if draw(st.booleans()):
                history.append(
                    m.ConfigRecord(resource_type=2, resource_name=name, name="retention.ms", value="5")
                )
        elif step == 4:
            topic_id = draw(st.sampled_from(sorted(topics)))
            topics.pop(topic_id)
            history.append(m.RemoveTopicRecord(topic_id=topic_id))
        elif step == 5:
            name = draw(st.sampled_from(sorted(name for name, _ in topics.values())))
            value = draw(st.sampled_from([None, "1", "2"]))
            history.append(
                m.ConfigRecord(resource_type=2, resource_name=name, name="segment.ms", value=value)
            )
        elif step == 6:
            next_producer_id = draw(st.integers(0, 10**6))
            history.append(m.ProducerIdsRecord(1, -1, next_producer_id))
        elif step == 7:
            history.append(m.FeatureLevelRecord("epoka.level", draw(st.integers(2, 5))))
        else:
            topic_id = draw(st.sampled_from(sorted(topics)))
            partitions = topics[topic_id][1]
            if not partitions or draw(st.booleans()):
                index = len(partitions)
                replicas = draw(broker_lists(1))
                partitions[index] = replicas
                history.append(
                    m.PartitionRecord(
                        partition_id=index,
                        topic_id=topic_id,
                        replicas=replicas,
                        isr=replicas,
                        leader=replicas[0],
                        leader_epoch=0,
                        partition_epoch=0,
                    )
                )
            else:
                history.append(draw(changes(topic_id, draw(st.sampled_from(sorted(partitions))))))
    return history


def broker_lists(minimum: int = 0) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.sampled_from(BROKERS), min_size=minimum, max_size=5, unique=True).map(tuple)


def changes(topic_id: UUID, index: int) -> st.SearchStrategy[m.PartitionChangeRecord]:
    return st.builds(
        m.PartitionChangeRecord,
        partition_id=st.just(index),
        topic_id=st.just(topic_id),
        isr=st.none() | broker_lists(1),
        leader=st.sampled_from([-2, -1, 1, 2, 3]),
        replicas=st.none() | broker_lists(1),
        removing_replicas=st.none() | broker_lists(),
        adding_replicas=st.none() | broker_lists(),
        leader_recovery_state=st.sampled_from([-1, 0, 1]),
    )
