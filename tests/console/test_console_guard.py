import asyncio
import http.client
import logging
import socket
from urllib.parse import urlencode

import pytest

from kohort.console.app import ConsoleOptions
from kohort.console.connections import AT_ONCE
from kohort.console.guard import MOST_BODY, MOST_TARGET, Rejected, check_host
from kohort.console.logins import FAILED_S, FAILURES, MOST_SESSIONS, Attempts, LoggedIn, Sessions, by_password
from kohort.metrics.serving import host_of, is_trusted_host
from support.console_client import console, live

POSTS = [
    "/groups/billing/what-if",
    *(
        f"/groups/billing/{change}:{step}"
        for change in ("offsets", "offsets:delete", "members:remove", "group:delete")
        for step in ("plan", "apply")
    ),
    "/logout",
]


def test_unknown_host_name_is_rejected(client):
    for host in ("evil.example", "evil.example:9310", "localhost.evil.example", "", "127.0.0.1@evil.example", "a b"):
        assert client.get("/groups", Host=host).status in (400, 421)
        assert client.ask("GET", "/", headers={"Host": host}).status in (400, 421)
    for host in ("localhost", "LOCALHOST:80", client.address, "[::1]:80"):
        assert client.get("/groups", Host=host).status == 200


def test_allowed_host_name_is_accepted():
    names = frozenset({"console.example"})
    check_host({"host": "console.example:8080"}, names)
    with pytest.raises(Rejected):
        check_host({"host": "localhost"}, names)
    assert host_of("a:b:c") is None


def test_host_with_a_malformed_port_is_rejected_by_console_and_metrics_page():
    for host in ("localhost:x", "127.0.0.1:99999"):
        with pytest.raises(Rejected):
            check_host({"host": host}, ConsoleOptions().hosts)
        assert not is_trusted_host(host)
    assert is_trusted_host("localhost:9310")


@pytest.mark.parametrize("path", POSTS)
def test_every_post_needs_token_origin_and_content_type(path, orders, client):
    token = client.token()
    for missing in ("X-Kohort-Token", "Origin"):
        assert client.post(path, {}, **{missing: None}).status == 403
    assert client.post(path, {}, **{"X-Kohort-Token": token[:-1]}).status == 403
    for origin in ("null", "http://evil.example", f"https://{client.address}", f"http://{client.address}.evil.example"):
        assert client.post(path, {}, Origin=origin).status == 403
    assert client.post(path, {}, **{"Sec-Fetch-Site": "cross-site"}).status == 403
    assert client.post(path, {}, **{"Content-Type": "text/plain"}).status == 415
    assert client.get(path).status in (404, 405)


@pytest.mark.parametrize("path", [path for path in POSTS if ":" in path])
def test_console_refuses_every_change_by_default(path, orders, broker, folder):
    with console(live(broker), folder) as client:
        response = client.post(path, {"to": "earliest"})
        assert (response.status, response.json["advice"]) == (403, "start kohort console with --allow-changes")


def test_request_from_another_site_is_rejected(client):
    assert client.get("/groups", **{"Sec-Fetch-Site": "cross-site"}).status == 403
    assert client.get("/groups", **{"Sec-Fetch-Site": "same-site"}).status == 403
    assert "access-control-allow-origin" not in client.get("/groups", Origin="http://evil.example").headers


def test_http_methods_other_than_get_and_post_are_rejected(client):
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"):
        assert client.ask(method, "/api/v1/groups").status == 405
    assert client.ask("POST", "/").status == 405


def test_too_long_request_is_rejected(client):
    assert client.get("/groups?x=" + "x" * MOST_TARGET).status == 414
    assert client.get("/groups?" + "&".join(f"a{n}=1" for n in range(100))).status == 400
    whole = {"Content-Type": "application/json", "Origin": f"http://{client.address}", "X-Kohort-Token": client.token()}
    for body, status in ((b"x" * (MOST_BODY + 1), 413), (b"[" * 100_000, 400), (b"\xff", 400)):
        assert client.ask("POST", "/api/v1/groups/billing/what-if", body, whole).status == status


def test_every_answer_has_security_headers(client):
    for path in ("/", "/static/app.js", "/static/nope.js", "/api/v1/groups", "/api/v1/nope", "/groups/any/overview"):
        response = client.ask("GET", path)
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "same-origin"
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert "unsafe" not in response.headers["content-security-policy"]
    assert "'sha256-" in client.ask("GET", "/").headers["content-security-policy"]


def test_files_outside_static_folder_are_not_served(client):
    for name in ("../app.py", "%2e%2e/%2e%2e/guard.py", "..%2f..%2fguard.py", "/etc/passwd", "%00", "parts"):
        assert client.ask("GET", f"/static/{name}").status in (400, 404)
    found = client.ask("GET", "/static/app.js")
    assert found.headers["content-type"] == "text/javascript; charset=utf-8"
    assert client.ask("GET", "/static/app.js", headers={"If-None-Match": found.headers["etag"]}).status == 304


# Logins


