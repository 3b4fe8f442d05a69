"""The error codes of the protocol: Kafka's numbers and names, and what a client may do about each.

This module decides whether an error is worth a retry and whether a retry needs fresh metadata first. It must
never give a number that Kafka owns another meaning: codes of our own start at 10000.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self

_FINAL = "final"
_RETRY = "retry"
_REFRESH = "refresh"


class ErrorCode(IntEnum):
    """One code: its number, its meaning in a few words, and what trying again would take."""

    retriable: bool
    """True when the same request may succeed later."""
    refresh_metadata: bool
    """True when the sender's view of the cluster is out of date; always retriable too."""
    message: str

    def __new__(cls, number: int, message: str, again: str = _FINAL) -> Self:
        code = int.__new__(cls, number)
        code._value_ = number
        code.message = message
        code.retriable = again != _FINAL
        code.refresh_metadata = again == _REFRESH
        return code

    @classmethod
    def of(cls, number: int) -> ErrorCode:
        """The code of a number from the wire; one that we do not know is as good as an unexpected failure."""
        found = cls._value2member_map_.get(number)
        return found if isinstance(found, cls) else cls.UNKNOWN_SERVER_ERROR

    UNKNOWN_SERVER_ERROR = -1, "the server failed in a way it did not expect"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the log does not hold this offset"
    CORRUPT_MESSAGE = 2, "a record batch is damaged", _RETRY
    UNKNOWN_TOPIC_OR_PARTITION = 3, "this broker knows no such topic or partition", _REFRESH
    INVALID_FETCH_SIZE = 4, "the fetch size makes no sense"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader at the moment", _REFRESH
    NOT_LEADER_OR_FOLLOWER = 6, "this broker is not the replica that the request needs", _REFRESH
    REQUEST_TIMED_OUT = 7, "the request was not done in time", _RETRY
    BROKER_NOT_AVAILABLE = 8, "the broker is not there"
    REPLICA_NOT_AVAILABLE = 9, "the replica is not there", _REFRESH
    MESSAGE_TOO_LARGE = 10, "a record batch is larger than the topic allows"
    STALE_CONTROLLER_EPOCH = 11, "another controller has taken over"
    OFFSET_METADATA_TOO_LARGE = 12, "the text committed with an offset is too long"
    NETWORK_EXCEPTION = 13, "the connection broke before an answer came", _REFRESH
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading", _RETRY
    COORDINATOR_NOT_AVAILABLE = 15, "there is no coordinator at the moment", _RETRY
    NOT_COORDINATOR = 16, "this broker does not coordinate that group or transaction", _RETRY
    INVALID_TOPIC_EXCEPTION = 17, "the topic's name is not allowed, or the topic is not for clients"
    RECORD_LIST_TOO_LARGE = 18, "the batches are larger than a segment"
    NOT_ENOUGH_REPLICAS = 19, "too few replicas are in sync to accept a write", _RETRY
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "written, but too few replicas are in sync to promise it", _RETRY
    INVALID_REQUIRED_ACKS = 21, "acks must be 0, 1 or -1"
    ILLEGAL_GENERATION = 22, "the group has moved on to another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member shares no protocol with its group"
    INVALID_GROUP_ID = 24, "the group id is not allowed"
    UNKNOWN_MEMBER_ID = 25, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, "the session timeout lies outside the broker's limits"
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing, so the member must join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the commit is too large to be stored"
    TOPIC_AUTHORIZATION_FAILED = 29, "not allowed on this topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not allowed on this group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not allowed on this cluster"
    INVALID_TIMESTAMP = 32, "a record's time stamp is outside the accepted range"
    UNSUPPORTED_SASL_MECHANISM = 33, "the broker does not offer this SASL mechanism"
    ILLEGAL_SASL_STATE = 34, "the request does not fit this point of the SASL exchange"
    UNSUPPORTED_VERSION = 35, "this version of the request is not supported"
    TOPIC_ALREADY_EXISTS = 36, "a topic of this name exists"
    INVALID_PARTITIONS = 37, "the number of partitions is not possible"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is not possible with the brokers there are"
    INVALID_REPLICA_ASSIGNMENT = 39, "the assignment of replicas is not possible"
    INVALID_CONFIG = 40, "a setting is unknown or its value is wrong"
    NOT_CONTROLLER = 41, "this node is not the controller", _RETRY
    INVALID_REQUEST = 42, "the request contradicts itself or the protocol"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the record format cannot do this"
    POLICY_VIOLATION = 44, "a policy of the cluster forbids it"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "a producer's sequence number does not follow its last one"
    DUPLICATE_SEQUENCE_NUMBER = 46, "a producer's sequence number was seen before"
    INVALID_PRODUCER_EPOCH = 47, "a newer epoch of this producer exists"
    INVALID_TXN_STATE = 48, "the transaction is not in a state that allows this"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id does not belong to this transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is longer than the broker allows"
    CONCURRENT_TRANSACTIONS = 51, "the producer's last transaction is still ending", _RETRY
    TRANSACTION_COORDINATOR_FENCED = 52, "a newer transaction coordinator has taken over"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not allowed on this transactional id"
    SECURITY_DISABLED = 54, "security is not switched on"
    OPERATION_NOT_ATTEMPTED = 55, "nothing was tried because something else failed first"
    KAFKA_STORAGE_ERROR = 56, "a log directory has failed", _REFRESH
    LOG_DIR_NOT_FOUND = 57, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, "the credentials were not accepted"
    UNKNOWN_PRODUCER_ID = 59, "the broker no longer remembers this producer"
    REASSIGNMENT_IN_PROGRESS = 60, "the partition is being moved"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are switched off"
    DELEGATION_TOKEN_NOT_FOUND = 62, "the server has no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the delegation token belongs to somebody else"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "this connection may not ask for delegation tokens"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not allowed on this delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "this kind of principal is not supported"
    NON_EMPTY_GROUP = 68, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, "the fetch session is gone", _RETRY
    INVALID_FETCH_SESSION_EPOCH = 71, "the fetch session expects another epoch", _RETRY
    LISTENER_NOT_FOUND = 72, "the leader has no listener of the name the request came through", _REFRESH
    TOPIC_DELETION_DISABLED = 73, "deleting topics is switched off"
    FENCED_LEADER_EPOCH = 74, "the leader epoch is older than the broker's", _REFRESH
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch is newer than the broker's", _RETRY
    UNSUPPORTED_COMPRESSION_TYPE = 76, "this compression cannot be used here"
    STALE_BROKER_EPOCH = 77, "the broker epoch belongs to another life of the broker"
    OFFSET_NOT_AVAILABLE = 78, "the new leader does not know its high watermark yet", _RETRY
    MEMBER_ID_REQUIRED = 79, "the member must join again with the id it was given"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred replica cannot lead now", _REFRESH
    GROUP_MAX_SIZE_REACHED = 81, "the group is full"
    FENCED_INSTANCE_ID = 82, "another member has taken over this instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica may lead now", _REFRESH
    ELECTION_NOT_NEEDED = 84, "the partition is led as it should be", _REFRESH
    NO_REASSIGNMENT_IN_PROGRESS = 85, "the partition is not being moved"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group still reads this topic"
    INVALID_RECORD = 87, "a record was refused by the broker"
    UNSTABLE_OFFSET_COMMIT = 88, "some offsets belong to a transaction that is still open", _RETRY
    THROTTLING_QUOTA_EXCEEDED = 89, "the quota is used up for now", _RETRY
    PRODUCER_FENCED = 90, "a newer producer has taken over this transactional id"
    RESOURCE_NOT_FOUND = 91, "the thing named does not exist"
    DUPLICATE_RESOURCE = 92, "the thing named exists, or was named twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential does not meet the rules"
    INCONSISTENT_VOTER_SET = 94, "the sender does not belong to the voters, or they do not match"
    INVALID_UPDATE_VERSION = 95, "the update was made from an outdated version"
    FEATURE_UPDATE_FAILED = 96, "the features could not be changed"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "a forwarded principal cannot be read"
    SNAPSHOT_NOT_FOUND = 98, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, "the position lies outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, "this broker knows no topic of this id", _REFRESH
    DUPLICATE_BROKER_REGISTRATION = 101, "another live broker holds this broker id"
    BROKER_ID_NOT_REGISTERED = 102, "no broker of this id is registered"
    INCONSISTENT_TOPIC_ID = 103, "the topic's id is not the one in the log", _REFRESH
    INCONSISTENT_CLUSTER_ID = 104, "the sender belongs to another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session mixes topic names and topic ids", _RETRY
    INELIGIBLE_REPLICA = 107, "a proposed member of the ISR may not be in it"
    NEW_LEADER_ELECTED = 108, "the change was made and leadership moved on with it"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset has moved to tiered storage"
    FENCED_MEMBER_EPOCH = 110, "the coordinator has fenced this epoch of the member"
    UNRELEASED_INSTANCE_ID = 111, "another member still holds this instance id"
    UNSUPPORTED_ASSIGNOR = 112, "the group cannot use this assignor"
    STALE_MEMBER_EPOCH = 113, "the member must learn its new epoch first"
    MISMATCHED_ENDPOINT_TYPE = 114, "the request came to the wrong kind of endpoint"
    UNSUPPORTED_ENDPOINT_TYPE = 115, "this kind of endpoint is not supported"
    UNKNOWN_CONTROLLER_ID = 116, "there is no controller of this id"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription is not the current one"
    TELEMETRY_TOO_LARGE = 118, "the telemetry is larger than the broker accepts"
    INVALID_REGISTRATION = 119, "the controller does not accept the registration"
    TRANSACTION_ABORTABLE = 120, "the transaction must be aborted before the producer goes on"
    INVALID_RECORD_STATE = 121, "the record is not in a state that allows this"
    SHARE_SESSION_NOT_FOUND = 122, "the share session is gone", _RETRY
    INVALID_SHARE_SESSION_EPOCH = 123, "the share session expects another epoch", _RETRY
    FENCED_STATE_EPOCH = 124, "the state epoch is outdated"
    INVALID_VOTER_KEY = 125, "the voter key is not this node's"
    DUPLICATE_VOTER = 126, "the voter is in the set already"
    VOTER_NOT_FOUND = 127, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression cannot be read"
    REBOOTSTRAP_REQUIRED = 129, "the client must start over from its bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, "the streams topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the epoch of the streams topology is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, "the streams topology is outdated"
    SHARE_SESSION_LIMIT_REACHED = 133, "there are too many share sessions", _RETRY
    INVALID_INCARNATION_ID = 10000, "the incarnation id belongs to another life of the broker (KIP-343 draft)"
