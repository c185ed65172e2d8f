from collections.abc import Sequence
from pathlib import Path

import pytest

from kohort.cli.serve.serve import configure
from kohort.config.listeners import listeners_of
from kohort.errors import ConfigError


def test_options_without_effect_are_logged_with_the_file_or_option_that_sets_them(caplog, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("num.io.threads=3\n")
    settings = ("log.preallocate=true", "replica.lag.time.max.ms=5", "transaction.state.log.replication.factor=1")

    config, _ = configure(None, (), settings, Path(file), memory=False)

    assert [record.getMessage() for record in caplog.records] == [
        f"{file}: ignored options without effect: num.io.threads",
        "--set: ignored options without effect: log.preallocate, replica.lag.time.max.ms",
    ]
    assert (config.log_preallocate, config.transaction_state_log_replication_factor) == (True, 1)


def listening(*listen: str, settings: Sequence[str] = ()) -> list[str]:
    config, _ = configure(None, listen, settings, None, memory=False)
    return [str(listener) for listener in listeners_of(config)]


def test_serve_uses_the_last_of_listeners_with_the_same_name():
    assert listening() == ["PLAINTEXT://127.0.0.1:9092"]
    assert listening("127.0.0.1:1") == ["PLAINTEXT://127.0.0.1:1"]
    assert listening("SSL://h:1", "127.0.0.1:2") == ["SSL://h:1", "PLAINTEXT://127.0.0.1:2"]
    assert listening("h:1", "g:2") == ["PLAINTEXT://g:2"]


def test_listeners_of_set_option_override_listen_option():
    assert listening("SSL://h:1", settings=["listeners=127.0.0.1:3"]) == ["PLAINTEXT://127.0.0.1:3"]
    assert listening("h:1", settings=["listeners=SSL://h:3"]) == ["SSL://h:3"]
    assert listening("h:1", settings=["port=4"]) == ["PLAINTEXT://h:4"]
    with pytest.raises(ConfigError, match="--set port=4 has no effect: listeners=SSL://h:1 wins; change listeners"):
        listening("SSL://h:1", settings=["port=4"])


def test_listener_without_protocol_or_name_is_rejected_at_start():
    with pytest.raises(ConfigError, match="has no protocol for INNER"):
        listening("INNER://h:1")
    with pytest.raises(ConfigError, match="unknown listener OUTER; the listeners are PLAINTEXT"):
        listening(settings=["listener.name.outer.ssl.client.auth=none"])


SCRAM = "kohort.add.scram=SCRAM-SHA-512=[name=alice,password=planted]\nSCRAM-SHA-256=[name=bob,password=planted]"


def test_add_scram_enables_mechanisms_of_its_users_by_default():
    def offered(*settings: str) -> list[str]:
        config, _ = configure(None, ["SASL_PLAINTEXT://127.0.0.1:0"], settings, None, memory=False)
        assert "planted" not in repr(config)
        return config.sasl_enabled_mechanisms

    assert offered(SCRAM) == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert offered(SCRAM, "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256") == ["PLAIN", "SCRAM-SHA-256"]
    assert offered(SCRAM, "listener.name.sasl_plaintext.plain.sasl.jaas.config=x") == ["PLAIN"]
    assert offered() == ["PLAIN"]
