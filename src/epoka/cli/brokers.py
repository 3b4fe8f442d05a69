"""The cluster that a command means, asked as any client asks it; what goes wrong becomes its failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from epoka.cli.finding import client_settings
from epoka.cli.output import EXIT_USAGE, Failed
from epoka.client.cluster import ClusterClient, TopicPartition
from epoka.client.errors import ClientError, Refused
from epoka.wire.error_codes import ErrorCode
from epoka.wire.errors import EncodeError
from epoka.wire.messages.metadata import MetadataResponseTopic

PATIENCE_MS = 15_000


@contextmanager
def asking(
    bootstrap: str | None, data: Path | None, *, patience_ms: int = PATIENCE_MS, **settings: Any
) -> Iterator[ClusterClient]:
    """A client of the cluster that is meant; `settings` are those of this command alone."""
    chosen = msgspec.structs.replace(client_settings(bootstrap, data), **settings)
    try:
        with ClusterClient(chosen, patience_ms=patience_ms) as client:
            # Nobody waits for a cluster that is not there; one that goes away later is waited for.
            client.anyone()
            yield client
    except ClientError as error:
        raise Failed(str(error)) from error
    except EncodeError as error:
        # What the user gave does not fit what travels: a number too large, a name too long.
        raise Failed(str(error), EXIT_USAGE) from error


def check(error_code: int, message: str | None, what: str) -> None:
    """Failed when a broker refused."""
    if error_code:
        raise Failed(str(Refused(what, ErrorCode.of(error_code), message)))


def topic_named(client: ClusterClient, name: str) -> MetadataResponseTopic:
    """One topic; Failed when it does not exist."""
    (found,) = client.metadata((name,)).topics
    check(found.error_code, None, f"topic {name}")
    return found


def partitions(client: ClusterClient, name: str) -> list[int]:
    return sorted(each.partition_index for each in topic_named(client, name).partitions)


def offsets_at(
    client: ClusterClient, partitions: Sequence[TopicPartition], when: int
) -> dict[TopicPartition, int]:
    """The offset that each partition has for a timestamp, EARLIEST or LATEST; -1 for none."""
    return {each: found.offset for each, found in client.offsets(dict.fromkeys(partitions, when)).items()}


def name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"
