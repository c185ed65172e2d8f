"""For the tests of others: a broker per test."""
