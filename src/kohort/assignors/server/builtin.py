"""Server-side assignors of ``group.consumer.assignors``, in Kafka's default order."""

from __future__ import annotations

from typing import Final

from kohort.assignors.server.range import RANGE
from kohort.assignors.server.spec import ServerAssignor
from kohort.assignors.server.uniform import UNIFORM

SERVER_ASSIGNORS: Final[dict[str, ServerAssignor]] = {a.name: a for a in (UNIFORM, RANGE)}
"""Server-side assignors by name, in Kafka's order; a consumer group uses the first one by default."""
