"""One life of a broker, from registration to its end, event by event."""

import uuid

import msgspec
import pytest

from epoka.broker.config import BrokerConfig, Listener
from epoka.broker.core import BrokerCore
from epoka.broker.lifecycle import LifeState
from epoka.log.directory import GENERATION, LogDirectory, Marker
from epoka.log.store import MemoryStore
from epoka.model.events import Exit, Reply, Send, Stop, Wake
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from epoka.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

EPOCH = 7
TIMEOUT_MS = 60_000


class Life:
    """A broker core whose controller is the test."""

    def __init__(self, **settings) -> None:
        self.store = MemoryStore()
        directory = LogDirectory.open(self.store, cluster_id="c", node_id=1, now=0)
        config = BrokerConfig(
            broker_id=1,
            cluster_id="c",
            incarnation_id=uuid.UUID(int=1),
            listeners=(Listener("PLAINTEXT", "h", 1), Listener("CONTROL", "h", 2)),
            directory_ids=(directory.directory_id,),
            heartbeat_interval_ms=200,
            heartbeat_timeout_ms=1_500,
            **settings,
        )
        self.now = 1_000
        self.core = BrokerCore(config, directory, str)
        self.sent: list[Send] = []
        self.exit: Exit | None = None
        self.take(self.core.start(self.now))

    def remembered(self) -> int:
        """The generation that the next life finds on the disk."""
        return msgspec.json.decode(self.store.read_all(GENERATION), type=Marker).broker_epoch

    def take(self, effects) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.sent.append(effect)
            elif isinstance(effect, Exit):
                self.exit = effect

    def pending(self, kind: type) -> list[Send]:
        return [send for send in self.sent if isinstance(send.message, kind)]

    def answer(self, message) -> None:
        """Answer the oldest open request that this message can be the answer of."""
        kind = (
            BrokerRegistrationRequest
            if isinstance(message, BrokerRegistrationResponse)
            else BrokerHeartbeatRequest
        )
        send = self.pending(kind)[0]
        self.sent.remove(send)
        self.take(self.core.handle(Reply(send.token, message), self.now))

    def lose(self, kind: type) -> None:
        send = self.pending(kind)[0]
        self.sent.remove(send)
        self.take(self.core.handle(Reply(send.token, None), self.now))

    def pass_time(self, ms: int) -> None:
        end = self.now + ms
        while (due := self.core.deadline) is not None and due <= end:
            self.now = max(due, self.now)
            self.take(self.core.handle(Wake(), self.now))
        self.now = end

    def register(self) -> None:
        self.answer(BrokerRegistrationResponse(broker_epoch=EPOCH))

    def run(self) -> None:
        self.register()
        self.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))

    @property
    def state(self) -> LifeState:
        return self.core.lifecycle.state


class TestRegistration:
    def test_comes_first_and_says_who_we_are(self):
        life = Life(previous_broker_epoch=3, rack="r")
        (send,) = life.pending(BrokerRegistrationRequest)
        message = send.message
        assert (message.broker_id, message.cluster_id, message.rack) == (1, "c", "r")
        assert message.incarnation_id == uuid.UUID(int=1)
        assert message.previous_broker_epoch == 3
        assert [listener.name for listener in message.listeners] == ["PLAINTEXT", "CONTROL"]
        assert life.core.lifecycle.broker_epoch == -1

    def test_gives_the_generation_that_every_heartbeat_carries(self):
        life = Life()
        life.register()
        assert life.pending(BrokerHeartbeatRequest)[0].message.broker_epoch == EPOCH

    @pytest.mark.parametrize("error", [ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.NOT_CONTROLLER])
    def test_is_tried_again_when_it_may_succeed_later(self, error):
        life = Life()
        life.answer(BrokerRegistrationResponse(error_code=error))
        life.pass_time(150)
        assert len(life.pending(BrokerRegistrationRequest)) == 1
        life.register()
        assert life.core.lifecycle.broker_epoch == EPOCH

    def test_is_tried_again_when_nobody_answered(self):
        life = Life()
        life.lose(BrokerRegistrationRequest)
        life.pass_time(150)
        assert len(life.pending(BrokerRegistrationRequest)) == 1

    @pytest.mark.parametrize(
        "error",
        [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REGISTRATION, ErrorCode.UNSUPPORTED_VERSION],
    )
    def test_ends_the_broker_when_no_retry_can_help(self, error):
        life = Life()
        life.answer(BrokerRegistrationResponse(error_code=error))
        assert life.exit is not None and not life.exit.clean and error.name in life.exit.reason

    def test_ends_the_broker_when_it_takes_too_long(self):
        life = Life(registration_timeout_ms=1_000)
        for _ in range(20):
            if life.exit is None:
                life.answer(BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION))
                life.pass_time(110)
        assert life.exit is not None and "DUPLICATE_BROKER_REGISTRATION" in life.exit.reason

    @pytest.mark.parametrize(("seen", "ends"), [(EPOCH - 1, False), (EPOCH, True), (EPOCH + 1, True)])
    def test_ends_the_broker_when_its_disk_has_had_that_generation_before(self, seen, ends):
        life = Life(last_broker_epoch=seen)
        life.register()
        assert (life.exit is not None) is ends
        assert bool(life.sent) is not ends, "it neither reads that log nor beats"
        if life.exit is not None:
            assert not life.exit.clean and f"given generation {EPOCH} and has had {seen}" in life.exit.reason

    @pytest.mark.parametrize(("again", "ends"), [(EPOCH - 1, True), (EPOCH, False), (EPOCH + 1, False)])
    def test_never_takes_a_living_broker_back_to_an_earlier_generation(self, again, ends):
        life = Life(last_broker_epoch=EPOCH - 2)
        life.run()
        life.pass_time(200)
        life.answer(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
        life.pass_time(100)
        life.answer(BrokerRegistrationResponse(broker_epoch=again))
        assert (life.exit is not None) is ends
        assert life.remembered() == max(again, EPOCH)


class TestHeartbeats:
    def test_run_through_starting_and_recovery_to_running(self):
        life = Life()
        life.register()
        assert life.state is LifeState.STARTING
        life.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True))
        assert life.state is LifeState.RECOVERY and not life.core.lifecycle.serving()
        life.pass_time(20)
        life.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
        assert life.state is LifeState.RUNNING and life.core.lifecycle.serving()

    def test_one_is_in_flight_at_a_time(self):
        life = Life()
        life.register()
        life.core.lifecycle.beat_now(life.now)
        life.core.lifecycle.beat_now(life.now)
        assert len(life.pending(BrokerHeartbeatRequest)) == 1

    def test_one_asked_for_meanwhile_follows_at_once(self):
        life = Life()
        life.register()
        life.core.lifecycle.beat_now(life.now)
        life.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
        assert len(life.pending(BrokerHeartbeatRequest)) == 1

    def test_go_on_at_the_interval_after_a_success_and_after_a_failure(self):
        life = Life()
        life.run()
        life.pass_time(199)
        assert not life.pending(BrokerHeartbeatRequest)
        life.pass_time(1)
        life.lose(BrokerHeartbeatRequest)
        life.pass_time(200)
        assert len(life.pending(BrokerHeartbeatRequest)) == 1

    def test_a_stale_generation_registers_again_with_the_same_incarnation(self):
        life = Life()
        life.run()
        life.pass_time(200)
        life.answer(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
        life.pass_time(150)
        (send,) = life.pending(BrokerRegistrationRequest)
        assert send.message.incarnation_id == uuid.UUID(int=1)

    def test_wait_while_the_broker_asks_for_its_place_again(self):
        """Each of a stale generation would begin one more chain of registrations, and none would end."""
        life = Life()
        life.run()
        life.pass_time(200)
        life.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True))
        life.pass_time(10)
        life.answer(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
        for _ in range(5):
            life.core.lifecycle.caught_up(life.now)
            assert not life.pending(BrokerHeartbeatRequest)
            life.pass_time(100)
            life.answer(BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION))
            assert not life.pending(BrokerRegistrationRequest)
        life.pass_time(100)
        life.answer(BrokerRegistrationResponse(broker_epoch=EPOCH + 1))
        (send,) = life.pending(BrokerHeartbeatRequest)
        assert send.message.broker_epoch == EPOCH + 1


