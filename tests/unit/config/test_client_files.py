"""Client options from files: client.properties, named clusters, placeholders."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.config.client_files import profile_names, profiles_file, read_client_file, read_profile
from kohort.config.properties import build_properties, escaped, fill_in, parse_properties
from kohort.errors import ConfigError
from kohort.secret import Secret

PASSWORD = "planted-7f3a"
PROFILES = """
[local]
bootstrap.servers = "localhost:9092"

[prod]
"bootstrap.servers" = ["kafka-1:9093", "kafka-2:9093"]
security.protocol = "SASL_SSL"
sasl_mechanism = "SCRAM-SHA-512"
sasl.username = "reports"
sasl.password = "${KAFKA_PASSWORD}"
request.timeout.ms = 5000
"""


@pytest.fixture
def profiles(tmp_path):
    file = tmp_path / "clusters.toml"
    file.write_text(PROFILES)
    file.chmod(0o600)
    return {"KOHORT_PROFILES": str(file), "KAFKA_PASSWORD": PASSWORD}


def test_profile_has_options_and_secret_from_environment(profiles):
    found = read_profile("prod", profiles)

    assert found.options == {
        "bootstrap.servers": ["kafka-1:9093", "kafka-2:9093"],
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "reports",
        "sasl.password": Secret(PASSWORD),
        "request.timeout.ms": 5000,
    }
    assert found.warnings == ()
    assert PASSWORD not in repr(found)
    assert profile_names(profiles) == ["local", "prod"]


def test_profiles_file_is_configurable(tmp_path):
    assert profiles_file({"XDG_CONFIG_HOME": "/x"}).as_posix() == "/x/kohort/clusters.toml"
    assert profiles_file({}).as_posix().endswith("/.config/kohort/clusters.toml")
    assert profile_names({"XDG_CONFIG_HOME": str(tmp_path)}) == []
    with pytest.raises(ConfigError, match=r"profile 'prod': .*clusters\.toml does not exist \(KOHORT_PROFILES names"):
        read_profile("prod", {"XDG_CONFIG_HOME": str(tmp_path)})


def test_unknown_profile_error_has_nearest_name(profiles):
    with pytest.raises(ConfigError, match=r"profile 'prd': .* has local, prod; did you mean prod\?"):
        read_profile("prd", profiles)


def test_unset_variable_error_has_its_place(profiles):
    del profiles["KAFKA_PASSWORD"]
    with pytest.raises(
        ConfigError,
        match=r"clusters\.toml, profile prod: sasl\.password: \$\{KAFKA_PASSWORD\}: the environment variable is",
    ):
        read_profile("prod", profiles)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[prod\n", "not TOML: .*line 1"),
        ('bootstrap_servers = "a:1"\n', "bootstrap_servers is outside of a profile"),
    ],
)
def test_file_without_profiles_is_rejected(tmp_path, text, words):
    file = tmp_path / "clusters.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_profile("prod", {"KOHORT_PROFILES": str(file)})


def test_client_properties_of_kafka_tools_is_parsed(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text(
        "# for kafka-topics.sh --command-config\n"
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        f'  username="alice" password="{PASSWORD}";\n'
        "ssl.truststore.type=JKS\n"
        "acks=all\n"
        "key.serializer=org.apache.kafka.common.serialization.StringSerializer\n"
    )
    file.chmod(0o600)

    found = read_client_file(file, {})

    assert found.options["sasl.jaas.config"].reveal().endswith(f'password="{PASSWORD}";')
    assert found.options["ssl.truststore.type"] == "JKS"  # the client checks security options, so none is ignored
    assert found.options["acks"] == "all"
    assert found.warnings == (f"{file}: ignored unknown options: key.serializer",)


@pytest.mark.skipif(os.name != "posix", reason="modes of files say nothing here")
def test_readable_secret_file_gives_warning(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text(f"sasl.username=alice\nsasl.password={PASSWORD}\n")
    file.chmod(0o644)

    (warning,) = read_client_file(file, {}).warnings

    assert warning == f"{file}: other users can read its sasl.password: chmod 600 {file}"
    file.write_text("sasl.username=alice\nsasl.password=${P}\n")
    assert read_client_file(file, {"P": PASSWORD}).warnings == ()


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir(), lambda p: p.write_bytes(b"\xff\xfe=x")])
def test_unreadable_file_error_has_its_path(tmp_path, make):
    path = tmp_path / "client.properties"
    make(path)
    with pytest.raises(ConfigError, match=r"client\.properties: cannot be read: "):
        read_client_file(path, {})


def test_malformed_line_error_hides_its_text(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text(f"sasl.username=alice\n{PASSWORD}\n")
    with pytest.raises(ConfigError, match=r"client\.properties: line 2: expected name=value") as refused:
        read_client_file(file, {})
    assert PASSWORD not in str(refused.value)


def test_placeholders_are_filled_from_environment_and_files(tmp_path):
    (tmp_path / "secret").write_text("s3\n")
    environ = {"A": "1"}

    assert fill_in("${A} ${env:A} ${B:-two} ${B:-} $${A} $A", environ) == "1 1 two  ${A} $A"
    assert fill_in(f"x${{file:{tmp_path}/secret}}x", environ) == "xs3x"
    for text in ("${A}", "$${A}", "$$${env:A:-x}", "${not a place", "$A"):
        assert fill_in(escaped(text), environ) == text
    with pytest.raises(ConfigError, match=r"\$\{B\}: the environment variable is not set, and has no default"):
        fill_in("${env:B}", environ)
    with pytest.raises(ConfigError, match=r"\$\{file:.*absent\}: cannot read the file: No such file"):
        fill_in(f"${{file:{tmp_path}/absent}}", environ)


def test_properties_syntax_matches_java():
    text = "! a comment\n a : 1 \nb=x\\\n   y\n\n# end\nc=\nd 5\n"

    assert parse_properties(text) == {"a": "1 ", "b": "xy", "c": "", "d": "5"}


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        (r"listeners=SASL_SSL\://0.0.0.0\:9093", ("listeners", "SASL_SSL://0.0.0.0:9093")),
        (r"a\:b\=c\ d = e", ("a:b=c d", "e")),
        (r"ssl.keystore.location=C\:\\keys\\server.p12", ("ssl.keystore.location", r"C:\keys\server.p12")),
        (r"password=\ b\u00e4r\t", ("password", " bär\t")),
        (r"super.users=User\:a;\#b", ("super.users", "User:a;#b")),
        ('jaas=A required \\\n    b="c" \\\r\n\td="e";', ("jaas", 'A required b="c" d="e";')),
        ("even=two\\\\\nodd=1", ("even", "two\\")),
    ],
)  # fmt: skip
def test_properties_escapes_match_java(line, pair):
    assert pair in parse_properties(line).items()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=1\nwhat\n", "line 2: expected name=value"),
        ("# c\n\na=1\\\n  2\n=3\n", "line 5: expected name=value"),
        ("a=1\nb=\\u00g1 secret\n", r"line 2: expected four hexadecimal digits after \\u"),
    ],
)
def test_malformed_escape_error_has_line_number(text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        parse_properties(text)
    assert "secret" not in str(caught.value)


def test_comments_in_properties_are_skipped():
    text = "#\n#Fri Jan 01\n\nversion=1\ncluster.id = abc=\n"

    assert parse_properties(text) == {"version": "1", "cluster.id": "abc="}


@given(st.dictionaries(st.text(min_size=1, max_size=6), st.text(max_size=6), max_size=3))
def test_properties_round_trip(properties):
    assert parse_properties(build_properties(properties)) == properties


def test_damaged_properties_are_parsed_partially():
    assert parse_properties("a=1\nwhat\n=2\nb=3\n", is_damaged=True) == {"a": "1", "b": "3"}
    assert parse_properties("a=1\nb=\\uzz\nc=3\n", is_damaged=True) == {"a": "1", "c": "3"}
