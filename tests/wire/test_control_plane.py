"""Messages that no outside codec knows: control requests, the KIP-343 draft and the metadata records.

The bytes are written by hand from the layouts in the KIPs, so that a schema and a codec that are wrong in the
same way are noticed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

import epoka.wire.messages.alter_partition as alter
import epoka.wire.messages.controlled_shutdown as shutdown
import epoka.wire.messages.fetch as fetch
import epoka.wire.messages.fetch_metadata as metadata_log
import epoka.wire.messages.group_records as groups
import epoka.wire.messages.isr_change as isr
import epoka.wire.messages.leader_and_isr as leaders
import epoka.wire.messages.metadata_heartbeat as heartbeat
import epoka.wire.messages.metadata_records as records
import epoka.wire.messages.stop_replica as stop
import epoka.wire.messages.update_metadata as update
from epoka.wire import codec
from epoka.wire.errors import EncodeError

TOPIC_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
TOPIC_ID_BYTES = "00112233445566778899aabbccddeeff"


def golden(*lines: str) -> bytes:
    """Bytes from lines of hexadecimal digits; what stands behind a hash is a note."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in lines))


PARTITION = leaders.LeaderAndIsrPartitionState(
    partition_index=7,
    controller_epoch=5,
    leader=2,
    leader_epoch=9,
    isr=(2, 3),
    partition_epoch=4,
    replicas=(2, 3, 1),
    is_new=True,
)
PARTITION_BYTES = (
    "00000007  # partition",
    "00000005  # controller epoch",
    "00000002  # leader",
    "00000009  # leader epoch",
    "00000002 00000002 00000003  # isr",
    "00000004  # zk version",
    "00000003 00000002 00000003 00000001  # replicas",
)
LIVE_LEADERS = (leaders.LeaderAndIsrLiveLeader(2, "h2", 9092),)
LIVE_LEADERS_BYTES = ("00000001 00000002 0002 6832 00002384  # live leaders: id, host, port",)

METADATA_PARTITION = update.UpdateMetadataPartitionState(
    partition_index=7,
    controller_epoch=5,
    leader=2,
    leader_epoch=9,
    isr=(2, 3),
    partition_epoch=4,
    replicas=(2, 3, 1),
    offline_replicas=(1,),
)
LIVE_BROKER = update.UpdateMetadataBroker(
    id=2,
    endpoints=(update.UpdateMetadataEndpoint(port=9092, host="h2", listener="L", security_protocol=3),),
    rack=None,
)
LIVE_BROKER_BYTES = (
    "00000002  # id",
    "00000001 00002384 0002 6832 0001 4c 0003  # end points: port, host, listener, protocol",
    "ffff  # rack",
)

