from __future__ import annotations

import json
import socket
from dataclasses import replace

import pytest
from faults.campaign import FACES, Bounds, Campaign, Cell, wrongs
from faults.catalogue import FAULTS
from faults.proxy import TO_CLIENT, Proxy
from faults.run import table
from faults.world import World

import kohort

SLICE = (replace(FAULTS["refused"], lasts_s=6), FAULTS["dead-address-first"])
SLICED_FACES = ("poll-classic", "asyncio-modern", "handlers-modern", "producer", "admin")


def play(folder, faults, faces, *, apache=False):
    with World(folder, {fault.door for fault in faults}, apache=apache) as world:
        campaign = Campaign(world, faces, Bounds())
        try:
            for fault in faults:
                campaign.play(fault)
            found = campaign.end()
        finally:
            campaign.kill()
    print(table(campaign.cells))
    assert [(cell.fault, cell.face, cell.wrong) for cell in campaign.cells if cell.wrong] == []
    assert len(campaign.cells) == len(faults) * len(faces)
    assert found.counts == {}, [anomaly.sentence for anomaly in found.anomalies]


def acknowledged_commits(folder):
    lines = (json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines())
    return sum(line["op"] == "commit" and line["result"] == "ok" for line in lines)


@pytest.mark.slow
@pytest.mark.campaign
def test_clients_survive_a_stopped_broker_and_a_dead_address(tmp_path):
    play(tmp_path, SLICE, SLICED_FACES)
    assert acknowledged_commits(tmp_path) > 0


@pytest.mark.timeout(2 * 3600)
@pytest.mark.slow
@pytest.mark.campaign
def test_every_client_survives_every_fault(tmp_path):
    play(tmp_path, list(FAULTS.values()), FACES)


@pytest.mark.timeout(2 * 3600)
@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.kafka
@pytest.mark.interop
def test_every_client_survives_network_faults_before_apache_kafka(tmp_path):
    play(tmp_path, [fault for fault in FAULTS.values() if fault.on_apache], FACES, apache=True)


# ---------------------------------------------------------------- the tool itself


def test_fault_results_are_judged_by_loss_and_recovery():
    silent, good = (
        FAULTS["silent"],
        Cell("admin", "silent", recovered_s=0.1, cpu=0.01, close_s=0.1, first_report="a warning"),
    )

    def judged(**changes):
        return wrongs(silent, replace(good, **changes), Bounds())

    assert judged() == []
    assert judged(recovered_s=None)[0].startswith("did not recover within 60 s")
    assert judged(recovered_s=30.0) == ["recovered after 30.0 s, not 20"]
    assert judged(cpu=0.03) == ["took 3.0% of a processor while it waited"]
    assert judged(close_s=9.0) == ["close took 9.0 s"]
    assert judged(face="producer", close_s=9.0) == []
    assert judged(close_s=None) == ["close did not return"]
    assert judged(grew_bytes=100 << 20) == ["grew by 100 MB"]
    assert judged(more_handles=50) == ["has 50 more handles and 0 more threads"]
    assert judged(first_report="") == ["said nothing"]


@pytest.fixture
def echo():
    with kohort.Broker() as broker, Proxy() as proxy:
        proxy.target = ("127.0.0.1", broker.port)
        yield proxy


ASK = bytes.fromhex("0000000a 0012 0000 00000007 ffff")


def response_through(proxy, timeout_s=0.5):
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=20) as client:
        client.sendall(ASK)
        client.settimeout(timeout_s)
        head = b""
        while len(head) < 8 and (more := client.recv(8 - len(head))):
            head += more
        return head


def test_proxy_forwards_and_heals(echo):
    assert response_through(echo)[4:] == ASK[8:12]
    echo.set(silent={TO_CLIENT})
    with pytest.raises(TimeoutError):
        response_through(echo)
    echo.heal()
    assert response_through(echo, 20)[4:] == ASK[8:12]


def test_proxy_refuses_resets_and_stalls(echo):
    echo.close_door()
    with pytest.raises(ConnectionRefusedError):
        response_through(echo)
    echo.be_dead()
    with pytest.raises(TimeoutError), socket.create_connection(("127.0.0.1", echo.port), timeout=0.5):
        pass
    echo.open_door()
    echo.set(cut_after=(3, 3))
    with pytest.raises(ConnectionResetError):
        response_through(echo, 20)
    echo.heal()
    echo.set(injected=b"HTTP/1.1 ")
    assert response_through(echo, 20) == b"HTTP/1.1"
