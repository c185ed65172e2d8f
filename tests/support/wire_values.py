"""Hypothesis strategies for the wire messages: any value of any message at any version."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from hypothesis import strategies as st

import kohort.wire.messages
from kohort.errors import ErrorCode
from kohort.wire.apis import APIS
from kohort.wire.schema import FieldSpec, Message

BOUNDS = {
    "b": (-(2**7), 2**7 - 1),
    "h": (-(2**15), 2**15 - 1),
    "H": (0, 2**16 - 1),
    "i": (-(2**31), 2**31 - 1),
    "q": (-(2**63), 2**63 - 1),
}
NEWEST_ERROR_OF_ALL = ErrorCode.SHARE_SESSION_LIMIT_REACHED
"""Highest error code that the peers know."""
YEAR_9999_MS = 253_402_300_799_000
TIMES = {"log_append_time_ms", "retention_time_ms"}
"""64-bit times that a peer converts to dates, which end with the year 9999."""
TIMES_NEVER_NEGATIVE = {"transaction_start_time_ms"}
"""Times for which the peer accepts no -1."""
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def all_messages() -> list[type[Message]]:
    """Return every top-level message: requests, responses, records, consumer blobs."""
    found: dict[str, type[Message]] = {}
    for module in pkgutil.iter_modules(kohort.wire.messages.__path__):
        names = vars(importlib.import_module(f"kohort.wire.messages.{module.name}"))
        for value in names.values():
            if isinstance(value, type) and issubclass(value, Message) and value.VERSIONS.low <= value.VERSIONS.high:
                found[f"{value.__module__}.{value.__name__}"] = value
    assert len(found) > 2 * len(APIS)
    return list(found.values())


def every_version() -> list[tuple[type[Message], int]]:
    return [(m, v) for m in all_messages() for v in range(m.VERSIONS.low, m.VERSIONS.high + 1)]


def messages(message: type[Message], version: int) -> st.SearchStrategy[Any]:
    """Return values of ``message`` with only the fields of ``version``."""
    present = {f.name: values(f, version) for f in message.FIELDS if version in f.versions}
    return st.builds(message, **present)


def values(spec: FieldSpec, version: int) -> st.SearchStrategy[Any]:
    value = _plain_values(spec, version)
    if version in spec.nullable:
        return st.none() | value
    return value


def _plain_values(spec: FieldSpec, version: int) -> st.SearchStrategy[Any]:
    if spec.kind == "fixed":
        return _fixed_values(spec)
    if spec.kind == "string":
        return TEXT
    if spec.kind == "array":
        of = spec.of
        if isinstance(of, type):
            return st.lists(messages(of, version), max_size=3)
        assert of is not None
        return st.lists(values(of, version), max_size=4)
    if spec.kind == "struct":
        assert isinstance(spec.of, type)
        return messages(spec.of, version)
    return st.binary(max_size=40)


def _fixed_values(spec: FieldSpec) -> st.SearchStrategy[Any]:
    if spec.name.endswith("error_code"):
        return st.sampled_from([int(code) for code in ErrorCode if code <= NEWEST_ERROR_OF_ALL])
    if spec.name in TIMES_NEVER_NEGATIVE:
        return st.integers(0, YEAR_9999_MS)
    if spec.name in TIMES:
        return st.just(-1) | st.integers(0, YEAR_9999_MS)
    if spec.code == "?":
        return st.booleans()
    if spec.code == "d":
        return st.floats(allow_nan=False)
    if spec.code == "16s":
        return st.binary(min_size=16, max_size=16)
    return st.integers(*BOUNDS[spec.code])