GOLDEN: list[tuple[str, Any, int, bytes]] = [
    (
        "LeaderAndIsr of KIP-380",
        leaders.LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=5,
            broker_epoch=0x0102030405060708,
            topic_states=(leaders.LeaderAndIsrTopicState("t", (PARTITION,)),),
            live_leaders=LIVE_LEADERS,
        ),
        2,
        golden(
            "00000001  # controller id",
            "00000005  # controller epoch",
            "0102030405060708  # broker epoch",
            "00000001 0001 74  # topic states: topic",
            "00000001  # partition states",
            *PARTITION_BYTES,
            "01  # is new",
            *LIVE_LEADERS_BYTES,
        ),
    ),
    (
        "LeaderAndIsr before KIP-380",
        leaders.LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=5,
            ungrouped_partition_states=(
                leaders.LeaderAndIsrPartitionState("t", 7, 5, 2, 9, (2, 3), 4, (2, 3, 1), True),
            ),
            live_leaders=LIVE_LEADERS,
        ),
        1,
        golden(
            "00000001  # controller id",
            "00000005  # controller epoch",
            "00000001 0001 74  # partition states: topic",
            *PARTITION_BYTES,
            "01  # is new",
            *LIVE_LEADERS_BYTES,
        ),
    ),
    (
        "LeaderAndIsr with the greatest broker epoch",
        leaders.LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=5,
            max_broker_epoch=0x1112131415161718,
            topic_states=(leaders.LeaderAndIsrTopicState("t", (PARTITION,)),),
            live_leaders=LIVE_LEADERS,
        ),
        5,
        golden(
            "00000001  # controller id",
            "00000005  # controller epoch",
            "1112131415161718  # max broker epoch",
            "00000001 0001 74  # topic states: topic",
            "00000001  # partition states",
            *PARTITION_BYTES,
            "01  # is new",
            *LIVE_LEADERS_BYTES,
        ),
    ),
    (
        "LeaderAndIsr answered",
        leaders.LeaderAndIsrResponse(77, (leaders.LeaderAndIsrPartitionError("t", 7, 11),)),
        2,
        golden("004d  # stale broker epoch", "00000001 0001 74 00000007 000b"),
    ),
    (
        "UpdateMetadata of KIP-380",
        update.UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=5,
            broker_epoch=0x0102030405060708,
            topic_states=(
                update.UpdateMetadataTopicState(topic_name="t", partition_states=(METADATA_PARTITION,)),
            ),
            live_brokers=(LIVE_BROKER,),
        ),
        5,
        golden(
            "00000001  # controller id",
            "00000005  # controller epoch",
            "0102030405060708  # broker epoch",
            "00000001 0001 74  # topic states: topic",
            "00000001  # partition states",
            *PARTITION_BYTES,
            "00000001 00000001  # offline replicas",
            "00000001  # live brokers",
            *LIVE_BROKER_BYTES,
        ),
    ),
    (
        "UpdateMetadata with the greatest broker epoch",
        update.UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=5,
            max_broker_epoch=0x1112131415161718,
            live_brokers=(LIVE_BROKER,),
        ),
        7,
        golden(
            "00000001  # controller id",
            "00000005  # controller epoch",
            "1112131415161718  # max broker epoch",
            "00000000  # topic states",
            "00000001  # live brokers",
            *LIVE_BROKER_BYTES,
        ),
    ),
    (
        "UpdateMetadata with generations and flags",
        update.UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=5,
            max_broker_epoch=0x1112131415161718,
            topic_states=(
                update.UpdateMetadataTopicState(
                    topic_name="t", topic_id=TOPIC_ID, partition_states=(METADATA_PARTITION,)
                ),
            ),
            live_brokers=(
                update.UpdateMetadataBroker(
                    id=2,
                    endpoints=LIVE_BROKER.endpoints,
                    rack=None,
                    broker_epoch=0x2122232425262728,
                    fenced=False,
                    in_controlled_shutdown=True,
                ),
            ),
        ),
        8,
        golden(
            "00000001  # controller id",
            "00000005  # controller epoch",
            "1112131415161718  # max broker epoch",
            "00000001 0001 74  # topic states: topic",
            TOPIC_ID_BYTES,
            "00000001  # partition states",
            *PARTITION_BYTES,
            "00000001 00000001  # offline replicas",
            "00000001  # live brokers",
            *LIVE_BROKER_BYTES,
            "2122232425262728 00 01  # its epoch, fenced, in controlled shutdown",
        ),
    ),
    (
        "StopReplica of KIP-380",
        stop.StopReplicaRequest(
            controller_id=1,
            controller_epoch=5,
            broker_epoch=0x0102030405060708,
            delete_partitions=True,
            topics=(stop.StopReplicaTopic("t", (7, 8)),),
        ),
        1,
        golden(
            "00000001  # controller id",
            "00000005  # controller epoch",
            "0102030405060708  # broker epoch",
            "01  # delete partitions",
            "00000001 0001 74 00000002 00000007 00000008  # topic partitions",
        ),
    ),
    (
        "StopReplica before KIP-380",
        stop.StopReplicaRequest(
            controller_id=1,
            controller_epoch=5,
            delete_partitions=False,
            ungrouped_partitions=(stop.StopReplicaPartition("t", 7), stop.StopReplicaPartition("t", 8)),
        ),
        0,
        golden(
            "00000001  # controller id",
            "00000005  # controller epoch",
            "00  # delete partitions",
            "00000002 0001 74 00000007 0001 74 00000008  # partitions",
        ),
    ),
    (
        "StopReplica with the greatest broker epoch",
        stop.StopReplicaRequest(
            controller_id=1,
            controller_epoch=5,
            max_broker_epoch=0x1112131415161718,
            delete_partitions=True,
            topics=(stop.StopReplicaTopic("t", (7,)),),
        ),
        4,
        golden(
            "00000001  # controller id",
            "00000005  # controller epoch",
            "1112131415161718  # max broker epoch",
            "01  # delete partitions",
            "00000001 0001 74 00000001 00000007  # topic partitions",
        ),
    ),
    (
        "ControlledShutdown of KIP-380",
        shutdown.ControlledShutdownRequest(broker_id=3, broker_epoch=0x0102030405060708),
        2,
        golden("00000003  # broker id", "0102030405060708  # broker epoch"),
    ),
    (
        "ControlledShutdown before KIP-380",
        shutdown.ControlledShutdownRequest(broker_id=3),
        1,
        golden("00000003  # broker id"),
    ),
    (
        "ControlledShutdown answered",
        shutdown.ControlledShutdownResponse(0, (shutdown.RemainingPartition("t", 7),)),
        2,
        golden("0000", "00000001 0001 74 00000007"),
    ),
    (
        "AlterPartition of KIP-841",
        alter.AlterPartitionRequest(
            broker_id=3,
            broker_epoch=0x0102030405060708,
            topics=(
                alter.AlterPartitionTopic(
                    topic_id=TOPIC_ID,
                    partitions=(
                        alter.AlterPartitionPartition(
                            partition_index=7, leader_epoch=9, new_isr=(1, 2), partition_epoch=4
                        ),
                    ),
                ),
            ),
        ),
        2,
        golden(
            "00000003 0102030405060708  # broker id and epoch",
            "02",
            TOPIC_ID_BYTES,
            "02 00000007 00000009  # partition, leader epoch",
            "03 00000001 00000002  # new isr",
            "00 00000004  # recovered, partition epoch",
            "00 00 00  # no tagged fields",
        ),
    ),
    (
        "AlterPartition of KIP-903",
        alter.AlterPartitionRequest(
            broker_id=3,
            broker_epoch=0x0102030405060708,
            topics=(
                alter.AlterPartitionTopic(
                    topic_id=TOPIC_ID,
                    partitions=(
                        alter.AlterPartitionPartition(
                            partition_index=7,
                            leader_epoch=9,
                            new_isr_with_epochs=(
                                alter.AlterPartitionBrokerState(1, 0x2122232425262728),
                                alter.AlterPartitionBrokerState(2),
                            ),
                            leader_recovery_state=1,
                            partition_epoch=4,
                        ),
                    ),
                ),
            ),
        ),
        3,
        golden(
            "00000003 0102030405060708  # broker id and epoch",
            "02",
            TOPIC_ID_BYTES,
            "02 00000007 00000009  # partition, leader epoch",
            "03 00000001 2122232425262728 00  # new isr with epochs: the first member",
            "   00000002 ffffffffffffffff 00  # the second, whose epoch is not known",
            "01 00000004  # recovering, partition epoch",
            "00 00 00  # no tagged fields",
        ),
    ),
    (
        "Fetch of a follower after KIP-903",
        fetch.FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=(
                fetch.FetchTopic(
                    topic_id=TOPIC_ID,
                    partitions=(
                        fetch.FetchPartition(
                            partition=7,
                            current_leader_epoch=9,
                            fetch_offset=42,
                            last_fetched_epoch=8,
                            log_start_offset=0,
                            partition_max_bytes=1 << 16,
                        ),
                    ),
                ),
            ),
            replica_state=fetch.ReplicaState(replica_id=2, replica_epoch=0x0102030405060708),
        ),
        15,
        golden(
            "000001f4 00000001 00100000 00  # waiting time, least and most bytes, isolation",
            "00000000 ffffffff  # no session",
            "02",
            TOPIC_ID_BYTES,
            "02 00000007 00000009 000000000000002a 00000008 0000000000000000 00010000",
            "00 00  # no tagged fields in partition and topic",
            "01 01  # nothing forgotten, no rack",
            "01 01 0d  # one tagged field: tag 1, thirteen bytes",
            "00000002 0102030405060708 00  # replica id, replica epoch",
        ),
    ),
    (
        "Fetch of a consumer after KIP-903 says nothing of replicas",
        fetch.FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20),
        15,
        golden("000001f4 00000001 00100000 00 00000000 ffffffff 01 01 01 00"),
    ),
    (
        "Fetch of a follower before KIP-903",
        fetch.FetchRequest(replica_id=2, max_wait_ms=500, min_bytes=1, max_bytes=1 << 20),
        14,
        golden("00000002 000001f4 00000001 00100000 00 00000000 ffffffff 01 01 01 00"),
    ),
    (
        "MetadataHeartbeat of the KIP-343 draft",
        heartbeat.MetadataHeartbeatRequest(broker_id=3, incarnation_id=0x0102030405060708, target_state=2),
        0,
        golden("00000003 0102030405060708 02"),
    ),
    (
        "MetadataHeartbeat answered",
        heartbeat.MetadataHeartbeatResponse(error_code=10000, error_string="old", current_state=1),
        0,
        golden("2710 0003 6f6c64 01"),
    ),
    (
        "IsrChange of the KIP-343 draft",
        isr.IsrChangeRequest(
            broker_id=3,
            incarnation_id=0x0102030405060708,
            topics=(isr.IsrChangeTopic("t", (isr.IsrChangePartition(9, 7, (2, 3)),)),),
        ),
        0,
        golden(
            "00000003 0102030405060708",
            "00000001 0001 74",
            "00000001 00000009 00000007 00000002 00000002 00000003  # leader epoch, partition, isr",
        ),
    ),
    (
        "IsrChange answered",
        isr.IsrChangeResponse(results=(isr.IsrChangeResult(6, "gone"), isr.IsrChangeResult())),
        0,
        golden("0000 ffff 00000002 0006 0004 676f6e65 0000 ffff"),
    ),
    (
        "FetchMetadata",
        metadata_log.FetchMetadataRequest(3, 0x0102030405060708, 42, 1 << 20, 500, "c"),
        0,
        golden("00000003 0102030405060708 000000000000002a 00100000 000001f4 02 63 00"),
    ),
    (
        "FetchMetadata answered",
        metadata_log.FetchMetadataResponse(
            0, False, 42, 44, (metadata_log.MetadataRecordEntry(b"\x01\x02"),)
        ),
        0,
        golden("0000 00 000000000000002a 000000000000002c 02 03 0102 00 00"),
    ),
    (
        "A broker's registration with KIP-841's flag",
        records.RegisterBrokerRecord(
            broker_id=3,
            incarnation_id=TOPIC_ID,
            broker_epoch=0x0102030405060708,
            end_points=(records.BrokerEndpoint("L", "h3", 49152, 0),),
            features=(records.BrokerFeature("f", 1, 20),),
            rack="r",
            fenced=True,
            in_controlled_shutdown=True,
        ),
        1,
        golden(
            "00000003",
            TOPIC_ID_BYTES,
            "0102030405060708",
            "02 02 4c 03 6833 c000 0000 00  # end points: the port is unsigned",
            "02 02 66 0001 0014 00  # features",
            "02 72 01 01 00  # rack, fenced, in controlled shutdown",
        ),
    ),
    (
        "A broker's registration before KIP-841",
        records.RegisterBrokerRecord(
            broker_id=3, incarnation_id=TOPIC_ID, broker_epoch=0x0102030405060708, fenced=False
        ),
        0,
        golden("00000003", TOPIC_ID_BYTES, "0102030405060708 01 01 00 00 00"),
    ),
    (
        "A broker that is unfenced",
        records.BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=0x0102030405060708, fenced=-1),
        1,
        golden("00000003 0102030405060708 01 00 01 ff"),
    ),
    (
        "A broker that begins its controlled shutdown",
        records.BrokerRegistrationChangeRecord(
            broker_id=3, broker_epoch=0x0102030405060708, in_controlled_shutdown=1
        ),
        1,
        golden("00000003 0102030405060708 01 01 01 01"),
    ),
    (
        "A partition whose ISR changes and whose leader stays",
        records.PartitionChangeRecord(partition_id=7, topic_id=TOPIC_ID, isr=(1, 2)),
        0,
        golden("00000007", TOPIC_ID_BYTES, "01 00 09 03 00000001 00000002"),
    ),
    (
        "A partition that loses its leader",
        records.PartitionChangeRecord(partition_id=7, topic_id=TOPIC_ID, isr=(), leader=-1),
        0,
        golden("00000007", TOPIC_ID_BYTES, "02 00 01 01 01 04 ffffffff"),
    ),
    (
        "A new partition",
        records.PartitionRecord(
            partition_id=7,
            topic_id=TOPIC_ID,
            replicas=(1, 2),
            isr=(1,),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            leader_recovery_state=1,
        ),
        0,
        golden(
            "00000007",
            TOPIC_ID_BYTES,
            "03 00000001 00000002  # replicas",
            "02 00000001  # isr",
            "01 01  # nothing removed or added",
            "00000001 00000000 00000000  # leader, leader epoch, partition epoch",
            "01 00 01 01  # recovering",
        ),
    ),
    (
        "The key of a committed offset",
        groups.OffsetCommitKey("g", "t", 7),
        1,
        golden("0001 67 0001 74 00000007"),
    ),
    (
        "A committed offset",
        groups.OffsetCommitValue(offset=42, leader_epoch=9, metadata="m", commit_timestamp=1000),
        3,
        golden("000000000000002a 00000009 0001 6d 00000000000003e8"),
    ),
    (
        "A committed offset that expires",
        groups.OffsetCommitValue(offset=42, metadata="m", commit_timestamp=1000, expire_timestamp=2000),
        1,
        golden("000000000000002a 0001 6d 00000000000003e8 00000000000007d0"),
    ),
    ("The key of a group", groups.GroupMetadataKey("g"), 2, golden("0001 67")),
    (
        "A group",
        groups.GroupMetadataValue(
            protocol_type="consumer",
            generation=3,
            protocol="range",
            leader="m1",
            current_state_timestamp=1000,
            members=(groups.GroupMemberMetadata("m1", None, "c", "/h", 300, 100, b"\x01", b"\x02\x03"),),
        ),
        3,
        golden(
            "0008 636f6e73756d6572 00000003 0005 72616e6765 0002 6d31 00000000000003e8",
            "00000001 0002 6d31 ffff 0001 63 0002 2f68 0000012c 00000064",
            "00000001 01 00000002 0203",
        ),
    ),
]


