"""A served broker, shared by the tests of a module, and raw clients of it."""

from collections.abc import Iterator

import pytest
from raw_client import RawClient

import kohort


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with kohort.Broker() as broker:
        yield broker.bootstrap


@pytest.fixture
def client(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as client:
        yield client
