"""Fetch the public keys (JWKS) of OAuth token issuers in a thread (protocol/security.md#tokens)."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from kohort.aio.system import in_thread
from kohort.broker.io import KeysFetched

TIMEOUT_S: Final = 10.0
MAX_BYTES: Final = 1 << 20
PIECE_BYTES: Final = 1 << 16


class _CannotFetch(Exception):
    pass


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows HTTP redirects, but refuses those from https to http and those to other schemes, such as files."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        schemes = {"https"} if urlsplit(req.full_url).scheme == "https" else {"http", "https"}
        if urlsplit(newurl).scheme not in schemes:
            raise _CannotFetch("the URL redirects to an insecure address (http or a file)")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


async def fetch_keys(url: str) -> KeysFetched:
    """Fetch the public keys of a token issuer from a URL. An error is returned in the result, not raised."""
    try:
        return KeysFetched(url, await in_thread(lambda: _content_of(url), "kohort-keys"))
    except _CannotFetch as error:
        return KeysFetched(url, None, str(error))


def _content_of(url: str) -> bytes:
    try:
        content = _file(url) if url.startswith("file:") else _page(url)
    except urllib.error.HTTPError as error:
        raise _CannotFetch(f"the server returned HTTP status {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise _CannotFetch(f"the server is unreachable: {error.reason}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise _CannotFetch(f"cannot read the keys: {error or type(error).__name__}") from None
    if len(content) > MAX_BYTES:
        raise _CannotFetch(f"the answer has more than {MAX_BYTES} bytes")
    return content


def _file(url: str) -> bytes:
    with Path(url2pathname(urlsplit(url).path)).open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _page(url: str) -> bytes:
    until = time.monotonic() + TIMEOUT_S
    request = urllib.request.Request(url, headers={"Accept": "application/json", "User-Agent": "kohort"})
    content = b""
    with urllib.request.build_opener(_SafeRedirects()).open(request, timeout=TIMEOUT_S) as answer:
        while len(content) <= MAX_BYTES and (piece := answer.read1(PIECE_BYTES)):
            content += piece
            if time.monotonic() > until:
                raise _CannotFetch(f"fetching the keys takes more than {TIMEOUT_S:.0f} s")
    return content
