"""Headers of requests, as a broker reads them."""

from __future__ import annotations

import struct
from typing import Final

from kohort.errors import UnsupportedVersion
from kohort.wire.apis import APIS
from kohort.wire.headers import RequestHeader, client_id_of, skip_tags

_START: Final = struct.Struct(">hhi")


def parse_request_header(request: bytes) -> tuple[RequestHeader, int]:
    """Return the header of a request and the position of its body.

    The version is not checked: a broker answers ApiVersions at any version. Raises UnsupportedVersion for an unknown
    API, ProtocolError for a malformed header.
    """
    client_id, at = client_id_of(request)
    api_key, api_version, correlation_id = _START.unpack_from(request)
    api = APIS.get(api_key)
    if api is None:
        raise UnsupportedVersion(f"unknown API key {api_key} (version {api_version}, client id {client_id!r})")
    if api_version >= api.flexible_from:
        at = skip_tags(request, at, "RequestHeader")
    return RequestHeader(api_key, api_version, correlation_id, client_id), at
