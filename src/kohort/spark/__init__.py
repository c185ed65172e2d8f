"""Spark source and sink for Kafka topics, and pipelines from topics to tables.

``session()`` starts a SparkSession and needs no configuration. ``format("kohort")`` reads and writes topics.
``to_records`` converts any DataFrame into a DataFrame that the sink accepts.
"""

from __future__ import annotations

from kohort.spark.records_frame import to_records
from kohort.spark.runtime.environment import Java, JavaNotFound, find_java
from kohort.spark.runtime.session import session

__all__ = ["Java", "JavaNotFound", "find_java", "session", "to_records"]
