"""Asking a broker: which versions are used, and what is said when there is no answer or a strange one."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec
import pytest

from epoka.client.connection import Connection
from epoka.client.errors import BadSetting, ClientError, Unreachable
from epoka.client.settings import ClientSettings, settings_from
from epoka.wire.error_codes import ErrorCode
from epoka.wire.frame import decode_request_header, encode_response
from epoka.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from epoka.wire.messages.metadata import MetadataRequest, MetadataResponse
from epoka.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from epoka.wire.messages.sasl_handshake import SaslHandshakeResponse

API_VERSIONS, METADATA, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 3, 17, 36

Answer = Callable[[int, int, int], bytes]
"""What a broker says to API key, version and correlation id."""


@contextmanager
def broker(
    answer: Answer, settings: ClientSettings | None = None
) -> Iterator[tuple[Connection, list[tuple[int, int]]]]:
    """A connection and what was asked, of a broker that answers as told."""
    asked: list[tuple[int, int]] = []

    def serve(server: socket.socket) -> None:
        peer, _ = server.accept()
        # Whoever has seen enough closes, whether everything was read or not.
        with peer, peer.makefile("rb") as stream, suppress(ConnectionError):
            while size := stream.read(4):
                header, _ = decode_request_header(stream.read(struct.unpack(">i", size)[0]))
                asked.append((header.api_key, header.api_version))
                peer.sendall(answer(header.api_key, header.api_version, header.correlation_id))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        with Connection(server.getsockname(), settings) as connection:
            yield connection, asked
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
    with broker(old) as (connection, asked):
        assert connection.ask(MetadataRequest()).controller_id == 7
        assert asked == [(API_VERSIONS, 3), (API_VERSIONS, 0), (METADATA, 5)]
        assert connection.version_for(API_VERSIONS) == 2


def test_nothing_is_asked_while_an_answer_is_under_way() -> None:
    """The next answer would be that of the request before."""
    with broker(old) as (connection, _):
        connection.send(MetadataRequest())
        with pytest.raises(
            ClientError, match=f"{connection.name} is asked for ApiVersions before .* Metadata"
        ):
            connection.ask(ApiVersionsRequest())
        assert connection.take().controller_id == 7
        assert connection.ask(MetadataRequest()).controller_id == 7


def test_a_connection_that_is_closed_is_unreachable_whatever_was_under_way() -> None:
    with broker(old) as (connection, _):
        connection.send(MetadataRequest())
        connection.close()
        with pytest.raises(Unreachable, match="did not take Metadata"):
            connection.ask(MetadataRequest())


def guarded(key: int, version: int, correlation_id: int) -> bytes:
    """A broker that wants a password and takes one."""
    if key == SASL_HANDSHAKE:
        message: object = SaslHandshakeResponse(mechanisms=("PLAIN",))
    elif key == SASL_AUTHENTICATE:
        message = SaslAuthenticateResponse()
    else:
        served = tuple(ApiVersion(each, 0, 1) for each in (SASL_HANDSHAKE, SASL_AUTHENTICATE, METADATA))
        message = ApiVersionsResponse(api_keys=served)
    return b"".join(encode_response(key, version, correlation_id, message))


PASSWORD = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"}


def test_a_password_is_given_before_anything_is_asked() -> None:
    with broker(guarded, settings_from({"bootstrap.servers": "x:1", **PASSWORD})) as (_, asked):
        assert [key for key, _ in asked] == [API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE]


def test_a_password_that_is_wrong_is_told() -> None:
    def strict(key: int, version: int, correlation_id: int) -> bytes:
        if key != SASL_AUTHENTICATE:
            return guarded(key, version, correlation_id)
        refused = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="no such user"
        )
        return b"".join(encode_response(key, version, correlation_id, refused))

    settings = settings_from({"bootstrap.servers": "x:1", **PASSWORD})
    with pytest.raises(ClientError, match="does not let me in: no such user"), broker(strict, settings):
        pass


def test_tls_is_spoken_when_the_settings_say_so() -> None:
    hello: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            peer, _ = server.accept()
            with peer:
                hello.append(peer.recv(3))

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        settings = settings_from({"bootstrap.servers": "x:1", "security.protocol": "SSL"})
        with pytest.raises(Unreachable, match="cannot be reached"):
            Connection(server.getsockname(), settings)
        thread.join(10)
    # A record of TLS that begins a handshake.
    assert hello[0][:2] == b"\x16\x03"


def test_certificates_that_cannot_be_read_are_no_matter_of_the_network() -> None:
    settings = settings_from({"bootstrap.servers": "x:1", "security.protocol": "SSL"})
    with pytest.raises(BadSetting, match="/no/such/file"):
        Connection(("127.0.0.1", 1), msgspec.structs.replace(settings, ssl_ca="/no/such/file"))


def test_an_api_that_is_not_served_is_named() -> None:
    with broker(old) as (connection, _), pytest.raises(ClientError, match="does not serve CreateTopics"):
        connection.version_for(19)


def test_an_answer_to_another_question_is_refused() -> None:
    def confused(key: int, version: int, correlation_id: int) -> bytes:
        return b"".join(encode_response(key, version, correlation_id + 1, MetadataResponse()))

    with (
        broker(confused) as (connection, _),
        pytest.raises(ClientError, match="another question than Metadata"),
    ):
        connection.ask(MetadataRequest(), version=5)


def test_an_answer_without_sense_says_whose_it_is() -> None:
    def mad(key: int, version: int, correlation_id: int) -> bytes:
        return struct.pack(">iih", 6, correlation_id, -1)

    with broker(mad) as (connection, _), pytest.raises(ClientError, match="to Metadata makes no sense"):
        connection.ask(MetadataRequest(), version=5)


def test_a_peer_that_is_no_broker_is_told_so() -> None:
    def web(key: int, version: int, correlation_id: int) -> bytes:
        return b"HTTP/1.1 400 Bad Request\r\n\r\n"

    with broker(web) as (connection, _):
        with pytest.raises(ClientError, match="does not speak the Kafka protocol"):
            connection.ask(MetadataRequest())
        assert connection.closed
