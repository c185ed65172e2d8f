"""Metrics server: formats, caching, limits on the number and duration of requests."""

from __future__ import annotations

import gc
import gzip
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest

from kohort.errors import ConfigError, KohortError
from kohort.metrics import serving as served
from kohort.metrics.exposition import OPENMETRICS, PLAIN, render_page
from kohort.metrics.page import Page
from kohort.metrics.serving import (
    ANSWER_MOST_S,
    ANSWER_S,
    FRESH_S,
    PIECE,
    REQUESTS_MOST,
    MetricsServer,
    Pages,
    ScrapeHandler,
    parse_page_address,
    serving,
)
from support.waiting import eventually

LOOPBACK = ("127.0.0.1", 0)


class PageSource:
    """Source of metrics pages. Each page contains the number of pages built so far."""

    def __init__(self, during: Callable[[], None] = lambda: None) -> None:
        self.count = 0
        self.at_once = 0
        self.most_at_once = 0
        self.now_s = 0.0
        self.during = during
        self.error: KohortError | None = None

    def make(self, form: str) -> tuple[bytes, str]:
        if self.error is not None:
            raise self.error
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.during()
        self.at_once -= 1
        self.count += 1
        page = Page()
        page.add("kafka_brokers", self.count)
        return render_page(page, form)

    def pages(self) -> Pages:
        return Pages(self.make, clock=lambda: self.now_s)


@contextmanager
def asking(looks: PageSource) -> Iterator[Callable[..., HTTPResponse]]:
    with serving(looks.pages(), LOOPBACK) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        yield lambda path="/metrics", method="GET", **headers: ask(port, path, method, headers)


def ask(port: int, path: str, method: str, headers: dict[str, str]) -> HTTPResponse:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    return connection.getresponse()


def test_metrics_page_is_served_as_prometheus_and_openmetrics_and_gzipped():
    with asking(PageSource()) as get:
        plain = get()
        assert plain.status == 200
        assert b"kafka_brokers 1.0" in plain.read()
        assert plain.getheader("Content-Type", "").startswith("text/plain")

        other = get(Accept="application/openmetrics-text; version=1.0.0")
        assert other.read().endswith(b"# EOF\n")
        assert other.getheader("Content-Type", "").startswith("application/openmetrics-text")

        packed = get(Accept_Encoding="gzip")
        assert packed.getheader("Content-Encoding") == "gzip"
        assert b"kafka_brokers 1.0" in gzip.decompress(packed.read())


def test_http_request_of_other_path_gets_404_and_head_request_gets_no_body():
    with asking(PageSource()) as get:
        assert get("/").status == 404
        assert get("/metrics/x").status == 404
        assert get("/metrics?match[]=x").status == 200
        head = get(method="HEAD")
        assert (head.status, head.read()) == (200, b"")
        assert int(head.getheader("Content-Length", "0")) > 0
        assert get(method="POST").status == 501


def test_http_requests_within_a_second_get_the_same_page():
    looks = PageSource()
    pages = looks.pages()

    first = pages.page("", packed=False)
    assert pages.page(OPENMETRICS, packed=False)[0] != first[0]
    assert pages.page("anything, else", packed=False) == pages.page(PLAIN, packed=False) == first
    assert looks.count == 2, "one page for each format"

    looks.now_s += FRESH_S
    assert pages.page("", packed=False) != first
    assert looks.count == 3


def test_page_of_unknown_format_is_not_cached():
    pages = PageSource().pages()

    for number in range(1_000):
        pages.page(f"application/openmetrics-text; version=1.0.{number}", packed=bool(number % 2))

    assert len(pages._made) == 1


def test_hundred_concurrent_scrapes_build_one_page():
    began, go_on = threading.Event(), threading.Event()
    looks = PageSource(during=lambda: (began.set(), go_on.wait(20)))
    pages = looks.pages()
    answers: list[tuple[bytes, str]] = []
    threads = [threading.Thread(target=lambda: answers.append(pages.page("", packed=False))) for _ in range(100)]
    for thread in threads:
        thread.start()
    assert began.wait(20)
    go_on.set()
    for thread in threads:
        thread.join(20)

    assert len(answers) == 100
    assert (looks.count, looks.most_at_once) == (1, 1)


def test_failed_page_build_gives_scrapes_503_and_is_repeated_a_second_later():
    looks = PageSource()
    looks.error = KohortError("the broker was too busy\nto be \x1b[2J looked at")
    with asking(looks) as get:
        refused = get()
        assert refused.status == 503
        assert refused.read() == b"the broker was too busy\\nto be \\x1b[2J looked at\n"

        looks.error = None
        assert get().status == 503, "the failed build is cached for a second"
        looks.now_s += FRESH_S
        assert get().status == 200


