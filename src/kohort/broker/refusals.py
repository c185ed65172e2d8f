"""From an error to the code and the words that a client is told, here and nowhere else but where the error itself is
of the protocol: ``ApiError`` has its code from whoever raises it, and what a failed append means to members is said in
coordinator/append_errors.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kohort.errors import (
    ApiError,
    ConfigError,
    CorruptRecord,
    ErrorCode,
    KohortError,
    ProtocolError,
    RecordsRefused,
    StorageError,
)


class Refusal(NamedTuple):
    """What an answer says of an error.

    It is not the error: one that stays in a variable of its own traceback's frame is a cycle, and with it stays all
    that those frames hold, a decompressed batch for one, until the collector comes by.
    """

    code: ErrorCode
    message: str
    records: Sequence[tuple[int, str]] = ()
    """Places in a batch, each with why that record is refused."""

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}" if self.message else self.code.name


def refusal_of(error: KohortError) -> Refusal:
    """Return the protocol's name for ``error``, with its text."""
    if isinstance(error, RecordsRefused):
        return Refusal(error.code, error.message, error.refused)
    if isinstance(error, ApiError):
        return Refusal(error.code, error.message)
    if isinstance(error, CorruptRecord):
        return Refusal(ErrorCode.CORRUPT_MESSAGE, str(error))
    if isinstance(error, StorageError):
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    if isinstance(error, ConfigError):
        return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    if isinstance(error, ProtocolError):
        return Refusal(ErrorCode.INVALID_REQUEST, str(error))
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
