"""The page: its files, the policy that its import map needs, and the same page as one HTML file that asks nobody."""

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
from pathlib import Path
from typing import Any, Final

from kohort.console.encoding import SMALL, json_in_html, squeezed
from kohort.errors import ConfigError

STATIC: Final = Path(__file__).parent / "static"
INLINE: Final = re.compile(r"<script type=\"importmap\">(.*?)</script>", re.DOTALL)
MODULE: Final = re.compile(r"[ \t]*<script type=\"module\" src=\"/static/([^\"]+)\"></script>\n?")
STYLE: Final = re.compile(r"<link rel=\"stylesheet\" href=\"/static/([^\"]+)\">")
ICON: Final = re.compile(r"[ \t]*<link rel=\"icon\"[^>]*>\n?")
IMPORT: Final = re.compile(r"""((?:\bfrom|\bimport)\s*\(?\s*)(["'])(\.{1,2}/[^"']+)\2""")
AT_ONCE: Final = re.compile(r"""(?:\bfrom|\bimport)\s*(["'])([^"']+)\1""")
"""An import that is needed before the module runs: not ``import(...)``."""
PICTURE: Final = re.compile(r"\"/static/([\w/.-]+\.svg)\"")
FIRST: Final = '<script>if (!location.hash) history.replaceState(null, "", {});</script>\n'
KINDS: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
OF_OTHERS: Final = ("preact.mjs", "hooks.mjs", "htm.mjs", "uPlot.esm.js", "uPlot.min.css")
MOST_SQUEEZED: Final = 256
"""Files that are kept as gzip."""
ALONE: Final = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
)
"""The policy of the one file: it runs what is in it, and reaches nobody."""


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    kind: str
    tag: str


class ConsolePage:
    """Files of the page. Raises ConfigError for missing ones, with the remedy."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = (folder or STATIC).resolve()
        missing = [name for name in OF_OTHERS if not (self._folder / "vendor" / name).is_file()]
        if missing or not (self._folder / "index.html").is_file():
            what = ", ".join(missing) or "index.html"
            raise ConfigError(
                f"the console's page is not whole: {what} is missing in {self._folder}. In a clone, with a network "
                "that reaches npm's registry: python tools/vendor.py"
            )
        self._html = (self._folder / "index.html").read_text(encoding="utf-8")
        self.hashes = tuple(_sha256(text) for text in INLINE.findall(self._html))
        links = "".join(f'    <link rel="modulepreload" href="/static/{name}">\n' for name in self._needed_at_once())
        self.index = self._html.replace("  </head>", f"{links}  </head>", 1)
        """The page as it is served: the modules that it begins with are all asked for at once."""
        self.index_squeezed = gzip.compress(self.index.encode(), SMALL, mtime=0)
        self._squeezed: dict[str, bytes | None] = {}

    def file(self, name: str) -> StaticFile | None:
        """Return a file by its path in the folder."""
        path = self._folder / name
        if "\x00" in name or not path.resolve().is_relative_to(self._folder) or not path.is_file():
            return None
        content = path.read_bytes()
        kind = KINDS.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        text = kind.startswith("text/") or kind.endswith("+xml")
        return StaticFile(content, f"{kind}; charset=utf-8" if text else kind, f'"{_sha256(content)[:22]}"')

    def squeezed(self, found: StaticFile) -> bytes | None:
        """Return a file as gzip, compressed once; None if not much smaller."""
        if found.tag not in self._squeezed:
            if len(self._squeezed) >= MOST_SQUEEZED:  # files were changed again and again while it is served
                self._squeezed.clear()
            self._squeezed[found.tag] = squeezed(found.content, SMALL)
        return self._squeezed[found.tag]

    def alone(self, answers: Mapping[str, Any], first: str | None = None) -> str:
        """Return the page as one HTML file with these answers, by path without ``/api/v1``, opened at ``first``."""
        names = {f"/static/{path.relative_to(self._folder).as_posix()}": path for path in self._modules()}
        imports = {
            f"kohort:{name}": _as_url(self._with_pictures(_with_names(path.read_text("utf-8"), name)))
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
            f'<meta http-equiv="Content-Security-Policy" content="{ALONE}">\n'
            f'<script type="importmap">{json_in_html({"imports": imports})}</script>\n'
            f'<script type="application/json" id="kohort-data">{json_in_html(answers)}</script>\n'
        )
        start = "" if first is None else FIRST.format(json_in_html(f"#{first}"))
        start += "".join(f'<script type="module">import "kohort:{name}";</script>\n' for name in begins)
        return html.replace("</head>", f"{head}</head>", 1).replace("</body>", f"{start}</body>", 1)

    def _needed_at_once(self) -> list[str]:
        """Return the modules that the first one imports, recursively."""
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
            for _, at in AT_ONCE.findall(path.read_text("utf-8")):
                is_near = at.startswith(".")
                todo.append(
                    posixpath.normpath(posixpath.join(posixpath.dirname(name), at)) if is_near else bare.get(at, at)
                )
        return found

    def _modules(self) -> list[Path]:
        return sorted(path for path in self._folder.rglob("*") if path.suffix in (".js", ".mjs") and path.is_file())

    def _with_pictures(self, text: str) -> str:
        """Inline the pictures of a module."""

        def drawn(found: re.Match[str]) -> str:
            picture = self.file(found.group(1))
            return found.group(0) if picture is None else f'"{_as_url(picture.content, "image/svg+xml")}"'

        return PICTURE.sub(drawn, text)

    def _style(self, name: str) -> str:
        found = self.file(name)
        return "" if found is None else found.content.decode("utf-8").replace("</", "<\\/")


def _with_names(text: str, name: str) -> str:
    """Replace relative imports by names of the import map: a data URL has no relative paths."""
    folder = posixpath.dirname(name)

    def named(found: re.Match[str]) -> str:
        quote = found.group(2)
        return f"{found.group(1)}{quote}kohort:{posixpath.normpath(posixpath.join(folder, found.group(3)))}{quote}"

    return IMPORT.sub(named, text)


def _as_url(content: str | bytes, kind: str = "text/javascript") -> str:
    data = content.encode() if isinstance(content, str) else content
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _sha256(content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    return base64.b64encode(hashlib.sha256(data).digest()).decode()
