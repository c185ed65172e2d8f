"""The pytest plugin: installed with kohort, it gives tests a broker of their own.

- ``kafka_broker``: a ``StagedBroker``, in memory, made anew for each test; some milliseconds. Options are the marker's:
  ``@pytest.mark.kafka_broker(nodes=3, num_partitions=6)``.
- ``kafka_bootstrap``: its address, for any client's ``bootstrap.servers``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kohort.testing.staged import StagedBroker

MARKER = "kafka_broker(**options): what kohort.testing.StagedBroker is made with, for the fixture of the same name"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[StagedBroker]:
    """A broker of the test's own, whose time can be moved and whose answers can be made to fail."""
    from kohort.testing.staged import StagedBroker

    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("kafka_broker"))):
        options |= marker.kwargs
    broker = StagedBroker(**options)
    with broker:
        yield broker


@pytest.fixture
def kafka_bootstrap(kafka_broker: StagedBroker) -> str:
    """``HOST:PORT`` of the test's broker."""
    return kafka_broker.bootstrap
