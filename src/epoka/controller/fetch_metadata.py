"""Brokers read the metadata log: FetchMetadata.

Whoever asks for records that are not written yet waits for them; whoever asks for records that are no
longer kept gets the whole image. An offset beyond the end means that the reader knows a log which is not
this one, and is refused: nothing it could be given would be right.
"""

from __future__ import annotations

import msgspec

from epoka import fencing
from epoka.controller.decision import Decision, refusal
from epoka.controller.metadata_log import MetadataLog
from epoka.controller.state import ControllerState
from epoka.fencing import Verdict
from epoka.model.records import encode_record
from epoka.wire.error_codes import ErrorCode
from epoka.wire.messages.fetch_metadata import (
    FetchMetadataRequest,
    FetchMetadataResponse,
    LastHeartbeat,
    MetadataRecordEntry,
)


class Parked(msgspec.Struct, frozen=True, gc=False):
    """A reader that waits at the end of the log."""

    token: int
    connection: int
    request: FetchMetadataRequest
    until_ms: int


def on_fetch_metadata(
    state: ControllerState, request: FetchMetadataRequest, end_offset: int
) -> Decision | None:
    """The refusal of a fetch, or None when it can be served."""
    if request.cluster_id is not None:
        verdict = state.rules.ask(fencing.registration.cluster, request.cluster_id, state.cluster_id)
        if verdict.refused:
            return _refused(request, verdict)
    if not 0 <= request.from_offset <= end_offset:
        return _refused(
            request,
            Verdict(
                "metadata.offset",
                False,
                ErrorCode.OFFSET_OUT_OF_RANGE,
                str(request.from_offset),
                f"0 to {end_offset}",
                "the broker has read a metadata log that is not this one",
            ),
        )
    return None


def _refused(request: FetchMetadataRequest, verdict: Verdict) -> Decision:
    return Decision(
        FetchMetadataResponse(error_code=verdict.error),
        events=[refusal(verdict, broker=request.broker_id, broker_epoch=request.broker_epoch)],
    )


def answer(
    state: ControllerState, log: MetadataLog, request: FetchMetadataRequest, now: int
) -> FetchMetadataResponse:
    """What the log has for that reader now; a snapshot stands just before `end_offset`."""
    heartbeats: tuple[LastHeartbeat, ...] = ()
    if request.heartbeats:
        heartbeats = tuple(
            LastHeartbeat(broker_id, now - contact_ms)
            for contact_ms, broker_id in state.sessions.by_silence()
        )
    if request.from_offset < log.start_offset:
        return FetchMetadataResponse(
            snapshot=True,
            base_offset=log.end_offset,
            end_offset=log.end_offset,
            records=tuple(
                MetadataRecordEntry(encode_record(record)) for record in state.image.iter_records()
            ),
            heartbeats=heartbeats,
        )
    return FetchMetadataResponse(
        base_offset=request.from_offset,
        end_offset=log.end_offset,
        records=tuple(map(MetadataRecordEntry, log.read(request.from_offset, request.max_bytes))),
        heartbeats=heartbeats,
    )
