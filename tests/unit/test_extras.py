from __future__ import annotations

import sys
from importlib.metadata import requires

import pytest

from kohort import MissingExtra
from kohort.extras import needs
from kohort.spark.pipeline.sections import parse_document


def test_missing_package_error_names_the_extra():
    with pytest.raises(MissingExtra) as caught, needs("arrow", "poll_arrow"):
        import kohort_brings_no_such_package.inside  # noqa: F401

    assert str(caught.value) == (
        "poll_arrow needs the package kohort_brings_no_such_package: pip install 'kohort[arrow]'"
    )
    assert caught.value.name == "kohort_brings_no_such_package"


def test_missing_kohort_module_is_no_missing_extra():
    with pytest.raises(ModuleNotFoundError) as caught, needs("arrow", "poll_arrow"):
        import kohort.no_such_module  # noqa: F401

    assert not isinstance(caught.value, MissingExtra)


def test_pipeline_without_yaml_reader_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(MissingExtra, match=r"a pipeline file needs the package yaml: pip install 'kohort\[pipeline\]'"):
        parse_document("a: 1", "p.yaml", {})


def test_spark_extra_has_pyspark_requirements_for_arrow():
    requirements = [text for text in requires("kohort") if "extra == 'spark'" in text]

    assert any(text.startswith("pandas>=2.2") for text in requirements)
