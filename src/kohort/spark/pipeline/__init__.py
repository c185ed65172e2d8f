"""A declared pipeline: one file, validated, run once or for ever."""

from __future__ import annotations

from kohort.spark.pipeline.definition import Pipeline
from kohort.spark.pipeline.parse import load_pipeline

__all__ = ["Pipeline", "load_pipeline"]
