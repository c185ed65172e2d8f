"""Errors of Spark's that end a run: one message, without stack traces."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from kohort.errors import KohortError
from kohort.spark.pipeline.running.run import PipelineStopped, as_stopped

SAID = (
    "[CAST_INVALID_INPUT] The value 'x' cannot be cast to \"INT\".\n== SQL ==\nselect cast(id as int) as n from input"
)


def test_error_of_spark_is_one_message_without_stack_traces() -> None:
    found = as_stopped(PySparkException(f"{SAID}\n\nJVM stacktrace:\njava.lang.Error\n\tat a.b(c.scala:1)"))

    assert isinstance(found, PipelineStopped)
    assert str(found) == SAID


def test_error_of_the_gateway_to_java_is_its_last_cause() -> None:
    text = "An error occurred while calling o1.parquet.\n: java.io.IOException: job\n\tat a.b(c)\n"
    text += "Caused by: no space left\n"

    assert str(as_stopped(Py4JError(text))) == "Caused by: no space left"


@pytest.mark.parametrize("error", [KohortError("sink refused"), ValueError("of a python: step")])
def test_any_other_error_is_raised_as_it_was(error: Exception) -> None:
    assert as_stopped(error) is error
