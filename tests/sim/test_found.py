"""Bugs that the simulator found in the cores, each in the fewest steps that show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from epoka.broker import metadata_feed
from epoka.broker.control_feed import ControlFeed
from epoka.broker.following import Asked
from epoka.broker.lifecycle import Lifecycle
from epoka.controller import partition_change, reassignments
from epoka.controller.state import ControllerState
from epoka.log.epochs import CHECKPOINT
from epoka.model.levels import FeatureLevel
from epoka.sim import KEEP, World, client, steps
from epoka.sim.mutants import applied
from epoka.sim.process import Machine
from epoka.sim.runner import replay
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.update_metadata import UpdateMetadataRequest

EXCUSED = Path(__file__).parent / "excused"
FOUND = Path(__file__).parent / "found"
LEADER_EPOCH_AT = 12
"""In a batch."""


def test_a_new_life_does_not_take_up_what_its_last_one_led(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log says that the broker leads, some records before it says that it was born again. A broker that
    reads it in pieces led in the epoch of its former life, with whatever its disk had lost."""
    monkeypatch.setattr(metadata_feed, "MAX_BYTES", 150)
    world = World()
    client.create_topic(world, "t", (1, 2, 3), min_insync_replicas="2")
    epoch = world.partition("t").leader_epoch
    world.crash(1)
    world.restart(1)
    led: list[int] = []

    def look(process: object, event: object) -> None:
        replica = world.broker(1).replicas.by_name.get(("t", 0)) if world.is_up(1) else None
        if replica is not None and replica.leadership is not None:
            led.append(replica.leader_epoch)

    world.watch = look
    world.run_until(lambda: world.all_active() and 1 in world.partition("t").isr)
    assert epoch not in led


def test_a_produce_that_waited_through_a_pause_is_not_taken_by_a_broker_out_of_contact() -> None:
    """After a pause the inbox comes before the alarm that fences."""
    world = World()
    client.create_topic(world, "t", (1, 2, 3), min_insync_replicas="2")
    world.cut(1, -1)
    world.pause(1)
    answer = client.producing(world, 1, "t", b"late", acks=1)
    world.run(world.settings["heartbeat_timeout_ms"] + 100)
    world.resume(1)
    world.run_until(lambda: answer.done)
    outcome = client.produced(answer)
    assert outcome is not None and outcome.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_that_wrote_nothing_can_follow_one_that_has_older_records() -> None:
    """The entry of its own empty epoch made it refuse the records of the epoch before, for good."""
    world = World()
    client.create_topic(world, "t", (1, 2, 3), min_insync_replicas="1")
    world.cut(1, 2)
    client.producing(world, 1, "t", b"one", acks=1)
    world.run_until(lambda: client.log_of(world, 3, "t") == [b"one"])
    assert client.log_of(world, 2, "t") == []
    world.crash(1)
    world.run_until(lambda: world.leads(2, "t"))
    # Before 3 has been told to cut its log to fit, 2 is as good as gone.
    world.pause(2)
    world.run_until(lambda: world.leads(3, "t"))
    assert client.log_of(world, 3, "t") == [b"one"]
    world.heal()
    world.resume(2)
    world.restart(1)
    world.run_until(lambda: sorted(world.partition("t").isr) == [1, 2, 3], 20_000)
    assert client.log_of(world, 2, "t") == [b"one"]


def test_a_process_whose_id_another_one_got_does_not_take_up_what_that_one_leads() -> None:
    """It goes on reading the log, which says "broker 1 leads" and means the other process."""
    world = World()
    client.create_topic(world, "t", (1,))
    world.isolate(1, from_=[-1])
    world.run_until(lambda: world.partition("t").leader == -1)
    world.machines[51] = Machine(51, 1)
    other = world.start_broker(1, 51)
    assert other is not None
    world.run_until(lambda: world.partition("t").leader == 1)
    epoch = world.partition("t").leader_epoch
    heartbeats = world.hold("BrokerHeartbeatRequest", sender=1)
    registrations = world.hold("BrokerRegistrationRequest", sender=1)
    world.mend(1, -1)
    world.run(1_500)
    heartbeats.release()
    registrations.release()
    replica = world.broker(1).replicas.by_name["t", 0]
    assert replica.leader_epoch < epoch


