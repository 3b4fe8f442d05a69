"""How a request as a whole is refused: the same error wherever its response has room for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import (
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    broker_heartbeat,
    broker_registration,
    controlled_shutdown,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    fetch_metadata,
    incremental_alter_configs,
    isr_change,
    list_partition_reassignments,
    metadata_heartbeat,
    unregister_broker,
    update_features,
)


def _create_topics(request: create_topics.CreateTopicsRequest, error: ErrorCode) -> Any:
    return create_topics.CreateTopicsResponse(
        topics=tuple(
            create_topics.CreatableTopicResult(
                name=each.name, error_code=error, error_message=error.message, configs=()
            )
            for each in request.topics
        )
    )


def _delete_topics(request: delete_topics.DeleteTopicsRequest, error: ErrorCode) -> Any:
    named = [delete_topics.DeletableTopicResult(name=name, error_code=error) for name in request.topic_names]
    by_id = [
        delete_topics.DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=error)
        for each in request.topics
    ]
    return delete_topics.DeleteTopicsResponse(responses=tuple(named + by_id))


def _create_partitions(request: create_partitions.CreatePartitionsRequest, error: ErrorCode) -> Any:
    return create_partitions.CreatePartitionsResponse(
        results=tuple(
            create_partitions.CreatePartitionsTopicResult(
                name=each.name, error_code=error, error_message=error.message
            )
            for each in request.topics
        )
    )


def _incremental_alter_configs(
    request: incremental_alter_configs.IncrementalAlterConfigsRequest, error: ErrorCode
) -> Any:
    return incremental_alter_configs.IncrementalAlterConfigsResponse(
        responses=tuple(
            incremental_alter_configs.IncrementalAlterConfigsResourceResponse(
                error_code=error,
                error_message=error.message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.resources
        )
    )


def _alter_configs(request: alter_configs.AlterConfigsRequest, error: ErrorCode) -> Any:
    return alter_configs.AlterConfigsResponse(
        responses=tuple(
            alter_configs.AlterConfigsResourceResponse(
                error_code=error,
                error_message=error.message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in request.resources
        )
    )


def _top_level(response: Callable[..., Any]) -> Callable[[Any, ErrorCode], Any]:
    return lambda request, error: response(error_code=error)


_REFUSE: Final[dict[type, Callable[[Any, ErrorCode], Any]]] = {
    create_topics.CreateTopicsRequest: _create_topics,
    delete_topics.DeleteTopicsRequest: _delete_topics,
    create_partitions.CreatePartitionsRequest: _create_partitions,
    incremental_alter_configs.IncrementalAlterConfigsRequest: _incremental_alter_configs,
    alter_configs.AlterConfigsRequest: _alter_configs,
    broker_registration.BrokerRegistrationRequest: _top_level(broker_registration.BrokerRegistrationResponse),
    broker_heartbeat.BrokerHeartbeatRequest: _top_level(broker_heartbeat.BrokerHeartbeatResponse),
    unregister_broker.UnregisterBrokerRequest: _top_level(unregister_broker.UnregisterBrokerResponse),
    alter_partition.AlterPartitionRequest: _top_level(alter_partition.AlterPartitionResponse),
    allocate_producer_ids.AllocateProducerIdsRequest: _top_level(
        allocate_producer_ids.AllocateProducerIdsResponse
    ),
    fetch_metadata.FetchMetadataRequest: _top_level(fetch_metadata.FetchMetadataResponse),
    elect_leaders.ElectLeadersRequest: _top_level(elect_leaders.ElectLeadersResponse),
    alter_partition_reassignments.AlterPartitionReassignmentsRequest: _top_level(
        alter_partition_reassignments.AlterPartitionReassignmentsResponse
    ),
    list_partition_reassignments.ListPartitionReassignmentsRequest: _top_level(
        list_partition_reassignments.ListPartitionReassignmentsResponse
    ),
    controlled_shutdown.ControlledShutdownRequest: _top_level(controlled_shutdown.ControlledShutdownResponse),
    metadata_heartbeat.MetadataHeartbeatRequest: _top_level(metadata_heartbeat.MetadataHeartbeatResponse),
    isr_change.IsrChangeRequest: lambda request, error: isr_change.IsrChangeResponse(
        top_level_error_code=error
    ),
    update_features.UpdateFeaturesRequest: _top_level(update_features.UpdateFeaturesResponse),
}


def refuse_all(request: Any, error: ErrorCode) -> Any | None:
    """A response that refuses everything in the request; None when the controller does not know it."""
    refuse = _REFUSE.get(type(request))
    return refuse(request, error) if refuse else None
