from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from kohort.errors import KohortError
from kohort.spark.pipeline.running.run import PipelineStopped, without_stack_trace

MESSAGE = (
    "[CAST_INVALID_INPUT] The value 'x' cannot be cast to \"INT\".\n== SQL ==\nselect cast(id as int) as n from input"
)


def test_spark_error_becomes_one_message_without_stack_traces() -> None:
    found = without_stack_trace(PySparkException(f"{MESSAGE}\n\nJVM stacktrace:\njava.lang.Error\n\tat a.b(c.scala:1)"))

    assert isinstance(found, PipelineStopped)
    assert str(found) == MESSAGE


def test_py4j_error_gets_the_message_of_its_innermost_cause() -> None:
    text = "An error occurred while calling o1.parquet.\n: java.io.IOException: job\n\tat a.b(c)\n"
    text += "Caused by: no space left\n"

    assert str(without_stack_trace(Py4JError(text))) == "Caused by: no space left"


@pytest.mark.parametrize("error", [KohortError("sink refused"), ValueError("of a python: step")])
def test_errors_of_other_libraries_than_spark_stay_unchanged(error: Exception) -> None:
    assert without_stack_trace(error) is error