@pytest.fixture
def guarded(broker, folder):
    options = ConsoleOptions(allow_changes=True, login=by_password("correct horse"))
    with console(live(broker), folder, options) as client:
        yield client


def log_in(client, password, name="alice", target="/groups"):
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{client.address}"}
    body = urlencode({"name": name, "password": password}).encode()
    return client.ask("POST", f"/login?next={target}", body, form)


def test_api_without_login_is_rejected(orders, guarded):
    for path in ("/cluster", "/groups", "/stream", "/nodes"):
        assert guarded.get(path).status == 401
    page = guarded.ask("GET", "/groups/billing")
    assert (page.status, page.headers["location"]) == (303, "/login?next=/groups/billing")
    assert log_in(guarded, "wrong").status == 403
    response = log_in(guarded, "correct horse")
    assert (response.status, response.headers["location"]) == (303, "/groups")
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    guarded.headers["Cookie"] = response.headers["set-cookie"].partition(";")[0]
    assert guarded.get("/cluster").json["user"] == "alice"
    assert guarded.post("/groups/billing/offsets:plan", {"to": "earliest"}).status == 200
    assert guarded.post("/logout", {}).status == 200
    assert guarded.get("/cluster").status == 401


def test_csrf_token_is_valid_for_one_session_only(orders, guarded):
    tokens = []
    for _ in range(2):
        guarded.headers["Cookie"] = log_in(guarded, "correct horse").headers["set-cookie"].partition(";")[0]
        tokens.append(guarded.token())
    assert tokens[0] != tokens[1]
    assert guarded.post("/groups/billing/what-if", {"add": 1}, **{"X-Kohort-Token": tokens[0]}).status == 403


def test_login_redirects_only_to_own_site(guarded):
    for target in ("//evil.example", "https://evil.example", "/%5Cevil.example", "javascript:alert(1)"):
        assert log_in(guarded, "correct horse", target=target).headers["location"] == "/"


def test_login_from_another_site_is_rejected(guarded):
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://evil.example"}
    assert guarded.ask("POST", "/login", b"password=correct+horse", form).status == 403


def test_wrong_passwords_delay_next_login(guarded):
    for _ in range(FAILURES):
        assert log_in(guarded, "wrong").status == 403
    response = log_in(guarded, "correct horse")
    assert response.status == 429
    assert int(response.headers["retry-after"]) > 0


def test_logins_are_logged_with_name_and_address(guarded, caplog):
    caplog.set_level(logging.INFO, "kohort.console")
    log_in(guarded, "correct horse", name="bob\nroot")
    for _ in range(FAILURES + 1):
        log_in(guarded, "wrong", name="admin")
    lines = [one.getMessage() for one in caplog.records]
    assert lines == [
        "login of 'bob\\nroot' from 127.0.0.1",
        "login of 'admin' from 127.0.0.1 refused: wrong name or password",
        "login of 'admin' from 127.0.0.1 refused after wrong passwords",
    ]


def test_malformed_requests_are_logged_once_a_minute_and_counted(client, caplog):
    for _ in range(50):
        wire = socket.create_connection(client.address.split(":"))
        wire.sendall(b"no HTTP at all\r\n\r\n")
        assert wire.recv(12) == b"HTTP/1.1 400"
        wire.close()
    (line,) = caplog.records
    assert (line.name, line.levelname) == ("kohort.console", "WARNING")
    assert "Invalid HTTP request received" in line.getMessage()
    asyncio.run_coroutine_threadsafe(ended(client.app.log), client.app._loop).result(10)
    assert "(the last of 49 similar messages within a minute)" in caplog.records[-1].getMessage()


async def ended(log):
    log.end()


def test_half_sent_requests_do_not_block_new_connections(client):
    wires = [socket.create_connection(client.address.split(":")) for _ in range(AT_ONCE + 20)]
    for wire in wires:
        wire.sendall(b"GET / HTTP/1.1\r\nHost: ")
    assert client.get("/groups").status == 200
    for wire in wires:
        wire.close()


def test_wrong_passwords_and_sessions_expire():
    now_s = 0.0
    attempts, sessions = Attempts(lambda: now_s), Sessions(lambda: now_s)
    for _ in range(FAILURES):
        assert attempts.wait_s("a") == 0
        attempts.failed("a")
    assert attempts.wait_s("a") == FAILED_S
    assert attempts.wait_s("b") == 0
    cookie = sessions.begin(LoggedIn("alice"))
    now_s = FAILED_S
    assert attempts.wait_s("a") == 0
    assert sessions.of(cookie) is not None
    now_s += 13 * 3600
    assert sessions.of(cookie) is None
    first = sessions.begin(LoggedIn("alice"))
    for _ in range(MOST_SESSIONS):
        sessions.begin(LoggedIn("bob"))
    assert sessions.of(first) is None


def test_half_sent_request_does_not_block_another_request(client):
    wire = http.client.HTTPConnection(client.address)
    wire.connect()
    wire.sock.sendall(b"GET / HTTP/1.1\r\nHost: ")
    assert client.get("/groups").status == 200
    wire.close()