@pytest.mark.parametrize("level", list(FeatureLevel), ids=lambda level: level.label)
def test_a_reassignment_ends_at_every_level(level: FeatureLevel) -> None:
    """Below `heartbeats` leaders write ISRs themselves, and nobody looked whether that completed a
    reassignment (zookeeper mode, seed 1034)."""
    world = World(mode="zookeeper", level=level, brokers=4)
    client.create_topic(world, "t", (1, 2, 3), min_insync_replicas="2")
    world.run(50)
    assert client.reassign(world, "t", 0, (2, 3, 4)) == ErrorCode.NONE
    world.run_until(lambda: world.partition("t").replicas == (2, 3, 4), 5_000)
    world.run_until(lambda: world.partition("t").leader in (2, 3, 4), 5_000)
    assert not world.partition("t").adding and not world.partition("t").removing


def test_an_update_that_a_newer_one_has_overtaken_is_not_taken_in() -> None:
    """The controller gave a connection up and told everything again on the next; then the first one delivered
    what it still had, and the leader went by an old life of a follower until something else happened
    (zookeeper mode, zombie-controllers, seeds 89 and 104)."""
    world = World(mode="zookeeper")
    client.create_topic(world, "t", (1, 2, 3), min_insync_replicas="2")
    late = world.hold("UpdateMetadataRequest", to=1, most=1)
    world.crash(2)
    world.run_until(lambda: len(late.messages) == 1)
    world.restart(2)
    leader = world.broker(1)

    def knows_the_new_life() -> bool:
        known = leader.image.broker(2)
        return (
            known is not None and known.active and known.epoch == world.broker(2).lifecycle.broker_epoch > 0
        )

    world.run_until(knows_the_new_life)
    late.release()
    world.run(50)
    assert knows_the_new_life()
    world.run_until(lambda: sorted(world.partition("t").isr) == [1, 2, 3])


def test_a_controller_whose_connection_was_taken_for_an_older_one_says_it_again() -> None:
    """Connections are numbered as they are accepted, which need not be the order they were opened in."""
    world = World(mode="zookeeper")
    image = world.broker(1).image
    newest = max(world.generation(each) for each in (1, 2, 3))
    request = UpdateMetadataRequest(controller_id=100, controller_epoch=1, max_broker_epoch=newest)
    world.call(1, request, 8, control=True)
    assert not image.brokers
    world.crash(3)
    world.run_until(lambda: sorted(image.brokers) == [1, 2], 5_000)
    refused = [event for event in world.ledger if event.rule == "control.connection"]
    assert len(refused) == 1


@pytest.mark.parametrize("path", sorted(EXCUSED.glob("*.json")), ids=lambda path: path.stem)
def test_the_exception_is_counted_whichever_way_the_last_replica_lost_its_disk(path: Path) -> None:
    """A second process with an empty disk got the id of the last ISR member. The checker took it for the
    first one, or did not see that a leader who had not heard of it went on (log mode, seeds 7044, 4590). Or
    the second became the last ISR member, and the first one got the id back (zookeeper mode, seed 3100)."""
    outcome = replay(steps.decode(path.read_bytes())).go()
    assert outcome.ok and outcome.exceptions == 1


def test_an_answer_that_waited_through_a_pause_does_not_prolong_a_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker counted itself in touch from when it took the answer in, while the controller had given it
    up and its id to another process (log mode, seed 1000546)."""
    schedule = steps.decode((FOUND / "answer-that-waited.json").read_bytes())
    assert replay(schedule).go().ok
    asked = Lifecycle._contact
    monkeypatch.setattr(Lifecycle, "_contact", lambda self, asked_ms, now: asked(self, now, now))
    assert [each.checker for each in replay(schedule).go().violations] == ["15: an id has one life"]


def test_a_producer_sends_what_is_under_way_again_under_the_same_id() -> None:
    """One partition had lost its sequences, so the simulated producer asked for a new id; a value on its way
    to another partition was sent again under that, and was there twice (zookeeper mode, seed 1006403)."""
    schedule = steps.decode((FOUND / "retry-under-another-id.json").read_bytes())
    assert replay(schedule).go().ok


def test_a_full_disk_has_not_lost_what_it_holds() -> None:
    """The last ISR member came back to a disk that took no writes, so it took up no replica: the checker said
    that it lacked everything (zookeeper mode, seed 1012269)."""
    schedule = steps.decode((FOUND / "disk-that-takes-no-writes.json").read_bytes())
    assert replay(schedule).go().ok


def test_an_answer_to_a_log_that_was_cut_does_not_cut_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two fetches told of the same end in another epoch than the leader's. After the first answer the log was
    cut, grew to the same end again and joined the ISR; the second answer cut it once more, behind what was
    committed (log mode, role-changes, seed 1000104)."""
    schedule = steps.decode((FOUND / "answer-to-a-log-that-was-cut.json").read_bytes())
    assert replay(schedule).go().ok

    def by_the_end_alone(self: Asked) -> bool:
        return self.replica.log.end_offset == self.offset and self.replica.leader_epoch == self.leader_epoch

    monkeypatch.setattr(Asked, "holds", by_the_end_alone)
    assert [each.checker for each in replay(schedule).go().violations] == ["2: ISR members have everything"]


