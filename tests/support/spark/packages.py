"""A Spark session without kohort, with packages of Apache Spark that PySpark lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.peers.client_programs import SOURCES, jars


@contextmanager
def spark_with_packages() -> Iterator[Any]:
    """Yield a session with Spark's Kafka connector and Avro reader, from Maven Central.

    All tests of a process share the class path of its JVM, so both packages are there for each.
    """
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    folder = jars("spark-connector", SOURCES / "spark-connector" / "pom.xml").removesuffix("/*")
    session = (
        SparkSession.builder.master("local[1]")
        .appName("connector")
        .config("spark.driver.extraClassPath", f"{folder}/*")
        .config("spark.driver.memory", "768m")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "America/New_York")
        .getOrCreate()
    )
    try:
        yield session
    finally:
        session.stop()