def test_internal_error_of_a_page_build_is_logged_and_the_scrape_gets_503(caplog):
    looks = PageSource(during=lambda: {}["nothing"])  # type: ignore[index]
    with asking(looks) as get:
        refused = get()
        assert refused.status == 503
        assert (
            refused.read() == b"building the metrics page failed because of a bug in kohort (KeyError): see its log\n"
        )
        get()

    (log_record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert log_record.exc_info, "the log has one error with a traceback"


def test_timeout_of_http_request_excludes_the_time_to_build_the_page(monkeypatch):
    monkeypatch.setattr(served, "ANSWER_S", 0.2)
    cut_off = threading.Event()
    looks = PageSource(during=lambda: cut_off.wait(20))
    with serving(looks.pages(), LOOPBACK) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        patient = socket.create_connection(("127.0.0.1", port), timeout=20)
        patient.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        slow = socket.create_connection(("127.0.0.1", port), timeout=20)
        slow.sendall(b"GET /metr")
        assert slow.recv(1) == b"", "an incomplete request is disconnected during the page build"
        cut_off.set()
        assert patient.recv(100).startswith(b"HTTP/1.0 200")
        for one in (patient, slow):
            one.close()


def test_connection_of_slow_scrape_stays_open_while_the_client_reads_a_large_page(monkeypatch):
    now_s = 1_000.0
    monkeypatch.setattr(served.time, "monotonic", lambda: now_s)
    until: list[float] = []
    monkeypatch.setattr(MetricsServer, "extend", lambda _self, _request, until_s: until.append(until_s))

    class Reader:
        def write(self, piece: bytes) -> None:
            nonlocal now_s
            assert len(piece) <= PIECE
            now_s += ANSWER_S - 1

    scraper: Any = ScrapeHandler.__new__(ScrapeHandler)
    scraper.wfile = Reader()
    scraper.server = MetricsServer.__new__(MetricsServer)
    scraper.request, scraper.command, scraper.request_version, scraper.requestline = None, "GET", "HTTP/1.0", "GET"
    scraper.close_connection = True
    scraper._answer(200, b"x" * (10 * PIECE), "text/plain")

    assert until[0] == 1_000 + ANSWER_S
    assert until[1] == now_after(1) + ANSWER_S
    assert until[-1] == 1_000 + ANSWER_MOST_S


def now_after(pieces: int) -> float:
    return 1_000 + (pieces + 1) * (ANSWER_S - 1)


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "LOCALHOST.:9308", "[::1]:9308", "10.0.0.7"])
def test_metrics_server_on_loopback_accepts_ip_addresses_and_localhost_as_host(host):
    with asking(PageSource()) as get:
        assert get(Host=host).status == 200


@pytest.mark.parametrize("host", ["metrics.example.com", "evil:9308", "127.0.0.1.evil.com", "localhost@evil", ""])
def test_metrics_server_on_loopback_rejects_other_host_names(host):
    looks = PageSource()
    with asking(looks) as get:
        refused = get(Host=host)

    assert refused.status == 421
    assert b"--metrics-allow-anyone" in refused.read()
    assert looks.count == 0


def test_metrics_server_with_allow_anyone_accepts_any_host_name():
    with serving(PageSource().pages(), LOOPBACK, any_host=True) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        assert ask(port, "/metrics", "GET", {"Host": "metrics.example.com"}).status == 200


@pytest.mark.heavy
def test_connection_of_scrape_is_closed_if_only_file_handles_reserved_for_logs_are_free():
    gc.collect()  # file handles of other tests must not be freed during this test
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serving(PageSource().pages(), LOOPBACK) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        free = connection_handles()
        connection = socket.create_connection(("127.0.0.1", port), timeout=20)
        connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 5, limits[1]))
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=20) as late:
                late.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                with suppress(ConnectionError):
                    assert late.recv(1) == b""
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert ask(port, "/metrics", "GET", {}).status == 200


def connection_handles() -> int:
    with socket.socket() as next_one:
        return next_one.fileno()


def test_scrape_beyond_the_request_limit_gets_503_with_retry_after():
    with serving(PageSource().pages(), LOOPBACK) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        silent = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(REQUESTS_MOST)]
        try:
            extra = socket.create_connection(("127.0.0.1", port), timeout=20)
            with extra:
                extra.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                assert extra.recv(100).startswith(b"HTTP/1.0 503")
        finally:
            for one in silent:
                one.close()


def test_slow_http_request_is_disconnected_while_other_requests_are_served(monkeypatch):
    monkeypatch.setattr(served, "ANSWER_S", 0.2)
    with serving(PageSource().pages(), LOOPBACK) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        slow = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(REQUESTS_MOST)]
        for one in slow:
            one.sendall(b"GET /metr")
        assert slow[0].recv(1) == b"", "an incomplete request is disconnected"
        for one in slow:
            one.close()
        # the server notices the closed connections a moment later
        eventually(lambda: ask(port, "/metrics", "GET", {}).status == 200, deadline_s=20)


def test_malformed_http_request_gets_an_http_error():
    with serving(PageSource().pages(), LOOPBACK) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        for rubbish in (
            b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET " + b"x" * 70_000 + b"\r\n\r\n",
            b"",
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as stranger:
                stranger.sendall(rubbish)
                stranger.shutdown(socket.SHUT_WR)
                while stranger.recv(1 << 16):
                    pass
        assert ask(port, "/metrics", "GET", {}).status == 200


def test_page_address_beyond_loopback_needs_allow_anyone():
    with pytest.raises(ConfigError, match=r"--metrics=0\.0\.0\.0:9308 is reachable from other computers"):
        parse_page_address("0.0.0.0:9308", "--metrics", allow_anyone=False)
    with pytest.raises(ConfigError, match="is reachable from other computers"):
        parse_page_address(":9308", "--metrics", allow_anyone=False)

    assert parse_page_address("0.0.0.0:9308", "--metrics", allow_anyone=True) == ("0.0.0.0", 9308)
    assert parse_page_address("[::1]:9308", "--metrics", allow_anyone=False) == ("::1", 9308)


@pytest.mark.parametrize("address", ["9308", "127.0.0.1", "127.0.0.1:99999", "SSL://127.0.0.1:9308"])
def test_malformed_page_address_raises_config_error(address):
    with pytest.raises(ConfigError, match=r"--metrics='.*': expected HOST:PORT"):
        parse_page_address(address, "--metrics", allow_anyone=False)


def test_page_address_with_used_port_raises_config_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(ConfigError, match=f"port {port} on 127.0.0.1 is in use by another program"),
            serving(PageSource().pages(), ("127.0.0.1", port)),
        ):
            pass