def test_a_leader_that_was_replaced_may_not_know_a_sequence() -> None:
    """A broker that had slept through two elections refused a producer's next value; the checker took that
    for a loss (zookeeper mode, role-changes, seed 1000217)."""
    schedule = steps.decode((FOUND / "refused-by-a-replaced-leader.json").read_bytes())
    assert replay(schedule).go().ok


def test_a_broker_that_asks_to_be_fenced_gives_its_id_up() -> None:
    """Its disk had failed, the controller did as it was asked and let another process have the id; the first
    one had not read the answer yet (log mode, seed 1039782)."""
    schedule = steps.decode((FOUND / "id-of-a-broker-that-gave-up.json").read_bytes())
    assert replay(schedule).go().ok


def test_a_broker_that_ends_when_all_is_well_again_comes_back() -> None:
    """Its disk was slow when it was told to stop, so it began to when the faults were over, and the simulator
    did not start it again (log mode, seeds 1051123 and 1059336)."""
    schedule = steps.decode((FOUND / "ended-when-all-was-well.json").read_bytes())
    assert replay(schedule).go().ok


def test_a_note_may_outlive_its_topic() -> None:
    """A leader wrote an ISR, and the topic was deleted before the controller had read of it. The simulated
    ensemble gave the change out all the same (zookeeper mode, seed 1038986)."""
    schedule = steps.decode((FOUND / "note-of-a-deleted-topic.json").read_bytes())
    assert replay(schedule).go().ok


def test_a_registration_of_an_earlier_life_takes_nobodys_place() -> None:
    """A broker was born twice in a row on one disk; the first life's registration arrived when the second was
    serving, and was taken for a third (log mode, seed 1150144)."""
    schedule = steps.decode((FOUND / "registration-of-an-earlier-life.json").read_bytes())
    assert replay(schedule).go().ok
    with applied(("registration-by-disk-alone",)):
        assert [each.checker for each in replay(schedule).go().violations] == ["15: an id has one life"]


def test_what_comes_late_comes_on_the_connection_that_it_was_sent_on() -> None:
    """A connection was asked for while its receiver could not be reached, and met the receiver's next life.
    Its last message came late, and the simulator gave it for one of the next connection: an old
    UpdateMetadata was believed (zookeeper mode, stragglers, seed 11254)."""
    schedule = steps.decode((FOUND / "update-on-a-connection-that-was-met.json").read_bytes())
    assert replay(schedule).go().ok


def test_a_proposal_without_a_partition_epoch_undoes_nothing_that_the_controller_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leader proposed by IsrChange to take a broker out, and slept. Meanwhile another member ended and came
    back as a new life: the late proposal put it into the ISR again, which the leader knew nothing of
    (zookeeper mode, seed 1110382)."""
    schedule = steps.decode((FOUND / "proposal-older-than-the-isr.json").read_bytes())
    assert replay(schedule).go().ok
    monkeypatch.setattr(ControllerState, "renews_leaders", False)
    assert [each.checker for each in replay(schedule).go().violations] == ["3: the quorum covers the ISR"]


def test_a_reassignment_does_not_make_a_leader_forget_what_it_has_proposed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leader proposed by IsrChange to add a broker. The controller moved the partition just before it took
    the proposal, and the leader took the news of the move for an answer: it counted without a member that the
    controller counted on (zookeeper mode, level `heartbeats`, seed 1261916)."""
    schedule = steps.decode((FOUND / "reassignment-beside-a-proposal.json").read_bytes())
    assert replay(schedule).go().ok
    change = partition_change.change
    monkeypatch.setattr(
        reassignments, "change", lambda *about, renews, **wanted: change(*about, renews=False, **wanted)
    )
    assert [each.checker for each in replay(schedule).go().violations] == ["3: the quorum covers the ISR"]


