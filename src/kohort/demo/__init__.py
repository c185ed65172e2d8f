"""Demo: flights of 2013 through Kafka and Spark; a consumer of the group is killed, and every row is checked."""

from __future__ import annotations

from pathlib import Path


def flight_delays_file() -> Path:
    """Return the demo's pipeline file, which ``kohort pipeline run`` accepts too."""
    return Path(__file__).parent / "flight_delays.yaml"
