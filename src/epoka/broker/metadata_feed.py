"""The broker's copy of the metadata log (log mode): fetch, replay into the image, act on what changed.

The image is replaced only from here, batch by batch between two events, so a request sees one whole state of
the cluster. A snapshot starts a new image. Nothing is acted on unless the image holds this life's own
registration: what the log says of an earlier life, or of another process that has got the id, such as that it
leads, is not said of this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from epoka.model.events import CONTROLLER
from epoka.model.image import ClusterImage
from epoka.model.records import decode_record
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages import fetch_metadata

if TYPE_CHECKING:
    from epoka.broker.core import BrokerCore

LANE = 1
WAIT_MS = 1_000
RETRY_MS = 100
MAX_BYTES = 8 * 1024 * 1024


class MetadataFeed:
    def __init__(self, core: BrokerCore) -> None:
        self.core = core
        self._in_flight = False
        self.end_offset = 0
        """The end of the controller's log when it last answered."""

    def start(self, now: int) -> None:
        if not self._in_flight:
            self._fetch(now)

    def _fetch(self, now: int) -> None:
        if self._in_flight:
            return
        self._in_flight = True
        request = fetch_metadata.FetchMetadataRequest(
            broker_id=self.core.config.broker_id,
            broker_epoch=self.core.lifecycle.broker_epoch,
            from_offset=self.core.image.offset + 1,
            max_bytes=MAX_BYTES,
            max_wait_ms=WAIT_MS,
            cluster_id=self.core.config.cluster_id,
        )
        timeout_ms = WAIT_MS + self.core.config.heartbeat_interval_ms
        self.core.send(CONTROLLER, request, 0, self._answered, lane=LANE, timeout_ms=timeout_ms)

    def _answered(self, reply: fetch_metadata.FetchMetadataResponse | None, now: int) -> None:
        self._in_flight = False
        if reply is not None and reply.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # Waiting would be worse: once the other log is long enough, this image would be a mix of both.
            self.core.lifecycle.lost_the_log(now)
            return
        if reply is None or reply.error_code != ErrorCode.NONE:
            self.core.deadlines.at(now + RETRY_MS, self._fetch)
            return
        self.end_offset = reply.end_offset
        records = [decode_record(entry.body) for entry in reply.records]
        if reply.snapshot:
            image = ClusterImage()
            delta = image.load(records, reply.end_offset - 1)
            if not self._knows_own_life(image):
                self.core.deadlines.at(now + RETRY_MS, self._fetch)
                return
            self.core.replace_image(image, delta, now)
        elif records and reply.base_offset == self.core.image.offset + 1:
            image = self.core.image
            for offset, record in enumerate(records, reply.base_offset):
                image.apply(record, offset)
            if self._knows_own_life(image):
                self.core.apply(image.collected(), now)
        self._fetch(now)
        if records:
            self.core.lifecycle.caught_up(now)

    def _knows_own_life(self, image: ClusterImage) -> bool:
        registration = image.broker(self.core.config.broker_id)
        return registration is not None and registration.epoch == self.core.lifecycle.broker_epoch
