"""The ladder under load, with real processes: from `legacy` to `fetch-epochs`, every node restarted between.

Each restart of all nodes is the second half of one double roll and the first half of the next. A writer and
everything it was promised live through all of it.
"""

from __future__ import annotations

import pytest

from epoka.client.connection import Connection
from epoka.cluster.cluster import Cluster
from epoka.cluster.ports import HOST
from epoka.model.levels import FEATURE_NAME, FeatureLevel
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tests.faults.load import settled
from tests.faults.test_cluster_mix import PARTITIONS, TOPIC
from tests.faults.test_zk_faults import loaded_cluster
from tests.waiting import wait_until
from tests.zookeeper_missing import MISSING

pytestmark = [
    pytest.mark.xdist_group("zk-faults"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(MISSING is not None, reason=MISSING or ""),
]


def ask_for(cluster: Cluster, level: FeatureLevel) -> UpdateFeaturesResponse:
    """Ask a broker to have the cluster raised, as an operator's tool would."""
    request = UpdateFeaturesRequest(
        feature_updates=(
            FeatureUpdateKey(feature=FEATURE_NAME, max_version_level=int(level), upgrade_type=1),
        )
    )
    with Connection((HOST, cluster.layout.place(1).client_port)) as connection:
        answer = connection.ask(request, version=1)
    assert isinstance(answer, UpdateFeaturesResponse)
    return answer


def test_a_double_roll_over_all_levels_loses_nothing() -> None:
    with loaded_cluster(FeatureLevel.LEGACY) as (cluster, load):
        assert cluster.image().level is FeatureLevel.LEGACY
        skipped = ask_for(cluster, FeatureLevel.HEARTBEATS)
        assert ErrorCode.of(skipped.error_code) is ErrorCode.INVALID_UPDATE_VERSION
        assert "one level at a time" in (skipped.error_message or "")
        for level in FeatureLevel:
            if level > FeatureLevel.LEGACY:
                answer = ask_for(cluster, level)
                assert ErrorCode.of(answer.error_code) is ErrorCode.NONE, answer
                wait_until(lambda level=level: cluster.image().level is level, f"level {level}")
                load.reaches_every_partition(10)
            for node_id in (*cluster.controller_ids, *cluster.broker_ids):
                if node_id in cluster.broker_ids:
                    old, new = cluster.bounce(node_id)
                    assert new > old
                    settled(cluster, TOPIC, PARTITIONS)
                else:
                    cluster.stop(node_id)
                    cluster.start(node_id)
                load.reaches_every_partition(5)
        down = ask_for(cluster, FeatureLevel.SHARED_UPDATES)
        assert ErrorCode.of(down.error_code) is ErrorCode.INVALID_UPDATE_VERSION
        assert "never goes down" in (down.error_message or "")


@pytest.mark.parametrize("level", ["legacy", "heartbeats", "fetch-epochs"])
def test_a_killed_broker_and_a_takeover_lose_nothing(level: str) -> None:
    with loaded_cluster(FeatureLevel.parse(level)) as (cluster, load):
        cluster.bounce(1, how="unclean")
        load.reaches_every_partition(10)
        cluster.image()
        cluster.kill(cluster.controller_id)
        # Below `heartbeats` brokers go on without a controller; from there on the next one is in office soon.
        load.reaches_every_partition(10)
        cluster.bounce(2, how="fast")
        load.reaches_every_partition(10)
        settled(cluster, TOPIC, PARTITIONS)
