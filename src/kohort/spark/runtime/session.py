"""SparkSession without setup: finds Java, runs workers with the current Python, tunes Spark for small micro-batches."""

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
"""Regular expression for options whose values Spark hides in query plans: Spark's default, plus Kafka secrets."""
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.streaming.metricsEnabled": "false",
    # This class renames checkpoint files directly. On a local disk, a micro-batch takes 39 ms instead of 108 ms.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    "spark.sql.redaction.options.regex": HIDDEN_OPTIONS,
}
"""Default Spark settings of a local session. Four shuffle partitions suit two to four cores."""

SHORT_RUN: Final = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

_TASK_LOGGERS: Final = (
    *("executor.Executor", "scheduler.TaskSetManager", "sql.execution.datasources.FileFormatWriter"),
    *("sql.execution.datasources.v2", "util.Utils"),
)
"""Loggers that print a long stack trace for each failed attempt. They are silenced, since the error is also raised."""
QUIET_LOGS: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
# The error that ends a query is raised to its caller: log one line.
logger.query.name = org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
logger.query.additivity = false
logger.query.appenderRef.brief.ref = brief
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
""" + "".join(
    f"logger.l{i}.name = org.apache.spark.{name}\nlogger.l{i}.level = off\n" for i, name in enumerate(_TASK_LOGGERS)
)


def session(
    app_name: str = "kohort", *, master: str = "local[*,3]", conf: Mapping[str, str] | None = None, quiet: bool = True
) -> SparkSession:
    """Return a Spark session with ``format("kohort")``. Reuse an active session, as ``getOrCreate`` does.

    ``master``: ``local[*,3]`` allows three attempts of a task, ``local[*]`` only one. ``conf``: further Spark settings.
    ``quiet``: True if Spark logs only errors, and Java omits its warning about a module for MLlib. Raises
    JavaNotFound, and MissingExtra if PySpark is not installed.
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
        # as_uri() escapes spaces, which would split the Java option
        flag = f"-Dlog4j2.configurationFile={log.absolute().as_uri()}"
        settings["spark.ui.showConsoleProgress"] = "false"  # Spark's progress bar would overwrite the program's output
        settings["spark.driver.extraJavaOptions"] = f"{flag} {(conf or {}).get('spark.driver.extraJavaOptions', '')}"
    settings |= {k: v for k, v in (conf or {}).items() if k != "spark.driver.extraJavaOptions" or not quiet}
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    # Register the source here: Spark's own lookup starts a process, which may be too slow on a busy machine.
    spark.dataSource.register(KohortDataSource)
    return spark


def _silence_python_log() -> None:
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # PySpark before 4.0 has no PySparkLogger
        return
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
