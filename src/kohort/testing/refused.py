"""The answer that refuses a whole request with one error code, whatever the API and its version.

Responses say errors in different places: at the top, per group, per topic, per partition. Where the version has a field
at the top, it holds the code; otherwise the response's arrays repeat the request's, with the code in every element.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kohort.errors import ErrorCode
from kohort.wire.apis import Api
from kohort.wire.schema import FieldSpec, Message

CODE: Final = "error_code"
CODES: Final = (CODE, "partition_error_code")
FETCH, METADATA = 1, 3
OF_SESSIONS: Final = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})
NAMES: Final = ("name", "topic", "topic_name", "group_id", "key", "resource_name")
NUMBERS: Final = ("partition_index", "partition", "index", "partition_id")


def refused(api: Api, request: Message, version: int, code: ErrorCode) -> Message | None:
    """Return the response; None where this version of the API has no place for an error."""
    top = not (api.key == METADATA or (api.key == FETCH and code not in OF_SESSIONS))
    given = _filled(api.response, request, version, code, top=top)
    return api.response(**given) if given else None


def _filled(kind: type[Message], asked: Message, version: int, code: ErrorCode, *, top: bool) -> dict[str, Any]:
    """Return the fields of a response or of an element of one; none if there is no place for the error."""
    specs = {f.name: f for f in kind.FIELDS if version in f.versions}
    if CODE in specs and top:
        return {CODE: int(code)}
    found: dict[str, Any] = {}
    for spec in specs.values():
        element = _element(spec)
        if element is not None:
            elements = [_repeated(element, one, version, code) for one in _things(asked, version)]
            if any(elements):
                found[spec.name] = [element(**one) for one in elements]
                break
    return found


def _repeated(kind: type[Message], thing: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    """Return an element of a response for an element of the request; none if it has no place for the error."""
    names = [f.name for f in kind.FIELDS if version in f.versions]
    found: dict[str, Any] = {name: int(code) for name in CODES if name in names}
    if isinstance(thing, Message):
        if not found:
            found = _filled(kind, thing, version, code, top=True)
        said = {f.name: getattr(thing, f.name) for f in thing.FIELDS if _element(f) is None and f.kind != "array"}
    else:
        said = dict.fromkeys(NUMBERS if isinstance(thing, int) else NAMES, thing)
    for alike in (NAMES, NUMBERS):
        value = next((said[name] for name in alike if name in said), None)
        target = next((name for name in alike if name in names), None)
        if found and value is not None and target is not None:
            found[target] = value
    if found and "topic_id" in names and "topic_id" in said:
        found["topic_id"] = said["topic_id"]
    if found and "resource_type" in names and "resource_type" in said:
        found["resource_type"] = said["resource_type"]
    return found


def _things(asked: Message, version: int) -> Iterable[Any]:
    """Return what a request, or an element of one, asks about: its first array of this version with something in."""
    for spec in asked.FIELDS:
        value = getattr(asked, spec.name)
        if spec.kind == "array" and value and version in spec.versions:
            return list(value)
    return ()


def _element(spec: FieldSpec) -> type[Message] | None:
    """Return the class of the elements of an array of structs; None for another field."""
    of = spec.of
    return of if spec.kind == "array" and isinstance(of, type) and issubclass(of, Message) else None
