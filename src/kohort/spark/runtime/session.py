"""A SparkSession that works on a fresh machine: Java found, workers on this Python, settings for small batches."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kohort.extras import needs
from kohort.spark.runtime.environment import PANDAS_WARNING, private_folder, spark_environ, write_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HIDDEN_OPTIONS: Final = "(?i)url|password|secret|token|jaas|passphrase|ssl[.]key[.]pem|keystore[.]key"
"""Options that Spark shows as redacted in plans: its own rule, and what else of Kafka's options is a secret."""
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.streaming.metricsEnabled": "false",
    # Rename instead of a file context: 108 -> 39 ms a micro-batch for the checkpoint on a local disk.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.sql.redaction.options.regex": HIDDEN_OPTIONS,
}
"""What a local session sets unless told otherwise; shuffle partitions follow two to four cores, not a cluster."""

SHORT_RUN: Final = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For programs that end within a few minutes: the JVM's thorough compiler would not pay for itself on two cores."""

QUIET_LOGS: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
# What ends a query is raised to whoever waits for it: here a line will do.
logger.query.name = org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
logger.query.additivity = false
logger.query.appenderRef.brief.ref = brief
# So is what ends a task and its job: each attempt would print some hundred lines of stack trace.
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.files.name = org.apache.spark.sql.execution.datasources.FileFormatWriter
logger.files.level = off
logger.sources.name = org.apache.spark.sql.execution.datasources.v2
logger.sources.level = off
logger.work.name = org.apache.spark.util.Utils
logger.work.level = off
appender.brief.type = Console
appender.brief.name = brief
appender.brief.target = SYSTEM_ERR
appender.brief.layout.type = PatternLayout
appender.brief.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{none}
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


def session(
    app_name: str = "kohort", *, master: str = "local[*,3]", conf: Mapping[str, str] | None = None, quiet: bool = True
) -> SparkSession:
    """Return a session ready for ``format("kohort")``; an active one is reused, as ``getOrCreate`` does.

    ``local[*,3]`` gives a failed task three attempts, where ``local[*]`` fails the query at once. ``quiet``: nothing of
    Spark's log but errors, and no word of Java's about a module that only MLlib gains from, and then does without.
    """
    warnings.filterwarnings("ignore", message=PANDAS_WARNING)
    with needs("spark", "a Spark session"):
        from pyspark.sql import SparkSession

        from kohort.spark.source import KohortDataSource
    local = master.startswith("local")
    if SparkSession.getActiveSession() is None:
        os.environ.update(spark_environ(local=local, quiet=quiet))
    elsewhere = {name: SETTINGS[name] for name in ("spark.sql.session.timeZone", "spark.sql.redaction.options.regex")}
    settings: dict[str, Any] = dict(SETTINGS) if local else elsewhere
    if quiet:
        _silence_python_log()
        log = write_whole(private_folder() / "log4j2.properties", QUIET_LOGS)
        flag = f"-Dlog4j2.configurationFile={log.absolute().as_uri()}"  # a blank in it would be two options
        settings["spark.ui.showConsoleProgress"] = "false"  # Spark's bar, through what is said of the run
        settings["spark.driver.extraJavaOptions"] = f"{flag} {(conf or {}).get('spark.driver.extraJavaOptions', '')}"
    settings |= {k: v for k, v in (conf or {}).items() if k != "spark.driver.extraJavaOptions" or not quiet}
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    # Spark also finds the source by itself, but looks only once, in a process that a busy machine may start too late.
    spark.dataSource.register(KohortDataSource)
    return spark


def _silence_python_log() -> None:
    """Silence the loggers of PySpark that print an error as JSON before it is raised."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # before Spark 4.0
        return
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
