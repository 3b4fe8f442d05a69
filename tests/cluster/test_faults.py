"""The gate that cuts nodes apart and holds messages back."""

from __future__ import annotations

from typing import Any

from epoka.cluster.faults import Faulty, FaultyGate, Hold, letting_go, with_cuts, with_hold, without_hold
from epoka.model.events import CONTROLLER
from epoka.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from epoka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest

CONTROLLER_ID = 100
ASK = AlterPartitionRequest()
ANSWER = AlterPartitionResponse()
BEAT = BrokerHeartbeatRequest()


class Network:
    """A gate and what came through it."""

    def __init__(self, faults: Faulty | None = None) -> None:
        self.gate = FaultyGate(CONTROLLER_ID, faults)
        self.arrived: list[str] = []

    def send(self, sender: int, receiver: int, message: Any, name: str) -> None:
        self.gate(sender, receiver, message, lambda: self.arrived.append(name))


def test_without_faults_everything_passes_at_once() -> None:
    network = Network()
    network.send(1, 2, BEAT, "a")
    network.send(2, CONTROLLER, ASK, "b")
    assert network.arrived == ["a", "b"]


def test_a_cut_works_both_ways_and_for_nobody_else() -> None:
    network = Network(with_cuts(Faulty(), 1, [2]))
    network.send(1, 2, BEAT, "there")
    network.send(2, 1, BEAT, "back")
    network.send(1, 3, BEAT, "past")
    assert network.arrived == ["past"]


def test_the_controller_is_known_under_both_of_its_addresses() -> None:
    network = Network(with_cuts(Faulty(), 1, [CONTROLLER_ID]))
    network.send(1, CONTROLLER, BEAT, "by role")
    network.send(CONTROLLER_ID, 1, BEAT, "by id")
    assert network.arrived == []


def test_healing_delivers_what_waited_in_its_order() -> None:
    network = Network(with_cuts(Faulty(), 1, [2, 3]))
    for name in "abc":
        network.send(1, 2, BEAT, name)
    network.gate.set(Faulty())
    network.send(1, 2, BEAT, "d")
    assert network.arrived == ["a", "b", "c", "d"]


def test_a_node_is_never_cut_off_from_itself() -> None:
    assert with_cuts(Faulty(), 1, [1, 2]).cuts == ((1, 2),)


def test_a_hold_stops_requests_of_its_api_alone_and_counts_them() -> None:
    network = Network(with_hold(Faulty(), Hold(1, "AlterPartition")))
    network.send(1, CONTROLLER, BEAT, "beat")
    network.send(1, CONTROLLER, ASK, "ask")
    network.send(CONTROLLER, 1, ANSWER, "answer")
    assert network.arrived == ["beat", "answer"]
    assert network.gate.held == {1: 1}


def test_a_hold_on_answers_stops_answers_alone() -> None:
    network = Network(with_hold(Faulty(), Hold(1, "AlterPartitionResponse")))
    network.send(1, CONTROLLER, ASK, "ask")
    network.send(CONTROLLER, 1, ANSWER, "answer")
    assert network.arrived == ["ask"]


def test_a_hold_may_concern_one_receiver() -> None:
    network = Network(with_hold(Faulty(), Hold(1, "BrokerHeartbeat", to=CONTROLLER_ID)))
    network.send(1, 2, BEAT, "to a broker")
    network.send(1, CONTROLLER, BEAT, "to the controller")
    assert network.arrived == ["to a broker"]


def test_releasing_one_hold_leaves_what_another_fault_stops() -> None:
    both = with_hold(with_cuts(Faulty(), 1, [CONTROLLER_ID]), Hold(1, "AlterPartition"))
    network = Network(both)
    network.send(1, CONTROLLER, ASK, "cut off and held")
    network.send(2, CONTROLLER, ASK, "only held")
    network.gate.set(without_hold(both, 1))
    assert network.arrived == ["only held"]
    network.gate.set(Faulty())
    assert network.arrived == ["only held", "cut off and held"]


def test_a_message_is_counted_once_however_often_the_faults_change() -> None:
    held = with_hold(Faulty(), Hold(1, "AlterPartition"))
    network = Network(held)
    network.send(1, CONTROLLER, ASK, "ask")
    network.gate.set(with_cuts(held, 1, [2]))
    network.gate.set(held)
    assert network.gate.held == {1: 1}


def test_the_first_that_were_held_may_go_while_the_rest_waits() -> None:
    held = with_hold(Faulty(), Hold(1, "AlterPartition"))
    network = Network(held)
    for name in "abc":
        network.send(1, CONTROLLER, ASK, name)
    network.gate.set(held := letting_go(held, 1, 1))
    assert network.arrived == ["a"]
    network.gate.set(held := with_cuts(held, 1, [2]))
    assert network.arrived == ["a"]
    network.gate.set(held := letting_go(held, 1, 5))
    network.send(1, CONTROLLER, ASK, "d")
    network.gate.set(held)
    assert network.arrived == ["a", "b", "c"]
    network.gate.set(without_hold(held, 1))
    assert network.arrived == ["a", "b", "c", "d"]


def test_what_a_hold_lets_go_still_does_not_cross_a_cut() -> None:
    both = with_hold(with_cuts(Faulty(), 1, [CONTROLLER_ID]), Hold(1, "AlterPartition"))
    network = Network(both)
    network.send(1, CONTROLLER, ASK, "cut off and held")
    network.gate.set(letting_go(both, 1, 1))
    assert network.arrived == []
