"""What can go wrong for a client. Every text names what was asked and of whom.

ClientError
  BadSetting        a property that no Kafka client could use
  Unreachable       no broker answered in time
  Refused           a broker answered with an error code that asking again cannot mend
  TopicGone         the topic, or the topic with that id, does not exist
  OffsetOutOfRange  the log does not hold the offset: it was deleted, truncated or never written
  Diverged          the log was cut back below what was read: an unclean election
  CorruptBatch      a record batch that cannot be decoded, by topic, partition and offset
"""

from __future__ import annotations

from epoka.wire.error_codes import ErrorCode


class ClientError(Exception):
    """A client could not do what it was asked to."""


class BadSetting(ClientError):
    pass


class Unreachable(ClientError):
    pass


class Refused(ClientError):
    def __init__(self, what: str, code: ErrorCode, detail: str | None = None) -> None:
        super().__init__(f"{what}: {detail or code.message} ({code.name})")
        self.code = code


class TopicGone(ClientError):
    pass


class OffsetOutOfRange(ClientError):
    def __init__(self, topic: str, partition: int, offset: int, first: int, end: int) -> None:
        super().__init__(f"{topic}-{partition} holds offsets {first} to {end}, asked for {offset}")
        self.first = first
        self.end = end


class Diverged(ClientError):
    pass


class CorruptBatch(ClientError):
    pass


def check(error_code: int, what: str, detail: str | None = None) -> None:
    """Refused when a broker answered with a code; `detail` is its own word for it."""
    if error_code:
        raise Refused(what, ErrorCode.of(error_code), detail)
