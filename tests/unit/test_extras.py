"""Stories of packages that are not installed."""

from __future__ import annotations

import sys
from importlib.metadata import requires

import pytest

from kohort import MissingExtra
from kohort.extras import needs
from kohort.spark.pipeline.sections import parse_document


def test_a_missing_package_is_named_with_the_extra_that_brings_it():
    with pytest.raises(MissingExtra) as caught, needs("arrow", "poll_arrow"):
        import kohort_brings_no_such_package.inside  # noqa: F401

    assert str(caught.value) == (
        "poll_arrow needs the package kohort_brings_no_such_package: pip install 'kohort[arrow]'"
    )
    assert caught.value.name == "kohort_brings_no_such_package"


def test_a_module_of_our_own_that_is_missing_is_our_own_fault():
    with pytest.raises(ModuleNotFoundError) as caught, needs("arrow", "poll_arrow"):
        import kohort.no_such_module  # noqa: F401

    assert not isinstance(caught.value, MissingExtra)


def test_a_pipeline_without_a_yaml_reader_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(MissingExtra, match=r"a pipeline file needs the package yaml: pip install 'kohort\[pipeline\]'"):
        parse_document("a: 1", "p.yaml", {})


def test_the_extra_of_spark_brings_what_pyspark_asks_for_when_rows_go_through_arrow():
    """PySpark does not require pandas itself, and ``mapInArrow`` fails without it: dead letters go that way."""
    wanted = [text for text in requires("kohort") if "extra == 'spark'" in text]

    assert any(text.startswith("pandas>=2.2") for text in wanted)
