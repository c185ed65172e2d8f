"""Pipelines from topics to tables, declared in a file or in Python.

A run ends at the log end offsets, or is continuous.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kohort.spark.pipeline.builder import PipelineBuilder
from kohort.spark.pipeline.definition import Pipeline
from kohort.spark.pipeline.ledger import Count, Entry, Ledger
from kohort.spark.pipeline.parse import load_pipeline

if TYPE_CHECKING:
    from kohort.spark.pipeline.running.run import PipelineStopped, RunReport, TableRead, run_pipeline

__all__ = [
    "Count",
    "Entry",
    "Ledger",
    "Pipeline",
    "PipelineBuilder",
    "PipelineStopped",
    "RunReport",
    "TableRead",
    "load_pipeline",
    "run_pipeline",
]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use.

    So a program that only parses pipeline files loads no module that runs pipelines.
    """
    if name not in __all__:
        raise AttributeError(f"module 'kohort.spark.pipeline' has no attribute {name!r}")
    from kohort.spark.pipeline.running import run

    return getattr(run, name)
