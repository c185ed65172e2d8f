"""The brokers that clients are held against: one Apache Kafka for the whole run, and one of ours."""

from collections.abc import Generator, Iterator

import pytest

import kohort
from support.peers.apache_kafka import apache_kafka, what_it_printed
from support.processes.member_process import what_members_did, why_groups_rebalanced
from support.security.secured_brokers import secured_apache_kafka, secured_kohort
from support.security.secured_cluster import SecuredCluster


@pytest.fixture(scope="session")
def apache() -> Iterator[str]:
    """The address of an Apache Kafka."""
    with apache_kafka() as bootstrap:
        yield bootstrap


@pytest.fixture(scope="session")
def ours() -> Iterator[str]:
    """The address of a broker of ours, embedded."""
    with kohort.Broker() as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def secured_apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """A secured Apache Kafka."""
    with secured_apache_kafka(tmp_path_factory.mktemp("secured-apache")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secured_ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """A secured broker of ours, embedded."""
    with secured_kohort(tmp_path_factory.mktemp("secured-ours")) as cluster:
        yield cluster


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.kafka)])
def either(request: pytest.FixtureRequest) -> str:
    """The address of a kohort broker, then of Apache Kafka."""
    address: str = request.getfixturevalue(request.param)
    return address


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows what Apache Kafka printed, where one runs, and what its members did and why."""
    report = yield
    if report.failed and (printed := what_it_printed()):
        report.sections.append(("Apache Kafka", printed))
    if report.failed and (did := what_members_did()):
        report.sections.append(("members", did))
        report.sections.append(("rebalances", why_groups_rebalanced()))
    return report
