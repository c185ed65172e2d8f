from __future__ import annotations

import http.client
import json
import signal
import ssl
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

import kohort
from kohort.cli.main import main
from support.processes.console_process import ConsoleProcess, console_process
from support.processes.served_broker import Served
from support.security.secured_brokers import secured_kohort
from support.security.secured_cluster import our_options, write_properties
from support.waiting import eventually

ANYWHERE = "127.0.0.1:0"


class ServedConsole:
    def __init__(self, url, trusted=None):
        at = urlsplit(url)
        self.origin = f"{at.scheme}://{at.netloc}"
        self._netloc, self._trusted = at.netloc, trusted

    def _wire(self):
        if self.origin.startswith("https"):
            return http.client.HTTPSConnection(self._netloc, timeout=60, context=self._trusted)
        return http.client.HTTPConnection(self._netloc, timeout=60)

    def ask(self, method, path, body=None, headers=None):
        wire = self._wire()
        try:
            wire.request(method, path, body, headers or {})
            found = wire.getresponse()
            return found.status, found.read()
        finally:
            wire.close()

    def get(self, path):
        status, body = self.ask("GET", f"/api/v1{path}")
        assert status == 200, (path, status, body)
        return json.loads(body)

    def post(self, path, body):
        token = self.get("/cluster")["token"]
        headers = {"Content-Type": "application/json", "Origin": self.origin, "X-Kohort-Token": token}
        status, content = self.ask("POST", f"/api/v1{path}", json.dumps(body).encode(), headers)
        return status, json.loads(content)

    def stream(self):
        wire = self._wire()
        wire.request("GET", "/api/v1/stream")
        return wire, wire.getresponse()


