"""Running secured clusters: Apache Kafka and kohort."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kohort
from support.peers.apache_kafka import OPTIONS, RUNNING, kafka_tool
from support.security.certificates import Certificates
from support.security.secured_cluster import LISTENERS, PASSWORDS, SCRAM, SecuredCluster, broker_options
from support.security.tokens import Issuer


@contextmanager
def secured_apache_kafka(folder: Path) -> Iterator[SecuredCluster]:
    """Run a secured Apache Kafka; its files are in ``folder``."""
    certificates, issuer = Certificates(folder), Issuer()
    options = broker_options(certificates, issuer, folder)
    tool = kafka_tool()
    urls = {value for name, value in options.items() if name.endswith(".jwks.endpoint.url")}
    security = tool.Security(
        listeners=LISTENERS,
        scram=[
            f"{mechanism}=[name={user},password={password}]"
            for mechanism in SCRAM
            for user, password in PASSWORDS.items()
        ],
        system={"org.apache.kafka.sasl.oauthbearer.allowed.urls": ",".join(urls)},
    )
    with tool.Kafka(security, **OPTIONS, **options) as running:
        RUNNING.append(running)
        try:
            yield SecuredCluster(running.addresses, certificates, issuer)
        finally:
            RUNNING.remove(running)


@contextmanager
def secured_kohort(folder: Path) -> Iterator[SecuredCluster]:
    """Run a secured kohort broker, embedded; its files are in ``folder``."""
    certificates, issuer = Certificates(folder), Issuer()
    protocols = {"PLAINTEXT": "PLAINTEXT", **LISTENERS}
    options = {
        **broker_options(certificates, issuer, folder),
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in protocols),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
    }
    with kohort.Broker(options) as running:
        with kohort.Admin(bootstrap_servers=running.bootstrap) as admin:
            for mechanism in SCRAM:
                admin.alter_user_scram_credentials(
                    kohort.UserScramCredentialUpsertion(user, password, mechanism)
                    for user, password in PASSWORDS.items()
                )
        yield SecuredCluster({name: running.bootstrap_of(name) for name in protocols}, certificates, issuer)
