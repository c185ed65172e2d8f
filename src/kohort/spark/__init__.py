"""PySpark source, sink and pipelines over consumer groups.

``kohort.spark.session()`` gives a SparkSession that works on a fresh machine; ``format("kohort")`` reads and writes
topics, and ``to_records`` makes any frame one that can be written.
"""

from __future__ import annotations

from kohort.spark.records_frame import to_records
from kohort.spark.runtime.environment import Java, JavaNotFound, find_java
from kohort.spark.runtime.session import session

__all__ = ["Java", "JavaNotFound", "find_java", "session", "to_records"]
