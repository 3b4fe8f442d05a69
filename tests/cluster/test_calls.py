"""Asking a node: which versions are used, and what is said when the answer is none."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from epoka.cluster.calls import Caller, CallFailed
from epoka.wire.error_codes import ErrorCode
from epoka.wire.frame import decode_request_header, encode_response
from epoka.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from epoka.wire.messages.metadata import MetadataRequest, MetadataResponse

API_VERSIONS, METADATA = 18, 3

Answer = Callable[[int, int, int], bytes]
"""What a broker says to API key, version and correlation id."""


@contextmanager
def broker(answer: Answer) -> Iterator[tuple[Caller, list[tuple[int, int]]]]:
    """A caller and what was asked, of a broker that answers as told."""
    asked: list[tuple[int, int]] = []

    def serve(server: socket.socket) -> None:
        peer, _ = server.accept()
        with peer, peer.makefile("rb") as stream:
            while size := stream.read(4):
                header, _ = decode_request_header(stream.read(struct.unpack(">i", size)[0]))
                asked.append((header.api_key, header.api_version))
                peer.sendall(answer(header.api_key, header.api_version, header.correlation_id))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        with Caller(*server.getsockname()) as caller:
            yield caller, asked
        thread.join(10)


def old(key: int, version: int, correlation_id: int) -> bytes:
    """A broker from before ApiVersions 3: it refuses in version 0."""
    if key == METADATA:
        return b"".join(encode_response(key, version, correlation_id, MetadataResponse(controller_id=7)))
    served = (ApiVersion(METADATA, 0, 5), ApiVersion(API_VERSIONS, 0, 2))
    error = ErrorCode.UNSUPPORTED_VERSION if version > 2 else ErrorCode.NONE
    message = ApiVersionsResponse(error_code=error, api_keys=served)
    return b"".join(encode_response(key, 0, correlation_id, message))


def test_a_broker_that_knows_only_older_versions_is_asked_in_those() -> None:
    with broker(old) as (caller, asked):
        assert caller.ask(MetadataRequest()).controller_id == 7
        assert asked == [(API_VERSIONS, 3), (API_VERSIONS, 0), (METADATA, 5)]
        assert caller.version_for(API_VERSIONS) == 2


def test_an_api_that_is_not_served_is_named() -> None:
    with broker(old) as (caller, _), pytest.raises(CallFailed, match="does not serve CreateTopics"):
        caller.version_for(19)


def test_an_answer_to_another_question_is_refused() -> None:
    def confused(key: int, version: int, correlation_id: int) -> bytes:
        return b"".join(encode_response(key, version, correlation_id + 1, MetadataResponse()))

    with broker(confused) as (caller, _), pytest.raises(CallFailed, match="another question than Metadata"):
        caller.ask(MetadataRequest(), version=5)


def test_an_answer_without_sense_says_whose_it_is() -> None:
    def mad(key: int, version: int, correlation_id: int) -> bytes:
        return struct.pack(">iih", 6, correlation_id, -1)

    with broker(mad) as (caller, _), pytest.raises(CallFailed, match="to Metadata makes no sense"):
        caller.ask(MetadataRequest(), version=5)
