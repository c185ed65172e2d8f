"""What a program of Spark's needs around it: a Java that runs it, workers on this Python, the loopback address."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kohort.extras import needs
from kohort.spark.runtime.java import find_java
from kohort.spark.runtime.python import worker_python

PANDAS_WARNING: Final = "PySpark does not yet fully support pandas"
"""Said by every worker where pandas 3 happens to be installed; nothing here hands pandas to Spark."""


def spark_home() -> Path:
    """Return where the package pyspark has Spark's jars and scripts. Raises MissingExtra."""
    with needs("spark", "Spark"):
        import pyspark
    return Path(pyspark.__file__).parent


def spark_environ(
    environ: Mapping[str, str] = os.environ, *, local: bool = True, quiet: bool = False
) -> dict[str, str]:
    """Return what to set beside ``environ``, which is heeded where it has chosen. Raises JavaNotFound.

    Workers must run this Python, or they die with a misleading time-out; loopback spares a look-up of our name.
    ``local``: the workers are on this machine. ``quiet``: without the module of which Java warns at each start.
    """
    wanted = {
        "PYSPARK_PYTHON": worker_python() if local else sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONWARNINGS": f"ignore:{PANDAS_WARNING}:FutureWarning",
    }
    if local:
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    java = find_java(environ)
    java = java.without_incubator() if quiet else java
    chosen = {name: environ[name] for name in wanted if name in environ}
    return wanted | chosen | {"JAVA_HOME": str(java.home)}
