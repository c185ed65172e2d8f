"""A broker that is killed under load loses nothing that it acknowledged."""

import threading

import pytest

from kohort.model import TopicPartition
from support.processes.served_broker import Served
from support.raw.group_member import RawMember, committed
from support.raw.raw_client import RawClient


class Writer(threading.Thread):
    def __init__(self, bootstrap: str, partition: int, warm: threading.Semaphore) -> None:
        super().__init__(daemon=True)
        self.client = RawClient(bootstrap)
        self.partition = partition
        self.warm = warm
        self.acknowledged: list[bytes] = []
        self.committed = -1

    def run(self) -> None:
        loner = RawMember(self.client, f"loner-{self.partition}", ["load"])
        try:
            loner.find()
            for number in range(1_000_000):
                value = b"%d" % number
                got = self.client.produce("load", value, partition=self.partition)
                assert (got.error_code, got.base_offset) == (0, number)
                self.acknowledged.append(value)
                assert loner.commit("load", self.partition, number + 1, generation=-1) == 0
                self.committed = number + 1
                if number == 20:
                    self.warm.release()
        except (EOFError, ConnectionError):
            self.client.close()


def test_kill_9_under_load_loses_no_acknowledged_record_and_commit(tmp_path):
    with Served("--set", "group.initial.rebalance.delay.ms=0", data=tmp_path) as served:
        with RawClient(served.bootstrap) as client:
            client.create("load", 4)
            member = RawMember(client, "broker", ["load"], session_timeout_ms=60_000)
            member.join()
            assert member.sync({member.member_id: {"load": [0, 1, 2, 3]}}).error_code == 0
            assert member.commit("load", 3, 42) == 0
        warm = threading.Semaphore(0)
        writers = [Writer(served.bootstrap, partition, warm) for partition in range(3)]
        for writer in writers:
            writer.start()
        for _ in writers:
            assert warm.acquire(timeout=60), "the load never came up"
        served.kill()
        for writer in writers:
            writer.join(30)

    with Served(data=tmp_path) as served, RawClient(served.bootstrap) as client:
        for writer in writers:
            stored = client.read_all("load", writer.partition)
            assert stored[: len(writer.acknowledged)] == writer.acknowledged
            assert len(stored) <= len(writer.acknowledged) + 1, "at most the one under way was stored unacknowledged"
            group = f"loner-{writer.partition}"
            assert committed(client, group, "load", [writer.partition])[writer.partition] >= writer.committed
        member.wire = client
        assert member.heartbeat() == 0, "the group goes on in its generation"
        assert member.assigned() == [TopicPartition("load", p) for p in range(4)]
        assert committed(client, "broker", "load", [3]) == {3: 42}


def test_clean_stop_exits_0_and_restarts_quickly(tmp_path):
    with Served(data=tmp_path) as served:
        with RawClient(served.bootstrap) as client:
            client.create("kept")
            client.produce("kept", b"1", b"2")
        assert served.stop() == 0
        assert "stopping" in served.log

    with Served(data=tmp_path) as served, RawClient(served.bootstrap) as client:
        assert client.read_all("kept") == [b"1", b"2"]
        assert served.ready["data"] == str(tmp_path)


def test_torn_log_tail_is_truncated_and_logged(tmp_path):
    with Served(data=tmp_path) as served:
        with RawClient(served.bootstrap) as client:
            client.create("torn")
            client.produce("torn", b"whole")
        served.kill()
    (segment,) = (tmp_path / "torn-0").glob("*.log")
    with segment.open("ab") as file:
        file.write(b"half a batch")

    with Served(data=tmp_path) as served:
        with RawClient(served.bootstrap) as client:
            assert client.read_all("torn") == [b"whole"]
            assert client.produce("torn", b"next").base_offset == 1
        served.stop()
        assert "torn-0" in served.log


def test_used_port_is_reported(tmp_path):
    with Served("--quiet") as served, pytest.raises(RuntimeError) as refused:
        Served("--listen", served.bootstrap, data=tmp_path)

    text = str(refused.value)
    assert "ended with 2" in text
    assert "is in use by another program" in text
    assert "Traceback" not in text


def test_used_data_folder_is_reported(tmp_path):
    with Served("--quiet", data=tmp_path) as served, RawClient(served.bootstrap) as client:
        client.create("mine")
        with pytest.raises(RuntimeError) as refused:
            Served(data=tmp_path)

        text = str(refused.value)
        assert "ended with 1" in text
        assert "in use by process" in text
        assert "Traceback" not in text
        assert client.produce("mine", b"still served").error_code == 0
