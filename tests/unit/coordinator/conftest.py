"""Fixture: a group coordinator without a broker."""

import pytest

from support.machines.coordinator_stage import CoordinatorStage


@pytest.fixture
def stage() -> CoordinatorStage:
    return CoordinatorStage()
