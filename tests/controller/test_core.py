"""How decisions are carried out: order of effects, readers of the log, snapshots, a log that fails."""

from __future__ import annotations

from uuid import UUID

from epoka.controller import ControllerConfig, ControllerCore, MemoryMetadataLog
from epoka.model.events import (
    Disconnected,
    Exit,
    Hangup,
    Peer,
    Report,
    Respond,
    Stop,
    StorageFailed,
)
from epoka.model.image import ClusterImage
from epoka.model.levels import FeatureLevel
from epoka.model.records import decode_record
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from epoka.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from epoka.wire.messages.fetch_metadata import FetchMetadataRequest, FetchMetadataResponse
from epoka.wire.messages.produce import ProduceRequest
from tests.controller.office import CLUSTER_ID, CONTROL, Office

CLIENT = Peer(control=False, host="10.0.0.9", connection=7)


def fetch(
    from_offset: int, wait_ms: int = 0, max_bytes: int = 1 << 20, **fields: str | bool
) -> FetchMetadataRequest:
    return FetchMetadataRequest(
        broker_id=1, from_offset=from_offset, max_bytes=max_bytes, max_wait_ms=wait_ms, **fields
    )


def take_in(image: ClusterImage, response: FetchMetadataResponse) -> None:
    image.apply_batch([decode_record(entry.body) for entry in response.records], response.base_offset)


# Readers.


def test_a_reader_follows_the_log_and_gets_an_equal_image() -> None:
    office = Office()
    office.join(1, 2)
    office.create("t", [1, 2], [2, 1])
    image = ClusterImage()
    while image.offset + 1 < office.log.end_offset:
        take_in(image, office.ask(fetch(image.offset + 1, max_bytes=200)))
    assert image == office.image


def test_a_reader_gets_at_least_one_record_and_no_more_bytes_than_it_asked_for() -> None:
    office = Office()
    office.join(1, 2, 3)
    assert len(office.ask(fetch(0, max_bytes=0)).records) == 1
    response = office.ask(fetch(1, max_bytes=250))
    assert len(response.records) > 1 and sum(len(entry.body) for entry in response.records) <= 250
    assert response.end_offset == office.log.end_offset


def test_a_reader_at_the_end_waits_for_what_comes() -> None:
    office = Office()
    token, effects = office.send(fetch(office.log.end_offset, wait_ms=500))
    assert effects == []
    _, effects = office.send(office.registration(1), 3)
    answers = [effect for effect in effects if isinstance(effect, Respond)]
    assert [answer.token for answer in answers] == [token + 1, token]
    assert len(answers[1].message.records) == 1


def test_a_reader_that_waited_in_vain_is_told_so_in_time() -> None:
    office = Office()
    token, _ = office.send(fetch(office.log.end_offset, wait_ms=500))
    assert office.core.deadline == office.now + 500
    office.now += 500
    (answer,) = office.wake()
    assert isinstance(answer, Respond) and answer.token == token and answer.message.records == ()


def test_a_reader_that_does_not_wait_is_answered_at_once() -> None:
    office = Office()
    response = office.ask(fetch(office.log.end_offset))
    assert response.records == () and response.base_offset == response.end_offset == office.log.end_offset


def test_a_reader_that_hung_up_is_forgotten() -> None:
    office = Office()
    office.send(fetch(office.log.end_offset, wait_ms=500))
    assert office.core.handle(Disconnected(CONTROL.connection), office.now) == []
    _, effects = office.send(office.registration(1), 3)
    assert len([effect for effect in effects if isinstance(effect, Respond)]) == 1


