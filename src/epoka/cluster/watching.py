"""Follows a cluster's metadata log from outside, as a broker would, to see what the cluster is and becomes.

Waiting for a change is a long poll at the controller: nothing here looks again and again. Reads only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from epoka.client.connection import Connection
from epoka.client.errors import ClientError
from epoka.model.image import ClusterImage
from epoka.model.records import decode_record
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.fetch_metadata import FetchMetadataRequest

MAX_BYTES = 8 * 1024 * 1024
GLANCE_MS = 200
"""How long one poll waits at most, so that whoever waits can look at other things in between."""
RETRY_S = 0.01


class Watcher:
    """The metadata image as this onlooker has read it, from whichever of the controllers answers."""

    def __init__(self, *controllers: tuple[int, str, int], heartbeats: bool = False) -> None:
        """Id, host and port of every node that may be the controller."""
        self.image = ClusterImage()
        self.controller = controllers[0][0]
        """Who answered last."""
        self.silent_ms: dict[int, int] = {}
        """How long ago the controller had last heard of each broker, for whoever wants `heartbeats`."""
        self._heartbeats = heartbeats
        self._controllers = controllers
        self._connection: Connection | None = None

    def begin_anew(self) -> None:
        """Forget what was read: the log is another one."""
        self.close()
        self.image = ClusterImage()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def refresh(self) -> ClusterImage:
        """Read up to the present end of the log; ClientError when the controller does not answer."""
        while self._read(0):
            pass
        return self.image

    def wait_until(
        self,
        seen: Callable[[ClusterImage], bool],
        *,
        deadline: float,
        between: Callable[[], None] = lambda: None,
    ) -> bool:
        """Read on until the image shows it, or until `deadline` (monotonic seconds): then False.

        `between` is called between two reads; an exception out of it ends the waiting.
        """
        while True:
            try:
                self._read(0)
                while not seen(self.image):
                    between()
                    left_ms = int((deadline - time.monotonic()) * 1000)
                    if left_ms <= 0:
                        return False
                    self._read(min(left_ms, GLANCE_MS))
                return True
            except ClientError:
                between()
                if time.monotonic() >= deadline:
                    return False
                # A controller that is not up yet refuses at once; there is nothing to wait on.
                time.sleep(RETRY_S)

    def _read(self, wait_ms: int) -> bool:
        """Take in what the controller has; False when there was nothing new."""
        request = FetchMetadataRequest(
            broker_id=-1,
            from_offset=self.image.offset + 1,
            max_bytes=MAX_BYTES,
            max_wait_ms=wait_ms,
            heartbeats=self._heartbeats,
        )
        answer = self._ask(request, wait_ms)
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # The controller has lost its log or been wiped: begin anew.
            self.image = ClusterImage()
            return True
        if answer.error_code:
            raise ClientError(f"the controller refused: {ErrorCode.of(answer.error_code).name}")
        self.silent_ms = {each.broker_id: each.silent_ms for each in answer.heartbeats}
        records = [decode_record(entry.body) for entry in answer.records]
        if answer.snapshot:
            self.image = ClusterImage()
            self.image.load(records, answer.end_offset - 1)
        elif records:
            self.image.apply_batch(records, answer.base_offset)
        return bool(records) and self.image.offset + 1 < answer.end_offset

    def _ask(self, request: FetchMetadataRequest, wait_ms: int) -> Any:
        if self._connection is not None:
            # The controller may have been started again since; then a new connection is made.
            try:
                return self._connection.ask(request, version=0, wait_ms=wait_ms)
            except ClientError:
                self.close()
        failures = []
        for node_id, host, port in self._controllers:
            try:
                self._connection = Connection((host, port))
                answer = self._connection.ask(request, version=0, wait_ms=wait_ms)
            except ClientError as failure:
                self.close()
                failures.append(str(failure))
            else:
                self.controller = node_id
                return answer
        raise ClientError("; ".join(failures))
