"""Server-side assignors that ``group.consumer.assignors`` can name."""

from __future__ import annotations

from typing import Final

from kohort.assignors.server.range import RANGE
from kohort.assignors.server.spec import ServerAssignor
from kohort.assignors.server.uniform import UNIFORM

SERVER_ASSIGNORS: Final[dict[str, ServerAssignor]] = {a.name: a for a in (UNIFORM, RANGE)}
"""Server-side assignors in Kafka's order, as a dict with names as keys. Consumer groups use the first by default."""