def test_a_reader_beyond_the_end_knows_another_log() -> None:
    office = Office()
    response = office.ask(fetch(office.log.end_offset + 1, wait_ms=500))
    assert response.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert office.ask(fetch(-1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_reader_of_another_cluster_is_refused() -> None:
    office = Office()
    assert office.ask(fetch(0, cluster_id="another")).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert office.ask(fetch(0, cluster_id=CLUSTER_ID)).error_code == ErrorCode.NONE


def test_a_reader_before_the_start_gets_a_whole_image() -> None:
    office = Office(snapshot_after_records=5)
    office.join(1, 2, 3)
    for number in range(10):
        office.create(f"t{number}", [1, 2])
    assert office.log.start_offset > 0
    response = office.ask(fetch(0))
    assert response.snapshot
    image = ClusterImage()
    image.load([decode_record(entry.body) for entry in response.records], response.end_offset - 1)
    assert image == office.image


def test_an_onlooker_is_told_who_was_heard_of_when_and_nobody_else_is() -> None:
    office = Office()
    office.join(1, 2, 3)
    office.fence(2)
    began = office.now
    office.heartbeat(3)
    office.now += 40
    office.heartbeat(1)
    office.now += 2
    told = office.ask(fetch(0, heartbeats=True)).heartbeats
    assert [(each.broker_id, each.silent_ms) for each in told] == [(3, office.now - began), (1, 2)]
    assert office.ask(fetch(0)).heartbeats == ()
    token, _ = office.send(fetch(office.log.end_offset, wait_ms=50, heartbeats=True))
    office.now += 50
    (answer,) = office.wake()
    assert isinstance(answer, Respond) and answer.token == token
    assert [each.silent_ms for each in answer.message.heartbeats] == [office.now - began, 52]


# Restarts.


def test_a_restart_stands_where_the_last_controller_stood() -> None:
    office = Office(snapshot_after_records=7)
    office.join(1, 2, 3)
    for number in range(8):
        office.create(f"t{number}", [1, 2, 3])
    office.fence(2)
    before = office.image
    office.restart()
    assert office.image == before and office.image is not before


def test_a_cluster_keeps_the_level_it_was_born_with() -> None:
    log = MemoryMetadataLog()
    Office(FeatureLevel.ELIGIBLE_ISR, log=log)
    assert Office(FeatureLevel.FETCH_EPOCHS, log=log).image.level == FeatureLevel.ELIGIBLE_ISR


def test_event_ids_of_two_lives_do_not_meet() -> None:
    office = Office()
    office.join(1)
    office.now += 1
    office.restart()
    ids = [event.event_id for event in office.ledger]
    assert len(set(ids)) == len(ids)


# Doors and failures.


def test_every_control_request_through_the_clients_door_is_refused() -> None:
    office = Office()
    office.join(1)
    offset = office.image.offset
    for message in (office.registration(2), BrokerHeartbeatRequest(1, office.epoch(1)), fetch(0)):
        assert office.ask(message, 0, CLIENT).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    request = CreateTopicsRequest(topics=(CreatableTopic("t", 1, 1),))
    (topic,) = office.ask(request, 7, CLIENT).topics
    assert topic.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert office.image.offset == offset
    assert {event.rule for event in office.events("verdict")} == {"control.listener"}


def test_what_the_controller_does_not_serve_ends_the_connection() -> None:
    _, effects = Office().send(ProduceRequest(), 9)
    assert isinstance(effects[0], Hangup)


def test_an_append_that_fails_is_not_answered_and_ends_the_controller() -> None:
    log = MemoryMetadataLog()
    office = Office(log=log)
    office.join(1)
    waiting, _ = office.send(fetch(office.log.end_offset, wait_ms=500))
    before = office.image.state_hash()
    log.fail_with = "metadata.log: no space left"
    token, effects = office.send(office.registration(2), 3)
    assert effects == [
        Hangup(token, "metadata.log: no space left"),
        Hangup(waiting, "metadata.log: no space left"),
        Exit(clean=False, reason="metadata.log: no space left"),
    ]
    assert office.image.state_hash() == before
    log.fail_with = None
    token, effects = office.send(office.registration(2), 3)
    assert effects == [Hangup(token, "metadata.log: no space left")]
    assert office.core.deadline is None


def test_a_failed_disk_ends_the_controller() -> None:
    office = Office()
    effects = office.core.handle(StorageFailed("the disk is gone"), office.now)
    assert effects == [Exit(clean=False, reason="the disk is gone")]


def test_an_operator_may_stop_it() -> None:
    office = Office()
    assert office.core.handle(Stop(), office.now) == [Exit(clean=True, reason="stopped")]


def test_the_answer_comes_before_the_reports_and_after_the_record() -> None:
    office = Office()
    token, effects = office.send(office.registration(1), 3)
    assert isinstance(effects[0], Respond) and effects[0].token == token
    assert all(isinstance(effect, Report) for effect in effects[1:]) and effects[1:]
    assert office.log.end_offset == office.epoch(1) + 1


def test_what_is_served_is_said() -> None:
    core = ControllerCore(100, "c", MemoryMetadataLog(), ControllerConfig(), new_id=lambda: UUID(int=1))
    assert core.served[56] == (0, 3) and core.served[10002] == (0, 0)
    assert 0 not in core.served
