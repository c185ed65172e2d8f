"""Reading what other projects' suites report, holding it against the lists, and writing the report card."""

import tomllib
from pathlib import Path

import pytest
from librdkafka import broker_tests
from results import SuiteList, card, junit, rows, subtest_passed

SUITES = Path(__file__).parents[3] / "lab" / "tools" / "suites"
JUNIT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="test.integration.test_admin" name="test_a"/>
<testcase classname="test.integration.test_admin" name="test_b[gzip]"><failure message="no"/></testcase>
<testcase classname="test.integration.test_admin" name="test_c"><skipped message="old"/></testcase>
<testcase classname="test.integration.test_admin" name="test_d"/>
<testcase classname="test.integration.test_admin" name="test_d"><error message="at teardown"/></testcase>
</testsuite></testsuites>"""
SUMMARY = (
    "%4|1234|FAIL|0001| | PASSED | is what this line only talks of\n"
    "#==================================================================#\n"
    "|\x1b[35m <MAIN>                                   |     PASSED |  12.404s \x1b[0m|\n"
    "|\x1b[32m 0001_multiobj                            |     PASSED |   3.102s \x1b[0m|\n"
    "|\x1b[31m 0002_unkpart                             |     FAILED |   0.000s \x1b[0m|\x1b[31m test_main():4\x1b[0m\n"
    "|\x1b[36m 0098_consumer_txn                        |    SKIPPED |   0.000s \x1b[0m| needs Java\n"
    "|\x1b[35m 0103_transactions                        |    RUNNING |  60.000s \x1b[0m|\n"
)
TABLE = """
    {.name = "<MAIN>", .flags = TEST_F_LOCAL},
    _TEST(0000_unittests,
          TEST_F_LOCAL,
          /* heavy (very) */
          _THRES(.ucpu = 100.0, .scpu = 20.0)),
    _TEST(0001_multiobj, 0),
    _TEST(0044_partition_cnt,
          0,
          TEST_BRKVER(1, 0, 0, 0),
          /* Produces a lot of messages */
          _THRES(.ucpu = 30.0)),
    _TEST(0107_topic_recreate,
          0,
          TEST_BRKVER_TOPIC_ADMINAPI,
          .scenario = "noautocreate"),
#if WITH_SOCKEM
    _TEST(0049_consume_conn_close, TEST_F_SOCKEM, TEST_BRKVER(0, 9, 0, 0)),
#endif
    _TEST(0103_transactions,
          0,
          TEST_BRKVER(0, 11, 0, 0),
          .scenario = "default,ak23"),

    /* Manual tests */
    _TEST(8000_idle, TEST_F_MANUAL),

    {NULL}};
"""


def suite_list(passes=(), explained=None):
    return SuiteList("1.0", list(passes), dict(explained or {}))


def test_a_junit_report_tells_each_test_once_and_an_error_at_the_end_fails_it():
    assert junit(JUNIT) == {
        "test_admin::test_a": "passed",
        "test_admin::test_b[gzip]": "failed",
        "test_admin::test_c": "skipped",
        "test_admin::test_d": "failed",
    }


def test_summary_rows_count_in_any_colour_and_unfinished_tests_fail():
    assert rows(SUMMARY) == {
        "0001_multiobj": "passed",
        "0002_unkpart": "failed",
        "0098_consumer_txn": "skipped",
        "0103_transactions": "failed",
    }


def test_a_subtest_has_passed_only_where_the_runner_says_so():
    output = (
        "\x1b[36m[0045_x / 0.001s] \x1b[35m[ do_test_more:159 ]\n"
        "\x1b[36m[0045_x / 9.001s] \x1b[32m[ do_test_more:159: PASS (9.00s) ]\n"
        "\x1b[36m[0045_x / 9.002s] \x1b[35m[ do_test_less:202 ]\n"
    )
    assert subtest_passed(output, "do_test_more")
    assert not subtest_passed(output, "do_test_less")
    assert not subtest_passed(output, "do_test_other")


def test_the_tests_that_need_a_broker_are_read_off_the_runners_table():
    assert list(broker_tests(TABLE)) == [
        ("0001_multiobj", "default"),
        ("0044_partition_cnt", "default"),
        ("0107_topic_recreate", "noautocreate"),
        ("0049_consume_conn_close", "default"),
        ("0103_transactions", "default"),
    ]


def test_regressions_and_unexplained_failures_are_reported():
    results = {"a": "passed", "b": "failed", "c": "failed", "d": "failed", "e": "skipped"}

    assert suite_list(["a", "b", "gone"], {"c": "because"}).judge("suite", results) == [
        "suite: b passed before and is failed",
        "suite: gone passed before and is gone",
        "suite: d failed, and suite.toml does not say why",
    ]
    assert suite_list(["a"], {"b": "1", "c": "2", "d": "3"}).judge("suite", results) == []


def test_a_list_only_grows_and_what_passes_needs_no_reason_any_more():
    before = suite_list(["a", "b"], {"c": "because", "d": "for"})

    after = before.grown({"a": "passed", "b": "failed", "c": "passed", "d": "failed"})

    assert after == suite_list(["a", "b", "c"], {"d": "for"})


def test_written_list_is_read_back():
    written = suite_list(["b::test[x]", "a"], {"c": "no authorizer: ACLs are not served"})

    assert SuiteList.parse(written.build()) == suite_list(["a", "b::test[x]"], written.explained)


def test_the_card_counts_every_suite_and_explains_what_does_not_pass():
    text = card(
        {
            "first": (suite_list(["a"], {"b": "for a reason"}), {"a": "passed", "b": "failed", "c": "skipped"}),
            "second": (suite_list(["a"]), {"a": "passed"}),
        },
        "",
        ["first", "second"],
    )

    assert "| first | 1.0 | 3 | 1 | 1 | 1 |" in text
    assert "| second | 1.0 | 1 | 1 | 0 | 0 |" in text
    assert "| b | failed | for a reason |\n| c | skipped | the test skips itself |" in text
    assert "## second" not in text


def test_skipped_suites_keep_their_score():
    first = suite_list(["a"], {"b": "for a reason"}), {"a": "passed", "b": "failed"}
    whole = card({"first": first, "second": first}, "", ["first", "second"])

    again = suite_list(["a", "b"]), {"a": "passed", "b": "passed"}
    text = card({"second": again}, whole, ["first", "second", "third"])

    assert text == card({"first": first, "second": again}, "", ["first", "second"])
    assert "| first | 1.0 | 2 | 1 | 1 | 0 |" in text
    assert "## second" not in text


def test_how_a_test_ended_is_known_without_the_summary_where_another_left_threads_behind():
    output = (
        "\x1b[36m[0045_a / 31.0s] \x1b[32m================= Test 0045_a PASSED =================\x1b[0m\n"
        "[0045_c / 1.0s] ================= Test 0045_c SKIPPED =================\n"
        "6 thread(s) still active in librdkafka\n"
    )
    assert rows(output) == {"0045_a": "passed", "0045_c": "skipped"}


@pytest.mark.parametrize("listed", sorted(SUITES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_lists_in_the_repository_say_nothing_twice(listed):
    this = SuiteList.parse(listed.read_text())

    assert sorted(set(this.passes)) == sorted(this.passes)
    assert not set(this.passes) & set(this.explained)
    assert set(tomllib.loads(listed.read_text())) == {"version", "passes", "explained"}
