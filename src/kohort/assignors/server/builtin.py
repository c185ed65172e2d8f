"""The server-side assignors that ``group.consumer.assignors`` can name, in Kafka's default order."""

from __future__ import annotations

from typing import Final

from kohort.assignors.server.range import RANGE
from kohort.assignors.server.spec import ServerAssignor
from kohort.assignors.server.uniform import UNIFORM

SERVER_ASSIGNORS: Final[dict[str, ServerAssignor]] = {a.name: a for a in (UNIFORM, RANGE)}
"""By name; the first is what a group uses whose members ask for none."""
