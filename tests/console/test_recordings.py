import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import kohort.console.page
from kohort.cli.main import main
from kohort.console.encoding import json_of
from kohort.console.exporting import exported, view_of
from kohort.console.page import ConsolePage
from kohort.console.recorded import RecordedSource, read_recording
from kohort.errors import ConfigError, UsageError
from kohort_lab.sim.recorded_runs import journal_of_seed
from support.console_client import console, site

INCIDENTS = Path(__file__).parents[2] / "docs" / "console" / "incidents.ndjson"


@pytest.fixture(scope="module")
def seed():
    return journal_of_seed("group", 7)[1]


@pytest.fixture
def events(orders, broker, tmp_path):
    path = tmp_path / "events.ndjson"
    args = ["group", "events", orders, "--bootstrap", broker.bootstrap, "--output", "ndjson"]
    path.write_text(CliRunner().invoke(main, args, catch_exceptions=False).stdout)
    return path


def test_simulation_of_seed_opens_in_all_views(seed, folder):
    source = RecordedSource(seed, "simulated seed 7")
    with console(source, folder) as client:
        about = client.get("/cluster").json
        assert (about["kind"], about["journal"]["kind"], about["now_ms"]) == ("recorded", "recording", source.now_ms())
        rows = {row["group"]: row["state"] for row in client.get("/groups").json["groups"]}
        assert rows["g"] == "Dead"
        group = "g"
        for view in ("timeline", "rebalances", "events", "fenced"):
            assert client.get(f"/groups/{group}/{view}").status == 200
        assert sum(sum(b["by_cause"].values()) for b in client.get("/causes").json["buckets"]) > 0
        assert client.get("/nodes").status == 404
        assert client.get(f"/groups/{group}/describe").status == 404


def test_exported_events_open_as_recording(events, folder):
    with console(read_recording(events), folder) as client:
        content = client.get("/groups/billing/rebalances").json
        assert content["rebalances"][0]["cause"] == "GROUP_FORMING"
        assert client.get("/groups/billing").json["status"]["lag"] is None


def test_invalid_recording_is_rejected(tmp_path):
    for content in (
        b"",
        b"hello\n",
        b'{"a": 1}\n',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"kind": "new", "at_ms": 1, "group": "g"}',
    ):
        path = tmp_path / "recording"
        path.write_bytes(content)
        with pytest.raises(UsageError):
            read_recording(path)


def test_export_contains_page_and_answers(events, folder):
    html = ConsolePage(folder).single_file(exported(read_recording(events), "billing"))
    assert "src=" not in html
    assert "href=" not in html
    content = json.loads(re.search(r'id="kohort-data">(.*?)</script>', html).group(1))
    assert content["/groups/billing/rebalances"]["rebalances"][0]["cause"] == "GROUP_FORMING"
    imports = json.loads(re.search(r'type="importmap">(.*?)</script>', html).group(1))["imports"]
    assert set(imports) >= {"htm", "kohort:/static/app.js", "kohort:/static/parts/a.js", "kohort:/static/b.js"}
    assert all(url.startswith("data:text/javascript;base64,") for url in imports.values())


def test_export_contains_only_requested_group():
    content = json_of(exported(read_recording(INCIDENTS), "slow-handler")).decode()
    assert "MAX_POLL_EXCEEDED" in content
    for other in ("killed-dynamic", "killed-static", "not-revoked"):
        assert other not in content


def test_export_omits_oldest_events_beyond_size_limit():
    source = read_recording(INCIDENTS)
    whole = exported(source, "slow-handler")
    room = len(json_of(whole)) * 2 // 3
    part = exported(source, "slow-handler", room)

    assert len(json_of(part)) <= room
    assert whole["/cluster"].unseen == []
    assert "do not fit" in part["/cluster"].unseen[0]
    path = "/groups/slow-handler/rebalances"
    rebalances, exported_rebalances = whole[path].rebalances, part[path].rebalances
    assert 0 < len(exported_rebalances) < len(rebalances)
    assert exported_rebalances == rebalances[-len(exported_rebalances) :], "the younger ones"
    assert part["/cluster"].journal.since_ms > whole["/cluster"].journal.since_ms
    with pytest.raises(UsageError, match="too large for one file"):
        exported(source, "slow-handler", 1_000)


def test_export_opens_with_requested_view():
    html = ConsolePage().single_file({}, view_of("a/b</script>"))
    assert '"#/groups/a%2Fb%3C%2Fscript%3E/timeline"' in html
    assert "/static/icon.svg" not in html, "nobody gives a file its pictures"


def test_names_in_export_cannot_close_script(tmp_path):
    html = ConsolePage(site(tmp_path / "s")).single_file({"/x": {"name": "</script><script>alert(1)</script>"}})
    assert "<script>alert" not in html
    assert html.count("</script>") == html.count("<script")


def test_console_export_writes_one_file(orders, broker, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(kohort.console.page, "STATIC", folder)
    out = tmp_path / "incident.html"
    args = ["console", "--bootstrap", broker.bootstrap, "--export", str(out), "--group", orders]
    assert CliRunner().invoke(main, args, catch_exceptions=False).exit_code == 0
    assert "GROUP_FORMING" in out.read_text()
    args[-1] = "nope"
    assert CliRunner().invoke(main, args).exit_code == 3


def test_public_address_needs_login(orders, broker, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(kohort.console.page, "STATIC", folder)
    args = ["console", "--bootstrap", broker.bootstrap, "--listen", "0.0.0.0:0"]
    result = CliRunner().invoke(main, args)
    assert (result.exit_code, "is open to other computers without a login" in result.stderr) == (2, True)
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o644)
    result = CliRunner().invoke(main, [*args, "--password-file", str(password)])
    assert (result.exit_code, "chmod 600" in result.stderr) == (2, True)


def test_missing_page_files_are_reported_with_advice(tmp_path):
    with pytest.raises(ConfigError, match=r"tools/vendor\.py"):
        ConsolePage(tmp_path)
