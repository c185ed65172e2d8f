"""A schema registry on a real socket: Confluent's REST API with references, GUIDs and scripted failures."""

from __future__ import annotations

import json
import ssl
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Answer = tuple[int, Any]


def refusal(code: int, message: str) -> Answer:
    return (code // 100 if code > 999 else code), {"error_code": code, "message": message}


@dataclass
class FakeRegistry:
    """State of the registry. ``script``: answers of the next requests, before the state is asked."""

    url: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    script: list[Answer] = field(default_factory=list)
    incompatible: set[str] = field(default_factory=set)

    def guid(self, schema_id: int) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"schema {schema_id}"))

    def register(self, subject: str, body: dict[str, Any]) -> Answer:
        found = self._find(subject, body)
        if found is None:
            if subject in self.incompatible:
                return refusal(409, "Schema being registered is incompatible with an earlier schema")
            if body.get("schemaType", "AVRO") == "AVRO" and "{" not in body["schema"] and '"' not in body["schema"]:
                return refusal(42201, "Invalid schema")
            wanted = _content(body)
            found = next((i for i, held in self.schemas.items() if _content(held) == wanted), len(self.schemas) + 1)
            self.schemas[found] = body
            self.subjects.setdefault(subject, []).append(found)
        return 200, {"id": found, "guid": self.guid(found)} | body

    def lookup(self, subject: str, body: dict[str, Any]) -> Answer:
        if subject not in self.subjects:
            return refusal(40401, f"Subject '{subject}' not found.")
        found = self._find(subject, body)
        if found is None:
            return refusal(40403, "Schema not found")
        return self.version(subject, str(self.subjects[subject].index(found) + 1))

    def version(self, subject: str, version: str) -> Answer:
        ids = self.subjects.get(subject)
        if ids is None:
            return refusal(40401, f"Subject '{subject}' not found.")
        number = len(ids) if version in ("latest", "-1") else int(version)
        if not 0 < number <= len(ids):
            return refusal(40402, f"Version {version} not found.")
        schema_id = ids[number - 1]
        head = {"subject": subject, "version": number, "id": schema_id, "guid": self.guid(schema_id)}
        return 200, head | self.schemas[schema_id]

    def versions(self, subject: str) -> Answer:
        if subject not in self.subjects:
            return refusal(40401, f"Subject '{subject}' not found.")
        return 200, list(range(1, len(self.subjects[subject]) + 1))

    def answer(self, method: str, path: str, body: Any) -> Answer:
        if self.script:
            return self.script.pop(0)
        match [method, *(unquote(part) for part in path.split("/")[1:])]:
            case ["GET", "subjects"]:
                return 200, list(self.subjects)
            case ["GET", "subjects", subject, "versions"]:
                return self.versions(subject)
            case ["GET", "subjects", subject, "versions", version]:
                return self.version(subject, version)
            case ["POST", "subjects", subject, "versions"]:
                return self.register(subject, body)
            case ["POST", "subjects", subject]:
                return self.lookup(subject, body)
            case ["GET", "schemas", "ids" | "guids", wanted]:
                for number in self.schemas:
                    if wanted in (str(number), self.guid(number)):
                        return 200, {"id": number, "guid": self.guid(number)} | self.schemas[number]
                return refusal(40403, "Schema not found")
            case ["POST", "compatibility", "subjects", subject, "versions", _]:
                return 200, {"is_compatible": subject not in self.incompatible}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}  # such as associations of confluent-kafka

    def _find(self, subject: str, body: dict[str, Any]) -> int | None:
        wanted = _content(body)
        return next((i for i in self.subjects.get(subject, ()) if _content(self.schemas[i]) == wanted), None)


def _content(body: dict[str, Any]) -> str:
    try:
        text = json.dumps(json.loads(body["schema"]), sort_keys=True)
    except ValueError:
        text = body["schema"]
    return json.dumps([body.get("schemaType", "AVRO"), text, body.get("references") or []], sort_keys=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry: FakeRegistry

    def _serve(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        parts = urlsplit(self.path)
        self.registry.requests.append(f"{self.command} {self.path}")
        self.registry.headers.append(dict(self.headers))
        assert not parts.query or parse_qs(parts.query)
        status, found = self.registry.answer(self.command, parts.path, body)
        data = found if isinstance(found, bytes) else json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = _serve  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def fake_registry(tls: ssl.SSLContext | None = None) -> Iterator[FakeRegistry]:
    """Serve a registry on a free port of 127.0.0.1."""
    registry = FakeRegistry()
    handler = type("Handler", (_Handler,), {"registry": registry})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    scheme = "http"
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    registry.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
