"""Browser for tests of the console: Debian's Chromium, driven by Playwright.

Needs the dependency group ``browser`` and a Chromium (``$CHROMIUM``, or ``chromium`` on the PATH). ``make browser``
installs the group and requires both; otherwise these tests are skipped with the reason.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from browser.canned import CannedConsole
    from browser.clusters import WatchedCluster

REQUIRED = "KOHORT_REQUIRE_BROWSER"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WATCH = """
addEventListener('securitypolicyviolation', e => console.error('CSP: ' + e.violatedDirective + ' ' + e.blockedURI))
"""
OpenPage = Callable[..., "Page"]


def missing(why: str) -> None:
    """Skip the test with the reason ``why``, or fail it if a browser is required."""
    if os.environ.get(REQUIRED):
        pytest.fail(f"{why} ({REQUIRED} is set)")
    pytest.skip(f"{why}: make browser")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("Playwright is not here")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        missing("no Chromium is on the PATH, and $CHROMIUM names none")
    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def canned() -> Iterator[CannedConsole]:
    """Console with canned answers about simulated incidents."""
    from browser.answers import incidents
    from browser.canned import canned_console

    incidents()  # compute the incidents before a browser waits for them
    with canned_console() as console:
        yield console


@pytest.fixture(scope="session")
def apache() -> Iterator[str]:
    """Bootstrap address of an Apache Kafka broker."""
    from support.peers.apache_kafka import apache_kafka

    with apache_kafka() as bootstrap:
        yield bootstrap


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    import kohort

    soon = {f"group.consumer.{name}": 500 for name in ("min.session.timeout.ms", "min.heartbeat.interval.ms")}
    with kohort.Broker({"group.initial.rebalance.delay.ms": 0, **soon}) as broker:
        yield broker.bootstrap


@pytest.fixture(
    scope="module", params=["ours", pytest.param("apache", marks=[pytest.mark.kafka, pytest.mark.campaign])]
)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, chromium: Browser
) -> Iterator[WatchedCluster]:
    from browser.clusters import watched_cluster

    bootstrap = request.getfixturevalue(request.param)
    with watched_cluster(request.param, bootstrap, tmp_path_factory.mktemp("state")) as cluster:
        yield cluster


@pytest.fixture
def refunds(cluster: WatchedCluster) -> str:
    import uuid

    from browser.group_members import prepare, read_all, write

    name = f"refunds-{uuid.uuid4().hex[:4]}"
    prepare(cluster.bootstrap, [name])
    write(cluster.bootstrap, name, 40)
    read_all(cluster.bootstrap, name, 40)
    return name


@pytest.fixture
def problems() -> Iterator[list[str]]:
    found: list[str] = []
    yield found
    assert found == []


@pytest.fixture
def open_page(chromium: Browser, request: pytest.FixtureRequest, problems: list[str]) -> Iterator[OpenPage]:
    """Function that opens a path of the canned console, as in ``open_page("/groups")``. ``at``: other address.

    The test fails at an error or warning of the browser, a violation of the content policy, a request to another
    address, a dialog, or a crash.
    """
    contexts = []

    def open_it(path: str, *, at: str = "", **options: Any) -> Page:
        address = at or request.getfixturevalue("canned").address
        context_options = {
            "viewport": {"width": 1280, "height": 800},
            "locale": "en-GB",
            "timezone_id": "UTC",
            **options,
        }
        context = chromium.new_context(**context_options)
        contexts.append(context)
        context.add_init_script(WATCH)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda m: problems.append(f"{m.type}: {m.text}") if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(f"uncaught: {error}"))
        page.on("crash", lambda _: problems.append("the page crashed"))
        page.on("request", lambda r: None if _is_own(r.url, address) else problems.append(f"foreign request: {r.url}"))
        page.on("dialog", lambda d: (problems.append(f"dialog: {d.message}"), d.dismiss()))
        page.goto(address + path)
        return page

    yield open_it
    for context in contexts:
        context.close()


def _is_own(url: str, address: str) -> bool:
    return url.startswith((address + "/", "data:", "blob:", "about:")) or url == address


@pytest.fixture
def finds_nothing(chromium: Browser) -> Callable[[Page], None]:
    """Function that checks a page with axe, and fails if axe finds a problem: ``finds_nothing(page)``."""
    from browser.axe import NoAxe, violations

    def look(page: Page, scope: str = "document") -> None:
        cdp = page.context.new_cdp_session(page)
        try:
            found = violations(cdp, scope)
        except NoAxe as error:
            missing(str(error))
        assert found == [], page.url

    return look
