import gzip
import http.client
import json
import random

import pytest
from msgspec.structs import replace

from kohort.console.encoding import LEAST_BYTES, gzipped, json_of, takes_gzip
from kohort.console.page import MOST_GZIPPED, ConsolePage
from kohort.console.sources import GroupsKnown, SourceAbout
from kohort.insight.findings.groups import find_group
from kohort.results.groups import GroupStatus
from support.console_client import console
from support.wide_groups import wide_snapshot

GZIP = {"Accept-Encoding": "gzip, deflate, br"}


class ManyGroups:
    def __init__(self, groups, members=3, partitions=12):
        one = find_group([wide_snapshot("group-0", members, partitions, look) for look in range(2)], [])
        self.found = {f"group-{n}": replace(one, group=f"group-{n}") for n in range(groups)}

    def about(self):
        return SourceAbout("live", "many")

    def now_ms(self):
        return 0

    known_until_ms = now_ms

    def unreachable(self):
        return None

    def groups(self, at_ms):
        return GroupsKnown(0, self.found)

    def lag_points(self, group):
        return ()

    def clients(self):
        return None

    def begin(self):
        pass

    end = begin

    def listen(self, callback):
        pass


@pytest.fixture
def many(folder):
    (folder / "large.js").write_text("export const large = 1;\n" * 500)
    with console(ManyGroups(500), folder) as client:
        yield client


def test_gzip_shrinks_list_of_500_groups_to_a_twentieth(many):
    whole, small = many.get("/groups"), many.get("/groups", **GZIP)

    assert "content-encoding" not in whole.headers
    assert (small.headers["content-encoding"], small.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert gzip.decompress(small.body) == whole.body
    assert len(json.loads(whole.body)["groups"]) == 500
    assert len(small.body) * 20 < len(whole.body)


def test_gzip_shrinks_group_of_1000_partitions_to_a_tenth():
    body = json_of(GroupStatus(status=ManyGroups(1, 200, 1_000).found["group-0"]))

    assert len(gzipped(body)) * 10 < len(body)


def test_static_files_are_gzipped_once_with_own_etag(many):
    path = "/static/large.js"
    whole, small = many.ask("GET", path), many.ask("GET", path, headers=GZIP)

    assert gzip.decompress(small.body) == whole.body
    assert small.headers["etag"] != whole.headers["etag"]
    assert small.headers["content-type"] == whole.headers["content-type"]
    again = many.ask("GET", path, headers={**GZIP, "If-None-Match": small.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert many.ask("GET", path, headers={**GZIP, "If-None-Match": whole.headers["etag"]}).status == 200
    # the file is too small for gzip
    assert "content-encoding" not in many.ask("GET", "/static/b.js", headers=GZIP).headers


def test_index_is_gzipped_with_content_security_policy(many):
    whole, small = many.ask("GET", "/groups"), many.ask("GET", "/groups", headers=GZIP)

    assert gzip.decompress(small.body) == whole.body
    assert small.headers["content-security-policy"] == whole.headers["content-security-policy"]


def test_errors_and_answers_with_token_are_not_gzipped(many):
    for path in ("/cluster", "/groups/nobody", "/nothing"):
        assert "content-encoding" not in many.get(path, **GZIP).headers
    assert many.get("/cluster", **GZIP).json["token"]


def test_stream_is_neither_gzipped_nor_buffered(many):
    wire = http.client.HTTPConnection(many.address, timeout=60)
    wire.request("GET", "/api/v1/stream", headers=GZIP)
    answer = wire.getresponse()

    assert answer.getheader("content-encoding") is None
    assert answer.read1(7) == b"retry: "
    wire.close()


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [
        ("gzip", True), ("br, GZIP;q=0.5", True), ("*", True), ("*;q=0", False), ("gzip;q=0, *", False),
        ("gzip;q=0.0", False), ("", False), ("br", False), ("gzip;q=nonsense", False), ("gzipped", False),
        (";;,,=", False),
    ],
)  # fmt: skip
def test_accept_encoding_header_selects_gzip(accepted, takes):
    assert takes_gzip(accepted) is takes


def test_small_or_incompressible_content_is_not_gzipped():
    assert gzipped(b"a" * (LEAST_BYTES - 1)) is None
    assert gzipped(random.Random(1).randbytes(LEAST_BYTES)) is None


def test_cache_of_gzipped_files_is_bounded(folder):
    page = ConsolePage(folder)
    for n in range(MOST_GZIPPED + 5):
        (folder / "large.js").write_text(f"export const large = {n};\n" * 100)
        page.gzipped(page.file("large.js").content)

    assert page.gzipped.cache_info().currsize <= MOST_GZIPPED
