"""PySpark source and pipelines over consumer groups.

``kohort.spark.session()`` gives a SparkSession that works on a fresh machine; ``format("kohort")`` reads topics.
"""

from __future__ import annotations

from kohort.spark.java import Java, JavaNotFound, find_java
from kohort.spark.session import session

__all__ = ["Java", "JavaNotFound", "find_java", "session"]
