"""The time zone of the Spark session, as a task finds it."""

from __future__ import annotations

import os
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Final

from kohort.columns.conversions.times import zone_named

SESSION_ZONE: Final = "spark.sql.session.timeZone"


def session_zone() -> tzinfo:
    """Return the zone that a task's query has; the machine's where the session sets none, as in Spark."""
    from pyspark import TaskContext

    task = TaskContext.get()
    name = task.getLocalProperty(SESSION_ZONE) if task is not None else None
    try:
        return zone_named(name or os.environ.get("TZ") or _machine_zone())
    except ValueError:
        return UTC


def _machine_zone() -> str:
    return str(Path("/etc/localtime").resolve()).partition("/zoneinfo/")[2]
