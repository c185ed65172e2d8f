"""Errors become wire codes here, and nowhere else."""

from __future__ import annotations

from kohort.errors import ApiError, ConfigError, CorruptRecord, ErrorCode, KohortError, ProtocolError, StorageError


def refusal_of(error: KohortError) -> ApiError:
    """The protocol's name for ``error``, with its text."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, CorruptRecord):
        return ApiError(ErrorCode.CORRUPT_MESSAGE, str(error))
    if isinstance(error, StorageError):
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    if isinstance(error, ConfigError):
        return ApiError(ErrorCode.INVALID_CONFIG, str(error))
    if isinstance(error, ProtocolError):
        return ApiError(ErrorCode.INVALID_REQUEST, str(error))
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
