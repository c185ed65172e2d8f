"""Fixture of a broker without network."""

import pytest

from support.machines.broker_stage import BrokerStage, Peer


@pytest.fixture
def stage() -> BrokerStage:
    return BrokerStage()


@pytest.fixture
def peer(stage: BrokerStage) -> Peer:
    return stage.connect()
