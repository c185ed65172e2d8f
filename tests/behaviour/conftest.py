"""A served broker shared by the tests of a module, raw clients, and unique names.

``pytest tests/behaviour --broker=HOST:PORT`` uses the broker at an address instead, such as an Apache Kafka: raw
requests test it, and kohort's clients prove to be compatible with it.
"""

import uuid
from collections.abc import Iterator

import pytest

import kohort
from support.raw.broker_under_test import BrokerUnderTest
from support.raw.raw_client import RawClient
from support.waiting import eventually

OPTIONS = {"group.min.session.timeout.ms": 500, "group.max.size": 5}
METADATA_S = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--broker", metavar="HOST:PORT", help="judge this broker, not one of ours")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--broker", default=None):
        elsewhere = pytest.mark.skip(reason="about a broker of ours that the test makes, not about the one at --broker")
        for item in items:
            if item.get_closest_marker("ours"):
                item.add_marker(elsewhere)


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    address = request.config.getoption("--broker", default=None)
    if address:
        yield address
        return
    with kohort.Broker(OPTIONS) as broker:
        yield broker.bootstrap


@pytest.fixture
def client(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as client:
        yield client


@pytest.fixture
def broker(bootstrap: str) -> Iterator[BrokerUnderTest]:
    broker = BrokerUnderTest(bootstrap)
    yield broker
    broker.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"{request.function.__name__[:180]}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(request: pytest.FixtureRequest, bootstrap: str, name: str) -> str:
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({name: request.module.PARTITIONS})
        # Kafka's broker learns of it from its controller, a moment later
        message = "the topic was never known"
        eventually(lambda: not admin.describe_topics([name]).errors, message, deadline_s=METADATA_S, pause_s=0.01)
    return name
