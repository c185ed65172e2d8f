"""The main job: real flights, through a consumer group that loses a member, onto Spark, every row accounted for."""

from __future__ import annotations

from pathlib import Path


def flight_delays_file() -> Path:
    """Return the pipeline of the main job, as a file that ``kohort pipeline run`` takes too."""
    return Path(__file__).parent / "flight_delays.yaml"