def read_twenty(bootstrap, group="billing"):
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({"orders": 2})
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        for n in range(20):
            producer.send("orders", b"order", partition=n % 2)
        producer.flush(60_000)
    with kohort.Consumer(bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        records = []
        eventually(lambda: records.extend(consumer.poll(500)) or len(records) == 20, pause_s=0)
        consumer.commit()


def test_console_of_serve_shows_groups_and_stops_with_broker():
    served = Served("--console", ANYWHERE, "--set", "group.initial.rebalance.delay.ms=0")
    try:
        console = ServedConsole(served.ready["console"])
        about = console.get("/cluster")
        assert (about["kind"], about["address"], about["allow_changes"]) == ("live", served.bootstrap, False)
        read_twenty(served.bootstrap)
        eventually(lambda: [row["group"] for row in console.get("/groups")["groups"]] == ["billing"])
        eventually(lambda: console.get("/cluster")["journal"]["kind"] == "journal topic")
        assert console.get("/groups/billing/rebalances")["rebalances"][0]["cause"] == "GROUP_FORMING"
        status, page = console.ask("GET", "/")
        assert (status, b'src="/static/app.js"' in page) == (200, True)
        wire, stream = console.stream()
        assert served.stop() == 0
        assert b"event: bye" in stream.read()
        wire.close()
    finally:
        served.stop() if served.process.poll() is None else None
    assert "Traceback" not in served.log


def test_serve_rejects_console_config_without_console_option(tmp_path):
    file = tmp_path / "client.properties"
    file.touch()
    result = CliRunner().invoke(main, ["serve", "--listen", ANYWHERE, "--console-config", str(file)])

    assert (result.exit_code, "--console-config needs --console" in result.output) == (2, True)


@pytest.mark.parametrize("world", ["group", "modern"])
def test_sim_opens_simulation_of_seed_in_console(world):
    process = ConsoleProcess("sim", "story", "7", "--world", world, "--console")
    try:
        console = ServedConsole(process.url)
        about = console.get("/cluster")
        assert (about["kind"], about["title"]) == ("recorded", f"simulated seed 7, world {world}")
        assert about["allow_changes"] is False
        groups = [row["group"] for row in console.get("/groups")["groups"]]
        assert groups
        assert console.get(f"/groups/{groups[0]}/rebalances")["rebalances"]
        assert console.get(f"/groups/{groups[0]}/timeline")["timeline"]["lanes"]
        assert console.post(f"/groups/{groups[0]}/offsets:plan", {"to": "earliest"})[0] in (403, 404)
    finally:
        code = process.stop(signal.SIGINT)
    assert code == 0, process.complaints
    assert "seed 7 passed" in process.complaints


def test_console_uses_tls_to_cluster_and_to_browser(tmp_path):
    with secured_kohort(tmp_path) as cluster:
        read_twenty(cluster.setup)
        config = write_properties(our_options(cluster.properties("scram", "admin")), tmp_path / "client.properties")
        own = cluster.certificates
        words = ("--bootstrap", cluster.address("scram"), "--config", str(config), "--listen", ANYWHERE)
        served = ("--tls-cert", str(own.server.certificate), "--tls-key", str(own.server.key))
        with console_process("console", *words, *served) as process:
            assert process.url.startswith("https://")
            console = ServedConsole(process.url, ssl.create_default_context(cafile=str(own.authority.certificate)))
            (row,) = console.get("/groups")["groups"]
            assert (row["group"], row["lag"]) == ("billing", 0)
            assert console.get("/cluster")["unseen"] == []


def test_untrusted_certificate_of_cluster_is_reported_at_start(tmp_path):
    with secured_kohort(tmp_path) as cluster:
        config = tmp_path / "client.properties"
        config.write_text("security.protocol=SSL\n")
        words = ("--bootstrap", cluster.address("tls"), "--config", str(config), "--listen", ANYWHERE)
        done = subprocess.run(
            [sys.executable, "-m", "kohort", "console", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert done.returncode not in (0, None)
    assert "certificate" in done.stderr
    assert "Traceback" not in done.stderr


def test_console_opens_journal_file_as_recording(broker, orders, tmp_path):
    store = tmp_path / "watched.sqlite"
    where = ("--bootstrap", broker.bootstrap)
    result = CliRunner().invoke(main, ["watch", "--once", "--store", str(store), *where], catch_exceptions=False)
    assert result.exit_code == 0, result.output

    with console_process("console", "--recording", str(store), "--listen", ANYWHERE, "--output", "ndjson") as process:
        assert json.loads(process.lines[-1])["kind"] == "recorded"
        console = ServedConsole(process.url)
        assert console.get("/cluster")["title"] == "recording watched.sqlite"
        assert console.get("/groups/billing/rebalances")["rebalances"][0]["cause"] == "GROUP_FORMING"
        refused = console.get("/groups/billing/fenced")
        assert (refused["fenced"], refused["from_outside"]) == ([], True)
        assert console.get("/groups/billing")["status"]["lag"] is None


PIPELINE = """\
name: sales
brokers: {brokers}
source: {{topics: [orders], group: billing}}
sinks: [{{noop: }}]
trigger: {{every: 2 seconds}}
"""


def test_console_shows_pipelines_and_unreadable_pipeline_files(broker, orders, tmp_path):
    pytest.importorskip("yaml")
    from kohort.spark.pipeline.ledger import Count, Entry, LedgerStore

    file = tmp_path / "sales.yaml"
    file.write_text(PIPELINE.format(brokers=broker.bootstrap))
    ledger = LedgerStore(tmp_path / "state" / "sales" / "ledger")
    words = ("console", "--bootstrap", broker.bootstrap, "--listen", ANYWHERE, "--pipeline", str(file))
    with console_process(*words) as process:
        console = ServedConsole(process.url)
        (pipeline,) = console.get("/pipelines")["pipelines"]
        assert (pipeline["name"], pipeline["batches"], pipeline["running"], pipeline["problem"]) == (
            "sales",
            [],
            None,
            None,
        )

        ledger.write(Entry(0, rows_in=Count(7, 1), dead_letters=2))

        (pipeline,) = console.get("/pipelines")["pipelines"]
        assert [(batch["rows"], batch["dead_letters"]) for batch in pipeline["batches"]] == [(7, 2)]
        file.write_text("sources: nothing of the kind\n")
        (pipeline,) = console.get("/pipelines")["pipelines"]
        assert "sales.yaml, line 1: the file needs 'name'" in pipeline["problem"]
