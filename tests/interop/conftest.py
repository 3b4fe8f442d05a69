"""A broker for the tests that only use it, a broker for those that end it, and every client in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_process import BrokerProcess, running_broker
from tests.interop import kcat
from tests.interop.aio_kafka import AioKafka
from tests.interop.clients import Client
from tests.interop.confluent import Confluent
from tests.interop.kafka_python import KafkaPython

CLIENTS: tuple[Client, ...] = (Confluent(), KafkaPython(), AioKafka(), kcat.Kcat())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "client" in metafunc.fixturenames:
        marks = {"kcat": pytest.mark.skipif(not kcat.is_installed(), reason="kcat is not installed")}
        metafunc.parametrize(
            "client",
            [pytest.param(each, marks=marks.get(each.name, ())) for each in CLIENTS],
            ids=[each.name for each in CLIENTS],
        )


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests of this process that leave it alive."""
    with running_broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that this test may end."""
    with running_broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for topics and groups that no other test uses."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "." for letter in request.node.name)
