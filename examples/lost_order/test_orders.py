"""What becomes of orders when the broker that took them bounces."""

from __future__ import annotations

import pytest
from orders import Shop, delivered

careless = pytest.param(
    "1", marks=pytest.mark.xfail(strict=True, reason="acks=1: the only copy dies with the leader")
)


@pytest.mark.parametrize("acks", [careless, "all"])
def test_an_order_that_was_taken_is_delivered(epoka_cluster, acks: str) -> None:
    topic = epoka_cluster.topic("orders", replication_factor=3, config={"min.insync.replicas": 2})
    shop = Shop(epoka_cluster.producer({"acks": acks}), topic)
    shop.order("bread")
    shop.close_up()
    leader = epoka_cluster.leader(topic)
    epoka_cluster.eventually_isr(topic, isr={1, 2, 3})

    # The leader still talks to the shop, but nobody copies from it any more.
    epoka_cluster.isolate(leader, from_="brokers")
    shop.order("milk")
    shop.close_up(1)
    epoka_cluster.kill(leader)
    epoka_cluster.eventually_leader(topic, other_than=leader)
    epoka_cluster.heal()
    epoka_cluster.start(leader)
    shop.order("honey")
    shop.close_up()

    assert shop.taken == ["bread", "milk", "honey"]
    assert delivered(epoka_cluster.consumer(topic), 3) == ["bread", "milk", "honey"]


def test_a_clean_bounce_costs_nothing(epoka_cluster) -> None:
    topic = epoka_cluster.topic("orders", replication_factor=3)
    shop = Shop(epoka_cluster.producer({"acks": "all", "enable.idempotence": True}), topic)
    shop.order("bread")
    old, new = epoka_cluster.bounce(epoka_cluster.leader(topic))
    shop.order("milk")
    shop.close_up()
    assert new > old
    assert delivered(epoka_cluster.consumer(topic), 2) == ["bread", "milk"]
