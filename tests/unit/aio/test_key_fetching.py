import asyncio
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kohort.aio.serving import key_fetching
from kohort.aio.serving.key_fetching import fetch_keys
from support.security.tokens import Issuer, token_service


def fetched(url):
    return asyncio.run(fetch_keys(url))


@contextmanager
def page(status, body=b"", **headers):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/jwks"
        finally:
            server.shutdown()
            thread.join()


def test_keys_of_token_issuer_are_fetched_over_http():
    issuer = Issuer()
    with token_service(issuer) as service:
        found = fetched(service.jwks_url)
    assert json.loads(found.content) == issuer.jwks
    assert (found.url, found.problem) == (service.jwks_url, "")


def test_keys_of_token_issuer_are_read_from_a_file(tmp_path):
    path = Issuer().write_jwks(tmp_path / "my keys.json")
    assert fetched(path.as_uri()).content == path.read_bytes()
    assert fetched(f"file:{path}").content == path.read_bytes()


def test_missing_key_file_is_reported(tmp_path):
    found = fetched((tmp_path / "none").as_uri())
    assert found.content is None
    assert "No such file" in found.problem


def test_unreachable_key_server_is_reported():
    with page(200) as url:
        pass
    found = fetched(url)
    assert found.content is None
    assert "unreachable" in found.problem


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (404, {}, "the server returned HTTP status 404 Not Found"),
        (500, {}, "the server returned HTTP status 500"),
        (302, {"Location": "file:///etc/passwd"}, "is not allowed"),
        (302, {"Location": "ftp://127.0.0.1/x"}, "insecure"),
    ],
)
def test_http_error_of_key_server_is_reported(status, headers, words):
    with page(status, **headers) as url:
        found = fetched(url)
    assert found.content is None
    assert words in found.problem


def test_fetch_of_endless_response_from_key_server_ends(monkeypatch):
    monkeypatch.setattr(key_fetching, "MAX_BYTES", 1000)
    with page(200, b"x" * 2000) as url:
        assert fetched(url).problem == "the answer has more than 1000 bytes"
