"""What ``kohort serve`` makes of its options."""

from pathlib import Path

from kohort.cli.serve import configure


def test_what_has_no_effect_is_told_wherever_it_was_given(caplog, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("num.io.threads=3\n")
    given = ("log.preallocate=true", "replica.lag.time.max.ms=5", "transaction.state.log.replication.factor=1")

    config, _ = configure(None, None, given, Path(file), memory=False)

    assert [record.getMessage() for record in caplog.records] == [
        f"{file}: passed over, without meaning here: num.io.threads",
        "--set: passed over, without meaning here: log.preallocate, replica.lag.time.max.ms",
    ]
    assert (config.log_preallocate, config.transaction_state_log_replication_factor) == (True, 1)
