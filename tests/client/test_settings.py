"""What a client's properties say."""

from __future__ import annotations

import pytest

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
