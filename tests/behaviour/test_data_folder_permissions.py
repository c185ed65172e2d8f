import os

import pytest

import kohort

pytestmark = pytest.mark.ours


@pytest.fixture(autouse=True)
def umask():
    before = os.umask(0)
    yield
    os.umask(before)


def test_data_files_are_readable_for_owner_and_group_and_secrets_for_the_owner_only(tmp_path):
    folder = tmp_path / "data"
    with kohort.Broker(users={"alice": "a-secret"}, data_dir=folder) as broker:
        login = {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "a-secret",
        }
        with kohort.Producer(login) as producer:
            producer.send("orders", b"42").result(60_000)
        with kohort.Consumer(login, group_id="billing", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["orders"])
            while not consumer.poll(1000):
                pass
            consumer.commit()

    found = {path: path.stat().st_mode & 0o777 for path in [folder, *folder.rglob("*")]}
    assert any(path.suffix == ".log" for path in found)
    assert {str(path): oct(mode) for path, mode in found.items() if mode & 0o007} == {}
    assert {path.name for path, mode in found.items() if path.is_file() and not mode & 0o070} == {
        "kohort-security.json"
    }
