"""A served broker, shared by the tests of a module, and raw clients of it.

``pytest tests/behaviour --broker=HOST:PORT`` judges the broker at an address instead, an Apache Kafka say.
"""

from collections.abc import Iterator

import pytest
from crew import Crew
from raw_client import RawClient

import kohort

OPTIONS = {"group.min.session.timeout.ms": 500, "group.max.size": 5}
"""Where our served broker differs from its defaults, so that tests need not wait; any broker is asked for its own."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: many minutes; `make interop` runs it")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--broker", metavar="HOST:PORT", help="judge this broker, not one of ours")


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
def crew(bootstrap: str) -> Iterator[Crew]:
    crew = Crew(bootstrap)
    yield crew
    crew.close()
