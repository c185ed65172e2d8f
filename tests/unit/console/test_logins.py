import pytest

from kohort.console.logins import FAILED_S, FAILURES, PRESSED, Attempts, network_of


@pytest.fixture
def attempts():
    return Attempts(lambda: 1_000.0)


def fail(attempts, addresses, times):
    for address in addresses:
        for _ in range(times):
            attempts.failed(address)


def test_wrong_passwords_of_many_addresses_do_not_lock_out_another_address(attempts):
    fail(attempts, [f"10.0.0.{n}" for n in range(20)], FAILURES)
    assert attempts.wait_s("10.0.0.1") == FAILED_S
    assert attempts.wait_s("192.0.2.1") == 0


def test_each_address_has_one_attempt_a_minute_after_many_wrong_passwords(attempts):
    fail(attempts, ["192.0.2.1"], 1)
    assert attempts.wait_s("192.0.2.1") == 0
    fail(attempts, [f"10.0.0.{n}" for n in range(PRESSED)], 1)
    assert attempts.wait_s("192.0.2.1") == FAILED_S
    assert attempts.wait_s("192.0.2.2") == 0


def test_addresses_of_one_ipv6_network_count_as_one(attempts):
    fail(attempts, [f"2001:db8::{n}" for n in range(FAILURES)], 1)
    assert attempts.wait_s("2001:db8::ffff") == FAILED_S
    assert attempts.wait_s("2001:db8:0:1::1") == 0


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:10.0.0.1", "", "testclient"])
def test_each_address_other_than_ipv6_counts_separately(address):
    assert network_of(address) == address
