"""The guides: each page's examples run in order as one program, and their links lead somewhere."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kohort
from kohort.config.client import ConsumerConfig, ProducerConfig
from kohort.config.client_files import profile_names, read_profile
from kohort.config.client_options import client_config
from kohort.spark.options.source import parse_source_options
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.runtime.session import HIDDEN_OPTIONS
from support.schema_registry import fake_registry

pytest_plugins = ["pytester"]

GUIDES = sorted((Path(__file__).parents[2] / "docs" / "guides").glob("*.md"))
RUN = {
    "arrow", "async", "client-metrics", "consumer", "consumer-group", "producer", "security", "tables", "testing",
    "tracing",
}  # fmt: skip


def program(guide: Path) -> str:
    text = re.sub(r"<!-- pytest -->\n```python\n.*?```", "", guide.read_text(), flags=re.DOTALL)
    return "\n\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


def test_the_tests_that_the_testing_page_shows_pass(pytester):
    text = (GUIDES[0].parent / "testing.md").read_text()
    blocks = re.findall(r"<!-- pytest -->\n```python\n(.*?)```", text, re.DOTALL)
    pytester.makepyfile("\n\n".join(blocks))

    result = pytester.runpytest_inprocess("--strict-markers", "-p", "no:cacheprovider")

    result.assert_outcomes(passed=len(blocks))
    assert len(blocks) > 1


@pytest.mark.parametrize("name", sorted(RUN))
@pytest.mark.timeout(600)  # the first use of the kernels compiles them
def test_the_examples_of_a_page_run_as_they_stand(name, tmp_path):
    (guide,) = [g for g in GUIDES if g.stem == name]
    script = tmp_path / f"{name.replace('-', '_')}_guide.py"
    script.write_text(program(guide))
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", script],
        cwd=tmp_path, capture_output=True, text=True, timeout=580, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "an example shows something"
    assert "ResourceWarning" not in done.stderr


def test_the_example_of_the_schemas_page_runs_with_a_registry(tmp_path):
    (guide,) = [g for g in GUIDES if g.stem == "schemas"]
    with fake_registry() as registry:
        script = tmp_path / "schemas_guide.py"
        script.write_text(program(guide).replace("http://localhost:8081", registry.url))
        command = [sys.executable, "-W", "error::ResourceWarning", script]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "{'name': 'Ada', 'age': 36}\n", done.stderr
    assert "ResourceWarning" not in done.stderr


def test_examples_without_dependencies_parse_and_name_existing_objects():
    (guide,) = [g for g in GUIDES if g.stem == "frameworks"]
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    for block in blocks:
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module == "kohort":
                assert {alias.name for alias in node.names} <= set(kohort.__all__)
    assert len(blocks) == 1


def connecting(language):
    """The blocks of the page about connecting: what they connect to is not there, so they make options alone."""
    (guide,) = [g for g in GUIDES if g.stem == "connecting"]
    return re.findall(rf"```{language}\n(.*?)```", guide.read_text(), re.DOTALL)


@pytest.fixture
def clusters(tmp_path, monkeypatch):
    """The profiles of the page in a file, and all variables that the page names."""
    for name in ("KAFKA_PASSWORD", "CLUSTER_API_KEY", "CLUSTER_API_SECRET", "AIVEN_PASSWORD", "CLIENT_SECRET"):
        monkeypatch.setenv(name, "x")
    (tmp_path / "clusters.toml").write_text("\n".join(connecting("toml")))
    monkeypatch.setenv("KOHORT_PROFILES", str(tmp_path / "clusters.toml"))


@pytest.mark.usefixtures("clusters")
def test_each_way_to_connect_makes_a_client(tmp_path):
    for block in connecting("python"):
        namespace = {}
        exec(block, namespace)
        if "config" in namespace:
            client_config(ConsumerConfig, namespace["config"], {})
            assert "security.protocol" in namespace["config"]
        else:
            assert "security.protocol" in parse_source_options(namespace["options"], streaming=True).client
    names = profile_names(os.environ)
    for name in names:
        client_config(ProducerConfig, read_profile(name, os.environ).options, {})
    for block in connecting("yaml"):
        found = parse_pipeline(block, tmp_path / "orders.yaml", os.environ)
        assert dict(found.stream.kafka)["security.protocol"] == "SASL_SSL"
    assert names == ["prod", "confluent", "msk", "aiven", "kerberos"]
    (regex,) = [line.partition("=")[2] for block in connecting("properties") for line in block.splitlines()]
    assert regex == HIDDEN_OPTIONS


@pytest.mark.parametrize("guide", GUIDES, ids=lambda g: g.stem)
def test_the_links_of_a_page_lead_somewhere(guide):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", guide.read_text())
    assert [link for link in links if not (guide.parent / link).exists()] == []
