"""What a client's properties say."""

from __future__ import annotations

from pathlib import Path

import pytest

from epoka.client.errors import BadSetting
from epoka.client.settings import settings_from

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("options", "username", "password"),
    [
        ('username="me" password="secret";', "me", "secret"),
        ("username='me' password='secret';", "me", "secret"),
        ("username=me password=secret;", "me", "secret"),
        ("username=me password=secret", "me", "secret"),
        ('username = "me"\n  password\t=\n"secret" ;', "me", "secret"),
        ('username="me" password="p;w x";', "me", "p;w x"),
        ('username="me" password="a=b\'c";', "me", "a=b'c"),
        ("username='me' password='a\"b';", "me", 'a"b'),
        (r'username="me" password="a\"b\\c\;";', "me", 'a"b\\c;'),
        (r"username='me' password='it\'s';", "me", "it's"),
        ("username=me password=it's;", "me", "it's"),
        ('username="me" password="";', "me", ""),
        ('username="me";', "me", ""),
        ('note="password=wrong username=no" password="secret" username="me";', "me", "secret"),
        ('my.username="no" username="me" password="secret";', "me", "secret"),
        ('username="me@EXAMPLE" password="ключ";', "me@EXAMPLE", "ключ"),
    ],
)
def test_a_jaas_text_names_user_and_password(options: str, username: str, password: str) -> None:
    settings = settings_from(
        {
            "bootstrap.servers": "localhost:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f"{MODULE} {options}",
        }
    )
    assert (settings.sasl_username, settings.sasl_password) == (username, password)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transactional.id", "mine"),
        ("partitioner.class", "org.example.Partitioner"),
        ("partitioner.ignore.keys", "true"),
        ("ssl.truststore.certificates", "-----BEGIN CERTIFICATE-----"),
        ("ssl.keystore.certificate.chain", "-----BEGIN CERTIFICATE-----"),
        ("ssl.keystore.key", "-----BEGIN PRIVATE KEY-----"),
    ],
)
def test_what_would_change_what_travels_and_is_not_obeyed_is_refused(name: str, value: str) -> None:
    with pytest.raises(BadSetting, match=f"^{name} is not obeyed here: "):
        settings_from({"bootstrap.servers": "localhost:1", name: value})


def test_what_is_said_to_be_as_it_always_is_is_taken() -> None:
    settings_from({"bootstrap.servers": "localhost:1", "partitioner.ignore.keys": "false"})


def test_a_number_that_no_request_can_carry_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"fetch\.max\.wait\.ms is at most 2147483647, not 2147483648"):
        settings_from({"bootstrap.servers": "localhost:1", "fetch.max.wait.ms": "2147483648"})


@pytest.mark.parametrize("name", ["ssl.ca.location", "ssl.certificate.location"])
def test_a_file_without_certificates_is_told_and_not_waited_for(name: str, tmp_path: Path) -> None:
    file = tmp_path / "file.pem"
    file.write_text("nothing of the kind")
    settings = settings_from(
        {"bootstrap.servers": "localhost:1", "security.protocol": "SSL", name: str(file)}
    )
    with pytest.raises(BadSetting, match=rf"^ssl\..*{file.name}"):
        settings.ssl_context()