def test_what_a_busy_broker_has_in_its_inbox_comes_before_what_arrives_later() -> None:
    """A broker with a slow disk was free again in the millisecond in which the next batch of a producer
    arrived, and the simulator gave it that before the one that waited (log mode, seed 1469640)."""
    schedule = steps.decode((FOUND / "request-before-an-earlier-one.json").read_bytes())
    assert replay(schedule).go().ok


def test_a_follower_whose_last_epoch_has_not_begun_cuts_it_off() -> None:
    """A crash flipped a bit of the leader epoch in the last batch of a log, which no checksum covers. No
    leader knew that epoch, and the follower was never in sync again (log mode, seed 244 of that day)."""
    world = World()
    client.create_topic(world, "t", (1, 2, 3), min_insync_replicas="2")
    world.run(50)
    client.write(world, 1, "t", b"one")
    world.run(50)
    world.crash(3, KEEP)
    world.run_until(lambda: sorted(world.partition("t").isr) == [1, 2], 10_000)
    folder = world.machines[3].store.folder("t-0")
    (log,) = (blob for name, blob in folder._blobs.items() if name.endswith(".log"))
    log.content[LEADER_EPOCH_AT] ^= 0x10
    folder.delete(CHECKPOINT)
    world.restart(3)
    world.run_until(lambda: sorted(world.partition("t").isr) == [1, 2, 3], 10_000)
    assert client.log_of(world, 3, "t") == [b"one"]


def test_a_broker_that_knows_a_topic_by_its_name_alone_deletes_no_log() -> None:
    """A broker that starts cut off from the ensemble is told of its role before it knows the topic's id. It
    takes its own log, which has the id, for one of an earlier topic (zookeeper mode, isolation, seed
    1000499)."""
    schedule = steps.decode((FOUND / "log-deleted-by-name.json").read_bytes())
    assert replay(schedule).go().ok


def test_a_broker_makes_no_log_before_it_knows_what_the_topic_asks_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that was cut off from the ensemble took a new topic up by defaults, and was content with one
    in-sync replica where the topic asks for two (zookeeper mode, seed 1051637)."""
    schedule = steps.decode((FOUND / "role-before-its-settings.json").read_bytes())
    assert replay(schedule).go().ok
    monkeypatch.setattr(ControlFeed, "_keeps_a_log", lambda *asked: True)
    assert [each.checker for each in replay(schedule).go().violations] == ["19: enough are in sync"]


def test_nobody_is_registered_who_has_not_asked_to_be() -> None:
    """A broker was born again while it was cut off from the ensemble, and its session ended before it had
    read the settings. The simulated ensemble registered it all the same, and by defaults it committed alone
    (zookeeper mode, level `heartbeats`, seed 3002809)."""
    schedule = steps.decode((FOUND / "life-before-its-settings.json").read_bytes())
    assert replay(schedule).go().ok


def test_a_broker_that_is_behind_hears_of_a_deletion_though_the_cluster_climbs() -> None:
    """The queue of a broker had been replaced by everything and what is no more, and a climb put everything
    in the place of that: the broker knew a topic for ever that had been deleted (zookeeper mode, seed
    1024025)."""
    schedule = steps.decode((FOUND / "deletion-lost-in-a-climb.json").read_bytes())
    assert replay(schedule).go().ok


def test_a_leader_hears_of_new_replicas_though_an_answer_came_before_the_metadata() -> None:
    """A reassignment raised the partition epoch, and the leader learnt that epoch from the answer to a
    proposal that had been carried out before. The metadata behind it was no news then, and the new replica
    never was one for the leader (zookeeper mode, seed 1159609)."""
    schedule = steps.decode((FOUND / "replicas-behind-an-answer.json").read_bytes())
    assert replay(schedule).go().ok