@pytest.mark.parametrize(
    ("message", "version", "written"),
    [row[1:] for row in GOLDEN],
    ids=[row[0].replace(" ", "-") for row in GOLDEN],
)
def test_the_bytes_are_those_of_the_layout(message: Any, version: int, written: bytes) -> None:
    assert codec.encode(message, version).hex() == written.hex()
    assert codec.decode(type(message), version, written) == message


@pytest.mark.parametrize("stretch", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("seed", range(5))
def test_what_no_outside_codec_knows_survives_a_round_trip(
    lone_shape: Any, seed: int, stretch: bool, sample_of: Callable[..., Any]
) -> None:
    message = sample_of(lone_shape, seed, stretch=stretch)
    written = codec.encode(message, lone_shape.version)
    assert codec.decode(lone_shape.cls, lone_shape.version, written) == message


@pytest.mark.parametrize(
    ("cls", "same", "version"),
    [
        (leaders.LeaderAndIsrRequest, 2, 3),
        (leaders.LeaderAndIsrRequest, 2, 4),
        (stop.StopReplicaRequest, 1, 2),
        (stop.StopReplicaRequest, 1, 3),
        (update.UpdateMetadataRequest, 5, 6),
    ],
)
def test_a_version_that_no_kip_describes_equals_the_one_before(cls: Any, same: int, version: int) -> None:
    message = cls(controller_id=1, controller_epoch=5, broker_epoch=77)
    assert codec.encode(message, version) == codec.encode(message, same)


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (leaders.LeaderAndIsrRequest(topic_states=(leaders.LeaderAndIsrTopicState("t"),)), 1),
        (
            leaders.LeaderAndIsrRequest(
                ungrouped_partition_states=(leaders.LeaderAndIsrPartitionState("t"),)
            ),
            2,
        ),
        (stop.StopReplicaRequest(topics=(stop.StopReplicaTopic("t"),)), 0),
        (update.UpdateMetadataRequest(live_brokers=(update.UpdateMetadataBroker(fenced=True),)), 7),
        (fetch.FetchRequest(replica_state=fetch.ReplicaState(2, 77)), 14),
        (fetch.FetchRequest(replica_id=2), 15),
        (records.BrokerRegistrationChangeRecord(in_controlled_shutdown=1), 0),
    ],
    ids=lambda value: getattr(value, "NAME", value),
)
def test_what_a_version_cannot_say_is_not_left_out_in_silence(message: Any, version: int) -> None:
    with pytest.raises(EncodeError):
        codec.encode(message, version)
