import json

import pytest
from click.testing import CliRunner

from kohort.cli.main import main
from support.histories import WrittenHistory


@pytest.fixture
def runner():
    return CliRunner()


@pytest.fixture
def lost(tmp_path):
    history = WrittenHistory()
    producer, reader = history.client("p"), history.client("r")
    producer.sends("p:0", 0)
    producer.sends("p:1", 1)
    reader.reads((0, "p:0"), position=2)
    return history.written(tmp_path)


def test_check_history_prints_anomaly_and_exits_with_1(lost, runner):
    done = runner.invoke(main, ["check-history", str(lost)])
    assert done.exit_code == 7
    first, *evidence = done.stdout.splitlines()[:3]
    assert first == "lost-record: 'p:1' at 1 of t-0, acknowledged, is skipped by a reader"
    assert evidence[0].startswith(f"    {lost}:4  ")
    assert evidence[1].startswith(f"    {lost}:5  ")
    assert done.stdout.splitlines()[-1] == "5 operations of 2 clients, 2 values, 0 transactions: 1 anomalies"


def test_check_history_prints_anomaly_as_json(lost, runner):
    done = runner.invoke(main, ["check-history", str(lost), "--output", "json"])
    output = json.loads(done.stdout)
    assert done.exit_code == 7
    assert output["schema"] == "kohort/v1/check-history"
    assert output["counts"] == {"lost-record": 1}
    assert [proof["place"] for proof in output["anomalies"][0]["evidence"]] == [f"{lost}:4", f"{lost}:5"]


def test_check_history_of_valid_history_exits_with_0(tmp_path, runner):
    history = WrittenHistory()
    history.client("p").sends("p:0", 0)
    done = runner.invoke(main, ["check-history", str(history.written(tmp_path))])
    assert (done.exit_code, done.stdout) == (
        0,
        "2 operations of 1 clients, 1 values, 0 transactions: nothing is wrong\n",
    )


def test_check_history_rejects_file_without_history(tmp_path, runner):
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    done = runner.invoke(main, ["check-history", str(path)])
    assert done.exit_code == 2
    assert f"{path}:1: invalid JSON" in done.stderr
    assert runner.invoke(main, ["check-history"]).exit_code == 2
    assert runner.invoke(main, ["check-history", str(tmp_path / "nowhere")]).exit_code == 2


def test_list_option_of_check_history_prints_names_of_checks(runner):
    done = runner.invoke(main, ["check-history", "--list"])
    assert done.exit_code == 0
    assert "lost-record" in done.stdout
