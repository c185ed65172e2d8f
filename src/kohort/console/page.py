"""Files of the console's page. The page can also be exported as one HTML file that needs no server."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import mimetypes
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from kohort.console.encoding import BEST_LEVEL, gzipped, json_in_html
from kohort.errors import ConfigError

STATIC: Final = Path(__file__).parent / "static"
INLINE: Final = re.compile(r"<script type=\"importmap\">(.*?)</script>", re.DOTALL)
MODULE: Final = re.compile(r"[ \t]*<script type=\"module\" src=\"/static/([^\"]+)\"></script>\n?")
STYLE: Final = re.compile(r"<link rel=\"stylesheet\" href=\"/static/([^\"]+)\">")
ICON: Final = re.compile(r"[ \t]*<link rel=\"icon\"[^>]*>\n?")
IMPORT: Final = re.compile(r"""((?:\bfrom|\bimport)\s*\(?\s*)(["'])(\.{1,2}/[^"']+)\2""")
STATIC_IMPORT: Final = re.compile(r"""(?:\bfrom|\bimport)\s*(["'])([^"']+)\1""")
"""Regular expression for a static import of JavaScript. It does not match ``import(...)``."""
PICTURE: Final = re.compile(r"\"/static/([\w/.-]+\.svg)\"")
FIRST: Final = '<script>if (!location.hash) history.replaceState(null, "", {});</script>\n'
KINDS: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
VENDORED: Final = ("preact.mjs", "hooks.mjs", "htm.mjs", "uPlot.esm.js", "uPlot.min.css")
MOST_GZIPPED: Final = 256
SINGLE_FILE_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
)
"""Content security policy of the exported file. It allows the file's own scripts, but no requests."""


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    kind: str
    tag: str


class ConsolePage:
    """Static files of the console's page. Raises ConfigError for missing files."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = (folder or STATIC).resolve()
        missing = [name for name in VENDORED if not (self._folder / "vendor" / name).is_file()]
        if missing or not (self._folder / "index.html").is_file():
            names = ", ".join(missing) or "index.html"
            raise ConfigError(
                f"files of the console's page are missing in {self._folder}: {names}. In a git clone run "
                "python tools/vendor.py, which needs access to the npm registry"
            )
        self._html = (self._folder / "index.html").read_text(encoding="utf-8")
        self.hashes = tuple(_sha256(text) for text in INLINE.findall(self._html))
        links = "".join(f'    <link rel="modulepreload" href="/static/{name}">\n' for name in self._static_imports())
        self.index = self._html.replace("  </head>", f"{links}  </head>", 1)
        self.index_gzipped = gzip.compress(self.index.encode(), BEST_LEVEL, mtime=0)
        self.gzipped = lru_cache(MOST_GZIPPED)(partial(gzipped, level=BEST_LEVEL))
        """Function that gzips the content of a static file. It returns None if gzip saves less than a tenth."""

    def file(self, name: str) -> StaticFile | None:
        """Return the static file with the path ``name``; None if the file is missing or outside the folder."""
        path = self._folder / name
        if "\x00" in name or not path.resolve().is_relative_to(self._folder) or not path.is_file():
            return None
        content = path.read_bytes()
        kind = KINDS.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        text = kind.startswith("text/") or kind.endswith("+xml")
        return StaticFile(content, f"{kind}; charset=utf-8" if text else kind, f'"{_sha256(content)[:22]}"')

    def single_file(self, answers: Mapping[str, Any], first: str | None = None) -> str:
        """Return the console's page as one HTML file that needs no server.

        ``answers`` maps each API path, without ``/api/v1``, to its answer. ``first``: path of the view to show first.
        """
        names = {f"/static/{path.relative_to(self._folder).as_posix()}": path for path in self._modules()}
        imports = {
            f"kohort:{name}": _data_url(self._inline_pictures(_absolute_imports(path.read_text("utf-8"), name)))
            for name, path in names.items()
        }
        for one in INLINE.findall(self._html):
            for name, at in json.loads(one)["imports"].items():
                imports[name] = imports.get(f"kohort:{at}", at)
        html = ICON.sub("", self._html)
        html = STYLE.sub(lambda m: f"<style>\n{self._style(m.group(1))}\n</style>", html)
        begins = [f"/static/{name}" for name in MODULE.findall(html)]
        html = MODULE.sub("", html)
        html = INLINE.sub("", html)
        head = (
            f'<meta http-equiv="Content-Security-Policy" content="{SINGLE_FILE_POLICY}">\n'
            f'<script type="importmap">{json_in_html({"imports": imports})}</script>\n'
            f'<script type="application/json" id="kohort-data">{json_in_html(answers)}</script>\n'
        )
        start = "" if first is None else FIRST.format(json_in_html(f"#{first}"))
        start += "".join(f'<script type="module">import "kohort:{name}";</script>\n' for name in begins)
        return html.replace("</head>", f"{head}</head>", 1).replace("</body>", f"{start}</body>", 1)

    def _static_imports(self) -> list[str]:
        """Return the JavaScript modules that the page imports statically, directly or through other modules."""
        bare = {
            name: at.removeprefix("/static/")
            for text in INLINE.findall(self._html)
            for name, at in json.loads(text)["imports"].items()
        }
        found: list[str] = []
        todo = MODULE.findall(self._html)
        while todo:
            name = todo.pop(0)
            path = self._folder / name
            if name in found or not path.is_file():
                continue
            found.append(name)
            for _, at in STATIC_IMPORT.findall(path.read_text("utf-8")):
                relative = posixpath.normpath(posixpath.join(posixpath.dirname(name), at))
                todo.append(relative if at.startswith(".") else bare.get(at, at))
        return found

    def _modules(self) -> list[Path]:
        return sorted(path for path in self._folder.rglob("*") if path.suffix in (".js", ".mjs") and path.is_file())

    def _inline_pictures(self, text: str) -> str:
        def inlined(found: re.Match[str]) -> str:
            picture = self.file(found.group(1))
            return found.group(0) if picture is None else f'"{_data_url(picture.content, "image/svg+xml")}"'

        return PICTURE.sub(inlined, text)

    def _style(self, name: str) -> str:
        found = self.file(name)
        return "" if found is None else found.content.decode("utf-8").replace("</", "<\\/")


def _absolute_imports(text: str, name: str) -> str:
    """Replace a module's relative imports by names of the import map: data URLs do not support relative imports."""
    folder = posixpath.dirname(name)

    def named(found: re.Match[str]) -> str:
        quote = found.group(2)
        return f"{found.group(1)}{quote}kohort:{posixpath.normpath(posixpath.join(folder, found.group(3)))}{quote}"

    return IMPORT.sub(named, text)


def _data_url(content: str | bytes, kind: str = "text/javascript") -> str:
    data = content.encode() if isinstance(content, str) else content
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _sha256(content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    return base64.b64encode(hashlib.sha256(data).digest()).decode()