class TestContact:
    @pytest.mark.parametrize(("silence_ms", "fenced"), [(1_500, False), (1_501, True)])
    def test_silence_of_more_than_the_timeout_fences_the_broker(self, silence_ms, fenced):
        life = Life()
        life.run()
        life.pass_time(silence_ms)
        assert life.core.lifecycle.self_fenced is fenced
        assert life.core.lifecycle.serving() is not fenced

    def test_any_answer_of_the_controller_ends_it(self):
        life = Life()
        life.run()
        life.pass_time(2_000)
        life.lose(BrokerHeartbeatRequest)
        life.pass_time(200)
        life.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True))
        assert life.core.lifecycle.serving()

    @pytest.mark.parametrize(("waited_ms", "serving"), [(1_500, True), (1_501, False)])
    def test_an_answer_that_lay_about_tells_of_the_time_when_it_was_asked_for(self, waited_ms, serving):
        """As one does that waits in the inbox of a process which was stopped."""
        life = Life()
        life.run()
        life.pass_time(200)
        asked_ms = life.now
        life.pass_time(waited_ms)
        life.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
        assert life.core.lifecycle.last_contact_ms == asked_ms
        assert life.core.lifecycle.serving() is serving


class TestStopping:
    def test_asks_until_it_is_granted(self):
        life = Life()
        life.run()
        life.take(life.core.handle(Stop(), life.now))
        assert life.pending(BrokerHeartbeatRequest)[0].message.want_shut_down
        life.answer(BrokerHeartbeatResponse(is_caught_up=True))
        assert life.exit is None
        life.pass_time(60)
        life.answer(BrokerHeartbeatResponse(is_caught_up=True, should_shut_down=True))
        assert life.exit is not None and life.exit.clean

    def test_a_grant_that_nobody_asked_for_is_ignored(self):
        life = Life()
        life.run()
        life.pass_time(200)
        life.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False, should_shut_down=True))
        assert life.exit is None

    def test_before_it_runs_a_broker_just_ends(self):
        life = Life()
        life.take(life.core.handle(Stop(), life.now))
        assert life.exit is not None and life.exit.clean

    def test_asks_with_the_new_generation_when_the_old_one_is_over(self):
        life = Life()
        life.run()
        life.pass_time(200)
        life.answer(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
        life.take(life.core.handle(Stop(), life.now))
        assert not life.pending(BrokerHeartbeatRequest)
        life.pass_time(100)
        life.answer(BrokerRegistrationResponse(broker_epoch=EPOCH + 1))
        (send,) = life.pending(BrokerHeartbeatRequest)
        assert send.message.want_shut_down and send.message.broker_epoch == EPOCH + 1

    def test_gives_up_when_nobody_grants_it(self):
        life = Life(controlled_shutdown_timeout_ms=1_000)
        life.run()
        life.take(life.core.handle(Stop(), life.now))
        life.pass_time(1_001)
        assert life.exit is not None
