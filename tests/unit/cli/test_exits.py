from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kohort.cli import main
from kohort.cli.terminal import exits
from kohort.cli.terminal.exits import ExitCode, exit_code_of
from kohort.errors import (
    ApiError,
    ApiTimeout,
    AuthenticationFailed,
    ConfigError,
    ConnectionFailed,
    ErrorCode,
    KohortError,
    NotKafka,
    StorageError,
)
from kohort.verbs.refusals import CheckNotMet, NothingThere, RefusedByState

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "on-call.md"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StorageError("the disk is full"), 1),
        (KohortError("anything"), 1),
        (ConfigError("no such option"), 2),
        (NothingThere("no such group"), 3),
        (ApiError(ErrorCode.GROUP_ID_NOT_FOUND), 3),
        (ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 3),
        (ConnectionFailed("nobody"), 4),
        (NotKafka("HTTP"), 4),
        (ApiTimeout("too late"), 4),
        (ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE), 4),
        (RefusedByState("it has members"), 5),
        (ApiError(ErrorCode.NON_EMPTY_GROUP), 5),
        (ApiError(ErrorCode.UNKNOWN_MEMBER_ID), 5),
        (AuthenticationFailed("wrong password"), 6),
        (ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED), 6),
        (CheckNotMet("lag above the limit"), 7),
        (ApiError(ErrorCode.CORRUPT_MESSAGE), 1),
    ],
)
def test_every_error_class_has_exit_code(error, code):
    assert exit_code_of(error) == code


def test_authorization_error_codes_exit_with_not_authorised():
    denied = {code for code in ErrorCode if "AUTHORIZATION_FAILED" in code.name}

    assert {code for code in denied if exit_code_of(ApiError(code)) != ExitCode.NOT_AUTHORISED} == set()


def test_exit_codes_are_equal_in_help_docstring_and_guide():
    helped = re.sub(r"\s+", " ", CliRunner().invoke(main.main, ["--help"]).output)
    help_text = helped[helped.index("Exit codes:") : helped.index("130 interrupted")]
    listed = re.findall(r"^(\d+)   ", exits.__doc__, re.MULTILINE)
    in_guide = re.findall(r"^\| (\d+) \|", GUIDE.read_text(), re.MULTILINE)

    every = [str(int(code)) for code in ExitCode]
    assert [*re.findall(r"\b(\d) ", help_text), "130"] == every
    assert listed == every
    assert in_guide == every
