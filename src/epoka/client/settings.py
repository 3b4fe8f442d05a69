"""What a client was told, under Kafka's own property names.

Decides which properties are understood. One that only tunes Kafka's Java client is passed over; one that
would change what travels or who may read it is refused unless it is obeyed.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from pathlib import Path

import msgspec

from epoka.client.errors import BadSetting

Address = tuple[str, int]

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ISOLATIONS = {"read_uncommitted": 0, "read_committed": 1}
MiB = 1 << 20
HIGHEST = (1 << 31) - 1
"""What a number of a request can hold."""


class ClientSettings(msgspec.Struct, frozen=True):
    """Everything a connection and a fetch have to know."""

    bootstrap: tuple[Address, ...]
    client_id: str = "epoka"
    rack: str = ""
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 50
    retry_backoff_max_ms: int = 1_000
    isolation: int = 0
    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    partition_fetch_bytes: int = 4 * MiB
    security_protocol: str = "PLAINTEXT"
    ssl_ca: str = ""
    ssl_certificate: str = ""
    ssl_key: str = ""
    ssl_key_password: str = ""
    ssl_check_names: bool = True
    sasl_mechanism: str = "PLAIN"
    sasl_username: str = ""
    sasl_password: str = ""
    acks: int = -1
    compression: str = "none"
    batch_bytes: int = 1 * MiB - 4096
    delivery_timeout_ms: int = 120_000

    @property
    def tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    def ssl_context(self) -> ssl.SSLContext:
        """What TLS needs; BadSetting names a file that does not hold it."""
        try:
            context = ssl.create_default_context(cafile=self.ssl_ca or None)
        except OSError as error:
            raise BadSetting(f"ssl.ca.location {self.ssl_ca} cannot be used: {error}") from error
        if not self.ssl_check_names:
            context.check_hostname = False
        if self.ssl_certificate:
            key, password = self.ssl_key or None, self.ssl_key_password or None
            try:
                context.load_cert_chain(self.ssl_certificate, key, password)
            except OSError as error:
                names = " and ".join(filter(None, (self.ssl_certificate, key)))
                raise BadSetting(f"ssl.certificate.location {names} cannot be used: {error}") from error
        return context


def settings_from(properties: Mapping[str, str]) -> ClientSettings:
    """The settings of Kafka properties such as `bootstrap.servers`; BadSetting names a wrong one."""
    given = {name.lower(): str(value) for name, value in properties.items()}
    if "bootstrap.servers" not in given:
        raise BadSetting("bootstrap.servers is not set")
    for name, why in _REFUSED.items():
        if given.get(name, "").lower() not in ("", "false"):
            raise BadSetting(f"{name} is not obeyed here: {why}")
    chosen: dict[str, object] = {"bootstrap": addresses_of(given["bootstrap.servers"])}
    for name, field in _TEXTS.items():
        if name in given:
            chosen[field] = given[name]
    for name, (field, lowest) in _NUMBERS.items():
        if name in given:
            chosen[field] = _number(name, given[name], lowest)
    if "isolation.level" in given:
        level = given["isolation.level"].lower()
        if level not in ISOLATIONS:
            raise BadSetting(f"isolation.level is {', '.join(ISOLATIONS)}, not {level!r}")
        chosen["isolation"] = ISOLATIONS[level]
    if "acks" in given:
        wanted = given["acks"].lower()
        if wanted not in ("all", "-1", "1", "0"):
            raise BadSetting(f"acks is all, -1, 1 or 0, not {wanted!r}")
        chosen["acks"] = -1 if wanted == "all" else int(wanted)
    if "compression.type" in given:
        codec = given["compression.type"].lower()
        if codec not in ("none", "gzip", "snappy", "lz4", "zstd"):
            raise BadSetting(f"compression.type is none, gzip, snappy, lz4 or zstd, not {codec!r}")
        chosen["compression"] = codec
    _choose_security(given, chosen)
    return ClientSettings(**chosen)  # type: ignore[arg-type]


def _choose_security(given: Mapping[str, str], chosen: dict[str, object]) -> None:
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise BadSetting(f"security.protocol is {', '.join(PROTOCOLS)}, not {protocol!r}")
    chosen["security_protocol"] = protocol
    for name in ("ssl.truststore.location", "ssl.keystore.location"):
        kind = given.get(name.replace("location", "type"), "JKS").upper()
        if name in given and kind != "PEM":
            raise BadSetting(f"{name} is a {kind} file; only PEM is read here, say {name[:-8]}type=PEM")
    for name, field in (
        ("ssl.truststore.location", "ssl_ca"),
        ("ssl.ca.location", "ssl_ca"),
        ("ssl.keystore.location", "ssl_certificate"),
        ("ssl.certificate.location", "ssl_certificate"),
        ("ssl.key.location", "ssl_key"),
    ):
        if name in given:
            if not Path(given[name]).is_file():
                raise BadSetting(f"{name}: there is no file {given[name]}")
            chosen[field] = given[name]
    if "ssl.endpoint.identification.algorithm" in given:
        chosen["ssl_check_names"] = given["ssl.endpoint.identification.algorithm"] not in ("", "none")
    if not protocol.startswith("SASL"):
        return
    mechanism = given.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism != "PLAIN":
        raise BadSetting(f"sasl.mechanism {mechanism} is not spoken here, only PLAIN is")
    chosen["sasl_mechanism"] = mechanism
    if "sasl.jaas.config" in given:
        options = _jaas_options(given["sasl.jaas.config"])
        chosen["sasl_username"] = options.get("username", "")
        chosen["sasl_password"] = options.get("password", "")
    for name in ("username", "password"):
        if f"sasl.{name}" in given:
            chosen[f"sasl_{name}"] = given[f"sasl.{name}"]
    if not chosen.get("sasl_username"):
        raise BadSetting("sasl.jaas.config or sasl.username has to name a user")


def _jaas_options(text: str) -> dict[str, str]:
    """The options of a login module: `name=value`, the value bare or in quotes of either kind.

    In quotes a backslash takes the character behind it as it is.
    """
    return {
        name: re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL) if value[0] in "\"'" else value
        for name, value in _JAAS_OPTION.findall(text)
    }


def addresses_of(text: str) -> tuple[Address, ...]:
    """`host:port,host:port` as addresses."""
    found = []
    for each in text.split(","):
        host, separator, port = each.strip().rpartition(":")
        # A listener name may stand before the address, as in PLAINTEXT://host:port.
        host = host.rpartition("://")[2].strip("[]")
        if not separator or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise BadSetting(f"bootstrap.servers lists host:port, not {each.strip()!r}")
        found.append((host, int(port)))
    return tuple(found)


def _number(name: str, text: str, lowest: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise BadSetting(f"{name} is a whole number, not {text!r}") from None
    if number < lowest:
        raise BadSetting(f"{name} is at least {lowest}, not {number}")
    if number > HIGHEST:
        raise BadSetting(f"{name} is at most {HIGHEST}, not {number}")
    return number


_JAAS_OPTION = re.compile(
    r"""([^\s;="']+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"'][^\s;]*)""", re.DOTALL
)
_KEYED = "a row with a key goes where Kafka's own partitioner sends it"
_FILES = "certificates and keys are read from files, such as that of"
_REFUSED = {
    "transactional.id": "nothing is written in transactions",
    "partitioner.class": _KEYED,
    "partitioner.ignore.keys": _KEYED,
    "ssl.truststore.certificates": f"{_FILES} ssl.truststore.location",
    "ssl.keystore.certificate.chain": f"{_FILES} ssl.keystore.location",
    "ssl.keystore.key": f"{_FILES} ssl.keystore.location",
}
_TEXTS = {"client.id": "client_id", "client.rack": "rack", "ssl.key.password": "ssl_key_password"}
_NUMBERS = {
    "request.timeout.ms": ("request_timeout_ms", 1),
    "retry.backoff.ms": ("retry_backoff_ms", 0),
    "retry.backoff.max.ms": ("retry_backoff_max_ms", 0),
    "fetch.max.wait.ms": ("fetch_max_wait_ms", 0),
    "fetch.min.bytes": ("fetch_min_bytes", 0),
    "max.partition.fetch.bytes": ("partition_fetch_bytes", 1),
    "batch.size": ("batch_bytes", 1),
    "delivery.timeout.ms": ("delivery_timeout_ms", 1),
}
