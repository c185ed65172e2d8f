"""A declared pipeline: one file, or the same in Python; validated, tested, run once or for ever."""

from __future__ import annotations

from kohort.spark.pipeline.builder import PipelineBuilder
from kohort.spark.pipeline.definition import Pipeline
from kohort.spark.pipeline.document.parse import load_pipeline

__all__ = ["Pipeline", "PipelineBuilder", "load_pipeline"]
