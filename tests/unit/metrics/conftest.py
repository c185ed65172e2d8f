import pytest

from support.machines.broker_stage import BrokerStage


@pytest.fixture
def stage() -> BrokerStage:
    return BrokerStage()
