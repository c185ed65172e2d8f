"""kafka-python's integration tests, on a broker with the settings of its own fixture for Apache Kafka."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from results import Results, SuiteList, junit
from sources import WORK, sdist

from support.processes.served_broker import Served

SUITE_S = 1800
TEST_S = 90
PARTS = ("admin", "consumer", "producer")
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = {
    "node.id": "0",
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "authorizer.class.name": AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
}
SERVICE = '''"""A broker that somebody else started: what the source distribution leaves out."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port


class SpawnedService:
    """Never used: the broker is an external one."""
'''


def kafka_python(suite_list: SuiteList) -> Results:
    """Return the results of its integration tests."""
    folder = sdist("kafka-python", suite_list.version)
    (folder / "test" / "__init__.py").touch()
    (folder / "test" / "service.py").write_text(SERVICE)
    (folder / "nothing").mkdir(exist_ok=True)
    address = f"127.0.0.1:{free_port()}"
    settings = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://{address}"}
    report = WORK / "kafka-python.xml"
    options = (word for key, value in settings.items() for word in ("--set", f"{key}={value}"))
    with Served("--listen", address, *options) as served:
        environment = {"KAFKA_URI": f"kafka://{served.bootstrap}", "KAFKA_VERSION": "4.3.0", "PYTHONPATH": str(folder)}
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts="]
        tests = [f"test/integration/test_{part}_integration.py" for part in PARTS]
        subprocess.run(
            [*pytest, *tests, "--tb=native", f"--timeout={TEST_S}", f"--junitxml={report}"],
            cwd=folder, env={**os.environ, **environment, "KAFKA_ROOT": str(folder / "nothing")},
            timeout=SUITE_S, check=False, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return junit(report.read_text())


def free_port() -> int:
    """Return a free port, because the broker needs its own address before its start."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
